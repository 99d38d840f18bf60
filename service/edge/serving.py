"""uvicorn, where streams need more of it than it does by itself."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, cast

import uvicorn
from pydantic_core import to_json
from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.http11 import Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from hinged.service.edge.streams import Streams
from hinged.service.errors import (
    UNFORESEEN,
    BadRequest,
    InternalError,
    RequestTimeout,
    ServiceError,
)
from hinged.service.settings import Settings

if sys.platform != "win32":
    import resource

FRAME_SLACK = 2
"""A frame that is up to so many times too long is refused by a frame; a longer one closes the socket (1009)."""


HEAD_BYTES_MAX = 2**16
"""Longest head of a request: its first line and its headers. So much may also stand between two pieces of a body."""

TOGETHER_BYTES_MAX = 2**16

LINGER_S = 2.0
"""How long the rest of a request is thrown away that was answered before it had come."""

KEEP_ALIVE_S = 75
"""How long a connection may do nothing between two requests. Longer than clients and proxies keep theirs (httpx 5 s,
others 60 s): who hangs up first while the other sends the next request resets it."""

LATE_S = 0.05
"""How often a server that stops looks for connections that came late."""

FRAGMENTS_MAX = 1000
"""Of a frame that comes in more fragments, those before are put together: empty ones fill no memory."""


class Together:
    """A transport that sends in one piece what is written in one turn of the event loop: a head with its body.

    And that ends in order: a connection that is closed while more comes in is reset by the system, and an answer that
    the client has not read yet is lost. So while `more_comes` it says that nothing follows, and throws away what comes
    until the client has closed, too, but no longer than LINGER_S.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._bytes = 0
        self._ended = False
        self.more_comes: Callable[[], bool] = lambda: False

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

    def is_closing(self) -> bool:
        """Whether nothing can be written any more, and nothing of what comes is looked at."""
        return self._ended or self._transport.is_closing()

    def close(self) -> None:
        """Close once all is sent."""
        if self.is_closing():
            return
        self._send()
        self._ended = True
        if self.more_comes():
            self._transport.write_eof()
            self._transport.resume_reading()
            self._loop.call_later(LINGER_S, self._transport.close)
        else:
            self._transport.close()

    def _send(self) -> None:
        if self._parts and not self.is_closing():
            self._transport.write(b"".join(self._parts))
        self._parts.clear()
        self._bytes = 0


WHOLE = "hinged.whole"
"""Of a scope: its body has come, so that to receive it takes no time."""

THERE = "hinged.there"
"""Of a WebSocket's scope: what gives the next frame as `receive` does, or None where none has come yet."""

MALFORMED = "hinged.malformed"
"""Of a scope: what is wrong with its body, of which nothing more comes."""


class Connection(HttpToolsProtocol):
    """An HTTP connection whose client gets so many seconds for the head of a request, and to read some of an answer.

    uvicorn itself waits for ever, takes heads of any length, and closes without a word where it cannot understand a
    body. How long a body may take is for whoever reads it.
    """

    seconds = 60.0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limit: asyncio.TimerHandle | None = None
        self._in_message = False
        self._in_head = False
        self._in_body = False  # of a request that the application was given
        self._apart = 0  # bytes since the last whole head, or the last piece of a body
        self._moved = False  # whether what was parsed just now ended a head, or brought some of a body
        self._whole_head = False  # whether a head began in what is parsed just now
        self._broken = False  # what comes from here on is not looked at
        self._refusal: ServiceError | None = None  # an answer that has to wait for those before it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        together = Together(transport, self.loop)
        together.more_comes = lambda: self._in_message or self._broken
        self.transport = cast("asyncio.Transport", together)
        self._limit = self.loop.call_later(self.seconds, self._too_late)
        self._break_unread(self.seconds)

    def data_received(self, data: bytes) -> None:
        """Between two requests a part of a head has come; or the rest of a body that was refused unread.

        Parsed in pieces, so that none holds more of a head than may come.
        """
        while data and not (self._broken or self.transport.is_closing()):
            room = HEAD_BYTES_MAX - self._apart
            if not room:
                self._not_understood(BadRequest(self._too_long()))
                return
            piece, data = (data, b"") if len(data) <= room else (data[:room], data[room:])
            self._moved = self._whole_head = False
            super().data_received(piece)
            self._apart = 0 if self._moved else self._apart + len(piece)
            if self._limit is None and not self._broken and (self.cycle is None or self.cycle.response_complete):
                self._limit = self.loop.call_later(self.seconds, self._too_late)

    def on_message_begin(self) -> None:
        """The first byte of a head has come."""
        super().on_message_begin()
        self._in_message = self._in_head = self._whole_head = True
        self._in_body = False

    def on_headers_complete(self) -> None:
        """From here on the request is the application's."""
        if not self._whole_head and sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES_MAX:
            raise BadRequest(self._too_long())
        self._in_head = False
        self._moved = True
        self._unlimit()
        before = self.cycle
        super().on_headers_complete()
        self._in_body = self.cycle is not before
        if self._in_body:
            self.headers = []  # what stands behind a chunked body is no header

    def on_body(self, body: bytes) -> None:
        """A piece of a body has come."""
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of the body is here: whoever reads it need not look at the clock."""
        super().on_message_complete()
        self._in_message = self._in_body = False
        cast("dict[str, Any]", self.scope)[WHOLE] = True

    def on_response_complete(self) -> None:
        """The next answer may be that what came cannot be understood."""
        super().on_response_complete()
        if self._refusal is not None:
            self._refuse(self._refusal)

    def handle_websocket_upgrade(self) -> None:
        """A WebSocket counts the time by itself."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._not_understood(BadRequest("a WebSocket is not opened while other requests are under way"))
            return
        self._broken = True  # for this protocol, and no time is counted any more
        self._break_unread(0)
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any more."""
        self._unlimit()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """uvicorn could not make sense of what came, or we refused it."""
        cause = getattr(sys.exception(), "__context__", None)
        self._not_understood(cause if isinstance(cause, ServiceError) else BadRequest(msg))

    def _too_long(self) -> str:
        if self._in_body:
            return f"between two pieces of a body there are at most {HEAD_BYTES_MAX} bytes, got more"
        return f"the head of a request has at most {HEAD_BYTES_MAX} bytes, got more"

    def _not_understood(self, error: ServiceError) -> None:
        """Take nothing more, and say so: of a body to the application, which may have answered already."""
        self._broken = True
        if not self._in_body:
            self._refuse(error)
        elif self.cycle.response_complete:
            self.transport.close()
        else:
            cast("dict[str, Any]", self.scope)[MALFORMED] = error.message
            self.cycle.keep_alive = self.cycle.more_body = False
            self.cycle.message_event.set()

    def _unlimit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _too_late(self) -> None:
        if self._in_head or self.cycle is None:
            self._broken = True
            self._refuse(RequestTimeout(f"the head of a request did not come in {self.seconds:g} s"))
        else:
            self.transport.close()

    def _refuse(self, error: ServiceError) -> None:
        """Answer in the one shape once all before is answered, and close."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._refusal = error
            return
        body = to_json(error.body())
        head = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nconnection: close\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in error.headers.items() if name != "Connection")
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _break_unread(self, seconds: float) -> None:
        """Let the system break the connection if for so long nothing of what was sent is taken; 0: never."""
        line = self.transport.get_extra_info("socket")
        if hasattr(socket, "TCP_USER_TIMEOUT") and line.family in (socket.AF_INET, socket.AF_INET6):  # Linux
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * seconds))


class Handshake(ServerProtocol):
    """The protocol of a WebSocket, which refuses a handshake in the shape of all errors."""

    def reject(self, status: int, text: str) -> Response:
        """The answer to a handshake that is none."""
        error = InternalError(UNFORESEEN) if status >= HTTPStatus.INTERNAL_SERVER_ERROR else BadRequest(_line(text))
        body = to_json(error.body())
        headers = {"Connection": "close", "Content-Type": "application/json", "Content-Length": str(len(body))}
        return Response(error.status, HTTPStatus(error.status).phrase, Headers(headers), body)


class PatientWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose client is not taken for dead while the server does not read: its pong waits in the line."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = Handshake(max_size=self.config.ws_max_size, logger=self.logger)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """However it ends, the client may be sending."""
        super().connection_made(transport)
        cast("Together", transport).more_comes = lambda: True

    def data_received(self, data: bytes) -> None:
        """Do what was asked for before the fault, if there is one."""
        if self.transport.is_closing():
            return
        self.conn.receive_data(data)
        self.handle_events()
        if self.conn.parser_exc is not None and not self.close_sent:
            self.handle_parser_exception()
        elif not self.handshake_initiated:  # which comes as a whole: longer than websockets takes it, or no HTTP to it
            reason = _line(f"the handshake of a WebSocket was not understood: {self.conn.handshake_exc}")
            self.transport.write(self.conn.reject(HTTPStatus.BAD_REQUEST, reason).serialize())
            self.transport.close()

    async def run_asgi(self) -> None:
        """The application may take all frames that have come, without a turn of the event loop for each."""
        cast("dict[str, Any]", self.scope)[THERE] = self._next_there
        await super().run_asgi()

    def _next_there(self) -> ASGIReceiveEvent | None:
        if self.queue.empty():
            return None
        message = self.queue.get_nowait()
        if self.read_paused and self.queue.empty():  # as `receive` does
            self.read_paused = False
            self.transport.resume_reading()
        return message

    def handle_cont(self, event: Any) -> None:
        """A fragment of a frame."""
        if len(self.frames) >= FRAGMENTS_MAX:
            self.frames = [b"".join(self.frames)]
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Give a frame to the application; one of text that is none closes the socket, which is no error of ours."""
        if self.curr_msg_data_type == "text" and not all(part.isascii() for part in self.frames):
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError as error:
                self.frames = []
                if self.conn.state is State.OPEN:
                    self.conn.send_close(1007, f"{error.reason} at position {error.start}")
                    self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    async def send(self, message: ASGISendEvent) -> None:
        """Send what the application says, to nobody once the socket was closed for a fault of the client."""
        if self.close_sent and message["type"] in ("websocket.send", "websocket.close"):
            raise ClientDisconnected
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # it was refused with an answer, which uvicorn takes for none

    def keepalive_timeout(self) -> None:
        """Close the socket if no pong came although there was nothing else to read."""
        if self.read_paused:
            self.pong_timer = None
            self.schedule_ping()
        else:
            super().keepalive_timeout()

    def shutdown(self) -> None:
        """The server stops. What is closing already is left to itself."""
        if not self.transport.is_closing():
            super().shutdown()


def _line(text: str) -> str:
    """What a library says, as one line."""
    return " ".join(text.split())


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
        timeout_keep_alive=KEEP_ALIVE_S,
        ws=PatientWebSocket,
        ws_max_size=FRAME_SLACK * settings.frame_bytes_max,
        ws_ping_interval=settings.heartbeat_s,
        ws_ping_timeout=2 * settings.heartbeat_s,
        ws_per_message_deflate=False,  # numbers shrink little, and the time is the solvers'
    )
    return Server(config, streams, settings.shutdown_s)
