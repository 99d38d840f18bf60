"""Decisions: what to do about an example, given what errors cost, and figures for classes that are rare.

The room rests on a memory that is longer than the window of the metrics, because a window of 1,000 examples has too few
examples of a rare class. A model without costs and watched classes has no such memory, and nothing here runs for it.
Each part can be used alone:

alerts.py    decisions for a class, until they are worked off.
capacity.py  how often a decision may be taken.
costs.py     the expected cost of each decision, and the decision with the lowest cost.
margins.py   counts of scores in fixed bins: probabilities and ranking figures of one class
memory.py    the memory of one learner: counts of the watched classes, and what decisions would have cost
rare.py      figures of each class from the counts and the window that every model has
rations.py   the capacities of a model, by decision
"""
