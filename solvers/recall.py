"""What a process that only compiles does less often than numba: for a third less of its time.

Type inference asks for one thing again and again: which of the dozens of implementations of `+`, say, takes two floats.
The answer is the same each time, and is remembered here. What is compiled is the same.
"""

from __future__ import annotations

import gc
from typing import Any, cast

from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.types.functions import BaseFunction


def recall() -> None:
    """From now on, in this process. It keeps all that it makes, and takes a third more memory for it."""
    gc.disable()
    cast("Any", TargetConfig).__eq__ = _same
    cast("Any", TargetConfig).__hash__ = _hash
    cast("Any", BaseFunction).get_call_type = _get_call_type


_get = BaseFunction.get_call_type
_known: dict[int, tuple[BaseFunction, dict[Any, Any]]] = {}
"""Signature and implementation, by the identity of a function's type, and by what it is called with. The types stay,
and so do their identities."""


def _get_call_type(self: BaseFunction, context: Any, args: Any, kws: Any) -> Any:
    """The signature of a call; what fails is not remembered."""
    _, known = _known.setdefault(id(self), (self, {}))
    called = context, tuple(args), tuple(kws.items()), ConfigStack.top_or_none()
    implementations = cast("Any", self)._impl_keys  # noqa: SLF001  where numba looks for it
    if called in known:
        # Of one signature there are several, by the compiler's options, and numba takes the last that it looked up.
        signature, implementations[signature.args] = known[called]
    else:
        signature = cast("Any", _get)(self, context, args, kws)
        known[called] = signature, implementations[signature.args]
    return signature


def _same(self: Any, other: Any) -> Any:
    """Whether options of the compiler are the same; those that nobody set are."""
    if not isinstance(other, TargetConfig):
        return NotImplemented
    own, others = self._values, other._values  # noqa: SLF001  those that were set
    if own.keys() == others.keys():
        return own == others
    return all(getattr(self, name) == getattr(other, name) for name in own.keys() | others.keys())


def _hash(self: TargetConfig) -> int:
    """numba's own is of the names alone, the same for all of a kind."""
    return hash(type(self))
