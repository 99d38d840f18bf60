"""The one place that decides how numba compiles; where code is kept, cache.py says.

No function is compiled with any part of numba's fast-math. Without it LLVM neither reorders arithmetic nor fuses a
multiplication with an addition, and vector instructions round like scalar ones: so compiled code gives the same bits on
every processor, as long as it calls no function of the C library but such as round nothing
(core/elementary.py). Sums for which order may be given up have an order of their own: core/simd/lanes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from hinged.solvers.jit.forms import Step

F = TypeVar("F", bound=Callable[..., Any])


# Whether references are counted, `_nrt`, has to be said: what is not said a function takes from its caller.
OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "_nrt": True}


def compiled(function: F) -> F:
    """Compile a step: no GIL, so that the server answers meanwhile; division as in C; arithmetic as written."""
    return cast("F", Step(function, OPTIONS))


def in_place(function: F) -> F:
    """The same for a step that makes no array and returns none: it counts no references to the arrays that it is given.

    Elsewhere each array that is taken out of a tuple, and each slice, is counted up and down again, by two locked
    instructions: of short loops that was half the time. numba refuses to compile a step that makes or returns an array;
    one that calls a `compiled` function that returns an array would never free it.
    """
    return cast("F", Step(function, OPTIONS | {"_nrt": False}))
