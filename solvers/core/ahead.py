"""Kernel rows of the next examples of a batch, computed together before the examples are learned.

A kernel row reads one number of each point for each feature of the row. If there are too many points for the caches,
the row takes as long as reading all these numbers from memory. Rows that are computed together go over the points block
by block, and read each feature of a block only once. The feature's numbers stay in registers while their products are
added to the sums of all rows that have the feature. The first-level cache contains those sums (`add_feature`).

Each sum gets one multiplication and one addition per feature, in ascending order and never fused, so it has the same
bits as in kernels.py. A row computed ahead lacks the points that were added after it was computed. They are added when
the row is used, as in any line of the row cache.
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
"""Number of rows computed together. It is small, so that few points are added before the last of these rows is used."""

ROWS_LEAST = 4
"""Minimum number of rows for which computing together is worth the call."""

COLUMNS_BYTES_LEAST = 2**21
"""Minimum size of the feature-major columns, in bytes.

Smaller columns stay in the second-level cache from one row to the next.
"""

BEGIN, END, FILLED = range(3)


@handed
class Ahead(NamedTuple):
    """rows (ROWS, width), or (0, 0). of (3,) int64: BEGIN, END: the rows of the batch; FILLED: number of points."""

    rows: Array
    of: Array


def nothing_ahead(dtype: type) -> Ahead:
    """Return an empty `Ahead`, which has no room for rows."""
    return Ahead(np.empty((0, 0), dtype), np.zeros(3, np.int64))


@handed
class RowsByFeature(NamedTuple):
    """The rows of a batch, listed by feature.

    feature (F,) int32, ascending. begin (F + 1,) int64: feature f has the entries begin[f]..begin[f + 1]. An entry
    consists of the number of a row, row (nnz,) int64, ascending, and its value (nnz,).
    """

    feature: Array
    begin: Array
    row: Array
    value: Array


@compiled
def _by_feature(indptr, indices, values, dim):
    """Return the arrays of `features_of` as a tuple."""
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
    """Return the number of points in a block: as many as compiled code handles at once with the widest vectors."""
    return int(VECTORS * VECTOR_BYTES_MOST // columns.itemsize)


@compiled
def rows_together(kernel, points, features, norms, begin, end, scratch, out):
    """Compute out[r, begin:end] = k(row r, points begin..end). The last block may be computed twice.

    The points must have columns, the kernel must not be the Laplacian, and `end` must be at least one block
    (`block_of`). norms (m,): norms of the rows. scratch: room for m blocks of numbers.
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
    """Return whether computing `count` rows together is faster."""
    return (
        count >= ROWS_LEAST
        and points.used[USED] * points.columns.shape[0] * points.columns.itemsize >= COLUMNS_BYTES_LEAST
        and points.used[USED] >= block_of(points.columns)
        and not points.only_ones[0]
        and kernel.code != LAPLACIAN
    )


def look_ahead(ahead: Ahead, kernel: Kernel, points: Points, batch: LabelledRows, begin: int, value_work: int) -> Ahead:
    """Compute the kernel rows of the batch from row `begin` on with all points, with rests between parts (turns.py)."""
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
    """Return whether row r of the batch has been computed ahead."""
    return ahead.of[BEGIN] <= r < ahead.of[END]


@in_place
def cut_back(ahead, n):
    """Keep only the first n points of the rows, because the points after them have changed."""
    ahead.of[FILLED] = min(ahead.of[FILLED], n)
