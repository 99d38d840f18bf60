"""Sums in lanes: the one place where terms are added in another order than that of their index.

A sum of floats depends on the order of its additions, and one addition at a time waits for the one before. With leave
to reorder a compiler takes as many partial sums as the processor's vectors hold, so that each kind of processor would
have bits of its own. Here their number stands in the code:

    lane_l = ((t_l + t_(l + LANES)) + t_(l + 2 LANES)) + ...    for 0 <= l < LANES, as long as terms fill all lanes

Then the upper half of the lanes is added to the lower one, and if as many terms as are left lanes still come, these are
added; and so on until one lane is left, and with it no term.

LANES float64 are four vectors of 256 bits or eight of 128. As numba keeps no array in registers, the loop is written in
LLVM's instructions, without leave to reorder or to fuse any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from hinged.solvers.core.compiled import in_place

LANES = 16
VECTOR = 4  # of them in a vector: 256 bits, for at 512 some processors lower their clock

DOUBLE = ir.DoubleType()
TYPES = (types.float64, types.float32, types.int8)
"""Of numbers that compiled code makes float64 of."""


class _Value:
    """A float64, or LANES of them, in compiled code: the arithmetic of a term."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def __add__(self, other: _Value) -> _Value:
        return _Value(self.builder, self.builder.fadd(self.value, other.value))

    def __sub__(self, other: _Value) -> _Value:
        return _Value(self.builder, self.builder.fsub(self.value, other.value))

    def __mul__(self, other: _Value) -> _Value:
        return _Value(self.builder, self.builder.fmul(self.value, other.value))

    def larger(self, other: _Value) -> _Value:
        """The larger one of both."""
        is_larger = self.builder.fcmp_ordered(">", self.value, other.value)
        return _Value(self.builder, self.builder.select(is_larger, self.value, other.value))

    def nonzero(self) -> _Value:
        """1 where it is not 0, else 0."""
        zero, one = (ir.Constant(self.value.type, _filled(self.value.type, number)) for number in (0.0, 1.0))
        is_nonzero = self.builder.fcmp_unordered("!=", self.value, zero)
        return _Value(self.builder, self.builder.select(is_nonzero, one, zero))


def larger(a: Any, b: Any) -> Any:
    """The larger one of two numbers of a term."""
    return a.larger(b) if isinstance(a, _Value) else np.where(a > b, a, b)


def nonzero(a: Any) -> Any:
    """1 for a number of a term that is not 0, else 0."""
    return a.nonzero() if isinstance(a, _Value) else np.where(a != 0.0, 1.0, 0.0)


def _filled(kind: Any, number: float) -> Any:
    return [number] * kind.count if isinstance(kind, ir.VectorType) else number


def lane_sums(terms: Callable[..., tuple[Any, ...]]) -> Any:
    """A function of compiled code: of a tuple of contiguous arrays (n,) the sums of their `terms`, a tuple.

    terms: the terms of one index, by +, -, * and `larger` from one number of each array, taken as float64.
    """
    if cast("Any", config).DISABLE_JIT:
        return partial(plain_sums, terms)

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        types_of = list(signature.args[0])
        arrays = [
            context.make_array(t)(context, builder, builder.extract_value(arguments[0], p))
            for p, t in enumerate(types_of)
        ]
        kinds = [t.dtype for t in types_of]
        n = builder.extract_value(arrays[0].shape, 0)
        size = n.type

        def terms_at(s: Any, lanes: int) -> list[list[Any]]:
            """Of each term so many from s on, VECTOR in a vector."""
            width = min(lanes, VECTOR)
            vectors = [vector_at(builder.add(s, size(first)), width) for first in range(0, lanes, width)]
            return [list(term) for term in zip(*vectors, strict=True)]

        def vector_at(s: Any, lanes: int) -> list[Any]:
            taken = []
            for array, kind in zip(arrays, kinds, strict=True):
                place, stored, width = builder.gep(array.data, [s]), context.get_data_type(kind), DOUBLE
                if lanes > 1:
                    stored, width = ir.VectorType(stored, lanes), ir.VectorType(DOUBLE, lanes)
                    place = builder.bitcast(place, stored.as_pointer())
                number = builder.load(place, align=kind.bitwidth // 8)
                if kind == types.int8:
                    number = builder.sitofp(number, width)
                elif kind == types.float32:
                    number = builder.fpext(number, width)
                taken.append(_Value(builder, number))
            return [term.value for term in terms(*taken)]

        def looped(end: Any, sums: list[list[Any]]) -> list[list[Any]]:
            """`sums` plus the terms below end, LANES at a time."""
            entry, loop, done = builder.block, *(builder.append_basic_block(name) for name in ("lanes", "summed"))
            builder.cbranch(builder.icmp_signed("<", size(0), end), loop, done)
            builder.position_at_end(loop)
            s, before = builder.phi(size), [[builder.phi(part.type) for part in total] for total in sums]
            after = added(before, terms_at(s, LANES))
            following = builder.add(s, size(LANES))
            s.add_incoming(size(0), entry)
            s.add_incoming(following, loop)
            for phis, firsts, laters in zip(before, sums, after, strict=True):
                for phi, first, later in zip(phis, firsts, laters, strict=True):
                    phi.add_incoming(first, entry)
                    phi.add_incoming(later, loop)
            builder.cbranch(builder.icmp_signed("<", following, end), loop, done)
            builder.position_at_end(done)
            return joined(sums, entry, after, loop)

        def once(wanted: Any, s: Any, lanes: int, sums: list[list[Any]]) -> list[list[Any]]:
            """`sums` plus so many terms from s on, where they are wanted."""
            entry, more, done = builder.block, *(builder.append_basic_block(name) for name in ("more", "summed"))
            builder.cbranch(wanted, more, done)
            builder.position_at_end(more)
            after = added(sums, terms_at(s, lanes))
            builder.branch(done)
            builder.position_at_end(done)
            return joined(sums, entry, after, more)

        def added(sums: list[list[Any]], more: list[list[Any]]) -> list[list[Any]]:
            return [
                [builder.fadd(part, term) for part, term in zip(*pair, strict=True)]
                for pair in zip(sums, more, strict=True)
            ]

        def joined(before: list[list[Any]], entry: Any, after: list[list[Any]], there: Any) -> list[list[Any]]:
            joint = []
            for firsts, laters in zip(before, after, strict=True):
                joint.append([builder.phi(first.type) for first in firsts])
                for phi, first, later in zip(joint[-1], firsts, laters, strict=True):
                    phi.add_incoming(first, entry)
                    phi.add_incoming(later, there)
            return joint

        width, zeros = LANES, ir.Constant(ir.VectorType(DOUBLE, VECTOR), [0.0] * VECTOR)
        sums = [[zeros] * (LANES // VECTOR) for _ in signature.return_type]
        sums = looped(builder.and_(n, size(-width)), sums)
        while width > 1:
            width //= 2
            sums = [_halves_added(builder, total) for total in sums]
            left = builder.icmp_signed("!=", builder.and_(n, size(width)), size(0))
            sums = once(left, builder.and_(n, size(-2 * width)), width, sums)
        return context.make_tuple(builder, signature.return_type, [total for (total,) in sums])

    def lane_sum(_: Any, arrays: Any) -> Any:
        for array in arrays:
            if not (array.ndim == 1 and array.layout == "C" and array.dtype in TYPES):
                raise TypingError(f"a sum in lanes is one of contiguous arrays (n,) of {TYPES}, got {array}")
        count = len(plain_sums(terms, [np.zeros(0) for _ in arrays]))
        return types.UniTuple(types.float64, count)(arrays), instructions

    return intrinsic(lane_sum)


def _halves_added(builder: Any, parts: list[Any]) -> list[Any]:
    """The lower half of the lanes plus the upper one; the last two are a number then."""
    if len(parts) > 1:
        half = len(parts) // 2
        return [builder.fadd(*pair) for pair in zip(parts[:half], parts[half:], strict=True)]
    (lanes,) = parts
    width = lanes.type.count // 2
    if width == 1:
        return [builder.fadd(*(builder.extract_element(lanes, ir.IntType(32)(lane)) for lane in range(2)))]
    low, high = (
        builder.shuffle_vector(
            lanes,
            ir.Constant(lanes.type, ir.Undefined),
            ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(first, first + width))),
        )
        for first in (0, width)
    )
    return [builder.fadd(low, high)]


def plain_sums(terms: Callable[..., tuple[Any, ...]], arrays: Iterable[Any]) -> tuple[float, ...]:
    """The same sums, to the bit, where nothing is compiled (NUMBA_DISABLE_JIT)."""
    sums = []
    for term in terms(*(np.asarray(array, np.float64) for array in arrays)):
        width, begin = LANES, len(term) - len(term) % LANES
        lanes = np.zeros(width)
        for s in range(0, begin, width):
            lanes += term[s : s + width]
        while width > 1:
            width //= 2
            lanes = lanes[:width] + lanes[width:]
            if len(term) & width:
                lanes += term[begin : begin + width]
                begin += width
        sums.append(float(lanes[0]))
    return tuple(sums)


_products = lane_sums(lambda a, b: (a * b,))


@in_place
def dot(alpha, row):
    """sum_s alpha_s row_s in float64, for alpha (n,) float64 and a kernel row (n,)."""
    return _products((alpha, row))[0]
