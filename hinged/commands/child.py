"""A server as a child process, which never outlives this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

LAST_LINES = 30
PORTS_TRIED = 100
# Seconds that the server has to drain (shutdown_s, 20 s by default) before it is killed.
STOP_S = 40.0
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def free_port(host: str, port: int) -> int:
    """Return the first free port, starting at `port`. 0 means any free port."""
    for candidate in range(port, min(port + PORTS_TRIED, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError(f"no free port from {port} on")


class ServerProcess:
    """Run `hinged serve` while the `with` block lasts.

    SIGINT, SIGTERM and SIGHUP end the block by a KeyboardInterrupt. The server drains at the end of the block; a second
    signal kills it then. The server also ends if this process is killed, because its standard input ends (bound.py).
    """

    _process: subprocess.Popen[str]

    def __init__(self, arguments: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", "hinged.commands.bound", "serve", *arguments]
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        previous = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
        self._ends = ExitStack()
        for number, handler in previous.items():
            self._ends.callback(signal.signal, number, handler)
        with self._ends:
            # Put the server in its own process group. Otherwise Ctrl-C would reach the server twice, and the second
            # SIGINT would skip the drain.
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                process_group=0 if os.name == "posix" else None,
            )
            self._reader.start()
            self._ends = self._ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        with self._ends, process:  # the process's pipes are closed first
            try:
                process.terminate()
                process.wait(STOP_S)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                process.kill()
            self._reader.join(timeout=2.0)

    @property
    def running(self) -> bool:
        """Return whether the server is still running."""
        return self._process.poll() is None

    def wait(self) -> None:
        """Wait for the server to end by itself."""
        self._process.wait()

    def last_line(self) -> str:
        """Return the last line of the server's output."""
        return self._lines[-1] if self._lines else ""

    def last_output(self) -> str:
        """Return the last lines of the server's output."""
        self._reader.join(timeout=1.0)
        return "\n".join(self._lines)

    def _read(self) -> None:
        # Read the pipe, because the server would block on a full pipe.
        for line in self._process.stdout or ():
            self._lines.append(line.rstrip("\n"))
