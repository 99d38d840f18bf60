"""The long memory of one learner: scores of the watched classes, and what decisions would have cost.

Each example counts with the scores that were predicted just before it was learned. Its weight is multiplied by FADING
with each newer example. As in solvers/scores/tally.py, the weight of new examples grows instead.

The counts become probabilities (margins.py) whenever the fits are due: after DUE_MIN examples, and again whenever the
number of examples has grown by 1 / DUE_PART, and by at least DUE_MIN. C classes, W watched classes.

counts     (W, 2, BINS) float64  weights of the examples by bin; see margins.py.
fits       (W, BINS) float64     the probability of each watched class, by bin.
by_class   (C,) float64          weights of the examples that were decided, by true class.
spent      (1,) float64          costs of their decisions, each times the example's weight.
weight     (1,) float64          weight of the newest example.
seen       (1,) int64            number of examples counted.
due        (1,) int64            number of examples at which the fits are due again.
decided    (2,) int64            number of examples decided, and of those, the number that a person would have seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hinged.service.model.decisions.costs import ASKED, CostTable
from hinged.service.model.decisions.margins import BINS, OF_COUNTS, bins_of, curve, growing_weights, isotonic, ranking
from hinged.service.model.decisions.rare import scores_of
from hinged.solvers.core.solver import CLASSES_MAX
from hinged.solvers.core.states import BOUND_MAX, COUNT_MAX, State, StateReader

Array = np.ndarray[Any, Any]
Figures = dict[str, Any]

FADING = 1.0 - 2.0**-16
WEIGHT_MAX = 2.0**40
WEIGHTS_MAX = WEIGHT_MAX * 2.0**30
"""Limit of the sum of all weights of a state. Weights grow past WEIGHT_MAX until the fits are due, and an explored
example weighs up to 1,000 times as much."""
DUE_MIN, DUE_PART = 20, 20
ALWAYS_MAX = 32  # maximum number of classes for which the figures contain the cost of always deciding the class


class Chances(NamedTuple):
    """The probabilities of the classes by the long memory. A later state makes new Chances.

    classes: number of classes. numbers: the numbers of the watched classes. fits: one fit for each.
    """

    classes: int
    numbers: tuple[int, ...]
    fits: tuple[Array, ...]

    def of(self, columns: Array, usual: Array) -> Array:
        """Return the probabilities (m, classes). They add up to 1.

        columns (m, K): decision values. usual (m, width): probabilities by the usual calibration, which divides what
        the watched classes leave to the other classes.
        """
        m, width = usual.shape
        found = np.zeros((m, self.classes))
        if self.classes == 2 and self.numbers and columns.shape[1]:
            number = self.numbers[0]
            found[:, number] = self.fits[0][bins_of(scores_of(columns, number))]
            found[:, 1 - number] = 1.0 - found[:, number]
            return found
        found[:, : min(width, self.classes)] = usual[:, : self.classes]
        own = np.zeros(m)
        watched = list(zip(self.numbers, self.fits, strict=True))
        for number, fit in watched:
            scores = scores_of(columns, number)
            found[:, number] = np.where(np.isnan(scores), found[:, number], fit[bins_of(scores)])
            own += found[:, number]
        others = [number for number in range(self.classes) if number not in self.numbers]
        if others and watched:
            rest, left = _sum(found, others), np.maximum(1.0 - own, 0.0)
            for number in others:
                share = np.where(rest > 0, found[:, number] / np.where(rest > 0, rest, 1.0), 1.0 / len(others))
                found[:, number] = share * left
        total = _sum(found, range(self.classes))
        return found / np.where(total > 0, total, 1.0)[:, None]


def _sum(chances: Array, numbers: Iterable[int]) -> Array:
    """Return the sum of some columns, added one after another, so that each processor gets the same bits."""
    total = np.zeros(chances.shape[0])
    for number in numbers:
        total += chances[:, number]
    return total


class DecisionMemory:
    """The memory of one learner.

    watched: names of the watched classes. costs: the costs of a configuration, or None.
    """

    def __init__(self, watched: Sequence[str], costs: Mapping[str, Any] | None) -> None:
        self.watched, self.costs = tuple(watched), costs
        self.names: list[str] = []
        self.counts = np.zeros((len(self.watched), 2, BINS))
        self.fits: list[Array] = [np.full(BINS, 0.5) for _ in self.watched]
        self.weight, self.seen, self.due = 1.0, 0, DUE_MIN
        self._begin()

    def _begin(self) -> None:
        """Begin to count what decisions cost."""
        self.by_class, self.spent = np.zeros(len(self.names)), 0.0
        self.decided = self.asked = 0
        self._tabulate()

    def _tabulate(self) -> None:
        self.table = CostTable.of(self.costs, self.names) if self.costs is not None else None
        self._matrix = self.table.matrix() if self.table is not None else np.zeros((0, 0))

    def add_class(self, name: str) -> None:
        """Add a class."""
        self.names = [*self.names, name]
        self.by_class = np.append(self.by_class, 0.0)
        self._tabulate()

    def changed(self, watched: Sequence[str], costs: Mapping[str, Any] | None) -> DecisionMemory:
        """Return a memory for another configuration. Classes that are still watched keep their counts. With other
        costs, the costs of decisions are counted from now on.
        """
        found = DecisionMemory(watched, costs)
        found.names = self.names
        kept = [(w, self.watched.index(name)) for w, name in enumerate(found.watched) if name in self.watched]
        for w, before in kept:
            found.counts[w], found.fits[w] = self.counts[before], self.fits[before]
        found.weight, found.seen, found.due = self.weight, self.seen, self.due
        found._begin()
        if costs == self.costs:
            found.by_class, found.spent = self.by_class.copy(), self.spent
            found.decided, found.asked = self.decided, self.asked
        return found

    def begin_with(self, columns: Array, classes: Array) -> None:
        """Let watched classes without counts begin with the newest examples, which were predicted before.

        columns (m, K): decision values; NaN where a column came later. classes (m,): true classes.
        """
        if classes.size < DUE_MIN:
            return
        new = [w for w, name in enumerate(self.watched) if name in self.names and not self.counts[w].any()]
        for w in new:
            self._add(w, columns, classes, np.full(classes.size, self.weight))
            self.fits[w] = isotonic(self.counts[w] / self.weight)
        if not self.seen:
            self.seen, self.due = classes.size, classes.size + max(DUE_MIN, classes.size // DUE_PART)

    def chances(self) -> Chances | None:
        """Return the present probabilities. Return None before the first fit, or with a single class."""
        if self.seen < DUE_MIN or len(self.names) < 2:
            return None
        known = [(self.names.index(name), w) for w, name in enumerate(self.watched) if name in self.names]
        return Chances(len(self.names), tuple(c for c, _ in known), tuple(self.fits[w] for _, w in known))

    def costs_of_answers(self) -> Array | None:
        """Return the cost (C, C) of each answer by true class. None without costs."""
        return None if self.table is None else self._matrix[:, :-1]

    # -- counting -------------------------------------------------------------------------------------------------

    def add(self, columns: Array, usual: Array, classes: Array, weight: float = 1.0) -> Array:
        """Count a batch in order. Return the cost (m,) of each decision, NaN if nothing was decided.

        columns (m, K): decision values. usual (m, width): probabilities by the usual calibration. classes (m,): true
        classes. weight: what each example weighs.
        """
        begin, m = 0, classes.size
        costs = np.full(m, np.nan)
        while begin < m:
            part = slice(begin, min(m, begin + self.due - self.seen))
            costs[part] = self._count(columns[part], usual[part], classes[part], weight)
            if self.seen == self.due:
                self._fit()
            begin = part.stop
        return costs

    def _count(self, columns: Array, usual: Array, classes: Array, weight: float) -> Array:
        m = classes.size
        costs = np.full(m, np.nan)
        # `accumulate` adds in sequence, so the result does not depend on the batches.
        growing = growing_weights(self.weight, m, FADING)
        weights = weight * growing
        chances = self.chances() if self.table is not None else None
        if self.table is not None and chances is not None:
            decisions, _ = self.table.decide(chances.of(columns, usual))
            costs = self._matrix[classes, decisions]
            self.spent = float(np.add.accumulate(np.concatenate(([self.spent], costs * weights)))[-1])
            np.add.at(self.by_class, classes, weights)
            self.decided += m
            self.asked += int((decisions == ASKED).sum())
        for w, name in enumerate(self.watched):
            if name in self.names:
                self._add(w, columns, classes, weights)
        self.weight = float(growing[-1])
        self.seen += m
        return costs

    def _add(self, w: int, columns: Array, classes: Array, weights: Array) -> None:
        number = self.names.index(self.watched[w])
        scores = scores_of(columns, number)
        there = ~np.isnan(scores)
        place = (classes[there] == number).astype(np.int64), bins_of(scores[there])
        np.add.at(self.counts[w], place, weights[there])

    def _fit(self) -> None:
        self.fits = [isotonic(counts / self.weight) for counts in self.counts]
        self.due = self.seen + max(DUE_MIN, self.seen // DUE_PART)
        if self.weight > WEIGHT_MAX:  # only here, so that the state does not depend on the batches
            self.counts, self.by_class = self.counts / WEIGHT_MAX, self.by_class / WEIGHT_MAX
            self.spent, self.weight = self.spent / WEIGHT_MAX, self.weight / WEIGHT_MAX

    # -- reading --------------------------------------------------------------------------------------------------

    def of_classes(self) -> dict[str, Figures]:
        """Return the figures of each watched class that is known, by name."""
        found = {}
        for w, name in enumerate(self.watched):
            if name in self.names:
                counts = self.counts[w] / self.weight
                weight = float(counts.sum())
                share = float(counts[1].sum()) / weight if weight else None
                found[name] = {"examples": weight, "share": share, **ranking(counts), "curve": curve(counts)}
        return found

    def glance(self) -> dict[str, dict[str, float]]:
        """Return the ranking figures of each watched class, by name; a class without figures is left out."""
        found = {name: {of: figures[of] for of in OF_COUNTS} for name, figures in self.of_classes().items()}
        return {name: figures for name, figures in found.items() if None not in figures.values()}

    def cost(self) -> float | None:
        """Return the mean cost of a decision. Return None before the first decision."""
        weight = float(self.by_class.sum())
        return self.spent / weight if weight else None

    def decisions(self) -> Figures | None:
        """Return what decisions would have cost, compared with simple rules. Return None without costs."""
        if self.table is None:
            return None
        matrix, weight = self._matrix, float(self.by_class.sum())
        always: dict[str, float] = {}
        if weight and len(self.names) <= ALWAYS_MAX:
            for number, name in enumerate(self.names):
                always[name] = float((self.by_class * matrix[:, number]).sum()) / weight
        return {
            "examples": self.decided,
            "asked": self.asked / self.decided if self.decided else None,
            "cost": self.cost(),
            "always": always,
            **({"ask_all": self.table.ask} if self.table.ask is not None else {}),
            "best_threshold": self._best_threshold(matrix),
        }

    def _best_threshold(self, matrix: Array) -> Figures | None:
        """Return the threshold on the score of a class that would have cost least. Only two classes have a threshold
        that decides everything.
        """
        known = [(w, self.names.index(name)) for w, name in enumerate(self.watched) if name in self.names]
        if len(self.names) != 2 or not known:
            return None
        w, number = known[0]
        counts = self.counts[w] / self.weight
        weight = float(counts.sum())
        if not weight:
            return None
        other = 1 - number
        above = matrix[other, number] * counts[0] + matrix[number, number] * counts[1]
        below = matrix[other, other] * counts[0] + matrix[number, other] * counts[1]
        total = np.concatenate(([0.0], np.add.accumulate(below)))
        total += np.concatenate((np.add.accumulate(above[::-1])[::-1], [0.0]))
        best = int(total.argmin())
        chance = float(self.fits[w][best]) if best < BINS else None
        return {"class": self.names[number], "probability": chance, "cost": float(total[best]) / weight}

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return the state as arrays."""
        return {
            "counts": self.counts.copy(),
            "fits": np.array(self.fits).reshape(-1, BINS),
            "by_class": self.by_class.copy(),
            "spent": np.array([self.spent]),
            "weight": np.array([self.weight]),
            "seen": np.array([self.seen]),
            "due": np.array([self.due]),
            "decided": np.array([self.decided, self.asked]),
        }

    def load(self, state: State) -> None:
        """Load a result of `state`. Raise ValueError if the arrays do not fit the classes or each other."""
        read, w = StateReader(state), len(self.watched)
        counts = read.take("counts", np.float64, (w, 2, BINS), 0.0, WEIGHTS_MAX)
        fits = read.take("fits", np.float64, (w, BINS), 0.0, 1.0)
        by_class = read.take("by_class", np.float64, (len(self.names),), 0.0, WEIGHTS_MAX)
        spent = float(read.take("spent", np.float64, (1,), 0.0, WEIGHTS_MAX * BOUND_MAX)[0])
        weight = float(read.take("weight", np.float64, (1,), 1.0, WEIGHTS_MAX)[0])
        seen, due = (int(read.take(name, np.int64, (1,), 0, COUNT_MAX)[0]) for name in ("seen", "due"))
        decided, asked = read.take("decided", np.int64, (2,), 0, COUNT_MAX).tolist()
        if not (asked <= decided <= seen < due) or len(self.names) > CLASSES_MAX:
            raise ValueError(f"of {seen} examples, {decided} decided and {asked} asked do not fit, due at {due}")
        if (np.diff(fits, axis=1) < 0).any():
            raise ValueError("the probabilities of a class must not fall as the score rises")
        if self.table is None and (decided or spent or by_class.any()):
            raise ValueError("decisions without costs")
        self.counts, self.fits, self.by_class, self.spent = counts, list(fits), by_class, spent
        self.weight, self.seen, self.due, self.decided, self.asked = weight, seen, due, decided, asked
