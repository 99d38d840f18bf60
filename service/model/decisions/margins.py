"""Counts of the scores of one class in fixed bins, for examples of the class and for all other examples.

A bin covers 1/32 to 1/64 of the size of a score, from 2^-6 to 2^6 on either side of 0. The edges are exact floating
point numbers, so each processor puts a score into the same bin.

The probability of the class rises with its score. Under this condition alone, the isotonic regression of the counts is
the most likely probability of each bin, and pool-adjacent-violators computes it (Barlow and Brunk, The Isotonic
Regression Problem and its Dual, JASA 67, 1972). For any costs, deciding by these probabilities is as good on the
counted examples as the best threshold (Fawcett and Niculescu-Mizil, PAV and the ROC Convex Hull, Machine Learning 68,
2007).

counts  (2, BINS)  weights of the other examples, and of the examples of the class, by bin; lowest scores first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

Array = np.ndarray[Any, Any]
Figures = dict[str, Any]

_Level: TypeAlias = tuple[float, float, int]
"""Adjacent bins with one probability: examples of the class, all examples, number of bins."""

OCTAVES, STEPS = 6, 32
_SIZES = np.array([math.ldexp(1.0 + s / STEPS, e) for e in range(-OCTAVES, OCTAVES) for s in range(STEPS)])
EDGES = np.concatenate((-_SIZES[::-1], [0.0], _SIZES))
BINS = EDGES.size + 1

CERTAIN = 0.01
"""Share of the examples with the highest scores that `recall_at_1_percent` and `lift_at_1_percent` are about."""
ALARMS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Shares of the examples with the highest scores, for the points of the precision-recall curve."""


def growing_weights(weight: float, m: int, fading: float) -> Array:
    """Return the weights (m,) of the next examples, where `weight` is the newest so far and older examples fade.

    `accumulate` multiplies in sequence, so the weights do not depend on the batches.
    """
    return np.multiply.accumulate(np.concatenate(([weight], np.full(m, 1.0 / fading))))[1:]


def bins_of(scores: Array) -> Array:
    """Return the bin (m,) of each score."""
    return np.searchsorted(EDGES, scores, side="right")


def isotonic(counts: Array) -> Array:
    """Return the probability (BINS,) of the class in each bin: it never falls from a bin to the next.

    Each level counts one example more, of the usual mixture of both kinds, so no probability is 0 or 1. The usual
    mixture counts half an example more of either kind (Krichevsky and Trofimov). Empty bins have the probability of the
    bin below.
    """
    held = np.flatnonzero(counts.sum(axis=0))
    if not held.size:
        return np.full(BINS, 0.5)
    ones, every = counts[1, held].tolist(), counts[:, held].sum(axis=0).tolist()
    usual = (sum(ones) + 0.5) / (sum(every) + 1.0)
    levels = _pooled([(one, n, 1) for one, n in zip(ones, every, strict=True)], 0.0, 0.0)
    levels = _pooled(levels, usual, 1.0)
    chances = np.concatenate([np.full(bins, (one + usual) / (n + 1.0)) for one, n, bins in levels])
    below = np.maximum(np.searchsorted(held, np.arange(BINS), side="right") - 1, 0)
    return np.asarray(chances[below])


def _pooled(levels: list[_Level], one_more: float, more: float) -> list[_Level]:
    """Pool adjacent levels until their rates rise. one_more, more: added to both counts of a level in its rate."""
    found: list[_Level] = []
    for each in levels:
        level = each
        while found and (found[-1][0] + one_more) * (level[1] + more) >= (level[0] + one_more) * (found[-1][1] + more):
            last = found.pop()
            level = last[0] + level[0], last[1] + level[1], last[2] + level[2]
        found.append(level)
    return found


def _descending(counts: Array) -> tuple[Array, Array]:
    """Return the examples of the class, and all examples, with at least the score of each bin; highest bins first.

    Empty bins are left out.
    """
    held = counts[:, ::-1][:, np.flatnonzero(counts[:, ::-1].sum(axis=0))]
    ones = np.add.accumulate(held[1].astype(np.float64))
    return ones, np.add.accumulate(held[0].astype(np.float64)) + ones


def average_precision(counts: Array) -> float:
    """Return the mean precision over the examples of the class, each at its own threshold."""
    ones, every = _descending(counts)
    return float(((ones / every) * np.diff(ones, prepend=0.0)).sum() / ones[-1])


def auc(counts: Array) -> float:
    """Return the area under the ROC curve: the share of pairs in which the example of the class has the higher score.
    Pairs in one bin count as half.
    """
    above = np.add.accumulate(counts[1, ::-1])[::-1] - counts[1]
    return float((counts[0] * (above + counts[1] / 2.0)).sum() / (counts[0].sum() * counts[1].sum()))


def recall_at(counts: Array, share: float) -> float:
    """Return the share of the class among the highest scores. share: the highest scores as a share of all examples.

    If the border is within a bin, the examples of the bin count in proportion.
    """
    ones, every = _descending(counts)
    found = np.interp(share * every[-1], np.concatenate(([0.0], every)), np.concatenate(([0.0], ones)))
    return float(found / ones[-1])


OF_COUNTS: Mapping[str, Callable[[Array], float]] = {
    "average_precision": average_precision,
    "auc": auc,
    "recall_at_1_percent": lambda counts: recall_at(counts, CERTAIN),
    "lift_at_1_percent": lambda counts: recall_at(counts, CERTAIN) / CERTAIN,
}
"""Functions that compute figures of one class from counts. Both kinds of examples must have occurred."""


def ranking(counts: Array) -> Figures:
    """Return the ranking figures of counts, each None unless both kinds of examples have occurred."""
    whole = bool((counts.sum(axis=1) > 0).all())
    return {name: of(counts) if whole else None for name, of in OF_COUNTS.items()}


def curve(counts: Array) -> list[Figures]:
    """Return precision and recall if the highest scores are alarms. alarms: their share of all examples."""
    if not (counts.sum(axis=1) > 0).all():
        return []
    prevalence = float(counts[1].sum() / counts.sum())
    recalls = [(share, recall_at(counts, share)) for share in ALARMS]
    return [
        {"alarms": share, "precision": min(recall * prevalence / share, 1.0), "recall": recall}
        for share, recall in recalls
    ]


def exact(scores: Array, positive: Array) -> Array:
    """Return counts in which each different score has a bin of its own. scores (n,), positive (n,) bool."""
    different, places = np.unique(scores, return_inverse=True)
    counts = np.zeros((2, different.size))
    np.add.at(counts, (positive.astype(np.int64), places), 1.0)
    return counts
