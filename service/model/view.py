"""The state that predictions read. A view never changes, whatever the model does next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hinged.service.data.classes import Label
from hinged.service.data.features.reader import AS_THEY_CAME, Outside, Reader
from hinged.service.data.inputs import Inputs
from hinged.service.data.parts import Configuration
from hinged.service.model.decisions.costs import CostTable
from hinged.service.model.decisions.memory import Chances
from hinged.service.model.learner import ModelLearner
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.predictions import numbers_of
from hinged.service.model.promises.sets import Limits
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.reports import View
from hinged.solvers.core.rows import Rows
from hinged.solvers.race.mean import MeanView
from hinged.solvers.scores.novelty import Sample
from hinged.solvers.scores.selection import distances, is_wanted
from hinged.solvers.scores.sigmoid import Calibration
from hinged.solvers.scores.venn_abers import VennAbers

Array = np.ndarray[Any, Any]

CALIBRATED_MIN = 20  # number of labelled predictions that are needed before there are probabilities
UNCALIBRATED = Calibration(np.zeros((0, 2)))

Intervals = dict[str, VennAbers | None]
"""The intervals of probabilities by class name; None for a class that is unknown or has no column."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Decision values (m, K) of a batch, the predicted class numbers (m,) and their probabilities (m,), NaN if unknown.

    outside: for each row, what lies outside everything learned, if decision values were computed.
    sets (m, classes): the sets of labels (promises/sets.py); None without a promise.
    novelty (m,): the p-values of novelty, NaN while nothing is compared (novelty.py); None without novelty.
    """

    columns: Array
    numbers: Array
    probabilities: Array
    outside: Outside = field(default_factory=dict)
    sets: Array | None = None
    novelty: Array | None = None

    def part(self, begin: int, end: int) -> Decided:
        """Return the decisions for rows begin to end - 1."""
        outside = {r - begin: found for r, found in self.outside.items() if begin <= r < end}
        columns, numbers, chances = (a[begin:end] for a in (self.columns, self.numbers, self.probabilities))
        sets, novelty = (None if a is None else a[begin:end] for a in (self.sets, self.novelty))
        return Decided(columns, numbers, chances, outside, sets, novelty)


@dataclass(frozen=True, slots=True)
class Published:
    """The state that predictions read. A published state never changes; learning publishes a new state.

    costs, chances: what decisions cost, and the probabilities by the long memory (decisions/); None without them.
    promise: the thresholds of the sets (promises/); None without a promise.
    sample: the sample with which x are compared (novelty.py); None without novelty, and while nothing is compared.
    """

    view: View
    reader: Reader[Any]
    kernel: Kernel
    configuration: Configuration
    labels: tuple[Label, ...]
    names: tuple[str, ...]
    majority: int
    calibration: Calibration
    position: int
    examples: int
    costs: CostTable | None = None
    chances: Chances | None = None
    promise: Limits | None = None
    sample: Sample | None = None

    @property
    def size(self) -> int:
        """Return the number of kernel values, features and distances computed per row."""
        return self.view.size + (0 if self.sample is None else self.sample.size)

    @property
    def gathered(self) -> int:
        """Return how many numbers of sparse points and of a sparse sample each row reads, however few its x has."""
        return self.view.gathered + (0 if self.sample is None else self.sample.gathered)

    @property
    def asking(self) -> View:
        """Return the view whose decision values choose questions: of a race, the view of the leader alone."""
        return self.view.leader if isinstance(self.view, MeanView) else self.view

    @property
    def known(self) -> tuple[str, ...]:
        """Return the names of the classes that the state knows."""
        return self.names[: len(self.labels)]

    def rows(self, inputs: Inputs) -> Rows:
        """Return a batch as rows for the view. Each x is encoded by itself."""
        dim, dtype = self.configuration.features.dim, self.configuration.dtype
        return self.reader.rows(inputs, self.kernel, dim, dtype)

    def seen(self, inputs: Inputs) -> tuple[Rows, Outside]:
        """Return (rows, outside): the batch of one request, in order, as rows for the view; and what lies outside
        everything learned.
        """
        dim, dtype = self.configuration.features.dim, self.configuration.dtype
        return self.reader.seen(inputs, self.kernel, dim, dtype)

    def decide(self, inputs: Inputs) -> Decided:
        """Decide on the batch of one request.

        Before the first example no class is known. During a warm-up, the most frequent class may be the only
        prediction.
        """
        if not self.labels:
            return self._unseen(inputs, UNKNOWN)
        if self.majority != UNKNOWN:
            return self._unseen(inputs, self.majority)
        rows, outside = self.seen(inputs)
        columns = self.view.decision(rows)
        numbers = numbers_of(columns, len(self.labels))
        sets = self._sets(columns, numbers)
        return Decided(columns, numbers, self.calibration(columns, numbers), outside, sets, self._novelty(inputs, rows))

    def _unseen(self, inputs: Inputs, number: int) -> Decided:
        """Return decisions without decision values."""
        m = len(inputs)
        columns, numbers = np.zeros((m, 0)), np.full(m, number, np.int32)
        sets, novelty = self._sets(columns, numbers), self._novelty(inputs)
        return Decided(columns, numbers, np.full(m, np.nan), sets=sets, novelty=novelty)

    def _novelty(self, inputs: Inputs, rows: Rows | None = None) -> Array | None:
        if self.configuration.novelty is None:
            return None
        if self.sample is None:
            return np.full(len(inputs), np.nan)
        return self.sample.compare(self.seen(inputs)[0] if rows is None else rows)[1]

    def _sets(self, columns: Array, numbers: Array) -> Array | None:
        return None if self.promise is None else self.promise.sets(columns, numbers)

    def scores(self, decided: Decided) -> list[dict[str, float]]:
        """Return the scores of each row, by class name."""
        return [dict(zip(self.names, scores, strict=False)) for scores in self.score_columns(decided).tolist()]

    def score_columns(self, decided: Decided) -> Array:
        """Return the scores as a matrix (m, classes), or (m, 0) before any class is known."""
        columns = decided.columns
        if columns.shape[1] == 1:
            columns = np.concatenate((0.0 - columns, columns), axis=1)[:, : len(self.labels)]
        return columns

    def class_probabilities(self, decided: Decided) -> Array | None:
        """Return the probabilities (m, classes) of all known classes. Return None while they are unknown."""
        found = self.calibration.classes(decided.columns)[:, : len(self.labels)] if decided.columns.shape[1] else None
        return None if found is None or np.isnan(found).any() else found

    def probabilities(self, decided: Decided, wanted: bool | Sequence[str] = True) -> list[dict[str, float | None]]:
        """Return the probabilities of each row, by class name; None where unknown.

        wanted: the names of some classes, or True for all known classes.
        """
        return self.named(self.class_probabilities(decided), decided.numbers.size, wanted)

    def named(self, chances: Array | None, count: int, wanted: bool | Sequence[str]) -> list[dict[str, float | None]]:
        """Return probabilities (count, classes) by class name, row by row; None where unknown, or if all are unknown.

        wanted: as in `probabilities`.
        """
        names = self.known
        if chances is None:
            return [dict.fromkeys(names if isinstance(wanted, bool) else wanted) for _ in range(count)]
        if isinstance(wanted, bool):
            return [dict(zip(names, row, strict=True)) for row in chances.tolist()]
        known = {name: number for number, name in enumerate(names)}
        places = [(name, known.get(name)) for name in wanted]
        return [{name: None if c is None else row[c] for name, c in places} for row in chances.tolist()]

    def intervals(self, decided: Decided, intervals: Intervals) -> list[dict[str, list[float] | None]]:
        """Return the intervals of the probabilities of each row, by class name; None where unknown."""
        found: list[dict[str, list[float] | None]] = [{} for _ in range(decided.numbers.size)]
        scores, places = self.score_columns(decided), {name: c for c, name in enumerate(self.known)}
        for name, interval in intervals.items():
            there = interval is not None and places[name] < scores.shape[1]
            ends = interval(scores[:, places[name]]).tolist() if interval is not None and there else [None] * len(found)
            for row, pair in zip(found, ends, strict=True):
                row[name] = pair
        return found

    def distances(self, columns: Array) -> Array:
        """Return |f(x)| (m,), NaN if fewer than two classes are known."""
        return distances(columns) if self.discerns else np.full(columns.shape[0], np.nan)

    def doubtful(self, columns: Array) -> Array:
        """Return (m,) whether |f(x)| < 1 + delta / 2. True if fewer than two classes are known."""
        return is_wanted(columns, self.view.delta) if self.discerns else np.ones(columns.shape[0], bool)

    @property
    def discerns(self) -> bool:
        """Return whether decision values distinguish classes."""
        return len(self.labels) > 1 and self.majority == UNKNOWN

    @classmethod
    def of(cls, learner: ModelLearner, position: int, examples: int, sample: Sample | None = None) -> Published:
        """Return the current state of a model's learner. position: its position in the log. examples: the number of
        examples learned so far. sample: as in the state.
        """
        encoder, metrics = learner.warmup.encoder, learner.metrics
        memory, promise = metrics.memory, metrics.promise
        return cls(
            view=learner.solver.view(),
            reader=encoder.reader() if encoder is not None else AS_THEY_CAME,
            kernel=learner.solver.kernel,
            configuration=learner.configuration,
            labels=tuple(learner.labels.labels) if examples else (),
            names=tuple(learner.labels.names),
            majority=learner.majority,
            # A sigmoid fitted to only a few scores is overconfident.
            calibration=metrics.calibration() if metrics.predicted >= CALIBRATED_MIN else UNCALIBRATED,
            position=position,
            examples=examples,
            costs=memory.table if memory is not None else None,
            chances=memory.chances() if memory is not None else None,
            promise=promise.limits(tuple(learner.labels.labels)) if promise is not None else None,
            sample=sample,
        )
