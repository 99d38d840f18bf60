"""How compiled code receives a tuple of arrays: by one pointer to the tuple.

numba passes each array of a tuple as five or more values. A tuple of twenty arrays added more than a hundred arguments
to each call, and each use of the tuple unpacked it. A tuple of a class that is `handed` is stored in the stack frame of
the function that Python calls. Functions called from there get its address.

Python makes these tuples. A tuple that compiled code makes is passed in numba's way and cannot be returned.
"""

from __future__ import annotations

from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import DataModel
from numba.core.datamodel.registry import register_default
from numba.core.errors import NumbaNotImplementedError
from numba.core.imputils import impl_ret_borrowed, lower_builtin, lower_getattr_generic
from numba.core.pythonapi import NativeValue
from numba.extending import typeof_impl, unbox

KNOWN = ir.values.ArgumentAttributes._known  # noqa: SLF001  shows which of two names llvmlite knows
ATTRIBUTES = ("noalias", "nonnull", "readonly", "captures(none)" if "captures(none)" in KNOWN else "nocapture")
"""Attributes of an address: nobody writes to the memory there, and nobody stores the address."""

C = TypeVar("C", bound=type[tuple[Any, ...]])


class Handed(types.NamedTuple):
    """The type of a tuple that is passed by address."""


def handed(kind: C) -> C:
    """Make tuples of this class, a NamedTuple, be passed by address."""
    typeof_impl.register(kind)(_typeof)
    return kind


def _typeof(value: Any, context: Any) -> Handed:
    return Handed([typeof_impl(each, context) for each in value], type(value))


@register_default(Handed)
class _Model(DataModel):
    """A tuple that is represented by its address in every use.

    The outermost function owns the arrays of the tuple and counts their references.
    """

    def __init__(self, manager: Any, kind: Handed) -> None:
        super().__init__(manager, kind)
        self.struct = ir.LiteralStructType([manager[each].get_value_type() for each in kind.types])

    def get_value_type(self) -> ir.Type:
        return ir.PointerType(self.struct)

    def as_return(self, builder: Any, value: Any) -> Any:  # noqa: ARG002
        raise NumbaNotImplementedError(f"compiled code cannot return a {self.fe_type.instance_class.__name__}")

    def as_argument(self, builder: Any, value: Any) -> Any:  # noqa: ARG002
        return value

    def from_argument(self, builder: Any, value: Any) -> Any:  # noqa: ARG002
        for attribute in ATTRIBUTES:
            set.add(value.attributes, attribute)  # llvmlite's own `add` does not accept "readonly"
        return value


def _field(context: Any, builder: Any, kind: Handed, value: Any, index: int) -> Any:
    found = builder.load(cgutils.gep_inbounds(builder, value, 0, index))
    return impl_ret_borrowed(context, builder, kind[index], found)


@lower_getattr_generic(Handed)  # type: ignore[untyped-decorator]
def _attribute(context: Any, builder: Any, kind: Handed, value: Any, name: str) -> Any:
    return _field(context, builder, kind, value, kind.fields.index(name))


@lower_builtin("static_getitem", Handed, types.IntegerLiteral)  # type: ignore[untyped-decorator]
def _item(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _field(context, builder, signature.args[0], args[0], args[1])


@unbox(Handed)  # type: ignore[untyped-decorator]
def _unbox(kind: Handed, value: Any, c: Any) -> NativeValue:
    """Store a tuple in the stack frame of the function that Python calls, until that function returns."""
    builder, cleanups = c.builder, []
    failed = cgutils.alloca_once_value(builder, cgutils.false_bit)
    address = cgutils.alloca_once(builder, c.context.data_model_manager[kind].struct)
    for index, each in enumerate(kind.types):
        native = c.unbox(each, c.pyapi.tuple_getitem(value, index))
        builder.store(native.value, cgutils.gep_inbounds(builder, address, 0, index))
        cleanups += [native.cleanup] if native.cleanup is not None else []
        with builder.if_then(native.is_error, likely=False):
            builder.store(cgutils.true_bit, failed)

    def cleanup() -> None:
        for each in reversed(cleanups):
            each()
        if c.context.enable_nrt:  # numba does the same for arrays that it hands on one by one
            for index, each in enumerate(kind.types):
                given = c.builder.load(cgutils.gep_inbounds(c.builder, address, 0, index))
                c.context.nrt.decref(c.builder, each, given)

    return NativeValue(address, cleanup=cleanup, is_error=builder.load(failed))
