"""A port of which several processes take connections, one at a time."""

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

ACCEPT_AGAIN_S = 0.1
BACKLOG = 2048


def listen(settings: Settings) -> socket.socket:
    """The port of the settings. Invalid if nobody can listen there."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise cannot_listen(settings, error) from None
    listening.setblocking(False)
    return listening


def listen_beside(path: Path) -> socket.socket:
    """A Unix socket for other processes of this server. What a process that was killed has left there is removed."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.setblocking(False)
    listening.bind(str(path))
    listening.listen(BACKLOG)
    return listening


class Accepting:
    """Takes connections of a port that other processes take some of as well, one at a time.

    Left to itself an event loop takes all that wait at once, and one process gets the connections of a whole burst.
    """

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self._loop: asyncio.AbstractEventLoop | None = None
        self._again: asyncio.TimerHandle | None = None
        self._making: set[asyncio.Task[Any]] = set()

    def start(self, server: Server) -> None:
        """Begin, for this server, unless it has stopped already."""
        if self.listening.fileno() < 0:
            return
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.listening, self._accept, server, self._loop)

    def stop(self) -> None:
        """Take no more, and let go of the port. What was taken is the server's, whether or not it knows that yet."""
        if self._again is not None:
            self._again.cancel()
        if self._loop is not None and self.listening.fileno() >= 0:
            self._loop.remove_reader(self.listening)
        self.listening.close()

    def _accept(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        try:
            line, _ = self.listening.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another process took it, or the client is gone
            return
        except OSError as error:  # too many files are open
            log.warning("a connection could not be taken: %s", error)
            loop.remove_reader(self.listening)
            self._again = loop.call_later(ACCEPT_AGAIN_S, self.start, server)
            return
        making = loop.create_task(_make(server, line))
        self._making.add(making)  # the loop itself keeps no hold of it
        making.add_done_callback(self._making.discard)


async def _make(server: Server, line: socket.socket) -> None:
    line.setblocking(False)
    with suppress(OSError):  # the client is gone already
        await asyncio.get_running_loop().connect_accepted_socket(server.protocol, line)
