"""The interface of every solver. The service, the estimators and the benchmarks use it.

A solver learns micro-batches in order, returns decision values, saves and loads its state as arrays, and reports its
certificate. Everything is deterministic: the same calls lead to the same state, to the bit.

With up to two classes there is one column of coefficients (the second class is its positive side). With three or more
classes there is one column per class, one-versus-rest. Classes are numbered 0, 1, ... in the order in which `add_class`
announces them.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Lt

from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.parameters import check, rules_of
from hinged.solvers.core.reports import (
    Certificate,
    Contributions,
    Finish,
    FinishRound,
    PointScores,
    View,
    WholeFinish,
    untold,
)
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.states import BOUND_MAX, COUNT_MAX, State, StateReader
from hinged.solvers.core.weights import checked_weights, runs_of

Array = np.ndarray[Any, Any]

POINTS_MAX = 100_000
CACHE_BYTES = 256 * 2**20
CLASSES_MAX = 1024
UNBOUNDED = sys.maxsize


class PointsFull(ValueError):
    """The expansion already has points_max points."""


class Solver(ABC):
    """The base class of all solvers. It contains the kernel, the classes and the checks of a batch.

    C: upper bound of a coefficient, > 0. dim: number of features. points_max: maximum number of points. when_full: at
    points_max, "refuse" to learn (PointsFull), or "remove" the least useful points and continue. cache_bytes: memory of
    cached kernel rows, if the solver caches them. seed: seed of the random choices. dtype: precision of points and
    kernel values, float32 or float64.

    forgets: whether `drop` removes every effect of an example. In some solvers most examples do not become points but
    change the coefficients of other points; there `drop` removes only points. fades: whether `fade` is implemented.
    fading: whether learned examples may have faded. weight: weight of the examples being learned. heaviest: the largest
    weight of any example so far; 0 while every weight has been 1. seen (classes,): number of examples learned of each
    class, without dropped examples; 0 if a drop left no point of the class. costs (classes, classes): the cost of each
    answer (column) by true class (row), which a race may follow; None if unknown. The state does not contain the costs.
    """

    forgets: ClassVar[bool] = True
    fades: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    """Whether C bounds the coefficients. If not, a model has no parameter C."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse the first parameter value that the class does not allow (parameters.py)."""
        check(given, rules_of(cls))
        return super().__new__(cls)

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        C: Annotated[
            float, Gt(0), Lt(BOUND_MAX), "upper bound of a coefficient: the price of an error; usual: 0.1 to 100"
        ] = 1.0,
        points_max: Annotated[int, Ge(2), Lt(2**31), "maximum number of points"] = POINTS_MAX,
        when_full: Annotated[
            Literal["refuse", "remove"], 'at points_max: "remove" the least useful points, or "refuse" to learn'
        ] = "refuse",
        cache_bytes: int = CACHE_BYTES,
        seed: int = 0,
        dtype: type = np.float32,
    ) -> None:
        if not 0 < dim < 2**31:
            raise ValueError(f"dim must be from 1 to 2^31 - 1, got {dim}")
        if dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {dtype}")
        self.kernel = kernel
        self.dim = dim
        self.C = C
        self.points_max = points_max
        self.when_full = when_full
        self.cache_bytes = cache_bytes
        self.dtype = dtype
        self.fading = False
        self.random = np.array([seed], np.uint64)
        self.seen = np.zeros(0, np.int64)
        self.weights = np.zeros(0)
        self.weight, self.heaviest = 1.0, 0.0
        self.costs: Array | None = None

    # -- classes --------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> int:
        """Number of classes announced."""
        return int(self.seen.size)

    @property
    def columns(self) -> int:
        """Number of columns of coefficients: 0 without a class, 1 for up to two classes, else one per class."""
        return columns_of(self.classes)

    @property
    def factors(self) -> Array:
        """Factor of C for an example being learned, by class: the class weight times the example's own weight."""
        return self.weights * self.weight

    @property
    def class_bounds(self) -> Array:
        """C times the weight of each class."""
        return self.C * self.weights

    @property
    def bounds(self) -> Array:
        """Bound of the examples being learned, by class: C times the class weight times the example's own weight."""
        return self.class_bounds * self.weight

    @property
    def C_max(self) -> float:
        """The largest C that the solver may use."""
        return self.C

    def add_class(self, weight: float = 1.0) -> None:
        """Announce another class; its examples may be learned from now on. Their bound is C times `weight`."""
        if not (self.C * weight > 0 and self.C_max * weight < BOUND_MAX):
            raise ValueError(
                f"C times the weight of a class must be > 0 and < {BOUND_MAX:g}, got {self.C_max} * {weight}"
            )
        classes = self.classes + 1
        if classes > CLASSES_MAX:
            raise ValueError(f"at most {CLASSES_MAX} classes, got {classes}")
        if columns_of(classes) > self.columns:
            self._add_columns(classes)
        self.seen = np.append(self.seen, 0)
        self.weights = np.append(self.weights, weight)

    @abstractmethod
    def _add_columns(self, classes: int) -> None:
        """Widen the arrays to the columns of `classes` classes, before `seen` and `weights` include the new class.

        When one column becomes three, the second class keeps the column, and the first gets its negation. The column of
        a new class starts at zero for all points.
        """

    # -- learning -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def live(self) -> int:
        """Number of points."""

    @property
    def room(self) -> int:
        """Number of examples that fit before points_max is reached; UNBOUNDED if points are removed automatically."""
        return UNBOUNDED if self.when_full == "remove" else self.points_max - self.live

    @property
    def full_at(self) -> int:
        """Number of points at which a point must be removed for the next example.

        UNBOUNDED if the solver refuses further examples instead.
        """
        return self.points_max if self.when_full == "remove" else UNBOUNDED

    def check_batch(self, rows: Rows, classes: Array, keys: Array, announced: int | None = None) -> None:
        """Refuse a batch that does not fit this solver, before anything changes.

        announced: number of classes when the batch will be learned; None for the current number.
        """
        known = self.classes if announced is None else announced
        if rows.dim != self.dim:
            raise ValueError(f"rows must have {self.dim} features, got {rows.dim}")
        if rows.values.dtype != self.dtype:
            raise ValueError(f"rows must be {np.dtype(self.dtype).name}, got {rows.values.dtype}")
        if not rows.fits(self.kernel, self.dtype):
            raise ValueError(f"rows must have norms and k(x, x) of {self.kernel}, got rows for {rows.measure}")
        if classes.shape != (len(rows),):
            raise ValueError(f"classes must be one for each of {len(rows)} rows, got {classes.shape}")
        if classes.size and not (classes.min() >= 0 and classes.max() < known):
            raise ValueError(f"classes must be from 0 to {known - 1}, got {classes.min()} to {classes.max()}")
        if keys.shape != classes.shape:
            raise ValueError(f"keys must be one for each of {len(rows)} rows, got {keys.shape}")
        # In a further epoch, examples that are points already need no place.
        if len(rows) > self.room and (coming := int(np.isin(keys, self.keys(), invert=True).sum())) > self.room:
            raise PointsFull(
                f"holds {self.live} points of at most {self.points_max}; {coming} more examples may not fit"
            )

    @abstractmethod
    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Learn a batch in order; return the decision values (m, K) of each row just before it was learned.

        classes (m,): class numbers. keys (m,): numbers of the examples, all different. With `again`, the batch belongs
        to a further epoch: examples that are points already are recognised by their keys and not added twice. Raises
        ValueError (PointsFull) before anything changes.
        """

    @property
    def keeps_answers(self) -> bool:
        """Whether `learn_late` uses what `answers` returned when the example was predicted."""
        return False

    def answers(self, rows: Rows) -> list[bytes]:
        """Return for each row what `learn_late` will need when the label comes, in a form of the solver's own."""
        return [b""] * len(rows)

    def learn_late(
        self,
        rows: Rows,
        classes: Array,
        keys: Array,
        asked: Sequence[bytes | None],  # noqa: ARG002  a race reads it
        weights: Array | None = None,
    ) -> Array:
        """Learn a batch (`learn`). asked (m,): what `answers` returned when the row was predicted; None if it was not.

        A solver that keeps no answers ignores them. Any bytes are allowed, because an imported state may contain any.
        weights (m,): as in `learn_weighted`; None if each is 1.
        """
        if weights is None:
            return self.learn(rows, classes, keys)
        return self.learn_weighted(rows, classes, keys, weights)

    def learn_weighted(self, rows: Rows, classes: Array, keys: Array, weights: Array, *, again: bool = False) -> Array:
        """Learn a batch (`learn`) with a weight (m,) > 0 for each row: a factor of its C.

        A solver without C multiplies its steps by the weight, in the same way as by a class weight.
        """
        weights = self.check_weights(weights, len(rows))
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        return self._learn_weighted(rows, classes, keys, weights, again=again)

    def check_weights(self, weights: Array, count: int) -> Array:
        """Return the weights of `count` examples. Refuse invalid weights before anything changes."""
        bounds = self.C * self.weights.min(initial=1.0), self.C_max * self.weights.max(initial=0.0)
        return checked_weights(weights, count, bounds, BOUND_MAX)

    def _learn_weighted(self, rows: Rows, classes: Array, keys: Array, weights: Array, *, again: bool) -> Array:
        """Learn runs of equal weights.

        A solver that learns row by row gives the same result for any split into batches.
        """
        return self._by_runs(
            rows, weights, lambda part, run: self._learn_run(part, classes[run], keys[run], again=again)
        )

    def _by_runs(self, rows: Rows, weights: Array, learn: Callable[[Rows, slice], Array]) -> Array:
        """Call `learn` with the rows of each run of equal weight, and return the decision values of all rows."""
        scores = np.empty((len(rows), self.columns))

        def learn_run(run: slice) -> None:
            scores[run] = learn(rows.part(run.start, run.stop), run)

        self._in_runs(weights, learn_run)
        return scores

    def _learn_run(self, rows: Rows, classes: Array, keys: Array, *, again: bool) -> Array:
        """Learn rows that all have the weight `self.weight`."""
        return self.learn(rows, classes, keys, again=again)

    def _in_runs(self, weights: Array, learn: Callable[[slice], None]) -> None:
        """Call `learn` for each run of rows with equal weight.

        During a call, `self.weight` is the weight of the run.
        """
        for run in runs_of(weights):
            with self._weighing(float(weights[run.start])):
                learn(run)

    @contextmanager
    def _weighing(self, weight: float) -> Iterator[None]:
        """Give the examples learned within this context this weight."""
        self.weigh(weight)
        try:
            yield
        finally:
            self.weigh(1.0)

    def weigh(self, weight: float) -> None:
        """Give the examples learned from now on this weight."""
        self.weight = weight
        if weight != 1.0:
            self.heaviest = max(self.heaviest, weight)

    def finish(self) -> Finish:
        """Optimise over all points until no violation exceeds the tolerance, if the solver can do so."""
        return Finish(0, converged=True)

    @property
    def reads_whole(self) -> bool:
        """Whether `finish_over` now reads its data set."""
        return False

    def finish_over(
        self,
        rows: Rows,  # noqa: ARG002  a solver that drops points reads the data set
        classes: Array,  # noqa: ARG002
        keys: Array,  # noqa: ARG002
        weights: Array | None = None,  # noqa: ARG002
        told: Callable[[FinishRound], None] = untold,  # noqa: ARG002
    ) -> WholeFinish:
        """Finish over a data set that was learned before. The solver may hold only a part of its examples as points.

        classes, keys (m,): as in `learn`. weights (m,) > 0: as in `learn_weighted`; None if each is 1. told: called
        after each round. A solver that cannot bring back the other examples finishes over its points.
        """
        return WholeFinish(*self.finish(), missing=0)

    @abstractmethod
    def drop(self, keys: Array) -> None:
        """Remove the points of these examples and re-optimise over the rest. Ignore keys without a point.

        Many keys at once take less time than one by one. A merged point is removed if its newest example is among the
        keys. No state contains anything of a dropped example. The memory of its slots may still contain it until the
        next `compact`.
        """

    def fade(self, factor: float) -> None:
        """Multiply the weight of everything learned so far by `factor`, 0 < factor <= 1.

        Allowed only if `fades` is true.

        The bound C of each example shrinks, and its coefficient shrinks with it. New examples get the full bound.
        """
        check_fade(factor, fades=self.fades)

    def compact(self) -> None:  # noqa: B027  nothing to do without points
        """Release the memory of removed points."""

    # -- reading --------------------------------------------------------------------------------------------------

    @abstractmethod
    def view(self) -> View:
        """Return the state in a form that predictions can read while learning continues."""

    def decision(self, rows: Rows) -> Array:
        """Return the decision values (m, K) of a batch, with the current state."""
        return self.view().decision(rows)

    def keys(self) -> Array:
        """Return the numbers of the points' examples; empty for a solver without points."""
        return np.zeros(0, np.int64)

    def row_of(self, key: int) -> Rows | None:  # noqa: ARG002  a solver with points reads it
        """Return the point of an example as a batch of one row, or None if there is no such point."""
        return None

    def weight_of(self, key: int) -> float:  # noqa: ARG002  a solver with boxes reads it
        """Return the example's own weight, without its class weight, if the solver still stores it; else 1."""
        return 1.0

    def indices(self, keys: Array) -> Array:  # noqa: ARG002  a solver with points reads them
        """Return the features of the points of these examples, each feature at least once."""
        return np.zeros(0, np.int32)

    def contributions(self, rows: Rows) -> Contributions | None:  # noqa: ARG002  a solver with points reads them
        """Return the contribution of each point to the decision values of a batch of one row; None without points."""
        return None

    def p_values(self, rows: Rows) -> Array | None:  # noqa: ARG002  a solver that unlearns exactly computes them
        """Return the p-values (m, classes) of full conformal prediction; None for a solver that has none."""
        return None

    def point_scores(self) -> PointScores | None:
        """Return the decision values at all points; None for a solver without points."""
        return None

    def known(self) -> Array:
        """Return the numbers of all examples that the solver stores, as points or otherwise."""
        return self.keys()

    @property
    def converged(self) -> bool | None:
        """Whether the solver is at its optimum; False if it reached its limit of steps first.

        None for a solver that does not optimise after every batch.
        """
        return None

    @property
    def discarded(self) -> Array | None:
        """The number of examples of each class that a ramp dropped, (classes, 2); None without a ramp.

        The columns are the examples on the wrong side, and the examples that were already right.
        """
        return None

    def arms_in_figures(self) -> list[dict[str, Any]] | None:
        """Return setting and results of each arm of a race; None for a solver that is not a race."""
        return None

    @abstractmethod
    def certificate(self) -> Certificate:
        """Report how near the optimum the solver is: `certificate_of` with the fields that the solver can compute."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """Return the memory of all arrays, in bytes."""

    # -- state ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def state(self) -> State:
        """Return everything that the next prediction or update depends on, as arrays."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """

    def examine(self) -> None:
        """Refuse (ValueError) a consistent state that learning cannot reach.

        This recomputes derived arrays; for large arrays it recomputes only a sample. `load` cannot do this check,
        because it must accept the rounding errors of a long stream.
        """
        if self.live > self.points_max:
            raise ValueError(f"the state holds {self.live} points of at most {self.points_max}")

    def _read_seen(self, checked: StateReader) -> tuple[Array, Array]:
        """Read `seen` and `weights` from a state."""
        seen = checked.take("seen", np.int64, (None,), 0, COUNT_MAX)
        if seen.size > CLASSES_MAX:
            raise ValueError(f"at most {CLASSES_MAX} classes, got {seen.size}")
        weights = checked.take("weights", np.float64, (seen.size,), 0.0, BOUND_MAX)
        if not ((self.C * weights > 0) & (self.C_max * weights < BOUND_MAX)).all():
            raise ValueError(f"C times weights must be > 0 and < {BOUND_MAX:g}, got {self.C_max} * {weights}")
        return seen, weights


def check_fade(factor: float, *, fades: bool) -> None:
    """Refuse an invalid factor, or a solver that cannot fade."""
    if not fades:
        raise ValueError("this solver cannot let what it has learned fade")
    if not 0.0 < factor <= 1.0:
        raise ValueError(f"factor must be > 0 and <= 1, got {factor}")


def seen_without(seen: Array, gone: Array, left: Array) -> Array:
    """Return `Solver.seen` after a drop. gone, left (classes,): number of points dropped, and of points that stay."""
    return np.where(left > 0, np.maximum(seen - gone, 1), 0)


def class_numbers(scores: Array, classes: int) -> Array:
    """Return the class numbers (...,) int32 of decision values (..., K), K >= 1: the largest value wins.

    With one column, a positive value means the second class.
    """
    if scores.shape[-1] == 1:
        return np.asarray(((scores[..., 0] > 0) & (classes > 1)).astype(np.int32))
    return np.asarray(scores.argmax(axis=-1).astype(np.int32))


def columns_of(classes: int) -> int:
    """Return the number of columns of coefficients for this number of classes."""
    return min(classes, 1) if classes <= 2 else classes
