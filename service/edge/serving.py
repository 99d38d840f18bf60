"""uvicorn's server with an orderly shutdown, and its configuration."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import uvicorn

from hinged.service import limits
from hinged.service.edge.connection import Connection
from hinged.service.edge.streams import Streams
from hinged.service.edge.websocket import PatientWebSocket
from hinged.service.settings import Settings

if sys.platform != "win32":
    import resource

FRAME_SLACK = 2
"""Factor by which a frame may exceed the limit and still be refused by an error frame; beyond it the socket closes
(1009)."""

KEEP_ALIVE_S = 75
"""Seconds that a connection may be idle between requests. Longer than clients and proxies keep theirs (httpx 5 s, most
60 s): if the server hung up just as a client sends its next request, the client would see a reset."""

LATE_S = 0.05
"""Seconds between looks of a stopping server for connections that came late."""


class Server(uvicorn.Server):
    """A server that ends its streams in order, with everything that was acknowledged, before it closes connections."""

    def __init__(self, config: uvicorn.Config, streams: Streams, seconds: float) -> None:
        super().__init__(config)
        self.after_startup: Callable[[], None] = lambda: None
        self.before_shutdown: Callable[[], None] = lambda: None
        self._streams = streams
        self._seconds = seconds

    def protocol(self) -> Connection:
        """The HTTP protocol object for one more connection, like uvicorn makes it."""
        make = cast("type[Connection]", self.config.http_protocol_class)
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture signals while serving, and do not repeat them at the end.

        uvicorn sends captured signals to itself once it has drained. The process would then count as killed by a
        signal, although it ended in order, unless it has the number 1, as in a container.
        """
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and listen."""
        await super().startup(sockets)
        if self.started:
            self.after_startup()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, then requests; both together within the time to drain."""
        deadline = time.monotonic() + self._seconds
        self.before_shutdown()
        await self._streams.stop(self._seconds)
        # If a connection is closed while data comes in, it is reset, and the client loses data that it has not read.
        while any(isinstance(c, PatientWebSocket) for c in self.server_state.connections):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.02)
        self.config.timeout_graceful_shutdown = max(1, round(deadline - time.monotonic()))
        closing = asyncio.create_task(self._close_late(set(self.server_state.connections)))
        try:
            await super().shutdown(sockets)
        finally:
            closing.cancel()

    async def _close_late(self, before: set[Any]) -> None:
        """Close connections that were accepted just before the stop, and that uvicorn did not know when it closed the
        rest.
        """
        while True:
            await asyncio.sleep(LATE_S)
            for connection in self.server_state.connections - before:
                connection.shutdown()


class _NoHandshakes(logging.Filter):
    """Drops uvicorn's log lines with the path and query of each WebSocket, because they may hold a ticket."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "WebSocket %s" not in str(record.msg)


def allow_many_connections() -> None:
    """Allow as many open files as the system permits: the usual 1,024 are fewer than the allowed streams."""
    if sys.platform != "win32":
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def make_server(
    app: Any, streams: Streams, settings: Settings, connection: type[Connection] = Connection, **parts: Any
) -> Server:
    """Make a server of this application; `run` starts it. connection: class that speaks HTTP; parts: its attributes."""
    logging.getLogger("uvicorn.error").addFilter(_NoHandshakes())
    config = uvicorn.Config(
        app,
        http=type("Connection", (connection,), {"seconds": settings.request_s, **parts}),
        host=settings.host,
        port=settings.port,
        access_log=False,  # query strings may hold examples; logs.py logs requests without them
        log_config=None,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=[*settings.proxies],
        timeout_keep_alive=KEEP_ALIVE_S,
        ws=PatientWebSocket,
        ws_max_size=FRAME_SLACK * limits.FRAME_BYTES_MAX,
        ws_ping_interval=limits.HEARTBEAT_S,
        ws_ping_timeout=2 * limits.HEARTBEAT_S,
        ws_per_message_deflate=False,  # numbers compress badly, and compression takes time from the solvers
    )
    return Server(config, streams, settings.shutdown_s)
