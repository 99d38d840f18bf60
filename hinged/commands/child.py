"""A server as a child process. The server receives the signals of this process and never outlives this process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

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

    The first SIGINT, SIGTERM or SIGHUP is forwarded to the server, and ends the block by a KeyboardInterrupt. A second
    signal while the server drains kills the server.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", "hinged", "serve", *arguments]
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._process: subprocess.Popen[str] | None = None
        self._received: list[int] = []
        self._interruptible = False
        self._told = False

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            # Put the server in its own process group. Otherwise Ctrl-C would reach the server twice, and the second
            # SIGINT would skip the drain.
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                process_group=0 if os.name == "posix" else None,
            )
            self._reader.start()
            self._interruptible = True
            if self._received:
                raise KeyboardInterrupt  # noqa: TRY301 - it shares the clean-up code
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def running(self) -> bool:
        """Return whether the server is still running."""
        return self._process is not None and self._process.poll() is None

    def wait(self) -> None:
        """Wait for the server to end by itself."""
        if self._process is not None:
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
        if self._process is not None and self._process.stdout is not None:
            for line in self._process.stdout:
                self._lines.append(line.rstrip("\n"))

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(number)
        if self._interruptible:
            self._interruptible = False
            self._tell(number)
            raise KeyboardInterrupt

    def _tell(self, number: int) -> None:
        """Tell the server to end, but only once."""
        if self._process is not None and not self._told:
            self._told = True
            # A server drains on SIGINT and SIGTERM, but not on SIGHUP.
            self._process.send_signal(number if number == signal.SIGINT else signal.SIGTERM)

    def _stop(self) -> None:
        self._interruptible = False
        if self._process is not None:
            self._tell(self._received[0] if self._received else signal.SIGTERM)
            self._reap(self._process)
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _reap(self, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + STOP_S
        while process.poll() is None:
            if len(self._received) > 1 or time.monotonic() > deadline:
                process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
        if self._reader.ident is not None:
            self._reader.join(timeout=2.0)
        if process.stdout is not None and not self._reader.is_alive():
            process.stdout.close()
