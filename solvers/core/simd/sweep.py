"""Gradients of a stretch of slots, moved and searched for their extremes in one pass over memory.

Every step of a dual solver goes over all its points once: this loop is most of the time of learning with many points
and nearly all of finishing. numba reads and writes the gradients once for the move and reads them again for each
extreme, and makes no vector instructions of a maximum of floats. So the loop is written in LLVM's instructions. Each
gradient is moved by two multiplications, an addition and a subtraction, none fused, and a maximum rounds nothing: a
plain loop gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hinged.solvers.core.simd.vectors import (
    VECTOR_BYTES,
    Value,
    data_of,
    filled,
    halves,
    loop,
    of_lanes,
    place_of,
    prefetch,
    spread,
)

DOUBLE = ir.DoubleType()
LANES = VECTOR_BYTES // 8

EARLY = 512
"""Slots ahead of their use at which kernel values are prefetched: a row comes from farther away than the gradients."""


def _instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The body of both functions below: with two rows and their moves, or without. All arrays are contiguous."""
    g, up, down, begin, end, *rest = data_of(context, builder, signature.args, arguments)
    size, rows, moves = begin.type, rest[:2], rest[2:]

    def moved(s: Any, lanes: int) -> Value:
        """g of `lanes` slots from s on, after the move."""
        place = place_of(builder, g, s, lanes)
        found = Value(builder, builder.load(place, align=8))
        if moves:
            step_i, step_j = (
                Value(builder, spread(builder, move, lanes)) * row_at(row, s, lanes)
                for move, row in zip(moves, rows, strict=True)
            )
            found = found - (step_i + step_j)
            builder.store(found.value, place, align=8)
        return found

    def row_at(row: Any, s: Any, lanes: int) -> Value:
        """Kernel values from s on; prefetches later values."""
        if lanes > 1:
            prefetch(builder, builder.gep(row, [builder.add(s, size(EARLY))]))
        is_double = row.type.pointee == DOUBLE
        values = builder.load(place_of(builder, row, s, lanes), align=8 if is_double else 4)
        return Value(builder, values if is_double else builder.fpext(values, of_lanes(DOUBLE, lanes)))

    def where(mask: Any, s: Any, lanes: int, values: Value, otherwise: float) -> Value:
        """The values where the mask is not 0, `otherwise` elsewhere."""
        marks = builder.load(place_of(builder, mask, s, lanes), align=1)
        is_marked = builder.icmp_unsigned("!=", marks, filled(marks.type, 0))
        return Value(builder, builder.select(is_marked, values.value, filled(values.value.type, otherwise)))

    def stretch(begin: Any, end: Any, lanes: int, most: list[Any]) -> list[Any]:
        """The extremes of slots begin..end, `lanes` at a time, and of `most`."""

        def body(s: Any, before: list[Any]) -> list[Any]:
            largest, smallest = (Value(builder, value) for value in before)
            values = moved(s, lanes)
            rising, falling = where(up, s, lanes, values, -np.inf), where(down, s, lanes, values, np.inf)
            return [rising.larger(largest).value, falling.smaller(smallest).value]

        return loop(builder, begin, end, lanes, most, body)

    middle = builder.add(begin, builder.and_(builder.sub(end, begin), size(-LANES)))
    vector = of_lanes(DOUBLE, LANES)
    largest, smallest = stretch(begin, middle, LANES, [filled(vector, -np.inf), filled(vector, np.inf)])
    for _ in range(LANES.bit_length() - 1):
        low, high = (Value(builder, half) for half in halves(builder, largest))
        largest = low.larger(high).value
        low, high = (Value(builder, half) for half in halves(builder, smallest))
        smallest = low.smaller(high).value
    return context.make_tuple(builder, signature.return_type, stretch(middle, end, 1, [largest, smallest]))


def _part_extremes(_: Any, g: Any, up: Any, down: Any, begin: Any, end: Any) -> Any:
    """The largest g over up and the smallest over down in slots begin..end; -inf and inf where there is no slot."""
    return types.UniTuple(types.float64, 2)(g, up, down, begin, end), _instructions


def _moved_extremes(
    _: Any, g: Any, up: Any, down: Any, begin: Any, end: Any, row_i: Any, row_j: Any, move_i: Any, move_j: Any
) -> Any:
    """`part_extremes` after g -= move_i K_i + move_j K_j in these slots, for the kernel rows K_i and K_j (n,)."""
    given = (g, up, down, begin, end, row_i, row_j, move_i, move_j)
    return types.UniTuple(types.float64, 2)(*given), _instructions


part_extremes: Any = intrinsic(_part_extremes)
moved_extremes: Any = intrinsic(_moved_extremes)
