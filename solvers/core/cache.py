"""Where compiled code lies: by what the sources are.

Compiled code is cached on disk, below the user's cache folder or NUMBA_CACHE_DIR. numba's cache does not notice an edit
in another file than the function's own, and knows a file by its path. Here code lies below a hash of all sources that
may be compiled: an edit anywhere starts a fresh folder, and every checkout or installation of the same sources shares
one.

Several processes may fill a folder at once, one entry at a time: numba numbers the variants of a function in an index,
and two processes that took the same number would leave code for one's types under the other's. Each file begins with a
digest of the rest: what is damaged counts as not there, so it is compiled again and replaced. What cannot be written is
compiled by each process for itself.

A wheel may bring code along, for a kind of processor (`KINDS`), in the same form. It is read where the user's folder
has none for this very processor, if sources, Python and numba are those that it was compiled of, and this processor is
of the kind. Nothing is ever written to it. Code is the same to the bit for every processor (compiled.py), so one may be
taken for the other.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, cast

import numba
from llvmlite.binding import get_host_cpu_features
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    UserProvidedCacheLocator,
)

if sys.platform != "win32":
    import fcntl

log = logging.getLogger(__name__)

SOLVERS = Path(__file__).parent.parent
BROUGHT = SOLVERS.parent / "compiled"
"""What a wheel brought along, where it did."""
NOTHING_COMPILED = ("estimators", "warm.py", "crew.py", "compiler.py", "recall.py", "core/cache.py", "core/calls.py")
"""Folders and files whose functions are never compiled."""
V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "ssse3")
KINDS = {"x86_64": ("x86-64-v3", V3), "AMD64": ("x86-64-v3", V3), "aarch64": ("generic", ())}
"""The processor that a wheel's code is compiled for, as LLVM calls it, and what one must have to run it."""
DIGEST = 16  # bytes
KIND, NEEDED = KINDS.get(platform.machine(), ("", ()))


def _sources() -> str:
    """A hash of exactly these sources, this kind of Python and this numba."""
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    digest = hashlib.sha256(f"{python} {numba.__version__}".encode())
    for source in sorted(SOLVERS.rglob("*.py")):
        name = source.relative_to(SOLVERS)
        if not name.as_posix().startswith(NOTHING_COMPILED):
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

    def get_source_stamp(self) -> str:
        """STATE, where it stands for the file too."""
        own = Path(self._py_file).is_relative_to(SOLVERS)
        return STATE if own else cast("str", super().get_source_stamp())


class _ReadOnly(_Locator):
    """The same where nothing can be written: what lies there is read, and code from a wheel."""

    def ensure_cache_path(self) -> None:
        """It is not."""


class Entries(CompileResultCacheImpl):
    """The files of a function."""

    # Where that folder cannot be written, numba looks for another as it always does.
    _locator_classes = [_Locator, *CompileResultCacheImpl._locator_classes, _ReadOnly]  # noqa: RUF012, SLF001  its own form of it


class Files(IndexDataCacheFile):
    """An index, and what it names, each behind a digest."""

    def _load_index(self) -> dict[Any, str]:
        try:
            version, stamp, names = self._load_data(self._index_name)
        except OSError:
            return {}
        return names if (version, stamp) == (self._version, self._source_stamp) else {}

    def save(self, key: Any, data: Any) -> None:
        """Keep data under a key: first the data, by a name that none has had, so that no key can name another's."""
        names = self._load_index()
        name = names.get(key) or next(name for name in map(self._data_name, count(1)) if self._is_new(name, names))
        self._save_data(name, data)
        if key not in names:
            self._save_index({**names, key: name})

    def _is_new(self, name: str, names: dict[Any, str]) -> bool:
        return name not in names.values() and not Path(self._data_path(name)).exists()

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._save_data(self._index_name, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        """What a file has; OSError if it is not there, or not as it was written."""
        content = Path(self._data_path(name)).read_bytes()
        digest, data = content[:DIGEST], content[DIGEST:]
        if _digest(data) != digest:
            raise OSError(f"{name} is damaged")
        return pickle.loads(data)  # noqa: S301  from a folder of the user's own, as numba does

    def _dump(self, obj: Any) -> bytes:
        data = cast("bytes", super()._dump(obj))
        return _digest(data) + data


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


class Cache(FunctionCache):
    """numba's cache of a function, to which one process at a time adds."""

    _impl_class: type[Entries] = Entries

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        locator, folder = self._impl.locator, Path(self._cache_path)
        self._cache_file = Files(self._cache_path, self._impl.filename_base, locator.get_source_stamp())
        self._brought = None
        if isinstance(locator, _Locator) and STATE in folder.parts and may_run_brought():
            within = _Locator.get_suitable_cache_subpath(locator._py_file)  # noqa: SLF001  as it was made
            self._brought = Files(str(BROUGHT / within), self._impl.filename_base, STATE)

    def is_there(self) -> bool:
        """Whether the function is compiled, for whatever types."""
        files = (self._cache_file, self._brought)
        return any(file is not None and os.path.exists(file._index_path) for file in files)  # noqa: PTH110, SLF001

    def save_overload(self, sig: Any, data: Any) -> None:
        """Add a variant, or go on without: it is compiled all the same."""
        try:
            with locked(Path(self.cache_path)):
                super().save_overload(sig, data)
        except OSError as error:
            _tell_unwritten(error.strerror or str(error))

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super()._load_overload(sig, target_context)
        if found is not None or self._brought is None or not self._enabled:
            return found
        types, (triple, _, _), code = self._index_key(sig, target_context.codegen())
        payload = self._brought.load((types, (triple, KIND, ""), code))
        return None if payload is None else self._impl.rebuild(target_context, payload)


@cache
def _tell_unwritten(problem: str) -> None:
    log.warning("compiled code cannot be kept, and each start compiles it again: %s", problem)


@cache
def may_run_brought() -> bool:
    """Whether a wheel brought code that these sources, this Python and numba, and this processor can run."""
    chosen = cast("Any", numba.config).CPU_NAME  # NUMBA_CPU_NAME
    if not KIND or chosen not in (None, KIND) or not (BROUGHT / STATE).is_dir():
        return False
    features = get_host_cpu_features()
    return all(features.get(feature) for feature in NEEDED)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time, where the system has such a lock; else it is as numba leaves it."""
    with ExitStack() as stack:
        if sys.platform != "win32":
            with suppress(OSError):  # a folder that cannot be written, a file system without locks
                folder.mkdir(parents=True, exist_ok=True)
                handle = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
