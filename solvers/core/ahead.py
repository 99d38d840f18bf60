"""Kernel rows of the next examples of a batch, computed together before the examples are learned.

A kernel row reads one number of each point for each feature of the row. With many points no nearby cache holds these
numbers, so the row takes as long as reading memory does. Rows computed together go over the points block by block and
read each feature of a block once. The feature's numbers stay in registers while their products are added to the sums of
all rows that have the feature; the first-level cache holds those sums (`add_feature`).

Each sum gets one multiplication and one addition per feature, in ascending order, never fused: the bits of kernels.py.
A row computed ahead lacks the points that came after it was computed. They are added when its turn comes, as in any
line of the row cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.families import LAPLACIAN
from hinged.solvers.core.kernels import Kernel, inner_to_kernel
from hinged.solvers.core.memory import aligned_empty
from hinged.solvers.core.points import USED, Points
from hinged.solvers.core.rows import LabelledRows
from hinged.solvers.core.simd.products import VECTORS, add_feature
from hinged.solvers.core.simd.vectors import VECTOR_BYTES, VECTOR_BYTES_MOST
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

ROWS = 32
"""Rows computed together. Few enough that the points learned meanwhile are little beside thousands of points."""

ROWS_LEAST = 4
"""Rows below which computing together is not worth the call."""

COLUMNS_BYTES_LEAST = 2**21
"""Size of the feature-major columns, in bytes, below which the second-level cache keeps them from row to row."""

BEGIN, END, FILLED = range(3)


@handed
class Ahead(NamedTuple):
    """rows (ROWS, width), or (0, 0); of (3,) int64: rows BEGIN..END of the batch with the first FILLED points."""

    rows: Array
    of: Array


def nothing_ahead(dtype: type) -> Ahead:
    """No rows and no room for rows."""
    return Ahead(np.empty((0, 0), dtype), np.zeros(3, np.int64))


@handed
class RowsByFeature(NamedTuple):
    """The rows of a batch, listed by feature.

    feature (F,) int32, ascending. Feature f has the entries begin[f]..begin[f + 1]; begin (F + 1,) int64.
    An entry is a row's number, row (nnz,) int64, ascending, and its value (nnz,).
    """

    feature: Array
    begin: Array
    row: Array
    value: Array


@compiled
def _by_feature(indptr, indices, values, dim):
    """The arrays of `features_of` as a tuple."""
    begin_of, shift = np.zeros(dim + 1, np.int64), indptr[0]
    nnz = indptr[-1] - shift
    for p in range(nnz):
        begin_of[indices[shift + p] + 1] += 1
    present = 0
    for f in range(dim):
        present += begin_of[f + 1] > 0
        begin_of[f + 1] += begin_of[f]
    feature_of, begin, f = np.empty(present, np.int32), np.empty(present + 1, np.int64), 0
    for feature in range(dim):
        if begin_of[feature + 1] > begin_of[feature]:
            feature_of[f], begin[f] = feature, begin_of[feature]
            f += 1
    begin[present] = nnz
    row, value = np.empty(nnz, np.int64), np.empty(nnz, values.dtype)
    for r in range(indptr.shape[0] - 1):
        for p in range(indptr[r], indptr[r + 1]):
            place = begin_of[indices[p]]
            row[place], value[place] = r, values[p]
            begin_of[indices[p]] = place + 1
    return feature_of, begin, row, value


def features_of(indptr: Array, indices: Array, values: Array, dim: int) -> RowsByFeature:
    """List a CSR batch by feature."""
    return RowsByFeature(*_by_feature(indptr, indices, values, dim))


def block_of(columns: Array) -> int:
    """Points of a block: the number that compiled code takes at once with the widest vectors, or a multiple of it."""
    return int(VECTORS * VECTOR_BYTES_MOST // columns.itemsize)


@compiled
def rows_together(kernel, points, features, norms, begin, end, scratch, out):
    """out[r, begin:end] = k(row r, points begin..end). The last block may be computed twice.

    The points keep columns, the kernel is not the Laplacian, and end is at least one block (`block_of`).
    norms (m,): norms of the rows. scratch: room for m blocks of numbers.
    """
    m, count = norms.shape[0], features.feature.shape[0]
    block, zero = VECTORS * VECTOR_BYTES // out.itemsize, out.dtype.type(0.0)
    sums = scratch[: m * block].reshape((m, block))
    for b in range(begin, end, block):
        s = min(b, end - block)
        for r in range(m):
            part = sums[r]
            for t in range(block):
                part[t] = zero
        for f in range(count):
            add_feature(
                points.columns,
                np.int64(features.feature[f]),
                np.int64(features.feature[min(f + 2, count - 1)]),
                s,
                features.row,
                features.value,
                features.begin[f],
                features.begin[f + 1],
                sums,
            )
        for r in range(m):
            part, target = sums[r], out[r, s : s + block]
            inner_to_kernel(kernel, norms[r], points.norm[s : s + block], part)
            for t in range(block):
                target[t] = part[t]


def are_worth(kernel: Kernel, points: Points, count: int) -> bool:
    """Whether computing `count` rows together is faster."""
    return (
        count >= ROWS_LEAST
        and points.used[USED] * points.columns.shape[0] * points.columns.itemsize >= COLUMNS_BYTES_LEAST
        and points.used[USED] >= block_of(points.columns)
        and not points.only_ones[0]
        and kernel.code != LAPLACIAN
    )


def look_ahead(ahead: Ahead, kernel: Kernel, points: Points, batch: LabelledRows, begin: int, value_work: int) -> Ahead:
    """Compute the kernel rows of the batch from row `begin` on with all points, resting between parts (turns.py)."""
    n, end = int(points.used[USED]), min(begin + ROWS, batch.norms.size)
    if ahead.rows.shape[1] < n:
        ahead = ahead._replace(rows=aligned_empty((ROWS, points.start.size), points.values.dtype))
    block = block_of(points.columns)
    features = features_of(batch.indptr[begin : end + 1], batch.indices, batch.values, points.columns.shape[0])
    scratch = aligned_empty(((end - begin) * block,), points.values.dtype)
    at_once = max(1, turns.portion((end - begin) * value_work) // block) * block
    for first in range(0, n, at_once):
        rows_together(
            kernel, points, features, batch.norms[begin:end], first, min(first + at_once, n), scratch, ahead.rows,
        )  # fmt: skip
        turns.rest()
    ahead.of[:] = begin, end, n
    return ahead


@in_place
def is_ahead(ahead, r):
    """Whether row r of the batch has been computed ahead."""
    return ahead.of[BEGIN] <= r < ahead.of[END]


@in_place
def cut_back(ahead, n):
    """Keep only the first n points of the rows: the points behind them have changed."""
    ahead.of[FILLED] = min(ahead.of[FILLED], n)
