"""Products of many rows with many points, whose sums stay in registers or in the first-level cache.

One multiplication and one addition per feature, never fused, in the order in which the callers (dense.py, ahead.py) go
through the features: each sum has the bits of kernels.py. numba cannot do this: it keeps no array in registers.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from hinged.solvers.core.simd.vectors import VECTOR_BYTES, WIDE, data_of, loop, place_of, prefetch, spread

TILE_ROWS_MOST = 16
TILE_ROWS = TILE_ROWS_MOST if WIDE else 8
"""Rows of a tile, each with a vector of sums: half of the registers."""

VECTORS = 8
"""Vectors of points that `add_feature` takes at once: their numbers stay in registers."""


def _tile(_: Any, rows: Any, columns: Any, features: Any, out: Any, r: Any, s: Any) -> Any:
    """out[r + i, s + j] += sum_f rows[f, i] columns[f, j], i < TILE_ROWS, j in one vector, f < features.

    rows (F, TILE_ROWS) and columns (F, lanes) are contiguous, and so is out's last axis; features >= 1.
    """
    item_bytes = columns.dtype.bitwidth // 8
    lanes = VECTOR_BYTES // item_bytes

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows_at, columns_at, target = (
            context.make_array(kind)(context, builder, argument)
            for kind, argument in zip(
                [signature.args[0], signature.args[1], signature.args[3]],
                [arguments[0], arguments[1], arguments[3]],
                strict=True,
            )
        )
        size = context.get_value_type(types.intp)
        stride = builder.sdiv(builder.extract_value(target.strides, 0), size(item_bytes))
        corners = [builder.mul(builder.add(arguments[4], size(i)), stride) for i in range(TILE_ROWS)]
        places = [place_of(builder, target.data, builder.add(corner, arguments[5]), lanes) for corner in corners]

        def body(f: Any, sums: list[Any]) -> list[Any]:
            place = place_of(builder, columns_at.data, builder.mul(f, size(lanes)), lanes)
            column, first = builder.load(place, align=item_bytes), builder.mul(f, size(TILE_ROWS))
            values = (builder.load(builder.gep(rows_at.data, [builder.add(first, size(i))])) for i in range(TILE_ROWS))
            return [
                builder.fadd(total, builder.fmul(spread(builder, value, lanes), column))
                for total, value in zip(sums, values, strict=True)
            ]

        before = [builder.load(place, align=item_bytes) for place in places]
        after = loop(builder, size(0), arguments[2], 1, before, body)
        for place, total in zip(places, after, strict=True):
            builder.store(total, place, align=item_bytes)
        return context.get_dummy_value()

    return types.void(rows, columns, features, out, r, s), instructions


def _add_feature(
    _: Any, columns: Any, feature: Any, later: Any, s: Any, row: Any, value: Any, first: Any, last: Any, sums: Any
) -> Any:
    """sums[row[p]] += value[p] columns[feature, s : s + block] for p = first, ... < last.

    It prefetches the same numbers of the feature `later`. All arrays are contiguous; sums (rows, block).
    """
    item_bytes = columns.dtype.bitwidth // 8
    lanes = VECTOR_BYTES // item_bytes

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, feature, later, s, rows, values, first, last, sums = data_of(context, builder, signature.args, arguments)
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.sdiv(builder.extract_value(array.strides, 0), s.type(item_bytes))

        def vectors_at(base: Any, index: Any) -> list[Any]:
            return [place_of(builder, base, builder.add(index, s.type(i * lanes)), lanes) for i in range(VECTORS)]

        for place in vectors_at(array.data, builder.add(builder.mul(later, stride), s)):
            prefetch(builder, place)
        column = [
            builder.load(place, align=item_bytes)
            for place in vectors_at(array.data, builder.add(builder.mul(feature, stride), s))
        ]

        def body(p: Any, _: list[Any]) -> list[Any]:
            value = spread(builder, builder.load(builder.gep(values, [p])), lanes)
            row = builder.load(builder.gep(rows, [p]))
            places = vectors_at(sums, builder.mul(row, s.type(VECTORS * lanes)))
            for number, place in zip(column, places, strict=True):
                total = builder.fadd(builder.load(place, align=item_bytes), builder.fmul(value, number))
                builder.store(total, place, align=item_bytes)
            return []

        loop(builder, first, last, 1, [], body)
        return context.get_dummy_value()

    return types.void(columns, feature, later, s, row, value, first, last, sums), instructions


tile: Any = intrinsic(_tile)
add_feature: Any = intrinsic(_add_feature)
