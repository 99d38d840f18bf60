"""Processes that compile for this process, which would otherwise keep the compiler's 300 MiB until its end.

Each process runs a program to its end and leaves the compiled code in the cache, where other processes find it.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from numba.core.compiler import Flags

from hinged.solvers.jit import cache

if sys.platform != "win32":
    import fcntl

POLL_S = 0.02
BESIDE_NICE = 5  # niceness of compiler processes next to a server that answers requests: the requests have priority


def compile_beside(
    programs: Sequence[Sequence[str]], is_there: Callable[[], bool], meanwhile: Callable[[], None], *, beside: bool
) -> str:
    """Run each program in a process; return the first error, or "" without errors. After an error, end the rest.

    programs: arguments of Python. is_there: returns whether everything is compiled by now. It is called when this
    process gets its turn, because only one process or thread at a time compiles for this cache. meanwhile: called
    repeatedly; if it raises, the processes end. beside: whether requests are answered meanwhile.
    """
    with _alone(meanwhile), ExitStack() as stack:
        if is_there():
            return ""
        try:
            started = [stack.enter_context(_process(each, beside=beside)) for each in programs[: os.cpu_count()]]
        except OSError as error:
            return str(error)
        while (ended := started[0].poll()) is None:
            meanwhile()
            time.sleep(POLL_S)
        return f"it ended with {ended}" if ended else ""


@contextmanager
def _process(program: Sequence[str], *, beside: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that imports the same packages and is not interrupted by Ctrl-C; kill the process at the end."""
    colourless = {"NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"}  # nobody sees its messages
    process = subprocess.Popen(  # noqa: S603  ourselves
        [sys.executable, "-P", *program],
        env=os.environ | colourless | {"PYTHONPATH": os.pathsep.join(sys.path)},
        process_group=0 if os.name == "posix" else None,
        stdin=subprocess.PIPE,
    )
    with process:
        try:
            if beside and hasattr(os, "setpriority"):
                with suppress(OSError):  # the process has ended
                    os.setpriority(os.PRIO_PROCESS, process.pid, BESIDE_NICE)
            yield process
        finally:
            process.kill()


def begin() -> None:
    """Set up a compiler process: make it exit when its parent exits, and save a fifth of the compiler's time."""

    def end_with_parent() -> None:
        os.read(0, 1)  # returns when the parent ends, however it ends
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    gc.disable()  # a compiler keeps nearly all its objects
    defaults = {name: option.default for name, option in Flags.options.items()}
    # numba reads all options of a function, one by one, at each of 80,000 comparisons
    Flags.values = lambda self: defaults | self._values  # type: ignore[method-assign]


@contextmanager
def _alone(meanwhile: Callable[[], None]) -> Iterator[None]:
    """Let only one thread of one process at a time use this cache, if the system has such a lock."""
    with ExitStack() as stack:
        if sys.platform != "win32":
            with suppress(OSError):  # a folder that cannot be written, or a file system without locks
                cache.FOLDER.mkdir(parents=True, exist_ok=True)
                folder = os.open(cache.FOLDER, os.O_RDONLY)
                stack.callback(os.close, folder)
                while True:
                    with suppress(BlockingIOError):  # another process or thread has the lock
                        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    meanwhile()
                    time.sleep(POLL_S)
        yield
