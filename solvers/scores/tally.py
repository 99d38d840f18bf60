"""Counts of a stream's predictions: over the whole stream, over its newest WINDOW examples, and fading.

Prequential evaluation: J. Gama, R. Sebastiao and P. P. Rodrigues, On Evaluating Stream Learning Algorithms, Machine
Learning 90, 2013. A fading count forgets by the factor FADING per example. Here the newest example weighs more instead
of the older examples less, so a count costs the same whatever the number of classes. When weights get large, all are
divided by a power of two, which changes no bit of any ratio. C classes, K columns.

cells         (C, C) int64          examples by class (rows) and predicted class.
faded         (C, C) float64        the same, each with its weight.
faded_losses  (2,) float64          log loss and Brier score, each times its weight.
weight        (1,) float64          weight of the newest example.
classes       (WINDOW,) int32       a ring, as are the next three.
numbers       (WINDOW,) int32       predicted classes.
losses        (WINDOW, 2) float64   log loss and Brier score.
scores        (K, WINDOW) float32   decision values, NaN where the column came later than the example.
seen          (1,) int64            examples counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.elementary import log
from hinged.solvers.core.solver import columns_of
from hinged.solvers.core.states import COUNT_MAX, State, StateReader
from hinged.solvers.jit.compiled import compiled
from hinged.solvers.jit.handed import handed
from hinged.solvers.scores.sigmoid import WINDOW

Array = np.ndarray[Any, Any]

FADING = 0.999
WEIGHT_MAX = 2.0**40
FADED_MAX = 1.001 * WEIGHT_MAX / (1.0 - FADING)  # limit of the weights of all examples, with some room for rounding
PROBABILITY_MIN = 1e-6
LOSS_MAX = 14.0  # limit of an example's log loss: at most 13.8, and by rounding slightly below 0 at least
LOG_LOSS, BRIER = range(2)


@handed
class Counts(NamedTuple):
    """The arrays as compiled code takes them; see the module's docstring."""

    cells: Array
    faded: Array
    faded_losses: Array
    weight: Array
    classes: Array
    numbers: Array
    losses: Array
    scores: Array
    seen: Array


@compiled
def write_losses(probabilities, classes, out):
    """See `losses_of`."""
    width = probabilities.shape[1]
    for i in range(probabilities.shape[0]):
        p = probabilities[i, classes[i]] if classes[i] < width else 0.0
        out[i, LOG_LOSS] = -log(max(p, PROBABILITY_MIN))
        square = 0.0 if classes[i] < width else 1.0
        for c in range(width):
            miss = probabilities[i, c] - (1.0 if c == classes[i] else 0.0)
            square += miss * miss
        out[i, BRIER] = square / 2.0


def losses_of(probabilities: Array, classes: Array) -> Array:
    """(m, 2) the log loss and the Brier score (half the squared distance from certainty, 0 to 1) of each example.

    probabilities (m, width): a class from `width` on was not known then and counts as probability 0. classes (m,)
    int32.
    """
    out = np.empty((classes.size, 2))
    write_losses(probabilities, classes, out)
    return out


@compiled
def count(counts, wanted, columns, numbers, classes, losses):
    """Count the examples with the indices `wanted`, in order."""
    known, held = columns.shape[1], counts.scores.shape[0]
    for i in wanted:
        counts.weight[0] /= FADING
        weight = counts.weight[0]
        counts.cells[classes[i], numbers[i]] += 1
        counts.faded[classes[i], numbers[i]] += weight
        place = counts.seen[0] % WINDOW
        counts.seen[0] += 1
        counts.classes[place] = classes[i]
        counts.numbers[place] = numbers[i]
        for k in range(2):
            counts.faded_losses[k] += weight * losses[i, k]
            counts.losses[place, k] = losses[i, k]
        for c in range(held):
            f = np.nan
            if known == 1 and c < 2:
                # The second class keeps the one column; the first gets its negation once there are more.
                f = columns[i, 0] if c == min(held, 2) - 1 else -columns[i, 0]
            elif c < known:
                f = columns[i, c]
            counts.scores[c, place] = f
        if weight > WEIGHT_MAX:
            counts.weight[0] /= WEIGHT_MAX
            # Loops, not slices: see append_point in core/points.py.
            for t in range(counts.faded.shape[0]):
                for p in range(counts.faded.shape[1]):
                    counts.faded[t, p] /= WEIGHT_MAX
            for k in range(2):
                counts.faded_losses[k] /= WEIGHT_MAX


class PrequentialWindow(NamedTuple):
    """The newest examples in no order: classes, predicted classes, losses (n, 2), decision values (K, n)."""

    classes: Array
    numbers: Array
    losses: Array
    scores: Array


class Tally:
    """Counts of predictions among a number of classes."""

    def __init__(self, classes: int = 0) -> None:
        self._counts = _empty(classes)

    @property
    def seen(self) -> int:
        """Examples counted."""
        return int(self._counts.seen[0])

    @property
    def cells(self) -> Array:
        """All examples by class (rows) and predicted class."""
        return self._counts.cells

    @property
    def faded(self) -> Array:
        """All examples by class (rows) and predicted class, fading: the newest example counts 1."""
        return np.asarray(self._counts.faded / self._counts.weight)

    @property
    def faded_losses(self) -> Array:
        """Sums of log loss and Brier score, fading likewise."""
        return np.asarray(self._counts.faded_losses / self._counts.weight)

    @property
    def window(self) -> PrequentialWindow:
        """The newest examples; the next examples overwrite it."""
        counts, n = self._counts, min(self.seen, WINDOW)
        return PrequentialWindow(counts.classes[:n], counts.numbers[:n], counts.losses[:n], counts.scores[:, :n])

    def widen(self, classes: int) -> None:
        """Make room for more classes."""
        old, new = self._counts, _empty(classes)
        before, k = old.cells.shape[0], old.scores.shape[0]
        new.cells[:before, :before], new.faded[:before, :before] = old.cells, old.faded
        new.scores[:, : min(self.seen, WINDOW)] = np.nan
        if k == 1 < new.scores.shape[0]:
            new.scores[:2] = -old.scores[0], old.scores[0]
        else:
            new.scores[:k] = old.scores
        kept = {name: getattr(old, name) for name in Counts._fields if name not in ("cells", "faded", "scores")}
        self._counts = new._replace(**kept)

    def add(self, wanted: Array, columns: Array, numbers: Array, classes: Array, losses: Array) -> None:
        """Count the examples with the indices `wanted`, in order.

        columns (m, K) float64: decision values. numbers and classes (m,): predicted and true classes. losses (m, 2).
        """
        count(self._counts, wanted, columns, numbers, classes, losses)

    def state(self) -> State:
        """The arrays."""
        return {name: array.copy() for name, array in self._counts._asdict().items()}

    def load(self, state: State, classes: int) -> None:
        """Take over a state of `state` for this number of classes. ValueError where it is invalid."""
        read = StateReader(state)
        seen = read.take("seen", np.int64, (1,), 0, COUNT_MAX)
        most = int(seen[0])
        scores = np.array(state.get("scores"))
        if scores.dtype != np.float32 or scores.shape != (columns_of(classes), WINDOW):
            raise ValueError(f"scores must be float32 {columns_of(classes), WINDOW}, got {scores.dtype} {scores.shape}")
        counts = Counts(
            cells=read.take("cells", np.int64, (classes, classes), 0, most),
            faded=read.take("faded", np.float64, (classes, classes), 0, FADED_MAX),
            faded_losses=read.take("faded_losses", np.float64, (2,), -FADED_MAX, LOSS_MAX * FADED_MAX),
            weight=read.take("weight", np.float64, (1,), 1, WEIGHT_MAX),
            classes=read.take("classes", np.int32, (WINDOW,), 0, max(classes - 1, 0)),
            numbers=read.take("numbers", np.int32, (WINDOW,), 0, max(classes - 1, 0)),
            losses=read.take("losses", np.float64, (WINDOW, 2), -1, LOSS_MAX),
            scores=scores,
            seen=seen,
        )
        if sum(counts.cells.ravel().tolist()) != most:
            raise ValueError(f"cells must have the sum {most}, the examples counted")
        total = counts.faded.sum()
        if 0 < total < 1:  # the newest example alone weighs 1
            raise ValueError(f"faded must have a sum of 0, or of 1 and more, got {total:g}")
        if total > counts.weight[0] / (1.0 - FADING) * 1.001 or (counts.faded[counts.cells == 0] != 0).any():
            raise ValueError(f"faded must fit cells, with weights up to {counts.weight[0]:g}")
        if not -total <= counts.faded_losses.min() <= counts.faded_losses.max() <= LOSS_MAX * total:
            raise ValueError(f"faded_losses must fit {total:g} examples, got {counts.faded_losses}")
        self._counts = counts


def _empty(classes: int) -> Counts:
    return Counts(
        cells=np.zeros((classes, classes), np.int64),
        faded=np.zeros((classes, classes)),
        faded_losses=np.zeros(2),
        weight=np.ones(1),
        classes=np.zeros(WINDOW, np.int32),
        numbers=np.zeros(WINDOW, np.int32),
        losses=np.zeros((WINDOW, 2)),
        scores=np.zeros((columns_of(classes), WINDOW), np.float32),
        seen=np.zeros(1, np.int64),
    )
