"""The cache of compiled code on disk: one file for each form of a function and its types.

The folder is the user's cache folder or NUMBA_CACHE_DIR, plus a subfolder named by a hash of all sources that may be
compiled. Any edit starts a new folder, and all checkouts and installations of the same sources share a folder. (numba's
own cache does not notice an edit outside of the function's own file, and identifies a file by its path.)

Several processes may fill a folder at once: a file is named by its content and appears only when it is complete. A file
begins with a digest of the rest. A damaged file counts as missing, so its function is compiled again and the file
replaced. If the folder cannot be written, each process compiles its own code.

A wheel may include code for a processor type (`KINDS`). This code is only read, never written. It is used if three
conditions are met: the user's folder has no code for this exact processor; sources, Python and numba are the same; and
this processor is of that type. Code gives the same bits on every processor (compiled.py), so either code may be used.
"""

from __future__ import annotations

import logging
import os
import pickle
import platform
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import numba
from llvmlite.binding import get_host_cpu_features
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

log = logging.getLogger(__name__)

SOLVERS = Path(__file__).parent.parent
BROUGHT = SOLVERS.parent / "compiled"
"""Folder of the compiled code that a wheel included, if any."""
NOTHING_COMPILED = ("estimators", "warm.py", "jit/crew.py")
"""Folders and files that are not part of compiled code."""
V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "ssse3")
KINDS = {"x86_64": ("x86-64-v3", V3), "AMD64": ("x86-64-v3", V3), "aarch64": ("generic", ())}
"""The processor for which a wheel's code is compiled, in LLVM's name, and the features needed to run it."""
KIND, NEEDED = KINDS.get(platform.machine(), ("", ()))
DIGEST = 16  # bytes
SUFFIX = ".code"


def _sources() -> str:
    """Return a hash of exactly these sources, this kind of Python and this numba."""
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    digest = sha256(f"{python} {numba.__version__}".encode())
    for source in sorted(SOLVERS.rglob("*.py")):
        name = source.relative_to(SOLVERS)
        if not name.as_posix().startswith(NOTHING_COMPILED):
            digest.update(bytes(name) + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


STATE = _sources()


def _folder() -> Path:
    """Return NUMBA_CACHE_DIR, the user's cache folder or (if that cannot be written) a temporary folder."""
    chosen = cast("Any", numba.config).CACHE_DIR
    if chosen:
        return Path(chosen)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "hinged")
    try:
        (folder / STATE).mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir(), "hinged")
    return folder


FOLDER = _folder() / STATE
"""The folder with the compiled code of these sources."""


def compiled_so_far() -> int:
    """Return the number of compiled functions in the folder, counting each form for each of its types."""
    return sum(1 for _ in FOLDER.rglob(f"*{SUFFIX}"))


class NotCompiled(Exception):
    """Raised within `only_loading` if a function is missing from the cache."""


@contextmanager
def only_loading() -> Iterator[None]:
    """Within this context, this thread compiles nothing; it raises NotCompiled instead."""
    _here.only_loading = True
    try:
        yield
    finally:
        _here.only_loading = False


_here = threading.local()


class Cache(NullCache):
    """The cache of one form of a function of a module. Each file contains the code for some types, and the types.

    rebuild: restores the form in memory from its context and the stored data.
    """

    def __init__(self, function: Any, form: str = "", rebuild: Callable[..., Any] = CompileResult._rebuild) -> None:  # noqa: SLF001
        if function.__closure__:
            raise ValueError(f"a compiled function must have no closure, got {function.__qualname__}")
        code = function.__code__
        file = Path(code.co_filename)
        ours = file.is_relative_to(SOLVERS)
        room = file.parent.relative_to(SOLVERS) if ours else Path("others", _digest(file.read_bytes()).hex())
        self._prefix = str(room / f"{file.stem}.{function.__name__}-{code.co_firstlineno}{form}-")
        self._rebuild = rebuild

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a function for these types, or None."""
        target_context.refresh()
        triple, *processor = target_context.codegen().magic_tuple()
        for folder, kind in ((FOLDER, processor), (BROUGHT / STATE, (KIND, "")))[: 1 + may_run_brought()]:
            with suppress(OSError):
                types, payload = _read(folder / self._file(sig, (triple, *kind)))
                if types == sig:
                    return self._rebuild(target_context, *payload)
        if getattr(_here, "only_loading", False):
            raise NotCompiled
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a function for these types. A failure is harmless, because the function is compiled in any case."""
        if data.library.has_dynamic_globals:  # the code contains an address of this process
            return
        try:
            _write(FOLDER / self._file(sig, data.codegen.magic_tuple()), dumps((sig, data._reduce())))  # noqa: SLF001
        except OSError as error:
            _tell_unwritten(error.strerror or str(error))

    def _file(self, sig: Any, processor: tuple[str, ...]) -> str:
        return self._prefix + _digest(repr((str(sig), processor)).encode()).hex() + SUFFIX


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST).digest()


def _read(file: Path) -> Any:
    """Return the content of a file. Raise OSError if the file is missing or damaged."""
    content = file.read_bytes()
    digest, data = content[:DIGEST], content[DIGEST:]
    if _digest(data) != digest:
        raise OSError(f"{file} is damaged")
    return pickle.loads(data)  # noqa: S301  from a folder of the user's own, as numba does


def _write(file: Path, data: bytes) -> None:
    """Write a file that appears only when complete. A power failure may damage it; its digest then shows the damage."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{uuid4().hex}")
    try:
        part.write_bytes(_digest(data) + data)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


@cache
def _tell_unwritten(problem: str) -> None:
    log.warning("compiled code cannot be kept, and each start compiles it again: %s", problem)


@cache
def may_run_brought() -> bool:
    """Return whether a wheel included code that these sources, this Python and numba, and this processor can run."""
    chosen = cast("Any", numba.config).CPU_NAME  # NUMBA_CPU_NAME
    if not KIND or chosen not in (None, KIND) or not (BROUGHT / STATE).is_dir():
        return False
    features = get_host_cpu_features()
    return all(features.get(feature) for feature in NEEDED)
