"""The face that every solver shows: what the service, the estimators and the benchmarks rely on.

A solver learns micro-batches in order, gives decision values, hands its state out as arrays and takes it back, and says
where it stands. Everything is deterministic: the same calls give the same state to the bit.

With up to two classes there is one column of coefficients (the second class is its positive side); with three or more
there is one column a class, one-versus-rest. Classes are numbered 0, 1, ... in the order in which `add_class` announces
them.
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
    """The expansion holds as many points as it may."""


class Solver(ABC):
    """What all solvers have in common: kernel, classes, checks of a batch.

    C: upper bound of a coefficient, > 0. dim: number of features. points_max: points it may hold. when_full: there
    "refuse" to learn (PointsFull), or "remove" the least useful point and go on. cache_bytes: memory of cached kernel
    rows, where the solver caches them. seed: of its random choices. dtype: float32, or float64 for exact kernel values.

    forgets: whether `drop` takes out what an example has taught. Where most examples become no point of their own, but
    move what others stand for, it takes out no more than points. fades: whether `fade` is there.
    fading: whether a state may be one that has faded. weight: of the examples that are being learned. heaviest: the
    largest weight that an example has had, 0 where all have weighed 1.
    seen (classes,): examples learned of each class, without those dropped; 0 where a drop left no point of the class.
    """

    forgets: ClassVar[bool] = True
    fades: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    """Whether C bounds its coefficients; else it is not among the parameters of a model."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse the first parameter that is not what the class declares for it (parameters.py)."""
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
            Literal["refuse", "remove"], 'at points_max: "remove" the points that matter least, or "refuse" to learn'
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
        """Columns of coefficients: none without a class, one for up to two, else one a class."""
        return columns_of(self.classes)

    @property
    def factors(self) -> Array:
        """Factor of C of an example that is being learned, by its class: that of the class times its own."""
        return self.weights * self.weight

    @property
    def class_bounds(self) -> Array:
        """C times the weight of each class."""
        return self.C * self.weights

    @property
    def bounds(self) -> Array:
        """The same, of the examples that are being learned: times their weight."""
        return self.class_bounds * self.weight

    @property
    def C_max(self) -> float:
        """The largest C that there may come to be."""
        return self.C

    def add_class(self, weight: float = 1.0) -> None:
        """Announce one more class; its examples may come from now on. Their bound is C times `weight`."""
        if not (self.C * weight > 0 and self.C_max * weight < BOUND_MAX):
            raise ValueError(
                f"C times the weight of a class must be > 0 and < {BOUND_MAX:g}, got {self.C_max} * {weight}"
            )
        classes = self.classes + 1
        if classes > CLASSES_MAX:
            raise ValueError(f"at most {CLASSES_MAX} classes, got one more")
        if columns_of(classes) > self.columns:
            self._add_columns(classes)
        self.seen = np.append(self.seen, 0)
        self.weights = np.append(self.weights, weight)

    @abstractmethod
    def _add_columns(self, classes: int) -> None:
        """Widen the arrays to the columns of so many classes, before `seen` and `weights` know the new one.

        From one column to three: the second class keeps it, the first gets its negation. The column of a new class
        starts at zero over the points held.
        """

    # -- learning -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def live(self) -> int:
        """Points held."""

    @property
    def room(self) -> int:
        """Examples that may come before points_max is reached; UNBOUNDED where points make way by themselves."""
        return UNBOUNDED if self.when_full == "remove" else self.points_max - self.live

    @property
    def full_at(self) -> int:
        """Points at which one must make way for the next example; UNBOUNDED where learning is refused instead."""
        return self.points_max if self.when_full == "remove" else UNBOUNDED

    def check_batch(self, rows: Rows, classes: Array, keys: Array, announced: int | None = None) -> None:
        """Refuse a batch that does not fit this solver, before anything changes.

        announced: classes that there will be by then, None for those that there are.
        """
        known = self.classes if announced is None else announced
        if rows.dim != self.dim:
            raise ValueError(f"rows must have {self.dim} features, got {rows.dim}")
        if rows.values.dtype != self.dtype:
            raise ValueError(f"rows must be {np.dtype(self.dtype).name}, got {rows.values.dtype}")
        if not rows.fits(self.kernel, self.dtype):
            raise ValueError(f"rows must have norms and k(x, x) of {self.kernel}, got those of {rows.measure}")
        if classes.shape != (len(rows),):
            raise ValueError(f"classes must be one for each of {len(rows)} rows, got {classes.shape}")
        if classes.size and not (classes.min() >= 0 and classes.max() < known):
            raise ValueError(f"classes must be from 0 to {known - 1}, got {classes.min()} to {classes.max()}")
        if keys.shape != classes.shape:
            raise ValueError(f"keys must be one for each of {len(rows)} rows, got {keys.shape}")
        # What is held already, in a further epoch, takes no place.
        if len(rows) > self.room and (coming := int(np.isin(keys, self.keys(), invert=True).sum())) > self.room:
            raise PointsFull(
                f"holds {self.live} points of at most {self.points_max}; {coming} more examples may not fit"
            )

    @abstractmethod
    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Learn a batch in order; returns the decision values (m, K) of each row right before it was learned.

        classes (m,): class numbers. keys (m,): the examples' numbers, each its own; with `again` the batch belongs to
        a further epoch, and examples that are held already are known by their keys and not entered twice.
        Raises ValueError (PointsFull) before anything changes.
        """

    def learn_weighted(self, rows: Rows, classes: Array, keys: Array, weights: Array, *, again: bool = False) -> Array:
        """Learn a batch (`learn`) with a weight (m,) > 0 for each row: a factor of its C.

        A solver without C multiplies the steps by it, as by the weight of a class.
        """
        weights = self.check_weights(weights, len(rows))
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        return self._learn_weighted(rows, classes, keys, weights, again=again)

    def check_weights(self, weights: Array, count: int) -> Array:
        """The weights of so many examples. Refuses, before anything changes, what cannot be one."""
        bounds = self.C * self.weights.min(initial=1.0), self.C_max * self.weights.max(initial=0.0)
        return checked_weights(weights, count, bounds, BOUND_MAX)

    def _learn_weighted(self, rows: Rows, classes: Array, keys: Array, weights: Array, *, again: bool) -> Array:
        """Rows of one weight together: those that learn one by one come to the same however rows are batched."""
        scores = np.empty((len(rows), self.columns))

        def learn(run: slice) -> None:
            part = rows.part(run.start, run.stop)
            scores[run] = self._learn_run(part, classes[run], keys[run], again=again)

        self._in_runs(weights, learn)
        return scores

    def _learn_run(self, rows: Rows, classes: Array, keys: Array, *, again: bool) -> Array:
        """Learn rows of one weight, which is what `weight` says."""
        return self.learn(rows, classes, keys, again=again)

    def _in_runs(self, weights: Array, learn: Callable[[slice], None]) -> None:
        """Let this learn the rows of a batch, those of one weight at a time, which `weight` is meanwhile."""
        for run in runs_of(weights):
            with self._weighing(float(weights[run.start])):
                learn(run)

    @contextmanager
    def _weighing(self, weight: float) -> Iterator[None]:
        """What is learned meanwhile has this weight."""
        self.weigh(weight)
        try:
            yield
        finally:
            self.weigh(1.0)

    def weigh(self, weight: float) -> None:
        """What is learned from now on has this weight."""
        self.weight = weight
        if weight != 1.0:
            self.heaviest = max(self.heaviest, weight)

    def finish(self) -> Finish:
        """Optimise over the points held until nothing violates by more than the tolerance, where the solver can."""
        return Finish(0, converged=True)

    @abstractmethod
    def drop(self, keys: Array) -> None:
        """Take the points of these examples out, and re-optimise over the rest. Keys that are not held are passed over.

        Many at once take less time than one by one. A merged point goes with its younger part. No state holds anything
        of what was dropped; slots that it stood in may, until the next `compact`.
        """

    def fade(self, factor: float) -> None:
        """Let all that has been learned count `factor` times as much from now on, 0 < factor <= 1, where it `fades`.

        Each example's bound C shrinks, and with it what the example has come to; new ones have the whole of it.
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
        """Numbers of the examples whose points are held, for solvers that hold points."""
        return np.zeros(0, np.int64)

    def row_of(self, key: int) -> Rows | None:  # noqa: ARG002  a solver with points reads it
        """The point of an example as a batch of one; None where it is not held."""
        return None

    def weight_of(self, key: int) -> float:  # noqa: ARG002  a solver with boxes reads it
        """What an example weighs beside its class, as far as that can be told; else 1."""
        return 1.0

    def indices(self, keys: Array) -> Array:  # noqa: ARG002  a solver with points reads them
        """The features that the points of these examples have, each at least once."""
        return np.zeros(0, np.int32)

    def contributions(self, rows: Rows) -> Contributions | None:  # noqa: ARG002  a solver with points reads them
        """What each point adds to the decision values of a batch of one; None for a solver without points."""
        return None

    def point_scores(self) -> PointScores | None:
        """Decision values at the points held; None for a solver without points."""
        return None

    def known(self) -> Array:
        """Numbers of all examples of which anything is kept, points or not."""
        return self.keys()

    @property
    def converged(self) -> bool | None:
        """Whether it stands at the optimum, of a solver that goes there with every batch; None for one that does not.

        False where it came to its limit of steps before.
        """
        return None

    @property
    def discarded(self) -> Array | None:
        """(classes, 2) examples that a ramp set aside: on the wrong side, and already right; None without a ramp."""
        return None

    def arms_in_figures(self) -> list[dict[str, Any]] | None:
        """Of a race, each arm's setting and how it does; None for a solver that is none."""
        return None

    @abstractmethod
    def certificate(self) -> Certificate:
        """Where the solver stands: `certificate_of` with what has a meaning for it."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """Memory of all arrays, bytes."""

    # -- state ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def state(self) -> State:
        """Everything that the next prediction or update depends on, as arrays."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Take over a state of `state`. ValueError where an array does not fit the others or this configuration."""

    def examine(self) -> None:
        """Refuse (ValueError) a state that fits together but is none that learning comes to.

        What follows from other arrays is worked out anew, for a sample where that is much work. `load` cannot: it must
        take whatever rounding has made of a long stream.
        """
        if self.live > self.points_max:
            raise ValueError(f"the state holds {self.live} points of at most {self.points_max}")

    def _read_seen(self, checked: StateReader) -> tuple[Array, Array]:
        """`seen` and `weights` of a state."""
        seen = checked.take("seen", np.int64, (None,), 0, COUNT_MAX)
        if seen.size > CLASSES_MAX:
            raise ValueError(f"at most {CLASSES_MAX} classes, got {seen.size}")
        weights = checked.take("weights", np.float64, (seen.size,), 0.0, BOUND_MAX)
        if not ((self.C * weights > 0) & (self.C_max * weights < BOUND_MAX)).all():
            raise ValueError(f"C times weights must be > 0 and < {BOUND_MAX:g}, got {self.C_max} * {weights}")
        return seen, weights


def check_fade(factor: float, *, fades: bool) -> None:
    """Refuse to fade by no factor, or a solver that cannot."""
    if not fades:
        raise ValueError("this solver cannot let what it has learned fade")
    if not 0.0 < factor <= 1.0:
        raise ValueError(f"factor must be > 0 and <= 1, got {factor}")


def seen_without(seen: Array, gone: Array, left: Array) -> Array:
    """`Solver.seen` once points were dropped: gone and left (classes,) count those, and the points that stay."""
    return np.where(left > 0, np.maximum(seen - gone, 1), 0)


def class_numbers(scores: Array, classes: int) -> Array:
    """Class numbers (...,) int32 that decision values (..., K) name, K >= 1; of one column the second class is the
    positive side.
    """
    if scores.shape[-1] == 1:
        return np.asarray(((scores[..., 0] > 0) & (classes > 1)).astype(np.int32))
    return np.asarray(scores.argmax(axis=-1).astype(np.int32))


def columns_of(classes: int) -> int:
    """Columns of coefficients for so many classes."""
    return min(classes, 1) if classes <= 2 else classes
