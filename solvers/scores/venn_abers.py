"""Inductive Venn-Abers predictors: an interval of the probability of a class, from the newest scores and labels.

V. Vovk, I. Petej and V. Fedorova, Large-Scale Probabilistic Predictors With and Without Guarantees of Validity, NIPS
2015, section 3 (algorithms 1 and 2).

An isotonic regression of the labels on the scores is fitted twice: with the new score as an example of another class,
and as an example of the class. Its values at the new score are the ends p0 <= p1 of the interval. If the new example
is exchangeable with the known examples, one of the two, by its label, is a calibrated probability. The regressions are
not fitted again for each score: F1 and F0 are the ends at each known score, computed together from the corners of two
convex minorants. An end at a score between two known scores is the end at one of these two.

levels  (k,) float64  the different scores, ascending.
F0, F1  (k,) float64  p0 and p1 at each level.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.solvers.jit.compiled import compiled

Array = np.ndarray[Any, Any]


@compiled
def is_right_of(x, y, a, b, c):
    """Return whether the way from point a over b to c does not turn left."""
    return (x[b] - x[a]) * (y[c] - y[b]) <= (y[b] - y[a]) * (x[c] - x[b])


@compiled
def upper_ends(counts, positive):
    """Return F1 (k,). counts, positive (k,): number of examples at each level, in all and of the class.

    Point i + 1 is P_i of the paper, for i from -1 to k. The arithmetic is exact.
    """
    k = counts.shape[0]
    x, y = np.empty(k + 2), np.empty(k + 2)
    x[0], y[0], x[1], y[1] = -1.0, -1.0, 0.0, 0.0
    for i in range(k):
        x[i + 2], y[i + 2] = x[i + 1] + counts[i], y[i + 1] + positive[i]
    corners = np.empty(k + 2, np.int64)
    top = -1
    for i in range(k + 1, -1, -1):  # from the right, so that the leftmost corner is on top
        while top > 0 and is_right_of(x, y, i, corners[top], corners[top - 1]):
            top -= 1
        top += 1
        corners[top] = i
    found = np.empty(k)
    for i in range(k):
        a, b = corners[top], corners[top - 1]
        found[i] = (y[b] - y[a]) / (x[b] - x[a])
        x[i + 1], y[i + 1] = x[i + 2] - 1.0, y[i + 2] - 1.0
        if (y[i + 1] - y[a]) * (x[b] - x[a]) >= (y[b] - y[a]) * (x[i + 1] - x[a]):
            continue
        top -= 1
        while top > 0 and is_right_of(x, y, i + 1, corners[top], corners[top - 1]):
            top -= 1
        top += 1
        corners[top] = i + 1
    return found


class VennAbers:
    """The interval of the probability of a class, as a function of the score. It never changes after it is made."""

    def __init__(self, scores: Array, positive: Array) -> None:
        """scores (n,): known scores, larger for the class. positive (n,) bool: whether each example is of the class."""
        self._levels, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
        found, k = np.bincount(places, positive, self._levels.size), self._levels.size
        self._low, self._high = np.zeros(k + 1), np.ones(k + 1)  # below all levels p0 is 0, above all levels p1 is 1
        # With the scores and the classes exchanged, p0 is what p1 was.
        self._low[1:] = 1.0 - upper_ends(counts[::-1].astype(float), (counts - found)[::-1].copy())[::-1]
        self._high[:-1] = upper_ends(counts.astype(float), found)

    def __call__(self, scores: Array) -> Array:
        """Return p0 and p1 (m, 2) at scores (m,)."""
        # The type of the levels: a score that was rounded differently would lie beside its own level.
        with np.errstate(over="ignore"):  # a score beyond float32 lies beyond all levels
            asked = scores.astype(self._levels.dtype)
        low = self._low[np.searchsorted(self._levels, asked, side="right")]
        return np.column_stack((low, self._high[np.searchsorted(self._levels, asked)]))
