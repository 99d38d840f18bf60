"""uvicorn, where streams need more of it than it does by itself."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from service.settings import Settings
from service.streams import Streams

FRAME_SLACK = 2
"""A frame that is up to so many times too long is refused by a frame; a longer one closes the socket (1009)."""


class PatientWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose client is not taken for dead while the server does not read: its pong waits in the line."""

    def keepalive_timeout(self) -> None:
        """Close the socket if no pong came although there was nothing else to read."""
        if self.read_paused:
            self.pong_timer = None
            self.schedule_ping()
        else:
            super().keepalive_timeout()


class Server(uvicorn.Server):
    """A server that ends its streams in order, with what was acknowledged, before it closes connections."""

    def __init__(self, config: uvicorn.Config, streams: Streams, seconds: float) -> None:
        super().__init__(config)
        self._streams = streams
        self._seconds = seconds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, then requests; both together within the time to drain."""
        deadline = time.monotonic() + self._seconds
        await self._streams.stop(self._seconds)
        # A connection that is closed while more comes in is reset, and what the client has not yet read is lost.
        while any(isinstance(c, PatientWebSocket) for c in self.server_state.connections):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.02)
        self.config.timeout_graceful_shutdown = max(1, round(deadline - time.monotonic()))
        await super().shutdown(sockets)


class _NoHandshakes(logging.Filter):
    """uvicorn logs the path and the query of each WebSocket: a ticket may stand there."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "WebSocket %s" not in str(record.msg)


def make_server(app: Any, streams: Streams, settings: Settings) -> Server:
    """A server of this application; `run` it."""
    logging.getLogger("uvicorn.error").addFilter(_NoHandshakes())
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        access_log=False,  # query strings may hold examples; service/logs.py has requests without them
        log_config=None,
        ws=PatientWebSocket,
        ws_max_size=FRAME_SLACK * settings.frame_bytes_max,
        ws_ping_interval=settings.heartbeat_s,
        ws_ping_timeout=2 * settings.heartbeat_s,
        ws_per_message_deflate=False,  # numbers shrink little, and the time is the solvers'
    )
    return Server(config, streams, settings.shutdown_s)
