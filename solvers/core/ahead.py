"""Kernel rows of the next examples of a batch, computed together before they are learned.

A row reads a number of each point for each of its features, which of many points no cache near the processor holds: it
takes as long as memory does. Rows that go over the points together, block by block, find what the one before them read
in the second-level cache. What has come since they were computed a row still lacks when its turn comes; that is brought
up to date as in any line of the row cache. The sums of a block stay in registers: `_sums` is written in LLVM's
instructions, as numba keeps no array there, with a multiplication and an addition for each feature, in ascending order,
never fused: the bits of kernels.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from hinged.solvers.core import turns
from hinged.solvers.core.compiled import compiled, in_place
from hinged.solvers.core.handed import handed
from hinged.solvers.core.kernels import LAPLACIAN, Kernel, inner_to_kernel
from hinged.solvers.core.points import USED, Points
from hinged.solvers.core.rows import Batch
from hinged.solvers.core.vectors import VECTOR_BYTES, data_of, filled, loop, place_of, spread

Array = np.ndarray[Any, Any]

VECTORS = 8
"""Of sums that stay in registers."""

ROWS = 32
"""That are computed together: what came since the first of them is little beside thousands of points."""

ROWS_LEAST = 4
"""Fewer are not worth a call."""

COLUMNS_BYTES_LEAST = 2**21
"""Of the columns: less stays in the second-level cache from row to row."""

BEGIN, END, FILLED = range(3)


@handed
class Ahead(NamedTuple):
    """rows (ROWS, width), or (0, 0); of (3,) int64: rows BEGIN..END of a batch with the first FILLED points."""

    rows: Array
    of: Array


def nothing_ahead(dtype: type) -> Ahead:
    """No rows, and no room for any."""
    return Ahead(np.empty((0, 0), dtype), np.zeros(3, np.int64))


def _sums_instructions(_: Any, columns: Any, indices: Any, values: Any, s: Any, out: Any) -> Any:
    """`_sums`: out[s + j] = sum_p values[p] columns[indices[p], s + j], j in VECTORS vectors; all are contiguous."""
    item_bytes = columns.dtype.bitwidth // 8
    lanes = VECTOR_BYTES // item_bytes

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        columns_at, indices_at, values_at, s, target = data_of(context, builder, signature.args, arguments)
        columns_array = context.make_array(signature.args[0])(context, builder, arguments[0])
        indices_array = context.make_array(signature.args[1])(context, builder, arguments[1])
        size = context.get_value_type(types.intp)
        vector = ir.VectorType(context.get_data_type(columns.dtype), lanes)

        def vectors_at(base: Any) -> list[Any]:
            return [place_of(builder, base, size(i * lanes), lanes) for i in range(VECTORS)]

        stride = builder.sdiv(builder.extract_value(columns_array.strides, 0), size(item_bytes))
        count = builder.extract_value(indices_array.shape, 0)
        first = builder.gep(columns_at, [s])

        def body(p: Any, sums: list[Any]) -> list[Any]:
            feature = builder.sext(builder.load(builder.gep(indices_at, [p])), size)
            value = spread(builder, builder.load(builder.gep(values_at, [p])), lanes)
            column = vectors_at(builder.gep(first, [builder.mul(feature, stride)]))
            return [
                builder.fadd(total, builder.fmul(value, builder.load(place, align=item_bytes)))
                for total, place in zip(sums, column, strict=True)
            ]

        totals = loop(builder, size(0), count, 1, [filled(vector, 0.0)] * VECTORS, body)
        for total, place in zip(totals, vectors_at(builder.gep(target, [s])), strict=True):
            builder.store(total, place, align=item_bytes)
        return context.get_dummy_value()

    return types.void(columns, indices, values, s, out), instructions


def _sums_plainly(columns: Array, indices: Array, values: Array, s: int, out: Array) -> None:
    """`_sums` where nothing is compiled (NUMBA_DISABLE_JIT)."""
    part = slice(s, s + block_of(columns))
    out[part] = 0
    for index, value in zip(indices, values, strict=True):
        out[part] += value * columns[index, part]


_sums: Any = _sums_plainly if cast("Any", config).DISABLE_JIT else intrinsic(_sums_instructions)


def block_of(columns: Array) -> int:
    """Points that are taken at once."""
    return int(VECTORS * VECTOR_BYTES // columns.itemsize)


@compiled
def rows_together(kernel, points, indptr, indices, values, norms, begin, end, block, out):
    """out[r, begin:end] = k(row r, points begin..end) of a CSR batch, the last blocks of points perhaps once more.

    The points keep columns, the kernel is not the Laplacian, end >= block.
    """
    for b in range(begin, end, block):
        s = min(b, end - block)
        for r in range(norms.shape[0]):
            first, last = indptr[r], indptr[r + 1]
            row = out[r]
            _sums(points.columns, indices[first:last], values[first:last], s, row)
            inner_to_kernel(kernel, norms[r], points.norm[s : s + block], row[s : s + block])


def are_worth(kernel: Kernel, points: Points, count: int) -> bool:
    """Whether so many rows are computed faster together."""
    return (
        count >= ROWS_LEAST
        and points.used[USED] * points.columns.shape[0] * points.columns.itemsize >= COLUMNS_BYTES_LEAST
        and points.used[USED] >= block_of(points.columns)
        and not points.only_ones[0]
        and kernel.code != LAPLACIAN
    )


def look_ahead(ahead: Ahead, kernel: Kernel, points: Points, batch: Batch, begin: int, value_work: int) -> Ahead:
    """Compute the next rows of a batch, from `begin` on, with all points, in turns."""
    n, end = int(points.used[USED]), min(begin + ROWS, batch.norms.size)
    if ahead.rows.shape[1] < n:
        ahead = ahead._replace(rows=np.empty((ROWS, points.start.size), points.values.dtype))
    block = block_of(points.columns)
    at_once = max(1, turns.portion((end - begin) * value_work) // block) * block
    for first in range(0, n, at_once):
        rows_together(
            kernel, points, batch.indptr[begin : end + 1], batch.indices, batch.values, batch.norms[begin:end],
            first, min(first + at_once, n), block, ahead.rows,
        )  # fmt: skip
        turns.rest()
    ahead.of[:] = begin, end, n
    return ahead


@in_place
def is_ahead(ahead, r):
    """Whether row r of the batch has been computed."""
    return ahead.of[BEGIN] <= r < ahead.of[END]


@in_place
def cut_back(ahead, n):
    """Only the first n points are what they were."""
    ahead.of[FILLED] = min(ahead.of[FILLED], n)
