"""The server's side of its readers: starts them, starts them anew where they end, and hears what they did."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path
from typing import Any

from hinged.service.api.server.exposition import Exposition
from hinged.service.edge.accepting import Accepting, listen
from hinged.service.edge.children import Child, Children
from hinged.service.edge.serving import Server
from hinged.service.engine.registry import Registry
from hinged.service.errors import Invalid
from hinged.service.replicas.handing import Taking
from hinged.service.replicas.notes import NoteTaker
from hinged.service.replicas.reader import CONNECTIONS, NOTES
from hinged.service.settings import Settings


class Readers:
    """The readers of a server, and what they share with it: the port, and a folder of sockets between them."""

    def __init__(self, settings: Settings) -> None:
        """Invalid where a system cannot hand connections on, or nobody can listen at that address."""
        if not hasattr(socket, "send_fds"):
            raise Invalid("HINGED_READERS must be 0 on this system: a process cannot give a connection to another here")
        self._folder = tempfile.TemporaryDirectory(prefix="hinged-")  # only its owner may look into it
        self._path = Path(self._folder.name)
        self._accepting = Accepting(listen(settings))
        self.port = int(self._accepting.listening.getsockname()[1])
        self._settings = settings.model_copy(update={"port": self.port})
        self._taking = Taking(self._path / CONNECTIONS)
        self._children = Children(self._settings, [self._accepting.listening.fileno()])
        self._started = False

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
        descriptor = self._accepting.listening.fileno()
        self._accepting.start(self._server)
        self._started = True
        for number in range(self._settings.readers):
            name = f"reader {number + 1}"
            self._children.start(Child(name, "hinged.service.replicas", (self._path, descriptor)))

    def end(self) -> None:
        """Let them answer what they have, and take nothing more."""
        self._accepting.stop()
        self._children.end()

    async def stop(self) -> None:
        """Wait for their end."""
        self.end()
        if self._started:
            await self._children.stop(self._settings.shutdown_s)
            await self._notes.stop()
            await self._taking.stop()
        self._folder.cleanup()
