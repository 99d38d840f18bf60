"""Start the processes of a server, and restart them when they end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from hinged.service.settings import Settings

log = logging.getLogger(__name__)

RESTART_FIRST_S, RESTART_MAX_S = 0.2, 10.0  # seconds before a restart, doubled each time
LIVED_S = 60.0  # if a child ran for this many seconds, the wait before its next restart is again the first


class Children:
    """Starts and restarts processes of a server. Used on one event loop."""

    def __init__(
        self, settings: Settings, listening: int, told: Callable[[int], bytes], may_go_on: Callable[[int, int], bool]
    ) -> None:
        """Take the settings that the processes get.

        listening: the descriptor of the port. told: called at each start with the number of the process; returns what
        the process reads from stdin, which stays open while the parent runs. may_go_on: called with the number and the
        exit code of a process that ended; returns whether to restart it.
        """
        self._listening = listening
        self._environment = {**os.environ, **as_environment(settings)}
        self._told = told
        self._may_go_on = may_go_on
        self._tasks: list[asyncio.Task[None]] = []
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()

    def start(self, number: int) -> None:
        """Keep the process with this number running from now on."""
        self._tasks.append(asyncio.create_task(self._keep_running(number)))

    def end(self, signal_: int = signal.SIGTERM) -> None:
        """Send a signal to all processes, and restart no process."""
        self._stopping.set()
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal_)

    async def stop(self, seconds: float) -> None:
        """Wait up to `seconds` for all processes to end, then kill the remaining processes."""
        self.end()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
            self.end(signal.SIGKILL)
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_running(self, number: int) -> None:
        loop, wait_s = asyncio.get_running_loop(), RESTART_FIRST_S
        while not self._stopping.is_set():
            started = loop.time()
            try:
                process = self._running[number] = await self._begin(number)
            except (OSError, RuntimeError, MemoryError) as error:  # not enough memory, or too many processes or threads
                what = f"cannot be started: {error!r}"
            else:
                if self._stopping.is_set():  # the server may have begun to stop meanwhile
                    process.terminate()
                code = await process.wait()
                if self._stopping.is_set() or not self._may_go_on(number, code):
                    return
                what = f"ended with exit code {code}"
            wait_s = RESTART_FIRST_S if loop.time() - started > LIVED_S else min(2 * wait_s, RESTART_MAX_S)
            log.error("process %d %s; it is started again in %.1f s", number, what, wait_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait_s)

    async def _begin(self, number: int) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hinged.service", str(number), str(self._listening)),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=[self._listening],
            env=self._environment,
            start_new_session=True,  # only the parent gets the terminal's Ctrl-C, and passes it on
        )
        assert process.stdin is not None  # noqa: S101  stdin is a pipe
        process.stdin.write(self._told(number))
        return process


def as_environment(settings: Settings) -> dict[str, str]:
    """Return the settings that the command line may set, as environment variables."""
    return {
        "HINGED_HOST": settings.host,
        "HINGED_PORT": str(settings.port),
        "HINGED_DATA_DIR": str(settings.data_dir),
        "HINGED_PROCESSES": str(settings.processes),
        "HINGED_FOLLOWERS": str(settings.followers),
        **({} if settings.node is None else {"HINGED_NODE": settings.node}),
    }
