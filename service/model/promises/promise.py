"""The promise of one learner: its thresholds, and figures of coverage and of the size of sets.

Each example counts with the set that was sent before its label: the set of the state just before it was learned, or,
if its prediction waited for the label, the set that was sent with the prediction. There is one level (levels.py) for
one rate of all examples, or a level for each class that has a rate. C classes.

totals    (C, 3) int64       examples by true class whose set was promised, those missed, and the sizes of their sets.
faded     (C, 3) float64     the same, where an example is multiplied by FADING with each newer example. The weight of
                             new examples grows instead.
weight    (1,) float64       weight of the newest example.
seen      (1,) int64         number of labels counted, promised or not.
window    (n, 3) int32       the newest WINDOW examples whose set was promised, oldest first: class, missed, size.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hinged.frames import part, prefixed
from hinged.service.data.classes import Label
from hinged.service.model.decisions.margins import bins_of, growing_weights
from hinged.service.model.promises.levels import FADING, WEIGHT_MAX, WEIGHTS_MAX, Level
from hinged.service.model.promises.sets import OUTSIDE, UNPROMISED, Limits, Sent, flags_of, scores_of
from hinged.solvers.core.solver import CLASSES_MAX
from hinged.solvers.core.states import COUNT_MAX, State, StateReader

Array = np.ndarray[Any, Any]
Figures = dict[str, Any]

WINDOW = 2_000
ALL = ""
"""The key of the level for all examples. Levels of classes have the classes' names, and a class may have no name."""
SHOWN_MAX = 32  # maximum number of classes for which the figures contain each class


class Promise:
    """The promise of one learner. promised: the part `promise` of a configuration."""

    def __init__(self, promised: Mapping[Any, Any]) -> None:
        self.promised = promised
        error = promised["error"]
        self.by_class = isinstance(error, dict)
        # Sorted: the state lists levels in this order, and the parts of a configuration have none.
        rates = sorted(error.items()) if self.by_class else [(ALL, error)]
        self.levels = {name: Level(rate) for name, rate in rates}
        self.number = zlib.crc32(json.dumps(promised, sort_keys=True).encode())
        self.names: list[str] = []
        self.seen = 0
        self._begin()

    def _begin(self) -> None:
        """Begin to count coverage."""
        self.totals, self.faded = np.zeros((len(self.names), 3), np.int64), np.zeros((len(self.names), 3))
        self.weight, self.window = 1.0, np.zeros((0, 3), np.int32)
        self._tabulate()

    def _tabulate(self) -> None:
        keys = [name if self.by_class else ALL for name in self.names]
        numbers = {name: number for number, name in enumerate(self.levels)}
        self._levels, self._numbers = [self.levels.get(key) for key in keys], [numbers.get(key) for key in keys]
        self._limits = np.array([0.0 if level is None else level.limit() for level in self._levels])
        bare = np.array([level is None for level in self._levels], bool)
        self._bare = bare if bare.any() else None
        self._mark()

    def _mark(self) -> None:
        """Mark the labels whose levels have seen too few examples."""
        unready = np.array([level is not None and level.lacking > 0 for level in self._levels], bool)
        self._unready = unready if unready.any() else None

    def add_class(self, name: str) -> None:
        """Add a class."""
        self.names = [*self.names, name]
        self.totals = np.concatenate((self.totals, np.zeros((1, 3), np.int64)))
        self.faded = np.concatenate((self.faded, np.zeros((1, 3))))
        self._tabulate()

    def changed(self, promised: Mapping[Any, Any]) -> Promise:
        """Return another promise. Levels of the same classes keep their scores; coverage is counted from now on."""
        found = Promise(promised)
        if found.by_class == self.by_class:
            for name, level in found.levels.items():
                if name in self.levels:
                    found.levels[name] = self.levels[name].changed(level.error)
        found.names, found.seen = self.names, self.seen
        found._begin()
        return found

    @property
    def lacking(self) -> int:
        """Return the number of labels that must still come until everything is promised."""
        return sum(level.lacking for level in self.levels.values())

    def limits(self, labels: Sequence[Label]) -> Limits:
        """Return the present thresholds. labels: the known labels."""
        levels = np.array([level.level for level in self.levels.values()])
        limits = self._limits.copy()
        return Limits(self.number, self.seen, self.lacking, labels, levels, limits, self._bare, self._unready)

    # -- counting -------------------------------------------------------------------------------------------------

    def add(self, columns: Array, numbers: Array, classes: Array, sent: bytes | None = None) -> None:
        """Count a batch in order.

        columns (m, K): decision values. numbers, classes (m,): predicted and true classes. sent: for a batch of one
        example, the set that was sent with its prediction; empty without such a set. None: the present set counts.
        """
        known = len(self.names)
        if known < 2:
            return
        scores = scores_of(columns, known)
        places = bins_of(scores[np.arange(classes.size), classes]).tolist()
        counted: list[tuple[int, int, int]] = []
        limits = self._limits, self._bare
        for r, (truth, place) in enumerate(zip(classes.tolist(), places, strict=True)):
            if sent is None:
                flags = flags_of(scores[r : r + 1], numbers[r : r + 1], *limits, self._unready)[0]
                flag, lag, then = int(flags[truth]), 0, None
            else:
                flag, flags, lag, then = self._then(sent, truth)
            missed = None if flag == UNPROMISED else flag == OUTSIDE
            if missed is not None:
                counted.append((truth, int(missed), int(np.count_nonzero(flags))))
            self._learn(truth, place, missed, lag, then)
        if counted:
            self._count(np.array(counted, np.int32))

    def _then(self, sent: bytes, truth: int) -> tuple[int, Array, int, float | None]:
        """Return the flag of the true label in the set that was sent, the flags, the lag, and the level of then."""
        if not sent:
            return UNPROMISED, np.zeros(0, np.uint8), 0, None
        then = Sent.decoded(sent)
        flags = then.flags[: len(self.names)]
        lag = max(0, self.seen - then.seen)
        if then.promise != self.number or then.levels.size != len(self.levels):
            return UNPROMISED, flags, lag, None
        number = self._numbers[truth]
        level = None if number is None else float(then.levels[number])
        if truth < flags.size:
            return int(flags[truth]), flags, lag, level
        # The class was unknown then. One rate for all examples includes such examples, a rate of the class does not.
        unready = self.by_class or not flags.size or (flags == UNPROMISED).any()
        return UNPROMISED if unready else OUTSIDE, flags, lag, level

    def _learn(self, truth: int, place: int, missed: bool | None, lag: float, then: float | None) -> None:
        """Let the level of a true label learn."""
        level = self._levels[truth]
        if level is not None:
            level.add(place, missed, lag * level.seen / self.seen if self.seen else 0.0, then)
            self._limits[truth if self.by_class else slice(None)] = level.limit()
            if level.seen == level.needed:
                self._mark()
        self.seen += 1

    def _count(self, counted: Array) -> None:
        begin, m = 0, counted.shape[0]
        while begin < m:
            # Parts end where the examples are a multiple of WINDOW, and `accumulate` and `add.at` go in sequence, so
            # the result does not depend on the batches.
            examples = int(self.totals[:, 0].sum())
            part = counted[begin : begin + WINDOW - examples % WINDOW]
            rows = np.column_stack((np.ones(len(part), np.int64), part[:, 1:]))
            weights = growing_weights(self.weight, len(part), FADING)
            np.add.at(self.totals, part[:, 0], rows)
            np.add.at(self.faded, part[:, 0], rows * weights[:, None])
            self.weight = float(weights[-1])
            if (examples + len(part)) % WINDOW == 0 and self.weight > WEIGHT_MAX:
                self.faded, self.weight = self.faded / WEIGHT_MAX, self.weight / WEIGHT_MAX
            begin += len(part)
        self.window = np.concatenate((self.window, counted))[-WINDOW:]

    # -- reading --------------------------------------------------------------------------------------------------

    def glance(self) -> dict[str, dict[str, float]]:
        """Return the coverage and the mean size of sets in the window, by class that has a rate. The key ALL is for
        all examples. The result leaves out a class without examples.
        """
        rows, found = self.window, {}
        for name in [ALL, *(self.names if self.by_class else ())]:
            own = rows if name == ALL else rows[rows[:, 0] == self.names.index(name)]
            if own.size and (name == ALL or name in self.levels):
                found[name] = {"coverage": 1.0 - float(own[:, 1].mean()), "size": float(own[:, 2].mean())}
        return found

    def figures(self) -> Figures:
        """Return coverage and mean size of sets beside what was promised, of all examples and by class."""
        overall = {} if self.by_class else {"promised": 1.0 - self.levels[ALL].error}
        found: Figures = {"lacking": self.lacking, **overall, **self._figures(slice(None)), "classes": {}}
        for number, name in enumerate(self.names[:SHOWN_MAX] if len(self.names) <= SHOWN_MAX else ()):
            level = self.levels.get(name) if self.by_class else None
            own = {} if level is None else {"lacking": level.lacking, "promised": 1.0 - level.error}
            found["classes"][name] = {**own, **self._figures(number)}
        return found

    def _figures(self, which: int | slice) -> Figures:
        rows = self.window if isinstance(which, slice) else self.window[self.window[:, 0] == which]
        newest = np.array([rows.shape[0], *rows[:, 1:].sum(axis=0)])
        return {
            "all": _summed(self.totals[which].reshape(-1, 3).sum(axis=0)),
            "window": _summed(newest),
            "fading": _summed(self.faded[which].reshape(-1, 3).sum(axis=0) / self.weight),
        }

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return the state as arrays."""
        own: State = {"totals": self.totals.copy(), "faded": self.faded.copy(), "window": self.window.copy()}
        own |= {"weight": np.array([self.weight]), "seen": np.array([self.seen])}
        for number, level in enumerate(self.levels.values()):
            own |= prefixed(f"{number}.", level.state())
        return own

    def load(self, state: State) -> None:
        """Load a result of `state`. Raise ValueError if the arrays do not fit the classes or each other."""
        read, known = StateReader(state), len(self.names)
        totals = read.take("totals", np.int64, (known, 3), 0, COUNT_MAX)
        faded = read.take("faded", np.float64, (known, 3), 0.0, WEIGHTS_MAX * CLASSES_MAX)
        weight = float(read.take("weight", np.float64, (1,), 1.0, WEIGHTS_MAX)[0])
        seen = int(read.take("seen", np.int64, (1,), 0, COUNT_MAX)[0])
        window = read.take("window", np.int32, (None, 3), 0, CLASSES_MAX)
        examples = int(totals[:, 0].sum())
        if (totals[:, 1] > totals[:, 0]).any() or examples > seen or window.shape[0] != min(examples, WINDOW):
            raise ValueError(f"{examples} examples of {seen} labels, and a window of {window.shape[0]}, do not fit")
        if window.size and (window.max(axis=0) > (known - 1, 1, known)).any():
            raise ValueError(f"the window does not fit {known} classes")
        for number, level in enumerate(self.levels.values()):
            level.load(part(state, f"{number}."))
        if sum(level.seen for level in self.levels.values()) > seen:
            raise ValueError(f"the levels have seen more than {seen} labels")
        self.totals, self.faded, self.weight, self.seen, self.window = totals, faded, weight, seen, window
        self._tabulate()


def _summed(sums: Array) -> Figures:
    """Return figures from sums of examples, misses and sizes."""
    examples, missed, sizes = sums.tolist()
    return {
        "examples": examples,
        "coverage": 1.0 - missed / examples if examples else None,
        "size": sizes / examples if examples else None,
    }
