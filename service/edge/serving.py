"""uvicorn, where a server needs more of it than it does by itself."""

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
"""A frame that is up to so many times too long is refused by a frame; a longer one closes the socket (1009)."""

KEEP_ALIVE_S = 75
"""How long a connection may do nothing between two requests. Longer than clients and proxies keep theirs (httpx 5 s,
others 60 s): who hangs up first while the other sends the next request resets it."""

LATE_S = 0.05
"""How often a server that stops looks for connections that came late."""


class Server(uvicorn.Server):
    """A server that ends its streams in order, with what was acknowledged, before it closes connections."""

    def __init__(self, config: uvicorn.Config, streams: Streams, seconds: float) -> None:
        super().__init__(config)
        self.after_startup: Callable[[], None] = lambda: None
        self.before_shutdown: Callable[[], None] = lambda: None
        self._streams = streams
        self._seconds = seconds

    def protocol(self) -> Connection:
        """What speaks HTTP over one more connection, as uvicorn makes it for those that it accepts."""
        make = cast("type[Connection]", self.config.http_protocol_class)
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take signals while it serves. uvicorn sends itself those again once it has drained, and the process would end
        as one that a signal killed, though all went as it was asked for; unless it has the number 1, as in a container.
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
        # A connection that is closed while more comes in is reset, and what the client has not yet read is lost.
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
        """Close connections that were taken just before, and are made only when uvicorn has told those that it knew."""
        while True:
            await asyncio.sleep(LATE_S)
            for connection in self.server_state.connections - before:
                connection.shutdown()


class _NoHandshakes(logging.Filter):
    """uvicorn logs the path and the query of each WebSocket: a ticket may stand there."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "WebSocket %s" not in str(record.msg)


def allow_many_connections() -> None:
    """Open as many as the system lets us: the usual 1,024 are fewer than streams alone may be."""
    if sys.platform != "win32":
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def make_server(
    app: Any, streams: Streams, settings: Settings, connection: type[Connection] = Connection, **parts: Any
) -> Server:
    """A server of this application; `run` it. connection: what speaks HTTP; parts: attributes of it."""
    logging.getLogger("uvicorn.error").addFilter(_NoHandshakes())
    config = uvicorn.Config(
        app,
        http=type("Connection", (connection,), {"seconds": settings.request_s, **parts}),
        host=settings.host,
        port=settings.port,
        access_log=False,  # query strings may hold examples; logs.py has requests without them
        log_config=None,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=[*settings.proxies],
        timeout_keep_alive=KEEP_ALIVE_S,
        ws=PatientWebSocket,
        ws_max_size=FRAME_SLACK * limits.FRAME_BYTES_MAX,
        ws_ping_interval=limits.HEARTBEAT_S,
        ws_ping_timeout=2 * limits.HEARTBEAT_S,
        ws_per_message_deflate=False,  # numbers shrink little, and the time is the solvers'
    )
    return Server(config, streams, settings.shutdown_s)
