"""Promises: what a model promises about its errors.

A promise is a set of labels with each answer, which misses the true label at most as often as was promised. An alarm is
false with at most a promised probability. A model without either has none of this state, and nothing here runs for it.
Each part can be used alone:

levels.py      one threshold on scores, which holds an error rate on any sequence of scores
sets.py        scores of labels, and the sets that thresholds give
promise.py     the promise of one learner: its levels, and figures of coverage and of the size of sets
martingale.py  a test martingale, which grows while errors become more frequent
alarm.py       the alarm of one learner: its martingale, and figures of its alarms
"""
