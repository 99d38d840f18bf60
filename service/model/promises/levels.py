"""A threshold on scores that is exceeded at a promised rate, whatever the sequence of scores.

Adaptive conformal inference (Gibbs and Candes, Adaptive Conformal Inference Under Distribution Shift, NeurIPS 2021,
section 2). The threshold is the quantile 1 - level of the scores so far. With each label, the level moves:

    level <- level + step (error - missed)

Levels are probabilities, so the step needs no scale of the scores. The sum of (error - missed) over T labels is the
change of the level, divided by the step. At a level <= 0 the threshold is infinite, and at a level >= 1 it is
-infinity, so the level never leaves [-step, 1 + step]. Thus the rate of misses differs from the error by at most
(1 + 2 step) / (step T). This needs no assumption about the scores, except that none is -infinity.

A late label is missed by the set that was sent `lag` labels before, with the level of that time, `then`. So the miss
corrects this level, and the present level follows:

    level <- level + step (then + error - missed - level),   step at most LAGGED / lag

Without a lag this is the rule above. A present level that was corrected meanwhile is not corrected again for the same
reason, so the loop does not swing. With a constant lag, the sum of (then - level) telescopes. Since no score above an
infinite threshold exists, the level never leaves [-1, 2], and the rate still holds in the long run.

The quantile comes from counts in the bins of margins.py. A count is multiplied by FADING with each newer score; the
weight of new scores grows instead. The quantile lies inside a bin by linear interpolation.

counts    (BINS,) float64  weights of the scores, by bin.
fitted    (BINS,) float64  sums of the counts up to each bin, in units of the newest weight, from the last fit.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from copy import deepcopy
from typing import Any

import numpy as np

from hinged.service.model.decisions.margins import BINS, EDGES
from hinged.solvers.core.states import COUNT_MAX, State, StateReader

Array = np.ndarray[Any, Any]

FADING = 1.0 - 2.0**-10
WEIGHT_MAX = 2.0**40
WEIGHTS_MAX = WEIGHT_MAX * 2.0**20
"""Limit of the sum of all weights of a state. Weights grow past WEIGHT_MAX until the next fit."""
FIT = 32  # number of labels between two fits of the quantiles
STEP_MIN, STEP_MAX, STEP_PART = 0.01, 0.02, 4.0
"""The step is the error divided by STEP_PART, within these limits, and at most the error. Measured: a smaller step lets
windows of 2,000 labels miss the promise by more than 0.5 points on drifting streams; a larger step makes larger sets.
"""
LAGGED = 2.0  # largest step times lag. Measured: 1 and 4 leave windows of 2,000 labels farther from the promise.
LABELS_MIN = 20  # least number of labels before anything is promised
LEVEL_MAX = 1e9  # limit of a level in a state that is read
_EDGES: list[float] = EDGES.tolist()


def step_of(error: float) -> float:
    """Return the step for immediate labels."""
    return min(error, max(STEP_MIN, error / STEP_PART), STEP_MAX)


class Level:
    """The threshold for one error rate."""

    def __init__(self, error: float) -> None:
        self.error, self.step = error, step_of(error)
        self.needed = max(LABELS_MIN, math.ceil(1.0 / error))  # a quantile of fewer labels says nothing
        self.counts, self.weight, self.seen = np.zeros(BINS), 1.0, 0
        self.level = error
        self.fitted = np.zeros(BINS)
        self._ends: list[float] = []

    @property
    def lacking(self) -> int:
        """Return the number of labels that must still come before anything is promised."""
        return max(0, self.needed - self.seen)

    def limit(self) -> float:
        """Return the threshold. A score above it is outside of the set."""
        if self.lacking or self.level <= 0.0:
            return math.inf
        if self.level >= 1.0:
            return -math.inf
        ends = self._ends
        # One more score than was seen, which is infinite: the score of the next example.
        rank = (1.0 - self.level) * (ends[-1] + 1.0)
        place = bisect_left(ends, rank)
        if place >= BINS - 1:
            return math.inf
        if place == 0:
            return _EDGES[0]
        below, lower, upper = ends[place - 1], _EDGES[place - 1], _EDGES[place]
        return lower + (upper - lower) * ((rank - below) / (ends[place] - below))

    def add(self, place: int, missed: bool | None, lag: float = 0.0, then: float | None = None) -> None:
        """Count the score of a true label.

        place: the score's bin. missed: whether the set that was sent missed the label; None if nothing was promised.
        lag: number of labels that were counted since the set was sent. then: the level of that time; None: the present
        level.
        """
        if missed is not None:
            behind = 0.0 if then is None else then - self.level
            self.level += min(self.step, LAGGED / max(lag, 1.0)) * (behind + self.error - missed)
        self.weight *= 1.0 / FADING
        self.counts[place] += self.weight
        self.seen += 1
        if self.seen == self.needed or (self.seen > self.needed and self.seen % FIT == 0):
            self._fit()

    def _fit(self) -> None:
        if self.weight > WEIGHT_MAX:
            self.counts, self.weight = self.counts / WEIGHT_MAX, self.weight / WEIGHT_MAX
        self._use(np.add.accumulate(self.counts / self.weight))

    def _use(self, fitted: Array) -> None:
        self.fitted, self._ends = fitted, fitted.tolist()

    def changed(self, error: float) -> Level:
        """Return a level for another error. It keeps the scores."""
        if error == self.error:
            return deepcopy(self)
        found = Level(error)
        found.counts, found.weight, found.seen = self.counts.copy(), self.weight, self.seen
        if not found.lacking:
            found._fit()
        return found

    def state(self) -> State:
        """Return the state as arrays."""
        return {
            "counts": self.counts.copy(),
            "fitted": self.fitted.copy(),
            "seen": np.array([self.seen]),
            "level": np.array([self.level, self.weight]),
        }

    def load(self, state: State) -> None:
        """Load a result of `state`. Raise ValueError if the arrays do not fit."""
        read = StateReader(state)
        counts = read.take("counts", np.float64, (BINS,), 0.0, WEIGHTS_MAX)
        fitted = read.take("fitted", np.float64, (BINS,), 0.0, WEIGHTS_MAX)
        seen = int(read.take("seen", np.int64, (1,), 0, COUNT_MAX)[0])
        level, weight = read.take("level", np.float64, (2,), -LEVEL_MAX, WEIGHTS_MAX).tolist()
        if not (weight >= 1.0 and level <= LEVEL_MAX):
            raise ValueError(f"a level must be at most {LEVEL_MAX:g}, and its weight at least 1, got {level}, {weight}")
        if (np.diff(fitted) < 0.0).any():
            raise ValueError("the sums of counts must not fall")
        self.counts, self.seen, self.level, self.weight = counts, seen, level, weight
        self._use(fitted)
