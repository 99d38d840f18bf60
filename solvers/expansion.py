"""What every solver with stored points has in common: the arrays, their growth, reading, saving and checking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers import machine as m
from solvers import points as pts
from solvers.compiled import compiled
from solvers.direction import NONE
from solvers.kernels import Kernel, kernel_row
from solvers.machine import IDLE, LEARNED, LIVE, STEPS, dot
from solvers.points import POOL_USED, USED, Points
from solvers.rowcache import HITS, MISSES, VALUES, clear, new_cache
from solvers.rows import Rows, rows_from_csr

Array = np.ndarray[Any, Any]
State = dict[str, Array]

CACHE_BYTES = 256 * 2**20
POINTS_MAX = 100_000
CLASSES_MAX = 1024


class PointsFull(ValueError):
    """The expansion holds as many points as it may."""


@compiled
def decide(kernel, points, n, alpha, b, spread, indptr, indices, values, norms, scores):
    """scores (m, K) = sum_s alpha_s k(x_s, row) + b for each row of a batch and each column."""
    row = np.empty(n, values.dtype)
    for r in range(norms.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        kernel_row(kernel, indices[first:last], values[first:last], norms[r], points, 0, n, spread, row)
        for c in range(b.shape[0]):
            scores[r, c] = dot(alpha[c], row) + b[c]


@dataclass(frozen=True, slots=True)
class View:
    """What predictions read: the points as they stood, and a copy of the coefficients.

    Points are only appended behind `n` or moved to new arrays, so a view stays true while learning goes on.
    """

    kernel: Kernel
    points: Points
    n: int
    alpha: Array
    b: Array
    delta: Array
    dim: int

    def decision(self, rows: Rows) -> Array:
        """Decision values (m, K) of a batch."""
        scores = np.empty((len(rows), self.b.size))
        spread = np.zeros(self.dim if self.points.columns.shape[0] == 0 else 1, rows.values.dtype)
        decide(
            self.kernel, self.points, self.n, self.alpha, self.b, spread,
            rows.indptr, rows.indices, rows.values, rows.norms, scores,
        )  # fmt: skip
        return scores


class Expansion:
    """Points, columns of coefficients and the row cache, with everything that is not learning.

    C: upper bound of a coefficient, > 0. dim: number of features. points_max: points it may hold. cache_bytes: memory
    of the kernel-row cache. seed: of its random choices. dtype: float32, or float64 for exact kernel values.

    Classes are numbered 0, 1, ... in the order in which `add_class` announces them.
    """

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        C: float = 1.0,
        points_max: int = POINTS_MAX,
        cache_bytes: int = CACHE_BYTES,
        seed: int = 0,
        dtype: type = np.float32,
    ) -> None:
        if not (0 < C < 1e15):
            raise ValueError(f"C must be > 0 and < 1e15, got {C}")
        if not 0 < dim < 2**31:
            raise ValueError(f"dim must be from 1 to 2^31 - 1, got {dim}")
        if not points_max > 1:
            raise ValueError(f"points_max must be > 1, got {points_max}")
        if dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {dtype}")
        self.kernel = kernel
        self.dim = dim
        self.C = C
        self.points_max = points_max
        self.cache_bytes = cache_bytes
        self.dtype = dtype
        self.random = np.array([seed], np.uint64)
        self.seen = np.zeros(0, np.int64)
        self.weights = np.zeros(0)
        self.points = pts.empty_points(dim, dtype)
        self.machine = m.empty_machine(0, self.points.start.size)
        self.cache = new_cache(self.points, dim, cache_bytes)

    # -- classes --------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> int:
        """Number of classes announced."""
        return int(self.seen.size)

    @property
    def columns(self) -> int:
        """Columns of coefficients: one for up to two classes, else one a class."""
        return int(self.machine.alpha.shape[0])

    @property
    def bounds(self) -> Array:
        """C times the weight of each class."""
        return self.C * self.weights

    def add_class(self, weight: float = 1.0) -> None:
        """Announce one more class; its examples may come from now on. Their bound is C times `weight`."""
        if not (0 < self.C * weight < 1e15):
            raise ValueError(f"C times the weight of a class must be > 0 and < 1e15, got {self.C} * {weight}")
        classes = self.classes + 1
        if classes > CLASSES_MAX:
            raise ValueError(f"at most {CLASSES_MAX} classes, got one more")
        if classes == 1:
            self.machine = m.empty_machine(1, self.points.start.size)
        elif classes > 2:
            self.machine = m.with_more_classes(self.machine, classes, self.slots, self.bounds)
        self.seen = np.append(self.seen, 0)
        self.weights = np.append(self.weights, weight)

    # -- sizes ----------------------------------------------------------------------------------------------------

    @property
    def slots(self) -> int:
        """Slots in use, holes included."""
        return int(self.points.used[USED])

    @property
    def live(self) -> int:
        """Points held."""
        return int(self.machine.counts[LIVE])

    def check_batch(self, rows: Rows, classes: Array) -> None:
        """Refuse a batch that does not fit this expansion, before anything changes."""
        if rows.dim != self.dim:
            raise ValueError(f"rows must have {self.dim} features, got {rows.dim}")
        if rows.values.dtype != self.dtype:
            raise ValueError(f"rows must be {np.dtype(self.dtype).name}, got {rows.values.dtype}")
        if classes.shape != (len(rows),):
            raise ValueError(f"classes must be one for each of {len(rows)} rows, got {classes.shape}")
        if classes.size and not (classes.min() >= 0 and classes.max() < self.classes):
            raise ValueError(f"classes must be from 0 to {self.classes - 1}, got {classes.min()} to {classes.max()}")
        if self.live + len(rows) > self.points_max:
            raise PointsFull(
                f"holds {self.live} points of at most {self.points_max}; {len(rows)} more examples may not fit"
            )

    def compact(self, cap: int | None = None, pool: int | None = None) -> None:
        """Move the live points together, in order, into arrays of `cap` slots (default: as many as now)."""
        slots = np.flatnonzero(self.machine.class_of[: self.slots] != NONE)
        self._move(slots, cap or self.points.start.size, pool or self.points.indices.size)

    def make_room(self, nnz: int) -> None:
        """Grow the arrays so that a row of nnz non-zeros fits. Slots stay what they are."""
        cap, pool = self.points.start.size, self.points.indices.size
        cap = cap * 2 if self.slots == cap else cap
        needed = int(self.points.used[POOL_USED]) + nnz
        pool = max(pool * 2, needed) if needed > pool else pool
        self._move(np.arange(self.slots), cap, pool)

    def _move(self, slots: Array, cap: int, pool: int) -> None:
        keep_machine = slots.size == self.slots and cap == self.machine.class_of.size
        self.points = pts.compacted(self.points, slots, self.dim, cap, pool)
        if keep_machine:
            return
        self.machine = m.resized(self.machine, slots, cap)
        if cap == self.cache.line_of.size:
            clear(self.cache)  # its memory is warm
        else:
            self.cache = new_cache(self.points, self.dim, self.cache_bytes, self.cache.counters)

    # -- reading --------------------------------------------------------------------------------------------------

    def view(self) -> View:
        """The state as predictions may read it while learning goes on."""
        n = self.slots
        return View(
            self.kernel, self.points, n, self.machine.alpha[:, :n].copy(),
            self.machine.b.copy(), self.machine.delta.copy(), self.dim,
        )  # fmt: skip

    def decision(self, rows: Rows) -> Array:
        """Decision values (m, K) of a batch, with the present state."""
        return self.view().decision(rows)

    def certificate(self) -> dict[str, float | int | None]:
        """Where the solver stands: sizes, dual and primal objective, gap of the working set, KKT violation."""
        dual = float(m.dual_objective(self.machine, self.slots))
        gap = float(m.working_set_gap(self.machine, self.slots))
        return {
            "support_vectors": int((self.machine.held[: self.slots] > 0).sum()),
            "points": self.live,
            "kernel_evaluations": int(self.cache.counters[VALUES]),
            "steps": int(self.machine.counts[STEPS]),
            "dual": dual,
            "primal": dual + gap,
            "gap": gap,
            "kkt_violation": float(self.machine.delta.max(initial=0.0)),
            "weight_degradation": None,
        }

    def cache_figures(self) -> dict[str, int]:
        """How the row cache did: rows found, rows computed anew, bytes reserved."""
        counters = self.cache.counters
        return {
            "hits": int(counters[HITS]),
            "misses": int(counters[MISSES]),
            "bytes": self.cache.lines.nbytes,
        }

    def memory_bytes(self) -> int:
        """Memory of points and coefficients and of the cache lines that were used, bytes."""
        lines = int((self.cache.filled > 0).sum()) * self.cache.lines.shape[1] * self.cache.lines.itemsize
        return pts.bytes_of(self.points) + m.bytes_of(self.machine) + int(lines)

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Everything that the next prediction or update depends on, as arrays. Holes are kept, empty."""
        n, machine = self.slots, self.machine
        live = machine.class_of[:n] != NONE
        indptr, indices, values = pts.rows_of(self.points, np.flatnonzero(live))
        return {
            "indptr": indptr,
            "indices": indices,
            "values": values,
            "class_of": machine.class_of[:n].copy(),
            "key": machine.key[:n].copy(),
            "idle": machine.idle[: machine.counts[IDLE]].copy(),
            **{name: np.where(live, getattr(machine, name)[:, :n], 0.0) for name in ("alpha", "g", "lower", "upper")},
            **{name: getattr(machine, name).copy() for name in ("best_i", "best_j", "b", "delta")},
            "steps": machine.counts[STEPS : STEPS + 1].copy(),
            "learned": machine.counts[LEARNED : LEARNED + 1].copy(),
            "seen": self.seen.copy(),
            "weights": self.weights.copy(),
            "random": self.random.copy(),
        }

    def load(self, state: State) -> None:
        """Take over a state of `state`. ValueError where an array does not fit the others or this configuration."""
        checked = _StateReader(state)
        seen = checked.take("seen", np.int64, (None,), 0, 2**62)
        classes = seen.size
        columns = 0 if classes == 0 else 1 if classes <= 2 else classes
        class_of = checked.take("class_of", np.int32, (None,), NONE, classes - 1)
        n = class_of.size
        live = np.flatnonzero(class_of != NONE)
        indptr = checked.take("indptr", np.int64, (live.size + 1,), 0, 2**62)
        values = checked.take("values", self.dtype, (None,))
        indices = checked.take("indices", np.int32, (values.size,), 0, self.dim - 1)
        rows = rows_from_csr(indptr, indices, values, self.kernel, self.dim, self.dtype)
        cap = max(pts.SLOTS_MIN, 1 << max(n - 1, 0).bit_length())
        machine = m.empty_machine(columns, cap)
        machine.class_of[:n] = class_of
        machine.key[:n] = checked.take("key", np.int64, (n,))
        for name in ("alpha", "g", "lower", "upper"):
            getattr(machine, name)[:, :n] = checked.take(name, np.float64, (columns, n))
        for name in ("b", "delta"):
            getattr(machine, name)[:] = checked.take(name, np.float64, (columns,))
        for name in ("best_i", "best_j"):
            slots = checked.take(name, np.int64, (columns,), NONE, n - 1)
            if (class_of[slots[slots != NONE]] == NONE).any():
                raise ValueError(f"{name} names a slot without a point")
            getattr(machine, name)[:] = slots
        alive = class_of != NONE
        for c in range(columns):
            positive = class_of == (1 if columns == 1 else c)
            machine.sign[c, :n] = np.where(alive, np.where(positive, 1, -1), 0)
            machine.up[c, :n] = alive & (machine.alpha[c, :n] < machine.upper[c, :n])
            machine.down[c, :n] = alive & (machine.alpha[c, :n] > machine.lower[c, :n])
        machine.held[:n] = (machine.alpha[:, :n] != 0).sum(axis=0)
        idle = checked.take("idle", np.int64, (None,), 0, n - 1)
        if not np.array_equal(np.sort(idle), np.flatnonzero(alive & (machine.held[:n] == 0))):
            raise ValueError("idle must list the points without a coefficient")
        machine.idle[: idle.size] = idle
        machine.idle_at[idle] = np.arange(idle.size)
        machine.counts[:] = (
            live.size,
            idle.size,
            checked.take("steps", np.int64, (1,), 0, 2**62)[0],
            checked.take("learned", np.int64, (1,), 0, 2**62)[0],
        )
        weights = checked.take("weights", np.float64, (classes,))
        random = checked.take("random", np.uint64, (1,))
        self.points = _points_with_holes(rows, live, n, cap, self.dim)
        self.machine, self.seen, self.weights, self.random = machine, seen, weights, random
        self.cache = new_cache(self.points, self.dim, self.cache_bytes)


def _points_with_holes(rows: Rows, live: Array, n: int, cap: int, dim: int) -> Points:
    """Rows at the slots `live` of n, the slots between them empty."""
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


class _StateReader:
    """Takes arrays out of a state and refuses what compiled code, which checks no bounds, must not see."""

    def __init__(self, state: State) -> None:
        self.state = state

    def take(
        self,
        name: str,
        dtype: type,
        shape: tuple[int | None, ...],
        least: int | None = None,
        most: int | None = None,
    ) -> Array:
        """A copy of array `name`, of this dtype and shape (None: any), finite, with integers in least..most."""
        if name not in self.state:
            raise ValueError(f"the state has no array {name}")
        array = np.array(self.state[name])
        fits = array.ndim == len(shape) and all(
            want in (None, got) for want, got in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            raise ValueError(f"{name} must be {np.dtype(dtype).name} {shape}, got {array.dtype} {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} holds NaN or infinity")
        if array.size and least is not None and most is not None and (array.min() < least or array.max() > most):
            raise ValueError(f"{name} must be from {least} to {most}, got {array.min()} to {array.max()}")
        return array
