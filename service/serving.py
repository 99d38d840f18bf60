"""uvicorn, where streams need more of it than it does by itself."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from http import HTTPStatus
from typing import Any, cast

import uvicorn
from pydantic_core import to_json
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from service.errors import BadRequest, RequestTimeout, ServiceError
from service.settings import Settings
from service.streams import Streams

if sys.platform != "win32":
    import resource

FRAME_SLACK = 2
"""A frame that is up to so many times too long is refused by a frame; a longer one closes the socket (1009)."""


HEAD_BYTES_MAX = 2**16
"""Longest head of a request: its first line and its headers."""


TOGETHER_BYTES_MAX = 2**16


class Together:
    """A transport that sends in one piece what is written in one turn of the event loop: a head with its body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send at the end of this turn, or now what would fill the memory: the transport knows when to pause."""
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)
        self._bytes += len(data)
        if self._bytes > TOGETHER_BYTES_MAX:
            self._send()

    def close(self) -> None:
        """Close once all is sent."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._parts and not self._transport.is_closing():
            self._transport.write(b"".join(self._parts))
        self._parts.clear()
        self._bytes = 0


WHOLE = "hinged.whole"
"""Of a scope: its body has come, so that to receive it takes no time."""


class Connection(HttpToolsProtocol):
    """An HTTP connection whose client gets so many seconds for the head of a request, and to read some of an answer.

    uvicorn itself waits for ever, and takes heads of any length. How long a body may take is for whoever reads it.
    """

    seconds = 60.0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limit: asyncio.TimerHandle | None = None
        self._in_head = False
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", Together(transport, self.loop))
        self._limit = self.loop.call_later(self.seconds, self._too_late)
        self._break_unread(self.seconds)

    def data_received(self, data: bytes) -> None:
        """Between two requests a part of a head has come; or the rest of a body that was refused unread."""
        super().data_received(data)
        if self._limit is None and (self.cycle is None or self.cycle.response_complete):
            self._limit = self.loop.call_later(self.seconds, self._too_late)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(BadRequest(f"the head of a request has at most {HEAD_BYTES_MAX} bytes, got more"))

    def on_message_begin(self) -> None:
        """The first byte of a head has come."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """From here on the request is the application's."""
        self._in_head = False
        self._unlimit()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of the body is here: whoever reads it need not look at the clock."""
        super().on_message_complete()
        cast("dict[str, Any]", self.scope)[WHOLE] = True

    def handle_websocket_upgrade(self) -> None:
        """A WebSocket counts the time by itself."""
        self._break_unread(0)
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any more."""
        self._unlimit()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """uvicorn could not make sense of what came."""
        self._refuse(BadRequest(msg))

    def _unlimit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _too_late(self) -> None:
        if self._in_head or self.cycle is None:
            self._refuse(RequestTimeout(f"the head of a request did not come in {self.seconds:g} s"))
        else:
            self.transport.close()

    def _refuse(self, error: ServiceError) -> None:
        """Answer in the one shape, unless another answer is on its way, and close."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            body = to_json(error.body())
            head = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nconnection: close\r\n"
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _break_unread(self, seconds: float) -> None:
        """Let the system break the connection if for so long nothing of what was sent is taken; 0: never."""
        line = self.transport.get_extra_info("socket")
        if hasattr(socket, "TCP_USER_TIMEOUT") and line.family in (socket.AF_INET, socket.AF_INET6):  # Linux
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * seconds))


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


def allow_many_connections() -> None:
    """Open as many as the system lets us: the usual 1,024 are fewer than streams alone may be."""
    if sys.platform != "win32":
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def make_server(app: Any, streams: Streams, settings: Settings) -> Server:
    """A server of this application; `run` it."""
    logging.getLogger("uvicorn.error").addFilter(_NoHandshakes())
    config = uvicorn.Config(
        app,
        http=type("Connection", (Connection,), {"seconds": settings.request_s}),
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
