"""Prequential metrics: each example is predicted before it is learned, and this prediction counts.

The metrics are kept separately for each source: streamed examples, examples queried because they looked informative,
and examples queried at random. Only the random examples are an unbiased sample. Only the streamed examples count for
the drift flag.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hinged.frames import part, prefixed
from hinged.service.data.classes import Label, score_name
from hinged.service.data.parts import Configuration
from hinged.service.model.decisions.costs import CostTable
from hinged.service.model.decisions.memory import DecisionMemory
from hinged.service.model.decisions.rare import of_class, warning_of
from hinged.service.model.drift import DETECTOR, Drift
from hinged.service.model.estimates import WantedLabels
from hinged.service.model.figures import (
    CONFUSION_CLASSES_MAX,
    SourceGlance,
    accuracy,
    figures_of,
    glance_of,
    reliability_of,
)
from hinged.service.model.promises.alarm import Alarm
from hinged.service.model.promises.promise import Promise
from hinged.service.model.segments import Segments
from hinged.solvers.core.solver import CLASSES_MAX, columns_of
from hinged.solvers.core.states import COUNT_MAX, StateReader
from hinged.solvers.scores.calibrations import Calibrations
from hinged.solvers.scores.sigmoid import WINDOW, Calibration
from hinged.solvers.scores.tally import PrequentialWindow, Tally, losses_of
from hinged.solvers.scores.venn_abers import VennAbers

if TYPE_CHECKING:  # it imports this module
    from hinged.service.model.events.learning import ExamplesLearned

Array = np.ndarray[Any, Any]
Figures = dict[str, Any]

UNKNOWN = -1  # no prediction, because no class was known yet
STREAMED, QUERIED, RANDOM = range(3)
SOURCES = ("streamed", "queried", "random")
ALL = "all"


class Prequential:
    """Figures of all predictions whose labels have arrived, in total and by source. Also the calibration of the
    predictions' probabilities.
    """

    def __init__(self, *, choosing: bool = True) -> None:
        """choosing: whether, with three or more classes, the best of several calibrations gives the probabilities."""
        self.classes = 0
        self.added = 0  # number of examples, with or without a prediction
        self.drift = Drift()
        self.memory: DecisionMemory | None = None  # only with costs or watched classes
        self.promise: Promise | None = None  # only with a promise
        self.alarm: Alarm | None = None  # only with an alarm
        self.segments: Segments | None = None  # only with segments
        self.asked: WantedLabels | None = None  # only with late labels that were wanted with a known probability
        self._calibrations = Calibrations(choosing=choosing)
        self._tallies = {ALL: Tally()}

    @property
    def predicted(self) -> int:
        """Return the number of predictions that were counted."""
        return self._tallies[ALL].seen

    def configure(self, configuration: Configuration, names: Sequence[str]) -> None:
        """Adopt the calibration, costs, watched classes, segments, promise and alarm of a configuration. names: the
        known classes.
        """
        self._calibrations.choose(choosing=configuration.chooses)
        watched, costs = configuration.watched, configuration.costs
        self._segment(configuration)
        if configuration.labels.budget is None:
            self.asked = None
        if not watched and costs is None:
            self.memory = None
        elif self.memory is None:
            self.memory = DecisionMemory(watched, costs)
            for name in names:
                self.memory.add_class(name)
        elif (self.memory.watched, self.memory.costs) != (watched, costs):
            self.memory = self.memory.changed(watched, costs)
        if self.memory is not None:
            self.memory.begin_with(self.window.scores.T, self.window.classes)
        self._promise(configuration.promise, names)
        if configuration.alarm is None:
            self.alarm = None
        elif self.alarm is None or self.alarm.configured != configuration.alarm:
            self.alarm = Alarm(configuration.alarm)

    def _segment(self, configuration: Configuration) -> None:
        features, former = configuration.segments, None if self.memory is None else self.memory.costs
        if not features:
            self.segments = None
        elif self.segments is None:
            self.segments = Segments(features)
        elif self.segments.features != features:
            self.segments = self.segments.changed(features)
        if self.segments is not None and configuration.costs != former:
            self.segments.forget_costs()

    def _promise(self, promised: Mapping[Any, Any] | None, names: Sequence[str]) -> None:
        if promised is None:
            self.promise = None
        elif self.promise is None:
            self.promise = Promise(promised)
            for name in names:
                self.promise.add_class(name)
        elif self.promise.promised != promised:
            self.promise = self.promise.changed(promised)

    def add_class(self, name: str = "") -> None:
        """Add a class. name: its name in `scores`."""
        self.classes += 1
        if self.memory is not None:
            self.memory.add_class(name)
        if self.promise is not None:
            self.promise.add_class(name)
        columns = columns_of(self.classes)
        if columns > self._calibrations.columns:
            self._calibrations.widen(columns)
        for tally in self._tallies.values():
            tally.widen(self.classes)

    def add(
        self,
        columns: Array,
        numbers: Array,
        classes: Array,
        sources: Array,
        sent: bytes | None = None,
        weight: float = 1.0,
        event: ExamplesLearned | None = None,
        begin: int = 0,
        chance: float = 0.0,
    ) -> None:
        """Count a batch of predictions in order.

        columns: (m, K) decision values from just before each example was learned, or from its late prediction. In the
        second case, K may be smaller than now.
        numbers, classes: (m,) predicted and true class. UNKNOWN predictions do not count.
        sources: (m,) STREAMED, QUERIED or RANDOM.
        sent: for one late label, the set that was sent with its prediction (Promise.add).
        weight: what each example weighs in the memory of decisions.
        event, begin: the event that has the examples, from row `begin` on; only segments need it.
        chance: the probability with which the labels were wanted; 0 if it is unknown.

        Raise ValueError if the arrays are inconsistent, before anything changes.
        """
        m, k = columns.shape
        if not numbers.shape == classes.shape == sources.shape == (m,):
            shapes = numbers.shape, classes.shape, sources.shape
            raise ValueError(f"numbers, classes and sources must have {m} entries each, got shapes {shapes}")
        if k > columns_of(self.classes):
            raise ValueError(f"columns must be at most {columns_of(self.classes)}, got {k}")
        if not m:
            return
        _check("classes", classes, 0, self.classes - 1)
        least, most = _check("numbers", numbers, UNKNOWN, self.classes - 1)
        if most != UNKNOWN and not k:
            raise ValueError("a prediction needs a column")
        before, at = self.added, np.arange(self.added + 1, self.added + 1 + m)
        first, last = _check("sources", sources, 0, len(SOURCES) - 1)
        self.added += m
        if most == UNKNOWN:
            return
        if least == UNKNOWN:
            known = np.flatnonzero(numbers != UNKNOWN)
            columns, numbers, classes, sources, at = (a[known] for a in (columns, numbers, classes, sources, at))
        # Make copies: arrays read from a log are read-only, and numba would compile another version of the code for
        # them.
        columns, numbers, classes = np.array(columns, np.float64), numbers.astype(np.int32), classes.astype(np.int32)
        chances = self._calibrations.learn(columns, classes)
        losses = losses_of(chances, classes)
        costs = None if self.memory is None else self.memory.add(columns, chances, classes, weight)
        if self.segments is not None and event is not None:
            self.segments.add(event, at - before - 1 + begin, classes, numbers, costs)
        if self.promise is not None:
            self.promise.add(columns, numbers, classes, sent)
        if chance:
            self.asked = self.asked or WantedLabels()
            self.asked.add(classes, numbers, chance)
        everything = np.arange(numbers.size)
        self._tallies[ALL].add(everything, columns, numbers, classes, losses)
        for source in range(first, last + 1):
            of_source = everything if first == last else np.flatnonzero(sources == source)
            if of_source.size:
                self._tally(SOURCES[source]).add(of_source, columns, numbers, classes, losses)
                if source == STREAMED:
                    errors, places = (numbers != classes)[of_source].tolist(), at[of_source].tolist()
                    self.drift.add(errors, places)
                    if self.alarm is not None:
                        self.alarm.add(errors, places)

    def _tally(self, name: str) -> Tally:
        if name not in self._tallies:
            self._tallies[name] = Tally(self.classes)
        return self._tallies[name]

    # -- reading --------------------------------------------------------------------------------------------------

    def calibration(self) -> Calibration:
        """Return the current calibration: a function that turns columns and class numbers into the probabilities of
        these classes. The function never changes.
        """
        return self._calibrations.calibration()

    def interval(self, number: int) -> VennAbers | None:
        """Return the interval of a class's probability as a function of its score; None if the class has no column."""
        return self._calibrations.sigmoid.interval(number)

    def probability(self, columns: Array, numbers: Array) -> Array:
        """Return the probabilities (m,) of the predicted classes by the current calibration; NaN where unknown."""
        return self.calibration()(columns, numbers)

    def glance(self) -> tuple[SourceGlance, ...]:
        """Return the figures that are cheap enough to compute after each micro-batch. The figures of all predictions
        come first, then the figures of each source seen.
        """
        return tuple(glance_of(name, self._tallies[name]) for name in (ALL, *SOURCES) if name in self._tallies)

    @property
    def window(self) -> PrequentialWindow:
        """Return the newest 1,000 predictions, in any order."""
        return self._tallies[ALL].window

    def newest_right(self) -> Array:
        """Return whether each of the newest 1,000 predictions was right, the oldest first."""
        return np.roll(self.window.classes == self.window.numbers, -self.predicted)

    def newest_classes(self) -> Array:
        """Return the true class of each of the newest 1,000 predictions, the oldest first."""
        return np.roll(self.window.classes, -self.predicted)

    def costs_of_newest(self, costs: Mapping[str, Any]) -> Array:
        """Return what the decision by the present probabilities costs for each of the newest 1,000 predictions, the
        oldest first. NaN where it is unknown. costs: of a configuration.
        """
        columns = np.ascontiguousarray(self.window.scores.T, np.float64)
        found, there = np.full(len(columns), np.nan), np.flatnonzero(~np.isnan(columns).any(axis=1))
        chances = None if self.memory is None else self.memory.chances()
        if self.memory is not None and chances is not None and there.size:
            usual = self.calibration().classes(columns[there])
            table = CostTable.of(costs, self.memory.names)
            decisions, _ = table.decide(chances.of(columns[there], usual))
            found[there] = table.matrix()[self.window.classes[there], decisions]
        return np.roll(found, -self.predicted)

    @property
    def fading_accuracy(self) -> float | None:
        """Return the accuracy over all predictions, where older predictions fade. None before the first prediction."""
        faded = self._tallies[ALL].faded
        return accuracy(faded) if faded.any() else None

    @property
    def drifted(self) -> bool:
        """Return whether there was a drift among the newest 1,000 examples."""
        return bool(self.drift.last_at and self.added - self.drift.last_at < WINDOW)

    @property
    def alarmed(self) -> bool:
        """Return whether there was an alarm among the newest 1,000 examples."""
        return self.alarm is not None and self.alarm.last_at >= max(1, self.added - WINDOW + 1)

    @property
    def noticed(self) -> dict[str, int]:
        """Return how often something was noticed so far, by kind."""
        return {"drift": self.drift.count, **({} if self.alarm is None else {"alarm": self.alarm.count})}

    def figures(self, labels: Sequence[Label] = ()) -> Figures:
        """Return the metrics in the form of the server's answers. `labels` name the classes of the confusion
        matrices.
        """
        at, names = self.drift.last_at, [score_name(label) for label in labels]
        return {
            **figures_of(self._tallies[ALL], labels),
            **self._of_classes(names),
            **({} if self.promise is None else {"promise": self.promise.figures()}),
            **self._estimate(names),
            "reliability": reliability_of(self.window, self.probability),
            "calibrations": self._calibrations.figures(),
            "sources": {name: figures_of(self._tallies[name], labels) for name in SOURCES if name in self._tallies},
            "drift": {
                "detector": DETECTOR,
                "flagged": self.drifted,
                "last_at": at or None,
                "count": self.drift.count,
                "examples": self.drift.seen,
                "errors": self.drift.errors,
            },
            **({} if self.alarm is None else {"alarm": self._of_alarm(self.alarm)}),
            **({} if self.segments is None else {"segments": self._of_segments(names)}),
        }

    def _estimate(self, names: Sequence[str]) -> Figures:
        """Return the estimates from labels that were asked for with known probabilities."""
        random = self._tallies.get(SOURCES[RANDOM])
        asked = self.asked or (None if random is None else WantedLabels.alike(random))
        return {} if asked is None else {"estimate": asked.figures(names)}

    def _of_alarm(self, alarm: Alarm) -> Figures:
        return {**alarm.figures(), "errors": int(alarm.martingale.counts[1]), "flagged": self.alarmed}

    def _of_segments(self, names: Sequence[str]) -> Figures:
        watched = () if self.memory is None else self.memory.watched
        assert self.segments is not None  # noqa: S101  checked by the caller
        return self.segments.figures({name: names.index(name) for name in watched if name in names})

    def _of_classes(self, names: Sequence[str]) -> Figures:
        """Return the figures of each class, what decisions would have cost, and a warning if a class is rare."""
        tally, memory = self._tallies[ALL], self.memory
        found: Figures = {}
        if 0 < len(names) <= CONFUSION_CLASSES_MAX:
            found["classes"] = {name: of_class(tally, number) for number, name in enumerate(names)}
        if memory is not None:
            for name, long in memory.of_classes().items():
                found.setdefault("classes", {}).setdefault(name, {})["long"] = long
            decisions = memory.decisions()
            found |= {} if decisions is None else {"decisions": decisions}
        elif names and (warning := warning_of(tally.cells, names)) is not None:
            found["warning"] = warning
        return found

    def forget(self, numbers: Collection[int]) -> None:
        """Forget the values of features that only these examples have."""
        if self.segments is not None:
            self.segments.forget(numbers)

    def memory_bytes(self) -> int:
        """Return the memory of all windows and counts, in bytes."""
        return sum(array.nbytes for array in self.state().values())

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Return the state as arrays."""
        parts: dict[str, dict[str, Array]] = {
            "drift": self.drift.state(),
            "sigmoid": self._calibrations.sigmoid.state(),
            "calibrations": self._calibrations.state(),
        }
        parts |= {} if self.memory is None else {"memory": self.memory.state()}
        parts |= {} if self.promise is None else {"promise": self.promise.state()}
        parts |= {} if self.alarm is None else {"alarm": self.alarm.state()}
        parts |= {} if self.segments is None else {"segments": self.segments.state()}
        parts |= {} if self.asked is None else {"asked": self.asked.state()}
        parts |= {name: self._tallies[name].state() for name in (ALL, *SOURCES) if name in self._tallies}
        arrays = {"counts": np.array([self.classes, self.added])}
        for name, own in parts.items():
            arrays |= prefixed(f"{name}.", own)
        return arrays

    def load(self, state: dict[str, Array]) -> None:
        """Restore the metrics from a result of `state`. Raise ValueError if arrays are inconsistent."""
        counts = StateReader(state).take("counts", np.int64, (2,), 0, COUNT_MAX)
        self.classes, self.added = (int(v) for v in counts)
        if self.classes > CLASSES_MAX:
            raise ValueError(f"there must be at most {CLASSES_MAX} classes, got {self.classes}")
        self.drift.load(part(state, "drift."))
        self._calibrations.load(part(state, "sigmoid."), part(state, "calibrations."))
        if self._calibrations.columns != columns_of(self.classes):
            raise ValueError(f"{self._calibrations.columns} columns do not fit {self.classes} classes")
        if self.memory is not None:
            self.memory.load(part(state, "memory."))
        if self.promise is not None:
            self.promise.load(part(state, "promise."))
        if self.alarm is not None:
            self.alarm.load(part(state, "alarm."))
        if self.segments is not None:
            self.segments.load(part(state, "segments."), self.classes)
        if any(name.startswith("asked.") for name in state):
            self.asked = WantedLabels()
            self.asked.load(part(state, "asked."), self.classes)
        self._tallies = {}
        for name in (ALL, *SOURCES):
            if name == ALL or f"{name}.seen" in state:
                self._tally(name).load(part(state, f"{name}."), self.classes)
        self._check()

    def _check(self) -> None:
        """Refuse parts with inconsistent counts."""
        everything, parts = self._tallies[ALL], [self._tallies[name] for name in SOURCES if name in self._tallies]
        fitted = self._calibrations.seen
        if not fitted == everything.seen <= self.added:
            raise ValueError(
                f"{everything.seen} predictions of {self.added} examples do not fit {fitted} in the calibration"
            )
        if not np.array_equal(everything.cells, sum((tally.cells for tally in parts), np.zeros_like(everything.cells))):
            raise ValueError("the predictions of the sources must be all predictions")
        drift, streamed = self.drift, self._tallies.get(SOURCES[STREAMED], Tally(self.classes))
        wrong = streamed.seen - int(np.trace(streamed.cells))
        if drift.last_at + drift.seen > self.added or drift.seen > streamed.seen or drift.errors > wrong:
            raise ValueError(
                f"the detector has seen {drift.errors} errors of {drift.seen} since example {drift.last_at}, "
                f"of {wrong} of {streamed.seen} until {self.added}"
            )
        alarm = self.alarm
        if alarm is not None and max(alarm.last_at, *(at for at, _ in alarm.path[-1:]), 0) > self.added:
            raise ValueError(f"an alarm at {alarm.last_at}, or a point of its path, is after example {self.added}")


def _check(name: str, values: Array, least: int, most: int) -> tuple[int, int]:
    """Return the smallest and the largest value. Raise ValueError if there is no value, or if one is out of range."""
    found = int(values.min()), int(values.max())
    if not least <= found[0] <= found[1] <= most:
        raise ValueError(f"{name} must be from {least} to {most}, got {found[0]} to {found[1]}")
    return found
