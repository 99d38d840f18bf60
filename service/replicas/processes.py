"""The server's side of its readers: starts them, starts them anew where they end, and hears what they did."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from hinged.service.api.server.exposition import Exposition
from hinged.service.edge.serving import Server
from hinged.service.edge.start import cannot_listen
from hinged.service.engine.registry import Registry
from hinged.service.errors import Invalid
from hinged.service.replicas.handing import Accepting, Taking
from hinged.service.replicas.notes import NoteTaker
from hinged.service.replicas.reader import CONNECTIONS, NOTES
from hinged.service.settings import Settings

log = logging.getLogger(__name__)

RESTART_FIRST_S, RESTART_MAX_S = 0.2, 10.0
LIVED_S = 60.0  # a reader that ends after so long is started again at once
BACKLOG = 2048


class Readers:
    """The readers of a server, and what they share with it: the port, and a folder of sockets between them."""

    def __init__(self, settings: Settings) -> None:
        """Invalid where a system cannot hand connections on, or nobody can listen at that address."""
        if not hasattr(socket, "send_fds"):
            raise Invalid("HINGED_READERS must be 0 on this system: a process cannot give a connection to another here")
        self._folder = tempfile.TemporaryDirectory(prefix="hinged-")  # only its owner may look into it
        self._path = Path(self._folder.name)
        self._accepting = Accepting(_listen(settings))
        self.port = int(self._accepting.listening.getsockname()[1])
        self._settings = settings.model_copy(update={"port": self.port})
        self._taking = Taking(self._path / CONNECTIONS)
        self._tasks: list[asyncio.Task[None]] = []
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = False

    def serve(self, server: Server) -> None:
        """Whose connections those become that are handed on."""
        self._server = server
        server.before_shutdown = self.end

    async def start(self, registry: Registry, exposition: Exposition) -> None:
        """Start them."""

        def heard(reader: int, report: dict[str, Any]) -> None:
            exposition.hear(reader, report)
            for name, predictions in report.get("served", {}).items():
                registry.roster.count_served(name, predictions)

        self._notes = NoteTaker(self._path / NOTES, registry.positions, heard)
        await self._notes.start()
        self._taking.start(self._server)
        self._accepting.start(self._server)
        self._tasks = [asyncio.create_task(self._keep_running(n)) for n in range(self._settings.readers)]

    def end(self) -> None:
        """Let them answer what they have, and take nothing more."""
        self._stopping = True
        self._accepting.stop()
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    async def stop(self) -> None:
        """Wait for their end."""
        self.end()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._settings.shutdown_s)
            for process in self._running.values():
                with suppress(ProcessLookupError):
                    process.kill()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._notes.stop()
            await self._taking.stop()
        self._folder.cleanup()

    async def _keep_running(self, number: int) -> None:
        loop, wait_s = asyncio.get_running_loop(), RESTART_FIRST_S
        descriptor = self._accepting.listening.fileno()
        while not self._stopping:
            started = loop.time()
            process = self._running[number] = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "hinged.service.replicas", self._path, str(descriptor), pass_fds=[descriptor],
                env={**os.environ, **_as_environment(self._settings)},
            )  # fmt: skip
            code = await process.wait()
            if self._stopping:
                return
            wait_s = RESTART_FIRST_S if loop.time() - started > LIVED_S else min(2 * wait_s, RESTART_MAX_S)
            log.error("a reader ended with exit code %d and is started again in %.1f s", code, wait_s)
            await asyncio.sleep(wait_s)


def _listen(settings: Settings) -> socket.socket:
    """The port, which all processes take connections of."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise cannot_listen(settings, error) from None
    listening.setblocking(False)
    return listening


def _as_environment(settings: Settings) -> dict[str, str]:
    """The settings that the command line may give."""
    return {
        "HINGED_HOST": settings.host,
        "HINGED_PORT": str(settings.port),
        "HINGED_DATA_DIR": str(settings.data_dir),
    }
