"""Promises: each answer carries a set of labels that misses the true label at most as often as was promised.

A model without a promise has none of this state, and nothing here runs for it. Each part can be used alone:

levels.py   one threshold on scores, which holds an error rate on any sequence of scores
sets.py     scores of labels, and the sets that thresholds give
promise.py  the promise of one learner: its levels, and figures of coverage and of the size of sets
"""
