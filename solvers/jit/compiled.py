"""The only place that determines how numba compiles. cache.py determines where code is stored.

No function uses any part of numba's fast-math. Without it, LLVM neither reorders arithmetic nor fuses a multiplication
with an addition, and vector instructions round like scalar instructions. So compiled code gives the same bits on every
processor, if it calls no function of the C library that rounds (core/elementary.py). Sums that need not follow the
order of their terms have a fixed order of their own: core/simd/lanes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from hinged.solvers.jit.forms import Step

F = TypeVar("F", bound=Callable[..., Any])


# `_nrt` (whether references are counted) must be set, because a function inherits each unset option from its caller.
OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "_nrt": True}


def compiled(function: F) -> F:
    """Compile a step: without the GIL, so the server answers meanwhile; division as in C; arithmetic as written."""
    return cast("F", Step(function, OPTIONS))


def in_place(function: F) -> F:
    """Compile a step that makes and returns no array. The step does not count references to its arguments.

    Otherwise the reference count of each array taken from a tuple, and of each slice, is raised and lowered by two
    locked instructions. In short loops that was half of the time. numba refuses to compile a step that makes or returns
    an array. A step that calls a `compiled` function that returns an array would never free that array.
    """
    return cast("F", Step(function, OPTIONS | {"_nrt": False}))
