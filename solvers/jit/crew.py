"""Processes beside this one that compile: a process that compiled holds the compiler's 300 MiB to its end.

Each runs a program of its own to the end, and leaves what it had to compile in the cache, where the others find it.
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

from hinged.solvers.jit import cache

if sys.platform != "win32":
    import fcntl

POLL_S = 0.02
BESIDE_NICE = 5  # of processes beside a server that answers requests: these come first


def compile_beside(
    programs: Sequence[Sequence[str]], is_there: Callable[[], bool], meanwhile: Callable[[], None], *, beside: bool
) -> str:
    """Have each program run by a process: what went wrong with the first, "" if nothing did. The others end with it.

    programs: arguments of Python. is_there: whether others have compiled it all, once this one has its turn: one
    process or thread compiles for this cache at a time. meanwhile: called all the while; what it raises ends the
    processes. beside: requests are answered meanwhile.
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
    """A process with exactly the packages of this one, out of reach of Ctrl-C; it is killed in the end."""
    colourless = {"NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"}  # of messages that nobody sees
    process = subprocess.Popen(  # noqa: S603  ourselves
        [sys.executable, "-P", *program],
        env=os.environ | colourless | {"PYTHONPATH": os.pathsep.join(sys.path)},
        process_group=0 if os.name == "posix" else None,
        stdin=subprocess.PIPE,
    )
    with process:
        try:
            if beside and hasattr(os, "setpriority"):
                with suppress(OSError):  # it has ended
                    os.setpriority(os.PRIO_PROCESS, process.pid, BESIDE_NICE)
            yield process
        finally:
            process.kill()


def begin() -> None:
    """What such a process does first."""

    def end_with_parent() -> None:
        os.read(0, 1)  # returns when the parent ends, by whatever end
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    gc.disable()  # a compiler keeps nearly all that it makes: a tenth less of its time


@contextmanager
def _alone(meanwhile: Callable[[], None]) -> Iterator[None]:
    """One thread of one process of this cache at a time, where the system has such a lock."""
    with ExitStack() as stack:
        if sys.platform != "win32":
            with suppress(OSError):  # a folder that cannot be written, a file system without locks
                cache.FOLDER.mkdir(parents=True, exist_ok=True)
                folder = os.open(cache.FOLDER, os.O_RDONLY)
                stack.callback(os.close, folder)
                while True:
                    with suppress(BlockingIOError):  # another one has it
                        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    meanwhile()
                    time.sleep(POLL_S)
        yield
