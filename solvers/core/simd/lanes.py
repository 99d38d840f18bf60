"""Sums in lanes: the only place where terms are added in an order other than their index.

A sum of floats depends on the order of its additions, and added one at a time, each addition waits for the one before.
A compiler that may reorder uses as many partial sums as the processor's vectors hold, so each kind of processor would
give its own bits. Here the number of partial sums is fixed:

    lane_l = ((t_l + t_(l + LANES)) + t_(l + 2 LANES)) + ...    for 0 <= l < LANES, as long as terms fill all lanes

Then the upper half of the lanes is added to the lower half. If enough terms remain to fill these lanes, they are added.
This repeats until one lane and no term is left.

LANES float64 are four vectors of 256 bits or eight of 128. numba keeps no array in registers, so the loop is written in
LLVM's instructions, none of which may be reordered or fused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from hinged.solvers.core.simd.vectors import Value, data_of, filled, halves, loop, place_of
from hinged.solvers.jit.compiled import in_place

LANES = 16
VECTOR = 4  # lanes of a vector: 256 bits, because some processors lower their clock at 512

DOUBLE = ir.DoubleType()
TYPES = (types.float64, types.float32, types.int8)
"""Types of numbers that compiled code converts to float64."""


def larger(a: Any, b: Any) -> Any:
    """The larger of two numbers of a term."""
    return a.larger(b) if isinstance(a, Value) else np.where(a > b, a, b)


def nonzero(a: Any) -> Any:
    """1 where the number is not 0, else 0."""
    return a.nonzero() if isinstance(a, Value) else np.where(a != 0.0, 1.0, 0.0)


def lane_sums(terms: Callable[..., tuple[Any, ...]]) -> Any:
    """A function for compiled code: from a tuple of contiguous arrays (n,), the sums of their `terms`, a tuple.

    terms: makes the terms of one index from one number of each array, taken as float64, by +, -, * and `larger`.
    """

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = list(signature.args[0])
        places = cgutils.unpack_tuple(builder, arguments[0])
        n = builder.extract_value(context.make_array(kinds[0])(context, builder, places[0]).shape, 0)
        arrays = data_of(context, builder, kinds, places)
        size = n.type

        def terms_at(s: Any, lanes: int) -> list[list[Any]]:
            """For each term `lanes` values from s on, VECTOR to a vector."""
            width = min(lanes, VECTOR)
            vectors = [vector_at(builder.add(s, size(first)), width) for first in range(0, lanes, width)]
            return [list(term) for term in zip(*vectors, strict=True)]

        def vector_at(s: Any, lanes: int) -> list[Any]:
            taken = []
            for array, kind in zip(arrays, kinds, strict=True):
                width = ir.VectorType(DOUBLE, lanes) if lanes > 1 else DOUBLE
                number = builder.load(place_of(builder, array, s, lanes), align=kind.dtype.bitwidth // 8)
                if kind.dtype == types.int8:
                    number = builder.sitofp(number, width)
                elif kind.dtype == types.float32:
                    number = builder.fpext(number, width)
                taken.append(Value(builder, number))
            return [term.value for term in terms(*taken)]

        def added(begin: Any, end: Any, lanes: int, sums: list[list[Any]]) -> list[list[Any]]:
            """`sums` plus the terms begin..end, `lanes` at a time."""

            def body(s: Any, before: list[Any]) -> list[Any]:
                more = [part for term in terms_at(s, lanes) for part in term]
                return [builder.fadd(part, term) for part, term in zip(before, more, strict=True)]

            found, each = (
                loop(builder, begin, end, lanes, [part for total in sums for part in total], body),
                len(sums[0]),
            )
            return [found[p : p + each] for p in range(0, len(found), each)]

        width, zeros = LANES, filled(ir.VectorType(DOUBLE, VECTOR), 0.0)
        sums = [[zeros] * (LANES // VECTOR) for _ in signature.return_type]
        sums = added(size(0), builder.and_(n, size(-width)), width, sums)
        while width > 1:
            width //= 2
            sums = [_halves_added(builder, total) for total in sums]
            sums = added(builder.and_(n, size(-2 * width)), builder.and_(n, size(-width)), width, sums)
        return context.make_tuple(builder, signature.return_type, [total for (total,) in sums])

    def lane_sum(_: Any, arrays: Any) -> Any:
        for array in arrays:
            if not (array.ndim == 1 and array.layout == "C" and array.dtype in TYPES):
                raise TypingError(f"a sum in lanes is one of contiguous arrays (n,) of {TYPES}, got {array}")
        count = len(terms(*(np.zeros(1) for _ in arrays)))
        return types.UniTuple(types.float64, count)(arrays), instructions

    return intrinsic(lane_sum)


def _halves_added(builder: Any, parts: list[Any]) -> list[Any]:
    """Add the upper half of the lanes to the lower half; the last two lanes become a number."""
    if len(parts) > 1:
        half = len(parts) // 2
        return [builder.fadd(*pair) for pair in zip(parts[:half], parts[half:], strict=True)]
    return [builder.fadd(*halves(builder, parts[0]))]


_products = lane_sums(lambda a, b: (a * b,))


@in_place
def dot(alpha, row):
    """sum_s alpha_s row_s in float64, for alpha (n,) float64 and a kernel row (n,)."""
    return _products((alpha, row))[0]
