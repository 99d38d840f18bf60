"""Estimates with intervals, from labels that were asked for with known probabilities.

A label that was wanted with the probability p stands for 1 / p examples (Horvitz and Thompson, JASA 47, 1952; for
labels that a model chooses: Zrnic and Candes, Active Statistical Inference, ICML 2024). Each share is the ratio of two
such sums. Its interval is Wilson's, for as many equally probable labels as would give the ratio the same variance.

Accuracy, precision and recall come from the newest sixth of the labels: the model changes while it learns. The
shares of the classes do not depend on the model, so they have all labels of the window.

classes   (n,) int32     true classes of the newest WINDOW labels, oldest first, as are the next two arrays.
numbers   (n,) int32     predicted classes.
weights   (n,) float64   1 / p.
seen      (1,) int64     number of labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hinged.solvers.core.states import COUNT_MAX, State, StateReader
from hinged.solvers.scores.sigmoid import WINDOW
from hinged.solvers.scores.tally import Tally

Array = np.ndarray[Any, Any]
Figures = dict[str, Any]

Z = 1.959963984540054  # 97.5 % quantile of the normal distribution, for intervals of 95 %
NEWER = 6  # one label in this many is new. Measured: a half misses the present accuracy in up to 17 % of the runs
WEIGHT_MAX = 1e12
"""Limit of a weight. A state with a larger one is refused."""
SHOWN_MAX = 32  # maximum number of classes for which there are estimates


class WantedLabels:
    """The newest labels that were asked for with known probabilities."""

    def __init__(self) -> None:
        self.classes, self.numbers = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self.weights, self.seen = np.zeros(0), 0

    @classmethod
    def alike(cls, tally: Tally) -> WantedLabels:
        """Return labels that were all asked for with the same probability."""
        found, window, seen = cls(), tally.window, tally.seen
        order = np.arange(max(0, seen - WINDOW), seen) % WINDOW
        found.classes, found.numbers, found.seen = window.classes[order], window.numbers[order], seen
        found.weights = np.ones(order.size)
        return found

    def add(self, classes: Array, numbers: Array, chance: float) -> None:
        """Add labels that were wanted with the probability `chance`. classes, numbers (m,): true and predicted."""
        self.classes = np.concatenate((self.classes, classes))[-WINDOW:].astype(np.int32)
        self.numbers = np.concatenate((self.numbers, numbers))[-WINDOW:].astype(np.int32)
        weight = min(1.0 / chance, WEIGHT_MAX)
        self.weights = np.concatenate((self.weights, np.full(classes.size, weight)))[-WINDOW:]
        self.seen += classes.size

    def figures(self, names: Sequence[str]) -> Figures:
        """Return the estimates. names: the known classes."""
        newer = slice(-min(-(-self.seen // NEWER), WINDOW), None)
        truths, said, weights = self.classes[newer], self.numbers[newer], self.weights[newer]
        right = truths == said
        found: Figures = {
            "examples": int(truths.size),
            "accuracy": estimate(right, weights),
        }
        if len(names) <= SHOWN_MAX:
            found["classes"] = {
                name: {
                    "share": estimate(self.classes == number, self.weights),
                    "precision": estimate(right[said == number], weights[said == number]),
                    "recall": estimate(right[truths == number], weights[truths == number]),
                }
                for number, name in enumerate(names)
            }
        return found

    def state(self) -> State:
        """Return the state as arrays."""
        return {
            "classes": self.classes.copy(),
            "numbers": self.numbers.copy(),
            "weights": self.weights.copy(),
            "seen": np.array([self.seen]),
        }

    def load(self, state: State, classes: int) -> None:
        """Load a result of `state`, for this number of classes. Raise ValueError if the arrays do not fit."""
        read = StateReader(state)
        seen = int(read.take("seen", np.int64, (1,), 1, COUNT_MAX)[0])
        n = min(seen, WINDOW)
        truths = read.take("classes", np.int32, (n,), 0, classes - 1)
        said = read.take("numbers", np.int32, (n,), 0, classes - 1)
        self.weights = read.take("weights", np.float64, (n,), 1.0, WEIGHT_MAX)
        self.classes, self.numbers, self.seen = truths, said, seen


def estimate(holds: Array, weights: Array) -> Figures | None:
    """Return the share of the stream for which something holds, with its interval of 95 %. None without labels.

    holds, weights (n,): whether it holds for each label, and for how many examples the label stands.
    """
    total = float(weights.sum())
    if not total:
        return None
    share = float(weights[holds].sum()) / total
    least, most = total**2 / float((weights**2).sum()), float(weights.size)
    variance = float((weights**2 * (holds - share) ** 2).sum()) / total**2
    n = min(max(share * (1 - share) / variance, least), most) if variance else least
    middle, half = share + Z * Z / (2 * n), Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    low, high = ((middle + sign * half) / (1 + Z * Z / n) for sign in (-1, 1))
    return {"value": share, "low": max(0.0, min(low, share)), "high": min(1.0, max(high, share))}
