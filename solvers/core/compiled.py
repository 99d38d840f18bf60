"""The one place that decides how numba compiles.

Compiled code is cached on disk, below the user's cache folder or NUMBA_CACHE_DIR. numba's cache does not notice an edit
in another file than the function's own, and knows a file by its path. Here code lies below a hash of all sources that
may be compiled: an edit anywhere starts a fresh folder, and every checkout or installation of the same sources shares
one.

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
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator

if sys.platform != "win32":
    import fcntl

F = TypeVar("F", bound=Callable[..., Any])


SOLVERS = Path(__file__).parent.parent


def _sources() -> str:
    """A hash of exactly these sources, this Python and this numba; of estimators nothing is compiled."""
    digest = hashlib.sha256(f"{sys.version} {numba.__version__}".encode())
    for source in sorted(SOLVERS.rglob("*.py")):
        name = source.relative_to(SOLVERS)
        if name.parts[0] != "estimators":
            digest.update(bytes(name) + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


STATE = _sources()


def _cache_folder() -> Path:
    """The user's, or the system's for what may go where that cannot be written, as in a container."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hinged"
    try:
        (folder / STATE).mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir()) / "hinged"
    return folder


if not os.environ.get("NUMBA_CACHE_DIR"):
    cast("Any", numba.config).CACHE_DIR = str(_cache_folder())


class _Locator(UserProvidedCacheLocator):
    """Where the code of a function lies: by what the sources are, not by where."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The folder of a source file below the cache's."""
        folder = Path(py_file).parent
        if not folder.is_relative_to(SOLVERS):  # compiled by a user's own code
            return cast("str", super().get_suitable_cache_subpath(py_file))
        return str(Path(STATE, folder.relative_to(SOLVERS)))


class _Entries(CompileResultCacheImpl):
    # Where that folder cannot be written, numba looks for another as it always does.
    _locator_classes = [_Locator, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012, SLF001  its own form of it


class _Cache(FunctionCache):
    """numba's cache of a function, to which one process at a time adds."""

    _impl_class = _Entries

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
    return _compiled(function, counts=True)


def in_place(function: F) -> F:
    """The same for a step that makes no array and returns none: it counts no references to the arrays that it is given.

    Elsewhere each array that is taken out of a tuple, and each slice, is counted up and down again, by two locked
    instructions: of short loops that was half the time. numba refuses to compile a step that makes or returns an array;
    one that calls a `compiled` function that returns an array would never free it.
    """
    return _compiled(function, counts=False)


def _compiled(function: F, *, counts: bool) -> F:
    dispatcher: Any = cast("Any", numba).njit(nogil=True, error_model="numpy", _nrt=counts)(function)
    if dispatcher is not function:  # as it is with NUMBA_DISABLE_JIT
        dispatcher._cache = _Cache(function)  # noqa: SLF001  cache=True does the same with numba's own
    return cast("F", dispatcher)
