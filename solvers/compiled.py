"""The one place that decides how numba compiles.

Compiled code is cached on disk. numba's cache does not notice an edit in another file than the function's own, so
the cache's folder carries a hash of every source file of this package: an edit anywhere starts a fresh one.
Set NUMBA_CACHE_DIR to choose the folder yourself.

No function is compiled with numba's full fast-math: it would let the compiler drop the checks for NaN.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _cache_folder() -> Path:
    """A folder of the user's cache that belongs to exactly these sources, this Python and this numba."""
    digest = hashlib.sha256(f"{sys.version} {numba.__version__}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "hinged" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written, as in a container
        return Path(tempfile.gettempdir()) / "hinged" / folder.name
    return folder


if not os.environ.get("NUMBA_CACHE_DIR"):
    cast("Any", numba.config).CACHE_DIR = str(_cache_folder())


def compiled(function: F) -> F:
    """Compile a step: no GIL, so that the server answers meanwhile; division as in C; arithmetic as written."""
    return cast("F", numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def compiled_sum(function: F) -> F:
    """Compile a sum whose terms may be added in lanes, in an order that depends on their number alone."""
    return cast(
        "F",
        numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"})(function),
    )
