"""The processor's vectors in LLVM's instructions, for the few loops that numba compiles badly. Internal.

A vector is as wide as the registers of the processor that compiles the code. The width never affects a result: in these
loops each number has its own sum, product or place, or is a maximum. (Sums over lanes have a fixed order: lanes.py.) No
instruction may be reordered or fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

_CHOSEN = cast("Any", config).CPU_FEATURES
_FEATURES = get_host_cpu_features() if _CHOSEN is None else _CHOSEN

WIDE = "+avx512f" in _FEATURES
"""Whether the processor has 32 registers of 512 bits.

Otherwise it has sixteen registers of 256 bits, or pairs of registers of 128 bits.
"""

VECTOR_BYTES_MOST = 64
VECTOR_BYTES = VECTOR_BYTES_MOST if WIDE else 32
"""Number of bytes in a vector. Only compiled code may use VECTOR_BYTES. A wheel's code may be compiled for narrower
vectors than this processor has, so no array that Python makes may depend on VECTOR_BYTES.
"""

INT = ir.IntType(32)


class Value:
    """A number or a vector of numbers in compiled code.

    A plain number combined with it becomes a constant of its type.
    """

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def _of(self, value: Any) -> Value:
        return Value(self.builder, value)

    def _constant(self, other: Any) -> Any:
        return other.value if isinstance(other, Value) else filled(self.value.type, other)

    def __add__(self, other: Any) -> Value:
        return self._of(self.builder.fadd(self.value, self._constant(other)))

    def __sub__(self, other: Any) -> Value:
        return self._of(self.builder.fsub(self.value, self._constant(other)))

    def __mul__(self, other: Any) -> Value:
        return self._of(self.builder.fmul(self.value, self._constant(other)))

    def _where(self, way: str, other: Any) -> Value:
        b = self._constant(other)
        return self._of(self.builder.select(self.builder.fcmp_ordered(way, self.value, b), self.value, b))

    def larger(self, other: Any) -> Value:
        """Return the larger of both."""
        return self._where(">", other)

    def smaller(self, other: Any) -> Value:
        """Return the smaller of both."""
        return self._where("<", other)

    def nonzero(self) -> Value:
        """Return 1 if the number is not 0, else 0."""
        is_nonzero = self.builder.fcmp_unordered("!=", self.value, filled(self.value.type, 0.0))
        return self._of(self.builder.select(is_nonzero, *(filled(self.value.type, number) for number in (1.0, 0.0))))

    def times_power(self, rounded: Value, exponent: int) -> Value:
        """Return the number times 2^k, with k in the lowest bits of `rounded`. exponent: first exponent bit."""
        number = getattr(self.value.type, "element", self.value.type)
        bits = of_lanes(ir.IntType(32 if number == ir.FloatType() else 64), getattr(self.value.type, "count", 1))
        mine, power = (self.builder.bitcast(value, bits) for value in (self.value, rounded.value))
        moved = self.builder.add(mine, self.builder.shl(power, filled(bits, exponent)))
        return self._of(self.builder.bitcast(moved, self.value.type))


def of_lanes(number: Any, lanes: int) -> Any:
    """Return the type of a vector of `lanes` numbers; for one lane, the number's own type."""
    return number if lanes == 1 else ir.VectorType(number, lanes)


def filled(kind: Any, number: float) -> Any:
    """Return a constant of a number's or a vector's type with this number in all lanes."""
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


def spread(builder: Any, value: Any, lanes: int) -> Any:
    """Return a vector with the value in all lanes; for one lane, the value itself."""
    if lanes == 1:
        return value
    vector = ir.VectorType(value.type, lanes)
    first = builder.insert_element(vector(ir.Undefined), value, INT(0))
    return builder.shuffle_vector(first, vector(ir.Undefined), filled(ir.VectorType(INT, lanes), 0))


def place_of(builder: Any, base: Any, index: Any, lanes: int) -> Any:
    """Return a pointer to `lanes` numbers, starting `index` numbers after the pointer `base`."""
    place = builder.gep(base, [index])
    return builder.bitcast(place, of_lanes(base.type.pointee, lanes).as_pointer())


def halves(builder: Any, vector: Any) -> list[Any]:
    """Return the lower and the upper half of a vector; for two lanes, the two numbers."""
    width = vector.type.count // 2
    if width == 1:
        return [builder.extract_element(vector, INT(lane)) for lane in (0, 1)]
    places = ir.VectorType(INT, width)
    return [
        builder.shuffle_vector(vector, vector.type(ir.Undefined), ir.Constant(places, [*range(first, first + width)]))
        for first in (0, width)
    ]


def prefetch(builder: Any, place: Any) -> None:
    """Prefetch the cache line at this pointer, which may be any address."""
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, INT, INT, INT])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [builder.bitcast(place, byte), INT(0), INT(3), INT(1)])  # read, first level, data


def loop(
    builder: Any, begin: Any, end: Any, step: int, values: Sequence[Any], body: Callable[[Any, list[Any]], list[Any]]
) -> list[Any]:
    """Return `values` after `body(s, values)` for s = begin, begin + step, ... < end."""
    entry, inside, done = builder.block, *(builder.append_basic_block(name) for name in ("inside", "done"))
    builder.cbranch(builder.icmp_signed("<", begin, end), inside, done)
    builder.position_at_end(inside)
    s, before = builder.phi(begin.type), [builder.phi(value.type) for value in values]
    after = body(s, before)
    following = builder.add(s, begin.type(step))
    s.add_incoming(begin, entry)
    s.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, end), inside, done)
    last = builder.block
    builder.position_at_end(done)
    found = [builder.phi(value.type) for value in values]
    for phi, total, first, later in zip(before, found, values, after, strict=True):
        for target in (phi, total):
            target.add_incoming(first, entry)
            target.add_incoming(later, last)
    return found


def data_of(context: Any, builder: Any, kinds: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """Return pointers to the numbers of arrays, and other arguments unchanged."""
    return [
        context.make_array(kind)(context, builder, argument).data if isinstance(kind, types.Array) else argument
        for kind, argument in zip(kinds, arguments, strict=True)
    ]


def elementwise(function: Callable[..., Value]) -> Any:
    """Return a function for compiled code: first[s] = function(first[s], second[s], ..., numbers...) for s < n.

    Its arguments are a tuple of contiguous arrays (n or more,), a tuple of numbers, all of one float type, and n.
    function: uses the operations of `Value`.
    """

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, width = list(signature.args[0]), signature.args[0][0].dtype.bitwidth // 8
        arrays = data_of(context, builder, kinds, cgutils.unpack_tuple(builder, arguments[0]))
        numbers, n = cgutils.unpack_tuple(builder, arguments[1]), arguments[2]

        def stretch(begin: Any, end: Any, lanes: int) -> None:
            given = [Value(builder, spread(builder, number, lanes)) for number in numbers]

            def body(s: Any, _: list[Any]) -> list[Any]:
                places = [place_of(builder, array, s, lanes) for array in arrays]
                values = [Value(builder, builder.load(place, align=width)) for place in places]
                builder.store(function(*values, *given).value, places[0], align=width)
                return []

            loop(builder, begin, end, lanes, [], body)

        lanes, begin = VECTOR_BYTES // width, n.type(0)
        while lanes > 1:
            end = builder.and_(n, n.type(-lanes))
            stretch(begin, end, lanes)
            lanes, begin = lanes // 4, end
        stretch(begin, n, 1)
        return context.get_dummy_value()

    def typed(_: Any, arrays: Any, numbers: Any, n: Any) -> Any:
        return types.void(arrays, numbers, n), instructions

    return intrinsic(typed)
