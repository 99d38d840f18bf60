"""Learners: the warm-up, solver and metrics of one configuration, which learn the batches of a log.

A model has a learner that predicts. A model may also have challengers (shadows), which learn the same examples. If the
solver cannot make a change in place, a new learner is trained from the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from hinged.frames import part, prefixed
from hinged.service.data.classes import Label, Labels
from hinged.service.data.configuration import read_configuration
from hinged.service.data.features.reader import AS_THEY_CAME, Reader, Reading
from hinged.service.data.inputs import Inputs, join_inputs
from hinged.service.data.parts import Configuration
from hinged.service.model.dataset import DataSet, some_of
from hinged.service.model.metrics import UNKNOWN, Prequential
from hinged.service.model.predictions import numbers_of, together
from hinged.service.model.warmup import WarmUp
from hinged.service.model.window import Ages, Left
from hinged.solvers.core.reports import WholeFinish
from hinged.solvers.core.rows import Rows, rows_from_csr
from hinged.solvers.core.solver import UNBOUNDED, PointsFull, Solver
from hinged.solvers.core.states import BOUND_MAX
from hinged.solvers.core.weights import checked_weights
from hinged.solvers.dual.exact import ExactSVM
from hinged.solvers.warm import wait_for_rest

if TYPE_CHECKING:  # it imports this module
    from hinged.service.model.events.learning import ExamplesLearned, TrainingFinished

Array = np.ndarray[Any, Any]
Part = tuple[Array, Array]
"""One part of a batch: decision values (m, K) from just before each example was learned, and predicted classes (m,)."""

DROPPED_MAX = 2**16
"""Maximum number of example numbers in a list of examples to drop, 8 bytes each. If the range is longer, the list
contains only the numbers of examples in the solver.
"""

ANSWERED = 512
"""Number of predictions whose answers are computed at once. A larger number needs more memory at a time."""

Epoch: TypeAlias = "Callable[[], Iterator[ExamplesLearned]]"
"""A function that returns all learned batches of the log before an event, in order, so that a further epoch can learn
them.
"""


class ModelLearner:
    """A learner with one configuration. The learner's state depends only on its inputs and their order."""

    def __init__(
        self, configuration: Configuration, cache_bytes: int, *, gamma: float = 1.0, labels: Labels | None = None
    ) -> None:
        """labels: the labels of a state that will be loaded. A new learner takes them from the configuration."""
        self.configuration = configuration
        self.cache_bytes = cache_bytes
        self.warmup = WarmUp(configuration)
        self.learned = 0
        self.gamma = gamma  # the value of gamma that was found for gamma "scale"
        self.solver = configuration.build_solver(cache_bytes, gamma)
        self.labels = Labels() if labels is None else labels
        self.metrics = Prequential(choosing=configuration.chooses)
        self.metrics.configure(configuration, self.labels.names)
        self.ages = Ages(configuration.window, configuration.half_life)
        self.stopped: str | None = None  # why a challenger no longer learns
        if labels is None:
            for label in configuration.classes or ():
                self.add_class(label)

    def add_class(self, label: Label) -> None:
        """Add a class for a new label."""
        self.labels.add(label)
        self.solver.add_class(self.configuration.weight_of(label))
        self.metrics.add_class(self.labels.names[-1])

    @property
    def room(self) -> int:
        """Return the number of examples that may still come before points_max is reached, even if the warm-up is
        learned again.
        """
        if self.warmup.active and self.solver.room < UNBOUNDED:
            return self.solver.points_max - self.warmup.labelled
        return self.solver.room

    @property
    def exact(self) -> bool:
        """Return whether examples and parameters can be changed in place with the same result as if they had always
        been so.
        """
        return isinstance(self.solver, ExactSVM) and self.warmup.encoder is None

    # -- learning -------------------------------------------------------------------------------------------------

    def answers(self, batches: Sequence[Inputs]) -> list[bytes] | None:
        """Return for each x what `learn` needs as `asked` when its label comes. None if the solver needs nothing, or as
        long as the warm-up may replace the solver.
        """
        if not batches or not self.solver.keeps_answers or self.warmup.active:
            return None
        found: list[bytes] = []
        for begin in range(0, len(batches), ANSWERED):
            inputs = join_inputs([self.rows(x) for x in batches[begin : begin + ANSWERED]])
            found += self.solver.answers(self._reading()(inputs))
        return found

    def learn(self, event: ExamplesLearned, asked: Sequence[bytes | None] | None = None) -> Iterator[Part]:
        """Learn a batch part by part. Between the parts, older examples fade, or leave the window.

        asked: for each example, what `answers` returned when the example was predicted, and None if its label was not
        awaited. The whole is None if no label was awaited.
        """
        self._fade(self.ages.fading_until(event.at_ms))
        self._drop(self.ages.older_than(event.at_ms))
        begin, keys = 0, event.keys
        while begin < keys.size:
            end = self.ages.end_of_part(keys, begin)
            first, last = int(keys[begin]), int(keys[end - 1])
            self._fade(self.ages.fading_to(first))
            yield from self._learn_part(event.part(begin, end), None if asked is None else asked[begin:end])
            self.learned += end - begin
            self._fade(self.ages.fading_to(last + 1))
            self._drop(self.ages.add(last, event.at_ms))
            begin = end

    def _learn_part(self, event: ExamplesLearned, asked: Sequence[bytes | None] | None) -> Iterator[Part]:
        begin, m = 0, len(event.ids)
        while begin < m:
            end = min(begin + (self.warmup.until_freeze or m), m)
            inputs = event.inputs if end - begin == m else event.inputs.part(begin, end)
            classes, keys = event.classes[begin:end], event.keys[begin:end]
            weights = None if event.weights is None else event.weights[begin:end]
            if not self.warmup.begun:
                yield np.zeros((end - begin, 0)), self._majorities(classes)
            else:
                then = None if asked is None else asked[begin:end]
                first = self.learned + begin == 0
                yield from self._learn_rows(self._encoded(inputs), classes, keys, weights, then, first=first)
            if self.warmup.active and self.warmup.observe(inputs, classes, keys, event.ids[begin:end], weights):
                self._freeze()
            begin = end

    def offer(self, inputs: Inputs, ids: Sequence[str]) -> None:
        """Offer candidates without labels to the warm-up. The warm-up takes only as many as it needs. Raise ValueError
        for an x that does not fit.
        """
        if self.warmup.active and self.stopped is None:
            self.warmup.offer(self.rows(inputs), ids, self._freeze)

    def foresee(self, ids: Sequence[str], xs: Sequence[Inputs]) -> None:
        """Offer x that are no candidates to the warm-up if the configuration has novelty: labels may never come."""
        if ids and self.configuration.novelty is not None and self.warmup.active:
            self.offer(join_inputs(xs), ids)

    def _learn_rows(
        self,
        rows: Rows,
        classes: Array,
        keys: Array,
        weights: Array | None,
        asked: Sequence[bytes | None] | None,
        *,
        first: bool,
    ) -> Iterator[Part]:
        columns = self._taught(rows, classes, keys, weights, asked=asked)
        numbers = numbers_of(columns, len(self.labels))
        begin = 0
        if keys.size and first:
            # Before the first example nothing is known, even if classes were declared.
            yield np.zeros((1, 0)), np.full(1, UNKNOWN, np.int32)
            begin = 1
        yield columns[begin:], numbers[begin:]

    def _taught(
        self,
        rows: Rows,
        classes: Array,
        keys: Array,
        weights: Array | None,
        *,
        asked: Sequence[bytes | None] | None = None,
        again: bool = False,
    ) -> Array:
        """Teach the solver rows, and return the decision values. weights: None if each is 1. asked: as in `learn`."""
        if weights is not None:
            # Copy: arrays from a log are read-only, and numba would compile another version for them.
            weights = weights.copy()
        if (memory := self.metrics.memory) is not None:
            self.solver.costs = memory.costs_of_answers()
        if asked is not None:
            return self.solver.learn_late(rows, classes, keys, asked, weights)
        if weights is None:
            return self.solver.learn(rows, classes, keys, again=again)
        return self.solver.learn_weighted(rows, classes, keys, weights, again=again)

    def check_weights(self, weights: Array) -> None:
        """Raise ValueError for weights of examples that the solver would refuse, whatever the examples' classes."""
        solver, factors = self.solver, [1.0, *(self.configuration.class_weight or {}).values()]
        solver.check_weights(weights, weights.size)
        checked_weights(weights, weights.size, (solver.C * min(factors), solver.C_max * max(factors)), BOUND_MAX)

    def follow(self, event: ExamplesLearned) -> None:
        """Learn a batch that was read for a different learner. Count the predictions made just before each example.

        Raise ValueError, before anything changes, if an example does not fit this kernel, or if the points would exceed
        points_max.
        """
        event = event.with_inputs(self.rows(event.inputs))
        if len(event.ids) > self.room:
            raise PointsFull(f"holds {self.solver.live} points of at most {self.solver.points_max}")
        begin = 0
        for columns, numbers in together(self.learn(event)):
            end = begin + numbers.size
            counted = numbers if columns.shape[1] else np.full(numbers.size, UNKNOWN, np.int32)
            self.metrics.add(
                columns, counted, event.classes[begin:end], event.sources[begin:end], event=event, begin=begin
            )
            begin = end

    def challenge(self, event: ExamplesLearned) -> None:
        """Follow a batch. If that fails, stop for good and keep the reason."""
        if self.stopped is None:
            try:
                self.follow(event)
            except ValueError as error:
                self.stopped = str(error)

    def finish(self, event: TrainingFinished, epoch: Epoch | None) -> WholeFinish:
        """Learn the log for a number of further epochs, then run the finishing step."""
        if self.warmup.active and self.warmup.labelled:
            self._freeze()
        # Where examples fade, an epoch would bring back the examples that have left, with full weight. Finishing
        # optimises only over the current points.
        epochs = event.epochs if self.configuration.half_life is None else 0
        self._wait_for_kernels()
        found = DataSet()
        for left in reversed(range(epochs)):
            collects = left == 0 and event.whole and self.solver.reads_whole
            for rows, batch in self._read_again(epoch):
                # Learn dropped examples again while the solver has fewer than points_max points, unless they are old.
                held, young = np.isin(batch.keys, self.solver.keys()), batch.keys > self.ages.dropped
                fits = (held | (np.cumsum(~held) <= self.solver.room)) & young
                self._taught(*some_of(rows, batch, fits), again=True)
                if collects:
                    found.add(some_of(rows, batch, young), self.solver.columns)
        whole = found.joined()
        return WholeFinish(*self.solver.finish(), missing=0) if whole is None else self.solver.finish_over(*whole)

    def _wait_for_kernels(self) -> None:
        """Wait until all functions of the solver are compiled, even the functions that a new model does not need. This
        happens only in the first seconds on a machine.
        """
        wait_for_rest(self.configuration.solver, self.configuration.dtype)

    def _read_again(self, epoch: Epoch | None) -> Iterator[tuple[Rows, ExamplesLearned]]:
        """Yield each batch of the log, with its rows."""
        assert epoch is not None  # noqa: S101  an event with epochs is always applied with the log
        with self.warmup.encoder.from_the_first() if self.warmup.encoder is not None else nullcontext():
            for event in epoch():
                yield self._encoded(self.rows(event.inputs)), event

    def takes(self, inputs: Inputs) -> bool:
        """Return whether a batch has the form that the configuration needs."""
        return self.configuration.features.is_fit(inputs, self.configuration)

    def rows(self, inputs: Inputs) -> Inputs:
        """Return rows in the form that the configuration needs. Records stay unchanged. Raise BadRow for a row that is
        too big.
        """
        return self.configuration.features.fit(inputs, self.configuration)

    # -- unlearning -----------------------------------------------------------------------------------------------

    def _drop(self, left: Left) -> None:
        if left and not self.warmup.active:
            self._drop_from(left)

    def _fade(self, factor: float) -> None:
        if factor < 1.0 and not self.warmup.active:
            self._wait_for_kernels()
            self.solver.fade(factor)

    def _drop_from(self, left: Left) -> None:
        """Drop the examples with these numbers. If the range is long, drop only examples in the solver."""
        self._wait_for_kernels()
        if len(left) <= DROPPED_MAX:
            self.solver.drop(np.arange(left.start, left.stop))
            return
        known = np.unique(self.solver.known())
        self.solver.drop(known[(known >= left.start) & (known < left.stop)])

    def forget(self, keys: Sequence[int]) -> None:
        """Remove the points of these examples. If the learner is `exact`, the result is as if they had never been
        learned.
        """
        gone = np.array(keys, np.int64)
        if self.warmup.active:
            self._leave_out(np.flatnonzero(np.isin(self.warmup.keys, gone)))
        self._wait_for_kernels()
        self.solver.drop(gone)
        self.solver.compact()

    def forget_candidates(self, ids: Collection[str]) -> None:
        """Remove candidates from the warm-up while it is active."""
        places = [place for place, given in enumerate(self.warmup.ids) if given in ids]
        if places:
            self._leave_out(np.array(places))

    def _leave_out(self, places: Array) -> None:
        self.warmup.leave_out(places)
        if self.warmup.begun:  # the columns must forget the words of these candidates
            self._freeze()

    def relabel(self, key: int, number: int) -> None:
        """Give an example a different class, with an exact result. Only possible if the learner is `exact`. Do nothing
        if the example is not a point.
        """
        assert isinstance(self.solver, ExactSVM)  # noqa: S101
        if np.isin(key, self.solver.keys()):
            self.solver.relabel(key, number)

    def learn_again(self, key: int, number: int) -> None:
        """Drop the point of an example, if there is one, and learn the example with this class. Use this method if the
        log no longer contains the example.
        """
        self.warmup.classes[self.warmup.keys == key] = number
        held, weight = self.solver.row_of(key), self.solver.weight_of(key)
        if held is not None:
            self._wait_for_kernels()
            self.solver.drop(np.array([key]))
            own = None if weight == 1.0 else np.array([weight])
            self._taught(held, np.array([number], np.int32), np.array([key]), own)

    def forget_words(self, key: int, x: Inputs | None) -> None:
        """Forget the names and values of features that only this example has. Call this before the example is dropped.

        x: the example's x, if known. The x is only needed if the log no longer has it.
        """
        encoder = self.warmup.encoder
        if encoder is None or not encoder.HAS_WORDS or encoder.warming:
            return
        held = self.solver.row_of(key)
        own = set(held.indices.tolist()) if held is not None else set()
        if x is not None:
            own |= encoder.columns_of(x)
        others = np.isin(self.solver.keys(), [key], invert=True)
        encoder.forget(own - set(self.solver.indices(self.solver.keys()[others]).tolist()))

    def forget_strange_words(self, candidates: Inputs | None) -> None:
        """Forget the names and values of features that neither a point nor one of these candidates has.

        Use this for a forgotten candidate if nothing else about it is known any more.
        """
        encoder = self.warmup.encoder
        if encoder is None or not encoder.HAS_WORDS or encoder.warming:
            return
        held = set(self.solver.indices(self.solver.keys()).tolist())
        if candidates is not None:
            held |= encoder.columns_of(candidates)
        encoder.forget_but(held)

    def reconfigure(self, configuration: Configuration) -> None:
        """Adopt a new configuration of the same solver in place. If the learner is `exact`, C, the weights and the
        kernel may change as well.
        """
        if isinstance(self.solver, ExactSVM):
            kernel = configuration.kernel.build(self.gamma)
            if kernel != self.solver.kernel:
                self.solver.change_kernel(kernel)
            weights = [configuration.weight_of(label) for label in self.labels.labels]
            C = float(configuration.parameters["C"])
            if C != self.solver.C or weights != self.solver.weights.tolist():
                self.solver.change_C(C, weights)
        self.configuration = configuration
        self.metrics.configure(configuration, self.labels.names)

    # -- the warm-up ----------------------------------------------------------------------------------------------

    @property
    def majority(self) -> int:
        """Return the most frequent class during the warm-up, as long as no better prediction is possible; otherwise
        UNKNOWN.
        """
        if self.warmup.begun:
            return UNKNOWN
        classes = self._warm_classes
        return int(np.bincount(classes).argmax()) if classes.size else UNKNOWN

    @property
    def _warm_classes(self) -> Array:
        return self.warmup.classes[self.warmup.learned]

    def _majorities(self, classes: Array) -> Array:
        """Return the most frequent class just before each of these examples."""
        counts = np.bincount(self._warm_classes, minlength=len(self.labels))
        found = np.full(classes.size, UNKNOWN, np.int32)
        for r, number in enumerate(classes):
            if counts.any():
                found[r] = counts.argmax()
            counts[number] += 1
        return found

    def _encoded(self, inputs: Inputs) -> Rows:
        dim, dtype = self.configuration.features.dim, self.configuration.dtype
        encoder = self.warmup.encoder
        return cast("Rows", inputs) if encoder is None else encoder.rows(inputs, self.solver.kernel, dim, dtype)

    @property
    def reading(self) -> Reading | None:
        """Return the function that reads a batch, once the warm-up has found columns. The columns stay as they are."""
        return self._reading() if self.warmup.begun else None

    def _reading(self) -> Reading:
        reader: Reader[Any] = AS_THEY_CAME if self.warmup.encoder is None else self.warmup.encoder.reader()
        return Reading(reader, self.solver.kernel, self.configuration.features.dim, self.configuration.dtype)

    def _freeze(self) -> None:
        """Fix the columns according to what the warm-up has observed so far, and learn the observed examples again."""
        csr, places, classes, keys, weights = self.warmup.freeze()
        self.gamma = self.warmup.gamma(self.configuration)
        self.solver = self._new_solver()
        rows = rows_from_csr(*csr, self.solver.kernel, self.configuration.features.dim, self.configuration.dtype)
        if keys.size:
            self._taught(rows.take(places) if self.warmup.candidates else rows, classes, keys, weights)
        if self.ages.dropped:
            self._drop_from(range(1, self.ages.dropped + 1))

    def _new_solver(self) -> Solver:
        solver = self.configuration.build_solver(self.cache_bytes, self.gamma)
        for label in self.labels.labels:
            solver.add_class(self.configuration.weight_of(label))
        return solver

    @property
    def gamma_used(self) -> float | None:
        """Return the kernel's gamma, whether given or found. None for a linear kernel."""
        return None if self.configuration.gamma is None else float(self.solver.kernel.gamma)

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts and arrays."""
        facts: dict[str, Any] = {
            "configuration": self.configuration.model_dump(mode="json"),
            "learned": self.learned,
            "gamma": self.gamma,
            "labels": self.labels.labels,
            "stopped": self.stopped,
        }
        warm, arrays = self.warmup.state()
        states: dict[str, dict[str, Array]] = {
            "solver": self.solver.state(),
            "metrics": self.metrics.state(),
            "ages": self.ages.state(),
        }
        for prefix, state in states.items():
            arrays |= prefixed(f"{prefix}.", state)
        return facts | warm, arrays

    def copy(self) -> ModelLearner:
        """Return a new learner with the same state."""
        facts, arrays = self.state()
        # restore copies the arrays.
        return ModelLearner.restore(json.loads(json.dumps(facts)), arrays, self.cache_bytes)

    @classmethod
    def restore(cls, facts: dict[str, Any], arrays: dict[str, Array], cache_bytes: int) -> ModelLearner:
        """Return the learner of a state. Raise ValueError if the state is inconsistent."""
        configuration, gamma, labels = read_configuration(facts["configuration"]), facts["gamma"], Labels()

        for label in facts["labels"]:
            labels.add(label)
        warmup = WarmUp(configuration)
        warmup.load(facts, arrays, len(labels))
        if gamma not in warmup.gammas(configuration):
            raise ValueError(f"gamma must be a value that the warm-up gives, got {gamma}")
        learner = cls(configuration, cache_bytes, gamma=gamma, labels=labels)
        learner.warmup, learner.learned, learner.stopped = warmup, facts["learned"], facts["stopped"]
        solver, C, kernel = learner.solver, learner.solver.C, learner.solver.kernel
        solver.load(part(arrays, "solver."))
        if (solver.C, solver.kernel) != (C, kernel):
            raise ValueError(
                f"the solver has C = {solver.C} and {solver.kernel}, but its configuration {C} and {kernel}"
            )
        if solver.weights.tolist() != [learner.configuration.weight_of(label) for label in learner.labels.labels]:
            raise ValueError("the solver's class weights differ from its configuration")
        learner.metrics.load(part(arrays, "metrics."))
        learner.ages.load(part(arrays, "ages."))
        for what, classes in (("classes", learner.solver.classes), ("classes of metrics", learner.metrics.classes)):
            if classes != len(learner.labels):
                raise ValueError(f"the snapshot has {len(learner.labels)} labels for {classes} {what}")
        return learner

    def numbers(self) -> Array:
        """Return the numbers of all examples that the learner contains in any form, or that have left its window."""
        left = [self.ages.newest] if self.ages.newest else []
        found = [self.solver.known(), self.warmup.keys[self.warmup.learned], np.array(left, np.int64)]
        segments = self.metrics.segments
        return np.concatenate(found if segments is None else [*found, segments.numbers])
