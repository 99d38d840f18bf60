"""The parts that all solvers with stored points share: the points, room for more points, reading and saving."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from hinged.solvers.core import points as pts
from hinged.solvers.core.counts import HOLES_MIN, HOLES_PART, LIVE, NEEDS_COMPACTION, NEEDS_ROOM, NONE
from hinged.solvers.core.decision import ExpansionView
from hinged.solvers.core.kernels import (
    Kernel,
    kernel_row,
)
from hinged.solvers.core.points import POOL_USED, USED, Points
from hinged.solvers.core.reports import Contributions, PointScores
from hinged.solvers.core.rows import LabelledRows, Rows, rows_from_csr
from hinged.solvers.core.solver import Solver, columns_of, seen_without
from hinged.solvers.core.states import COUNT_MAX, SAMPLE_MAX, State, StateReader, read_heaviest
from hinged.solvers.core.terms import Terms
from hinged.solvers.core.turns import GATHERED_WORK, VALUE_WORK

Array = np.ndarray[Any, Any]

SLOTS_STEP = 16  # the largest arrays are rounded up to a multiple of this number of slots


class Arrays(Protocol):
    """The arrays that every expansion has. K: number of columns. cap: number of slots."""

    @property
    def alpha(self) -> Array:
        """(K, cap) float64 coefficients."""

    @property
    def class_of(self) -> Array:
        """(cap,) int32 class of the point, NONE for a hole."""

    @property
    def key(self) -> Array:
        """(cap,) int64 number of the example; for a merged point -2 - (number of its newest example)."""

    @property
    def b(self) -> Array:
        """(K,) float64 bias."""

    @property
    def counts(self) -> Array:
        """int64; counts[LIVE] is the number of points."""


class Expansion(Solver):
    """Points in slots, with arrays of coefficients. Parameters: see `Solver`.

    The subclass owns the arrays, a NamedTuple for compiled code: the subclass makes, moves and widens them.
    """

    points: Points
    machine: Any
    merging: ClassVar[bool] = False  # whether a point may represent several examples

    def __init__(self, kernel: Kernel, dim: int, **shared: Any) -> None:
        super().__init__(kernel, dim, **shared)
        self.points = pts.empty_points(dim, self.dtype)
        self.machine = self._empty(0, self.points.start.size)

    # -- the subclass's arrays ------------------------------------------------------------------------------------

    @abstractmethod
    def _empty(self, columns: int, cap: int) -> Arrays:
        """Return arrays of `columns` columns and `cap` slots without points."""

    @abstractmethod
    def _resized(self, slots: Array, cap: int) -> Arrays:
        """Return the slots `slots`, in this order, in arrays of `cap` slots."""

    @abstractmethod
    def _widened(self, classes: int) -> Arrays:
        """Return the arrays for `classes` >= 3 classes (see Solver._add_columns)."""

    def _moved(self, slots: Array | None) -> None:
        """Update the subclass after compacting: the points of `slots`, in ascending order, are now all points.

        `slots` is None after a state was loaded.
        """

    def _add_columns(self, classes: int) -> None:
        cap = self.points.start.size
        self.machine = self._empty(1, cap) if classes == 1 else self._widened(classes)

    # -- sizes ----------------------------------------------------------------------------------------------------

    @property
    def slots(self) -> int:
        """Number of slots in use, including holes."""
        return int(self.points.used[USED])

    @property
    def live(self) -> int:
        """Number of points."""
        return int(self.machine.counts[LIVE])

    @property
    def value_work(self) -> int:
        """Work (turns.py) of a kernel value for a row with an average number of features."""
        slots, features = int(self.points.used[USED]), int(self.points.used[POOL_USED])
        gathered = self.points.columns.shape[0] == 0
        return VALUE_WORK + (GATHERED_WORK if gathered else 1) * features // max(slots, 1)

    def compact(self) -> None:
        """Compact the slots: move the live points next to each other, in their order."""
        self._move(self._live_slots(), self.points.start.size, self.points.indices.size)

    def drop(self, keys: Array) -> None:
        """Remove the points of these examples and re-optimise over the rest (Solver.drop)."""
        live = self._live_slots()
        self._drop_slots(live[np.isin(self.keys(), keys)])

    def _drop_slots(self, slots: Array) -> None:
        if slots.size == 0:
            return
        gone = np.bincount(self.machine.class_of[slots], minlength=self.classes)
        self._take_out(slots)
        held = np.bincount(self.held_classes(), minlength=self.classes)
        self.seen = seen_without(self.seen, gone, held)
        self._tidy()

    @abstractmethod
    def _take_out(self, slots: Array) -> None:
        """Turn these slots, in ascending order, into holes, and let the remaining points compensate for them."""

    def _tidy(self) -> None:
        """Compact after points were dropped, which costs as much as learning an example."""
        self.compact()

    def make_room(self, nnz: int) -> None:
        """Enlarge the arrays if needed, so that a row of nnz non-zeros fits. Points keep their slots."""
        cap, pool = self.points.start.size, self.points.indices.size
        cap = self._cap_for(cap + 1) if self.slots == cap else cap
        needed = int(self.points.used[POOL_USED]) + nnz
        pool = max(pool * 2, needed) if needed > pool else pool
        self._move(np.arange(self.slots), cap, pool)

    def _cap_for(self, slots: int) -> int:
        """Return the size of arrays for `slots` slots: the size for points_max and its holes, halved while they fit.

        This rule avoids arrays that are larger than will ever be needed. A subclass with more holes gets a power of
        two.
        """
        cap = self.points_max + max(self.points_max // HOLES_PART, HOLES_MIN) + 1
        if slots > cap:
            return 1 << (slots - 1).bit_length()
        while cap > 2 * max(slots, pts.SLOTS_MIN):
            cap = -(-cap // 2)
        return -(-cap // SLOTS_STEP) * SLOTS_STEP

    def _provide(self, reason: int, batch: LabelledRows, row: int) -> None:
        """Provide what compiled code needs (counts.py) before it can learn a row of a batch."""
        if reason == NEEDS_ROOM:
            self.make_room(int(batch.indptr[row + 1] - batch.indptr[row]))
        elif reason == NEEDS_COMPACTION:
            self.compact()

    def _move(self, slots: Array, cap: int, pool: int) -> None:
        same = slots.size == self.slots and cap == self.machine.class_of.size
        self.points = pts.compacted(self.points, slots, self.dim, cap, pool)
        if not same:
            self.machine = self._resized(slots, cap)
            self._moved(slots)

    # -- reading --------------------------------------------------------------------------------------------------

    def view(self) -> ExpansionView:
        """Return the state in a form that predictions can read while learning continues."""
        n, terms = self.slots, self._terms()
        alpha = self._predicting()[:, :n]
        alpha = alpha.copy() if terms is None else alpha[terms.length == NONE]
        return ExpansionView(
            self.kernel, self.points, n, alpha, self.machine.b.copy(), self._delta(), self.dim, terms
        )  # fmt: skip

    def _predicting(self) -> Array:
        """Return the coefficients (K, cap) that predictions use."""
        alpha: Array = self.machine.alpha
        return alpha

    def _terms(self) -> Terms | None:
        """Return a copy of the non-zero coefficients if the solver lists them for short columns; else None."""
        return None

    def keys(self) -> Array:
        """Return the numbers of the points' examples, in slot order.

        A merged point has the number of its newest example.
        """
        keys: Array = self.machine.key[self._live_slots()]
        return np.where(keys < NONE, -2 - keys, keys)

    def row_of(self, key: int) -> Rows | None:
        """Return the point of an example as a batch of one row; None if there is no such point or it was merged."""
        slots = np.flatnonzero(self.machine.key[: self.slots] == key)
        slots = slots[self.machine.class_of[slots] != NONE]
        return self._rows_at(slots) if slots.size else None

    def held_rows(self) -> Rows:
        """Return all points, in the order of `keys`."""
        return self._rows_at(self._live_slots())

    def held_classes(self) -> Array:
        """Return the classes of all points, in the order of `keys`."""
        classes: Array = self.machine.class_of[self._live_slots()]
        return classes

    def _rows_at(self, slots: Array) -> Rows:
        return rows_from_csr(*pts.rows_of(self.points, slots), self.kernel, self.dim, self.dtype)

    def indices(self, keys: Array) -> Array:
        """Return the features of the points of these examples, each feature at least once."""
        return pts.rows_of(self.points, self._live_slots()[np.isin(self.keys(), keys)])[1]

    def contributions(self, rows: Rows) -> Contributions | None:
        """Return the contribution of each point to the decision values of a batch of one row."""
        rows = rows.under(self.kernel)
        n, slots = self.slots, self._live_slots()
        row = np.empty(n, self.dtype)
        spread = np.zeros(self.dim if self.points.columns.shape[0] == 0 else 1, self.dtype)
        kernel_row(self.kernel, rows.indices, rows.values, rows.norms[0], self.points, 0, n, spread, row)
        parts = self._predicting()[:, slots] * row[slots].astype(np.float64)
        return Contributions(self.keys(), self.machine.key[slots] < NONE, self.machine.class_of[slots], parts)

    def point_scores(self) -> PointScores | None:
        """Return the decision values at all points."""
        slots, rows = self._live_slots(), self.held_rows()
        aside, weights = np.zeros(slots.size, bool), np.ones(slots.size)
        return PointScores(self.keys(), self.machine.class_of[slots], self.decision(rows), aside, weights, rows)

    def _live_slots(self) -> Array:
        return np.flatnonzero(self.machine.class_of[: self.slots] != NONE)

    def _delta(self) -> Array:
        """Return (K,) a copy of the largest violation of each column."""
        return np.zeros(self.columns)

    def memory_bytes(self) -> int:
        """Return the memory of points and coefficients, in bytes."""
        return pts.bytes_of(self.points) + int(sum(a.nbytes for a in self.machine))

    # -- state ----------------------------------------------------------------------------------------------------

    def _shared_state(self) -> State:
        """Return the points, their classes, and the other arrays that all solvers share.

        Holes are included as empty slots, because slots are part of the state.
        """
        class_of = self.machine.class_of[: self.slots]
        indptr, indices, values = pts.rows_of(self.points, np.flatnonzero(class_of != NONE))
        return {
            "indptr": indptr,
            "indices": indices,
            "values": values,
            "class_of": class_of.copy(),
            "seen": self.seen.copy(),
            "weights": self.weights.copy(),
            "random": self.random.copy(),
            **({"heaviest": np.array([self.heaviest])} if self.heaviest else {}),
        }

    def _read_shared(self, checked: StateReader) -> _Loaded:
        """Check the parts of `_shared_state`. `_take_over` uses them after the rest has been checked."""
        seen, weights = self._read_seen(checked)
        class_of = checked.take("class_of", np.int32, (None,), NONE, seen.size - 1)
        live = np.flatnonzero(class_of != NONE)
        # The key of a merged point is -2 - (number of its newest example).
        key = checked.take("key", np.int64, class_of.shape, -2 - COUNT_MAX if self.merging else NONE, COUNT_MAX)
        if not np.array_equal(key == NONE, class_of == NONE):
            raise ValueError("key must be -1 where there is no point, and nowhere else")
        indptr = checked.take("indptr", np.int64, (live.size + 1,), 0, COUNT_MAX)
        values = checked.take("values", self.dtype, (None,))
        indices = checked.take("indices", np.int32, (values.size,), 0, self.dim - 1)
        rows = rows_from_csr(indptr, indices, values, self.kernel, self.dim, self.dtype)
        cap = self._cap_for(max(class_of.size, 1))
        return _Loaded(
            seen=seen,
            weights=weights,
            random=checked.take("random", np.uint64, (1,)),
            heaviest=read_heaviest(checked),
            class_of=class_of,
            key=key,
            columns=columns_of(seen.size),
            points=_points_with_holes(rows, live, class_of.size, cap, self.dim),
        )

    def examine(self) -> None:
        """Refuse a state that learning cannot reach (Solver.examine)."""
        super().examine()
        keys = self.machine.key[self._live_slots()]
        if np.unique(keys).size < keys.size and not self.merging:
            raise ValueError("key names an example twice")

    def _sampled(self, slots: Array) -> tuple[Array, Array]:
        """Return some of these slots, evenly chosen, and their kernel rows (m, n_slots)."""
        chosen = slots[np.linspace(0, slots.size - 1, min(slots.size, SAMPLE_MAX)).astype(np.int64)]
        return chosen, self._kernel_rows(chosen)

    def _kernel_rows(self, slots: Array) -> Array:
        points, n = self.points, self.slots
        rows = np.empty((slots.size, n))
        row = np.empty(n, self.dtype)
        spread = np.zeros(self.dim if points.columns.shape[0] == 0 else 1, self.dtype)
        for r, s in enumerate(slots):
            first, last = points.start[s], points.start[s] + points.length[s]
            indices, values = points.indices[first:last], points.values[first:last]
            kernel_row(self.kernel, indices, values, points.norm[s], points, 0, n, spread, row)
            rows[r] = row
        return rows

    def _take_over(self, loaded: _Loaded, machine: Arrays) -> None:
        self.points, self.machine = loaded.points, machine
        self.seen, self.weights, self.random = loaded.seen, loaded.weights, loaded.random
        self.heaviest = loaded.heaviest
        self._moved(None)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The parts that `_read_shared` checked.

    There are n = class_of.size slots, in arrays of points.start.size slots.
    """

    seen: Array
    weights: Array
    random: Array
    heaviest: float
    class_of: Array
    key: Array
    columns: int
    points: Points

    def by_slot(self, checked: StateReader, name: str, most: float) -> Array:
        """Return array `name` (K, n). It must be finite, within -most..most, and 0 where there is no point."""
        values = checked.take(name, np.float64, (self.columns, self.class_of.size), -most, most)
        if values[:, self.class_of == NONE].any():
            raise ValueError(f"{name} must be 0 where there is no point")
        return values


def _points_with_holes(rows: Rows, live: Array, n: int, cap: int, dim: int) -> Points:
    """Return points with the rows in the slots `live` of n slots; the other slots are empty."""
    nnz = int(rows.indptr[-1])
    lengths = np.zeros(n, np.int64)
    lengths[live] = np.diff(rows.indptr)
    full = Rows(
        np.concatenate(([0], np.cumsum(lengths))),
        rows.indices,
        rows.values,
        np.zeros(n, rows.norms.dtype),
        np.zeros(n, rows.norms.dtype),
        dim,
    )
    full.norms[live], full.selves[live] = rows.norms, rows.selves
    compacted = pts.points_from_rows(full, dim)
    return pts.compacted(compacted, np.arange(n), dim, cap, max(2 * nnz, 4096))
