"""The interface that every solver has: the service, the estimators and the benchmarks rely on it.

A solver learns micro-batches in order, returns decision values, saves and loads its state as arrays, and reports its
certificate. Everything is deterministic: the same calls give the same state to the bit.

With up to two classes there is one column of coefficients (the second class is its positive side). With three or more
classes there is one column per class, one-versus-rest. Classes are numbered 0, 1, ... in the order in which `add_class`
announces them.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Lt

from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.parameters import check, rules_of
from hinged.solvers.core.reports import Certificate, Contributions, Finish, PointScores, View
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.states import BOUND_MAX, COUNT_MAX, State, StateReader
from hinged.solvers.core.weights import checked_weights, runs_of

Array = np.ndarray[Any, Any]

POINTS_MAX = 100_000
CACHE_BYTES = 256 * 2**20
CLASSES_MAX = 1024
UNBOUNDED = sys.maxsize


class PointsFull(ValueError):
    """The expansion already holds as many points as it may."""


class Solver(ABC):
    """The base of all solvers: kernel, classes, checks of a batch.

    C: upper bound of a coefficient, > 0. dim: number of features. points_max: points it may hold. when_full: at
    points_max "refuse" to learn (PointsFull), or "remove" the least useful points and go on. cache_bytes: memory of
    cached kernel rows, where the solver caches them. seed: of its random choices. dtype: precision of points and kernel
    values, float32 or float64.

    forgets: whether `drop` takes out all that an example has taught. In a solver where most examples become no point
    but move the coefficients of other points, `drop` takes out only points. fades: whether `fade` works. fading:
    whether a state may have faded. weight: of the examples being learned. heaviest: the largest weight that an example
    has had, 0 while all have weighed 1. seen (classes,): examples learned of each class, less those dropped; 0 where a
    drop left no point of the class.
    """

    forgets: ClassVar[bool] = True
    fades: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    """Whether C bounds the coefficients. If not, C is not among the parameters of a model."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse the first parameter that the class does not allow (parameters.py)."""
        check(given, rules_of(cls))
        return super().__new__(cls)

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        C: Annotated[float, Gt(0), Lt(BOUND_MAX), "upper bound of a coefficient: the price of an error"] = 1.0,
        points_max: Annotated[int, Ge(2), Lt(2**31), "points that may be held"] = POINTS_MAX,
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

    # -- classes --------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> int:
        """Number of classes announced."""
        return int(self.seen.size)

    @property
    def columns(self) -> int:
        """Columns of coefficients: 0 without a class, 1 for up to two classes, else one per class."""
        return columns_of(self.classes)

    @property
    def factors(self) -> Array:
        """Factor of C of an example being learned, by class: the weight of the class times the example's own weight."""
        return self.weights * self.weight

    @property
    def class_bounds(self) -> Array:
        """C times the weight of each class."""
        return self.C * self.weights

    @property
    def bounds(self) -> Array:
        """Bound of the examples being learned, by class: C times the weight of the class times the example's weight."""
        return self.class_bounds * self.weight

    @property
    def C_max(self) -> float:
        """The largest C that the solver may use."""
        return self.C

    def add_class(self, weight: float = 1.0) -> None:
        """Announce another class; its examples may come from now on. Their bound is C times `weight`."""
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

        From one column to three: the second class keeps the column, the first gets its negation. The column of a new
        class starts at zero over the points held.
        """

    # -- learning -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def live(self) -> int:
        """Points held."""

    @property
    def room(self) -> int:
        """Examples that fit before points_max is reached; UNBOUNDED where points make way by themselves."""
        return UNBOUNDED if self.when_full == "remove" else self.points_max - self.live

    @property
    def full_at(self) -> int:
        """Points at which one must make way for the next example; UNBOUNDED where the solver refuses instead."""
        return self.points_max if self.when_full == "remove" else UNBOUNDED

    def check_batch(self, rows: Rows, classes: Array, keys: Array, announced: int | None = None) -> None:
        """Refuse a batch that does not fit this solver, before anything changes.

        announced: number of classes by the time the batch is learned; None for the present number.
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
        # In a further epoch, examples that are held already take no place.
        if len(rows) > self.room and (coming := int(np.isin(keys, self.keys(), invert=True).sum())) > self.room:
            raise PointsFull(
                f"holds {self.live} points of at most {self.points_max}; {coming} more examples may not fit"
            )

    @abstractmethod
    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Learn a batch in order; return the decision values (m, K) of each row just before it was learned.

        classes (m,): class numbers. keys (m,): numbers of the examples, all different. With `again` the batch belongs
        to a further epoch: examples that are held already are recognised by their keys and not entered twice. Raises
        ValueError (PointsFull) before anything changes.
        """

    def learn_weighted(self, rows: Rows, classes: Array, keys: Array, weights: Array, *, again: bool = False) -> Array:
        """Learn a batch (`learn`) with a weight (m,) > 0 for each row: a factor of its C.

        A solver without C multiplies its steps by the weight, as by the weight of a class.
        """
        weights = self.check_weights(weights, len(rows))
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        return self._learn_weighted(rows, classes, keys, weights, again=again)

    def check_weights(self, weights: Array, count: int) -> Array:
        """The weights of `count` examples. Refuses invalid weights before anything changes."""
        bounds = self.C * self.weights.min(initial=1.0), self.C_max * self.weights.max(initial=0.0)
        return checked_weights(weights, count, bounds, BOUND_MAX)

    def _learn_weighted(self, rows: Rows, classes: Array, keys: Array, weights: Array, *, again: bool) -> Array:
        """Learn runs of equal weights. A solver that learns one row at a time gets the same result in any batches."""
        scores = np.empty((len(rows), self.columns))

        def learn(run: slice) -> None:
            part = rows.part(run.start, run.stop)
            scores[run] = self._learn_run(part, classes[run], keys[run], again=again)

        self._in_runs(weights, learn)
        return scores

    def _learn_run(self, rows: Rows, classes: Array, keys: Array, *, again: bool) -> Array:
        """Learn rows of one weight, which `weight` holds."""
        return self.learn(rows, classes, keys, again=again)

    def _in_runs(self, weights: Array, learn: Callable[[slice], None]) -> None:
        """Let `learn` learn the rows of a batch in runs of equal weight; `weight` holds the weight of the run."""
        for run in runs_of(weights):
            with self._weighing(float(weights[run.start])):
                learn(run)

    @contextmanager
    def _weighing(self, weight: float) -> Iterator[None]:
        """Within this context the examples learned have this weight."""
        self.weigh(weight)
        try:
            yield
        finally:
            self.weigh(1.0)

    def weigh(self, weight: float) -> None:
        """From now on the examples learned have this weight."""
        self.weight = weight
        if weight != 1.0:
            self.heaviest = max(self.heaviest, weight)

    def finish(self) -> Finish:
        """Optimise over the points held until no violation exceeds the tolerance, where the solver can."""
        return Finish(0, converged=True)

    @abstractmethod
    def drop(self, keys: Array) -> None:
        """Take the points of these examples out and re-optimise over the rest. Ignore keys that are not held.

        Many at once take less time than one by one. A merged point goes with its younger part. No state holds anything
        of a dropped example; the slots it stood in may, until the next `compact`.
        """

    def fade(self, factor: float) -> None:
        """Let everything learned so far count `factor` times as much from now on, 0 < factor <= 1; only if `fades`.

        The bound C of each example shrinks, and its coefficient with it; new examples have the whole bound.
        """
        check_fade(factor, fades=self.fades)

    def compact(self) -> None:  # noqa: B027  nothing to do without points
        """Give up the memory of points that have gone."""

    # -- reading --------------------------------------------------------------------------------------------------

    @abstractmethod
    def view(self) -> View:
        """The state as predictions may read it while learning goes on."""

    def decision(self, rows: Rows) -> Array:
        """Decision values (m, K) of a batch, with the present state."""
        return self.view().decision(rows)

    def keys(self) -> Array:
        """Numbers of the examples whose points are held; empty for a solver without points."""
        return np.zeros(0, np.int64)

    def row_of(self, key: int) -> Rows | None:  # noqa: ARG002  a solver with points reads it
        """The point of an example as a batch of one row; None where it is not held."""
        return None

    def weight_of(self, key: int) -> float:  # noqa: ARG002  a solver with boxes reads it
        """The weight of an example beside its class's, where the solver still knows it; else 1."""
        return 1.0

    def indices(self, keys: Array) -> Array:  # noqa: ARG002  a solver with points reads them
        """The features of the points of these examples, each at least once."""
        return np.zeros(0, np.int32)

    def contributions(self, rows: Rows) -> Contributions | None:  # noqa: ARG002  a solver with points reads them
        """The contribution of each point to the decision values of a batch of one row; None without points."""
        return None

    def point_scores(self) -> PointScores | None:
        """Decision values at the points held; None for a solver without points."""
        return None

    def known(self) -> Array:
        """Numbers of all examples of which the solver keeps anything, whether points or not."""
        return self.keys()

    @property
    def converged(self) -> bool | None:
        """Whether the solver stands at its optimum; False where it reached its limit of steps first.

        None for a solver that does not optimise with every batch.
        """
        return None

    @property
    def discarded(self) -> Array | None:
        """(classes, 2) examples that a ramp dropped: on the wrong side, and already right; None without a ramp."""
        return None

    def arms_in_figures(self) -> list[dict[str, Any]] | None:
        """Setting and results of each arm of a race; None for a solver that is not a race."""
        return None

    @abstractmethod
    def certificate(self) -> Certificate:
        """Report where the solver stands: `certificate_of` with the fields that have a meaning for it."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """Memory of all arrays, in bytes."""

    # -- state ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def state(self) -> State:
        """Return as arrays all that the next prediction or update depends on."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Take over a state of `state`. ValueError where an array does not fit the rest or this configuration."""

    def examine(self) -> None:
        """Refuse (ValueError) a consistent state that learning cannot reach.

        Recomputes derived arrays, for a sample where that is much work. `load` cannot do this: it must accept whatever
        rounding has made of a long stream.
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
    """`Solver.seen` after points were dropped; gone, left (classes,): points dropped, and points that stay."""
    return np.where(left > 0, np.maximum(seen - gone, 1), 0)


def class_numbers(scores: Array, classes: int) -> Array:
    """Class numbers (...,) int32 of decision values (..., K), K >= 1: the largest wins.

    With one column, a positive value means the second class.
    """
    if scores.shape[-1] == 1:
        return np.asarray(((scores[..., 0] > 0) & (classes > 1)).astype(np.int32))
    return np.asarray(scores.argmax(axis=-1).astype(np.int32))


def columns_of(classes: int) -> int:
    """Columns of coefficients for this number of classes."""
    return min(classes, 1) if classes <= 2 else classes
