"""The points of an expansion, shared by all columns of coefficients.

A point gets the next free slot and keeps it. Slots are only added at the end, and a removed point leaves a hole. When a
fifth of all slots are holes, `compacted` moves the remaining points, in order, into new arrays. So

- a reader of the old arrays is never disturbed: predictions need no lock;
- slots are in order of age, whatever the clocks and threads do: the same events give the same slots;
- a cached kernel row up to slot m is completed by the values from m on.

Each point is stored twice. As a query it is a sparse row: `indices` and `values`, length[s] entries from start[s] on.
As a target it is a column of the feature-major array: columns[f, s]. If `columns` would be larger than
COLUMNS_BYTES_MAX, only the sparse rows are stored.

While every non-zero of all points is 1, as with categories, the points are stored a third time, in feature-major bytes.
The inner sum of two such points is the number of their common features. Bytes count it without rounding, and a kernel
row reads a quarter of the memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.kernels import ONES_MAX, are_ones
from hinged.solvers.core.memory import aligned_zeros
from hinged.solvers.core.rows import Rows
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

COLUMNS_BYTES_MAX = 2**28
"""Size above which the feature-major copy is discarded: such wide data is sparse text, and the copy would be mostly
zeros.
"""

PAD = 64
"""Bytes added to each column. If columns were a power of two apart, they would all compete for a few cache lines."""

GATHER_WORK = 8  # work (turns.py) of writing a number far from the number written before it

USED, POOL_USED = range(2)
SLOTS_MIN = 256


@handed
class Points(NamedTuple):
    """Arrays of the store in the form that compiled code uses. There are `cap` slots, of which used[USED] are taken.

    used     (2,) int64   slots taken, entries of the pool taken.
    start    (cap,) int64, length (cap,) int64   place and length of the row of a point in the pool.
    indices  (pool,) int32, values (pool,)       the pool of sparse rows.
    columns  (dim, > cap), or (0, 0)             the same points, feature-major.
    ones     (dim, > cap) uint8, or (0, 0)       the same points in bytes, used while only_ones[0].
    only_ones (1,) bool                          whether every non-zero is 1.
    norm     (cap,), selves (cap,)               inner sum with itself, and k(x, x).
    """

    used: Array
    start: Array
    length: Array
    indices: Array
    values: Array
    columns: Array
    ones: Array
    only_ones: Array
    norm: Array
    selves: Array


@in_place
def has_room(points, nnz):
    """Return whether another point of nnz non-zeros fits."""
    return points.used[USED] < points.start.shape[0] and points.used[POOL_USED] + nnz <= points.indices.shape[0]


@in_place
def append_point(points, indices, values, norm, self_value):
    """Store a row in the next slot and return the slot. There must be room."""
    slot = points.used[USED]
    first = points.used[POOL_USED]
    n = indices.shape[0]
    points.start[slot] = first
    points.length[slot] = n
    # Loops, not slices: numba needs two seconds to compile the assignment of a slice.
    for p in range(n):
        points.indices[first + p] = indices[p]
        points.values[first + p] = values[p]
    points.norm[slot] = norm
    points.selves[slot] = self_value
    if points.columns.shape[0] > 0:
        for p in range(n):
            points.columns[indices[p], slot] = values[p]
    if points.only_ones[0]:
        if are_ones(values):
            for p in range(n):
                points.ones[indices[p], slot] = 1
        else:
            points.only_ones[0] = False
    points.used[USED] = slot + 1
    points.used[POOL_USED] = first + n
    return slot


@in_place
def pop_point(points):
    """Remove the newest point. Allowed only for a point that no reader can have seen yet."""
    slot = points.used[USED] - 1
    first = points.start[slot]
    if points.columns.shape[0] > 0:
        zero = points.values.dtype.type(0.0)
        for p in range(first, first + points.length[slot]):
            points.columns[points.indices[p], slot] = zero
    if points.only_ones[0]:
        for p in range(first, first + points.length[slot]):
            points.ones[points.indices[p], slot] = 0
    points.used[USED] = slot
    points.used[POOL_USED] = first


@compiled
def _fill_slots(points, columns, begin, end):
    for s in range(begin, end):
        for p in range(points.start[s], points.start[s] + points.length[s]):
            columns[points.indices[p], s] = points.values[p]


@compiled
def _gather_columns(source, slots, target):
    for f in range(source.shape[0]):
        row, out = source[f], target[f]
        for s in range(slots.shape[0]):
            out[s] = row[slots[s]]


def _fill_columns(points: Points, columns: Array) -> None:
    """Write all points into `columns`, feature-major."""
    n, nnz = points.used.tolist()
    at_once = turns.portion(GATHER_WORK * nnz / max(n, 1))
    for s in range(0, n, at_once):
        _fill_slots(points, columns, s, min(s + at_once, n))
        turns.rest()


def _gather(source: Array, slots: Array, target: Array) -> None:
    """Copy the columns of `source` at `slots` (n,) to target (dim, n)."""
    at_once = turns.portion(2 * slots.size)
    for f in range(0, len(source), at_once):
        _gather_columns(source[f : f + at_once], slots, target[f : f + at_once])
        turns.rest()


def empty_points(dim: int, dtype: type, slots: int = SLOTS_MIN, pool: int = 4096, *, only_ones: bool = True) -> Points:
    """Return empty points with room for `slots` points and `pool` non-zeros.

    only_ones: also store the points as bytes while every non-zero is 1.
    """
    width = slots + PAD // np.dtype(dtype).itemsize
    wide = dim * width * np.dtype(dtype).itemsize <= COLUMNS_BYTES_MAX
    only_ones = only_ones and wide
    return Points(
        np.zeros(2, np.int64),
        np.zeros(slots, np.int64),
        np.zeros(slots, np.int64),
        np.zeros(pool, np.int32),
        np.zeros(pool, dtype),
        aligned_zeros((dim, width), dtype) if wide else np.zeros((0, 0), dtype),
        aligned_zeros((dim, slots + PAD) if only_ones else (0, 0), np.uint8),
        np.array([only_ones]),
        aligned_zeros((slots,), dtype),
        np.zeros(slots, dtype),
    )


def compacted(points: Points, slots: Array, dim: int, cap: int, pool: int) -> Points:
    """Return the points of `slots`, in this order, in new arrays of `cap` slots and a pool of `pool` entries."""
    n = slots.size
    lengths = points.length[slots]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    source = np.repeat(points.start[slots] - starts[:-1], lengths) + np.arange(starts[-1])
    values = points.values[source]
    new = empty_points(dim, values.dtype.type, cap, pool, only_ones=_only_ones(lengths, values))
    new.used[:] = n, starts[-1]
    new.start[:n] = starts[:-1]
    new.length[:n] = lengths
    new.indices[: starts[-1]] = points.indices[source]
    new.values[: starts[-1]] = values
    new.norm[:n] = points.norm[slots]
    new.selves[:n] = points.selves[slots]
    if new.columns.shape[0]:
        if points.columns.shape[0]:
            _gather(points.columns, slots, new.columns)
        else:
            _fill_columns(new, new.columns)
    if new.only_ones[0]:
        if points.only_ones[0]:
            _gather(points.ones, slots, new.ones)
        else:
            _fill_columns(new, new.ones)
    return new


def _only_ones(lengths: Array, values: Array) -> bool:
    return bool((values == 1).all() and lengths.max(initial=0) <= ONES_MAX)


def subset(points: Points, slots: Array) -> Points:
    """Return the points of `slots` as targets for a shrunken problem. They share the pool of sparse rows."""
    n, only_ones = slots.size, bool(points.only_ones[0])
    # If every non-zero is 1, no row computed here reads `columns`.
    columns = np.empty((0 if only_ones else points.columns.shape[0], n), points.columns.dtype)
    ones = np.empty((points.ones.shape[0] if only_ones else 0, n), np.uint8)
    for source, target in ((points.columns, columns), (points.ones, ones)):
        if target.shape[0]:
            _gather(source, slots, target)
    return Points(
        np.array([n, points.used[POOL_USED]]),
        points.start[slots],
        points.length[slots],
        points.indices,
        points.values,
        columns,
        ones,
        np.array([only_ones]),
        points.norm[slots],
        points.selves[slots],
    )


def rows_of(points: Points, slots: Array) -> tuple[Array, Array, Array]:
    """Return indptr, indices and values of the points of `slots`, in this order, as in snapshots."""
    lengths = points.length[slots]
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    source = np.repeat(points.start[slots] - indptr[:-1], lengths) + np.arange(indptr[-1])
    return indptr, points.indices[source], points.values[source]


def points_from_rows(rows: Rows, dim: int) -> Points:
    """Return the rows of a batch as points, in order."""
    n, nnz = len(rows), int(rows.indptr[-1])
    lengths = np.diff(rows.indptr)
    only_ones = _only_ones(lengths, rows.values)
    points = empty_points(dim, rows.values.dtype.type, max(n, 1), max(nnz, 1), only_ones=only_ones)
    points.used[:] = n, nnz
    points.start[:n] = rows.indptr[:-1]
    points.length[:n] = lengths
    points.indices[:nnz] = rows.indices
    points.values[:nnz] = rows.values
    points.norm[:n] = rows.norms
    points.selves[:n] = rows.selves
    for columns in (points.columns, points.ones):
        if columns.shape[0]:
            _fill_columns(points, columns)
    return points


def gathered(points: Points) -> int:
    """Return how many numbers of points without columns a kernel row reads, however few its own x has."""
    return 0 if points.columns.shape[0] else int(points.used[POOL_USED])


def bytes_of(points: Points) -> int:
    """Return the memory of the arrays, in bytes."""
    return int(sum(a.nbytes for a in points))
