"""Accept connections, one at a time, on a port that several processes share."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from hinged.service.edge.serving import Server
from hinged.service.edge.start import cannot_listen
from hinged.service.settings import Settings

log = logging.getLogger(__name__)

ACCEPT_AGAIN_S = 0.1  # seconds until the next attempt after an error, for example too many open files
BACKLOG = 2048  # maximum number of connections that the system queues before they are accepted


def listen(settings: Settings) -> socket.socket:
    """Open the port of the settings. Raise Invalid if that is impossible."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise cannot_listen(settings, error) from None
    listening.setblocking(False)
    return listening


def listen_beside(path: Path) -> socket.socket:
    """Open a Unix socket for other processes of this server. Remove the socket that a killed process left."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.setblocking(False)
    listening.bind(str(path))
    listening.listen(BACKLOG)
    return listening


class Accepting:
    """Accepts connections of a shared port, one at a time.

    By default an event loop accepts all waiting connections at once, so one process would get a whole burst.
    """

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self._loop: asyncio.AbstractEventLoop | None = None
        self._again: asyncio.TimerHandle | None = None
        self._making: set[asyncio.Task[Any]] = set()

    def start(self, server: Server) -> None:
        """Begin to accept connections for this server, unless accepting has already been stopped."""
        if self.listening.fileno() < 0:
            return
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.listening, self._accept, server, self._loop)

    def stop(self) -> None:
        """Stop accepting and close the port. The server keeps the connections that were accepted so far."""
        if self._again is not None:
            self._again.cancel()
        if self._loop is not None and self.listening.fileno() >= 0:
            self._loop.remove_reader(self.listening)
        self.listening.close()

    def _accept(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        try:
            line, _ = self.listening.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another process accepted it, or the client has disconnected
            return
        except OSError as error:  # too many files are open
            log.warning("a connection could not be taken: %s", error)
            loop.remove_reader(self.listening)
            self._again = loop.call_later(ACCEPT_AGAIN_S, self.start, server)
            return
        making = loop.create_task(_make(server, line))
        self._making.add(making)  # the event loop keeps no strong reference
        making.add_done_callback(self._making.discard)


async def _make(server: Server, line: socket.socket) -> None:
    line.setblocking(False)
    with suppress(OSError):  # the client has already disconnected
        await asyncio.get_running_loop().connect_accepted_socket(server.protocol, line)
