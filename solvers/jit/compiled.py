"""The only place that decides how numba compiles; cache.py decides where code is kept.

No function uses any part of numba's fast-math. Without it LLVM neither reorders arithmetic nor fuses a multiplication
with an addition, and vector instructions round like scalar instructions. So compiled code gives the same bits on every
processor, as long as it calls no function of the C library that rounds (core/elementary.py). Sums whose order may be
given up have a fixed order of their own: core/simd/lanes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from hinged.solvers.jit.forms import Step

F = TypeVar("F", bound=Callable[..., Any])


# `_nrt`, whether references are counted, must be set: a function takes an option that is not set from its caller.
OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "_nrt": True}


def compiled(function: F) -> F:
    """Compile a step: no GIL, so that the server answers meanwhile; division as in C; arithmetic as written."""
    return cast("F", Step(function, OPTIONS))


def in_place(function: F) -> F:
    """Compile a step that makes no array and returns none: it counts no references to the arrays that it is given.

    Otherwise each array taken out of a tuple, and each slice, is counted up and down again by two locked instructions;
    in short loops that was half of the time. numba refuses to compile a step that makes or returns an array. A step
    that calls a `compiled` function that returns an array would never free that array.
    """
    return cast("F", Step(function, OPTIONS | {"_nrt": False}))
