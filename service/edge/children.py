"""Start child processes, and restart them when they end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hinged.service.settings import Settings

log = logging.getLogger(__name__)

RESTART_FIRST_S, RESTART_MAX_S = 0.2, 10.0  # seconds before a restart, doubled each time
LIVED_S = 60.0  # if a child ran for this many seconds, the wait before its next restart is again the first


@dataclass(frozen=True)
class Child:
    """A process to start: a module with its arguments.

    name: its name in the log. said: called at each start; returns what the child reads from stdin, which stays open
    while the parent runs.
    """

    name: str
    module: str
    arguments: Sequence[object]
    said: Callable[[], bytes] | None = None


class Children:
    """Starts and restarts child processes. Used on one event loop."""

    def __init__(
        self,
        settings: Settings,
        descriptors: Sequence[int],
        may_go_on: Callable[[Child, int], bool] = lambda *_: True,
        **started: Any,
    ) -> None:
        """Take the settings that the children get.

        descriptors: open files that the children inherit. may_go_on: called with a child that ended and its exit code;
        returns whether to restart it. started: further options of asyncio's subprocesses.
        """
        self._started = {"pass_fds": descriptors, "env": {**os.environ, **_as_environment(settings)}, **started}
        self._may_go_on = may_go_on
        self._tasks: list[asyncio.Task[None]] = []
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()

    def start(self, child: Child) -> None:
        """Keep a child running from now on."""
        self._tasks.append(asyncio.create_task(self._keep_running(child)))

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to all children, and restart no child."""
        self._stopping.set()
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    async def stop(self, seconds: float) -> None:
        """Wait up to `seconds` for all children to end, then kill the remaining children."""
        self.end()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
            self.end(signal.SIGKILL)
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_running(self, child: Child) -> None:
        loop, wait_s = asyncio.get_running_loop(), RESTART_FIRST_S
        while not self._stopping.is_set():
            started = loop.time()
            try:
                process = self._running[child.name] = await self._begin(child)
            except OSError as error:  # not enough memory, or too many processes
                what = f"cannot be started: {error}"
            else:
                if self._stopping.is_set():  # the server may have begun to stop meanwhile
                    process.terminate()
                code = await process.wait()
                if self._stopping.is_set() or not self._may_go_on(child, code):
                    return
                what = f"ended with exit code {code}"
            wait_s = RESTART_FIRST_S if loop.time() - started > LIVED_S else min(2 * wait_s, RESTART_MAX_S)
            log.error("%s %s; it is started again in %.1f s", child.name, what, wait_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait_s)

    async def _begin(self, child: Child) -> asyncio.subprocess.Process:
        command = (sys.executable, "-m", child.module, *map(str, child.arguments))
        if child.said is None:
            return await asyncio.create_subprocess_exec(*command, **self._started)
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, **self._started)
        assert process.stdin is not None  # noqa: S101  stdin is a pipe
        process.stdin.write(child.said())
        return process


def _as_environment(settings: Settings) -> dict[str, str]:
    """Return the settings that the command line may set, as environment variables."""
    return {
        "HINGED_HOST": settings.host,
        "HINGED_PORT": str(settings.port),
        "HINGED_DATA_DIR": str(settings.data_dir),
        "HINGED_PROCESSES": str(settings.processes),
        "HINGED_FOLLOWERS": str(settings.followers),
        "HINGED_READERS": "0",
        "HINGED_WORKERS": "0",
    }
