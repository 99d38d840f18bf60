"""The one place that decides how numba compiles.

Compiled code is cached on disk. numba's cache does not notice an edit in another file than the function's own, so
the cache's folder carries a hash of every source file of this package: an edit anywhere starts a fresh one.
Set NUMBA_CACHE_DIR to choose the folder yourself.

Several processes may fill a folder at once, one entry at a time: numba numbers the variants of a function in an index,
and two processes that took the same number would leave code for one's types under the other's.

No function is compiled with any part of numba's fast-math. Without it LLVM neither reorders arithmetic nor fuses a
multiplication with an addition, and vector instructions round like scalar ones: so compiled code gives the same bits on
every processor, as long as it calls no function of the C library but such as round nothing
(elementary.py). Sums for which order may be given up have an order of their own: lanes.py.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

if sys.platform != "win32":
    import fcntl

F = TypeVar("F", bound=Callable[..., Any])


def _cache_folder() -> Path:
    """A folder of the user's cache that belongs to exactly these sources, this Python and this numba."""
    digest = hashlib.sha256(f"{sys.version} {numba.__version__}".encode())
    solvers = Path(__file__).parent.parent
    for source in sorted(solvers.rglob("*.py")):
        digest.update(bytes(source.relative_to(solvers)) + b"\0" + source.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "hinged" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written, as in a container
        return Path(tempfile.gettempdir()) / "hinged" / folder.name
    return folder


if not os.environ.get("NUMBA_CACHE_DIR"):
    cast("Any", numba.config).CACHE_DIR = str(_cache_folder())


class _Cache(FunctionCache):
    """numba's cache of a function, to which one process at a time adds."""

    def save_overload(self, sig: Any, data: Any) -> None:
        """Add a variant."""
        with _locked(Path(self.cache_path)):
            super().save_overload(sig, data)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    if sys.platform == "win32":  # has no such lock: there it is as numba leaves it
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def compiled(function: F) -> F:
    """Compile a step: no GIL, so that the server answers meanwhile; division as in C; arithmetic as written."""
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy")(function)
    if dispatcher is not function:  # as it is with NUMBA_DISABLE_JIT
        dispatcher._cache = _Cache(function)  # noqa: SLF001  cache=True does the same with numba's own
    return cast("F", dispatcher)
