"""An HTTP connection: uvicorn's connection, with protection against slow clients and malformed requests."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote

import httptools
from pydantic_core import to_json
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hinged.service.edge.shortcut import SMALL_BYTES, Shortcut, Way
from hinged.service.edge.transports import CoalescingTransport, Flow
from hinged.service.errors import BadRequest, RequestTimeout, ServiceError

HEAD_BYTES_MAX = 2**16
"""Maximum bytes of a request's head (request line and headers). It is also the maximum number of bytes between two
pieces of a body."""

REST_S = 0.05
"""Seconds that the shortcut waits for the body after the head, because many clients send the body separately. After
that time, the application handles the request."""

WHOLE = "hinged.whole"
"""Key of a scope. It says that the whole body has arrived, so that reading it takes no time."""

MALFORMED = "hinged.malformed"
"""Key of a scope: what is wrong with the body. No more of the body will arrive."""

VERSIONS = frozenset({"1.0", "1.1"})
URL_PARTS = re.compile(rb"[/?#]")
"""Characters that end the host and port of a URL."""


class Connection(HttpToolsProtocol):
    """An HTTP connection with a time limit for the client to send a head, and to read part of an answer.

    uvicorn itself waits for ever, accepts heads of any length, and closes without an answer if it cannot parse a body.
    The reader of a body limits the time for the body.

    The connection splits its input into the same requests as every other parser, or refuses the input. A proxy sends
    several clients' requests over one connection. If the proxy and the server disagree about the end of a request, the
    client that sent it also writes the next request. So the connection refuses heads that only some parsers accept
    (`_check_head`). It ignores data after the last request, and an `Upgrade` to anything but a WebSocket
    (`_without_upgrade`).
    """

    seconds = 60.0
    shortcut: Shortcut | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.parser = httptools.HttpRequestParser(self)  # strict, unlike uvicorn's parser
        self._limit: asyncio.TimerHandle | None = None
        self._opens_socket = False  # whether the head is the handshake of a WebSocket
        self._ignores_upgrade = False  # whether the head must be parsed again without its Upgrade
        self._version = ""  # HTTP version of the newest head
        self._last = False  # whether no request may follow the last complete request
        self._in_message = False
        self._in_head = False
        self._in_body = False  # whether the application is receiving the body of a request
        self._apart = 0  # bytes since the last complete head, or the last piece of a body
        self._moved = False  # whether the parsed data ended a head or contained a piece of a body
        self._whole_head = False  # whether a head began in the parsed data
        self._broken = False  # whether further data is ignored
        self._refusal: ServiceError | None = None  # an error to send after the earlier answers
        self._way: Way | None = None  # the target of a request that takes the shortcut once it is complete
        self._held = b""  # the part of the body that has arrived for the shortcut
        self._rest: asyncio.TimerHandle | None = None  # timer while the rest of the body is awaited
        self._running: RequestResponseCycle | None = None  # the newest request that the application has received

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.together = CoalescingTransport(transport, self.loop, self.seconds)
        self.together.more_comes = lambda: self._in_message or self._broken
        self.transport = cast("asyncio.Transport", self.together)
        self.flow = Flow(self.transport, self.pipeline, self.seconds)
        self._limit = self.loop.call_later(self.seconds, self._too_late)
        self._break_unread(self.seconds)

    def data_received(self, data: bytes) -> None:
        """Parse received data, or ignore it after a refusal."""
        self.together.receive(data, self.receive)

    def receive(self, data: bytes) -> None:
        """Parse a piece of received data, itself in pieces, so that no piece exceeds the limit of a head. Between
        requests, the data begins a head.
        """
        while data and not (self._broken or self.transport.is_closing()):
            room = HEAD_BYTES_MAX - self._apart
            if not room:
                self._not_understood(BadRequest(self._too_long()))
                return
            piece, data = (data, b"") if len(data) <= room else (data[:room], data[room:])
            self._moved = self._whole_head = False
            self._parse(piece)
            self._apart = 0 if self._moved else self._apart + len(piece)
            if self._way is not None:
                self._rest = self._rest or self.loop.call_later(REST_S, self._take_usual_way)
            elif self._limit is None and not self._broken and (self.cycle is None or self.cycle.response_complete):
                self._limit = self.loop.call_later(self.seconds, self._too_late)

    def _parse(self, piece: bytes) -> None:
        self._unset_keepalive_if_required()
        rest: bytes | memoryview = piece
        try:
            while rest and not self._broken:
                try:
                    self.parser.feed_data(rest)
                except httptools.HttpParserUpgrade as upgrade:  # the parser stops at the end of a head with an Upgrade
                    size: int = upgrade.args[0]
                    self._upgrade(more_came=size < len(rest) or self.together.waits)
                    rest = memoryview(rest)[size:]
                else:
                    return
        except httptools.HttpParserError:
            if self._last and not self._in_message:
                self._broken = True  # because the last request was announced as the last
            else:
                self.send_400_response("this is no request of HTTP/1.1 that every parser understands alike")

    def _upgrade(self, *, more_came: bool) -> None:
        """Open a WebSocket, or continue as if the head had no Upgrade. more_came: whether bytes arrived
        with the head.
        """
        if self._ignores_upgrade:
            head = self._without_upgrade()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.feed_data(head)
        elif self.cycle is not None and not self.cycle.response_complete:
            self._not_understood(BadRequest("a WebSocket cannot be opened while other requests are in progress"))
        elif more_came:
            self._not_understood(BadRequest("frames come once the handshake of their WebSocket is answered"))
        else:
            self.handle_websocket_upgrade()

    def _without_upgrade(self) -> bytes:
        """Return the last head without its Upgrade.

        When a head has any Upgrade, the parser treats the head as the end of HTTP on its connection. The parser then
        does not read the data after the head as a body, whatever its length. This server speaks no such protocol and
        may ignore the offer (RFC 9110, section 7.8).
        """
        self._ignores_upgrade = False
        lines = [self.parser.get_method(), b" ", self.url, b" HTTP/", self.parser.get_http_version().encode(), b"\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                lines += [name, b": ", value, b"\r\n"]
        return b"".join((*lines, b"\r\n"))

    def _check_head(self) -> None:
        """Raise BadRequest for a head that parsers may understand differently, or that asks for something unknown."""
        version = self._version = self.parser.get_http_version()
        if version not in VERSIONS:
            raise BadRequest(f"this server speaks HTTP/1.1 and HTTP/1.0, got version {version}")
        if self.parser.get_method() == b"CONNECT":
            raise BadRequest("CONNECT is not supported: this server is no proxy")
        codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings and (codings != [b"chunked"] or version != "1.1"):
            told = ", ".join(repr(coding[:100].decode("latin-1")) for coding in codings)
            raise BadRequest(f"Transfer-Encoding is `chunked`, once and in HTTP/1.1, got {told} in HTTP/{version}")
        if not self.url.startswith(b"/"):
            self.url = self._path_of(self.url)

    def _path_of(self, target: bytes) -> bytes:
        """Return the path and the query of a target that is a whole URL. Raise BadRequest if it is no URL of this
        server.
        """
        scheme, _, rest = target.partition(b"://")
        authority = URL_PARTS.split(rest, maxsplit=1)[0]
        hosts = [value.lower() for name, value in self.headers if name == b"host"]
        if scheme.lower() not in {b"http", b"https"} or hosts != [authority.lower()]:
            told = target[:100].decode("latin-1")
            raise BadRequest(f"a target is a path, or a URL with the host and port of the Host header, got {told!r}")
        path = rest[len(authority) :]
        return path if path.startswith(b"/") else b"/" + path

    def _is_handshake(self) -> bool:
        """Return whether a head with an Upgrade opens a WebSocket: it must be a GET without a body."""
        named: dict[bytes, list[bytes]] = {}
        for name, value in self.headers:
            named.setdefault(name, []).append(value.lower())
        return (
            self.parser.get_method() == b"GET"
            and self.parser.get_http_version() == "1.1"
            and named[b"upgrade"] == [b"websocket"]
            and named.get(b"content-length", [b"0"]) == [b"0"]
            and b"transfer-encoding" not in named
        )

    def _should_upgrade(self) -> bool:
        return self._opens_socket

    def on_message_begin(self) -> None:
        """Note that the first byte of a head has arrived."""
        if self._last:
            raise BadRequest("the request before was the last one")  # stops the parser; the client does not get it
        super().on_message_begin()
        self._in_message = self._in_head = self._whole_head = True
        self._in_body = False

    def on_headers_complete(self) -> None:
        """Check the head and hand the request to the shortcut or the application."""
        if not self._whole_head and sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES_MAX:
            raise BadRequest(self._too_long())
        self._check_head()
        self._opens_socket = False
        if self.parser.should_upgrade():
            self._opens_socket = self._is_handshake()
            self._ignores_upgrade = not self._opens_socket
            if self._ignores_upgrade:
                return
            url = httptools.parse_url(self.url)
            told = {"path": unquote(url.path.decode()), "raw_path": url.path, "query_string": url.query or b""}
            cast("dict[str, Any]", self.scope).update(told)
        self._last = self._version != "1.1" or not self.parser.should_keep_alive()
        self._in_head = False
        self._moved = True
        self._unlimit()
        self._way = self._short_way()
        if self._way is None:
            self._begin_usual_way()

    def _begin_usual_way(self) -> None:
        before = self.cycle
        super().on_headers_complete()
        self._in_body = self.cycle is not before
        if self._in_body:
            self.headers = []  # a trailer after a chunked body is no header

    def on_body(self, body: bytes) -> None:
        """Receive a piece of a body."""
        self._moved = True
        if self._way is None:
            super().on_body(body)
            return
        self._held += body
        if len(self._held) > SMALL_BYTES:
            self._take_usual_way()

    def on_message_complete(self) -> None:
        """Mark the body as complete, so that its reader needs no time limit."""
        if self._ignores_upgrade:
            return
        last = self._version != "1.1" or not self.parser.should_keep_alive()
        if last != self._last:
            raise BadRequest("Connection must not come after the body")
        if self._way is not None:
            if self._takes_shortcut(self._way):
                self._in_message = False
                return
            self._take_usual_way()
        super().on_message_complete()
        self._in_message = self._in_body = False
        cast("dict[str, Any]", self.scope)[WHOLE] = True

    def on_response_complete(self) -> None:
        """Continue with the next request, or send a waiting refusal."""
        self._answered()
        super().on_response_complete()
        if self._refusal is not None:
            self._refuse(self._refusal)

    def _answered(self) -> None:
        """Do nothing. Subclasses override this to react when the oldest open request is answered."""

    # -- the shortcut ---------------------------------------------------------------------------------------------

    def _short_way(self) -> Way | None:
        """Return the shortcut's target for a request whose head has arrived; None if it cannot take the shortcut."""
        if self.shortcut is None or (self.cycle is not None and not self.cycle.response_complete):
            return None
        parser = self.parser
        if parser.get_method() != b"POST" or self._version != "1.1" or parser.should_upgrade():
            return None
        if self.flow.write_paused or self.transport.is_closing():
            return None
        return self.shortcut.way(self.url, self.headers)

    def _takes_shortcut(self, way: Way) -> bool:
        """Let the shortcut answer a complete request; return whether it accepts the request."""
        assert self.shortcut is not None  # noqa: S101  the target came from the shortcut
        asked = self.shortcut.begin(way, self, self._held)
        if asked is None:
            return False
        self._let_go()
        self.cycle = cast("RequestResponseCycle", asked)
        return True

    def _take_usual_way(self) -> None:
        """Give the request to the application, with the part of the body that has arrived."""
        body = self._held
        self._let_go()
        self._begin_usual_way()
        if body:
            super().on_body(body)

    def _let_go(self) -> None:
        self._way, self._held = None, b""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def answer(self, lines: Sequence[bytes], body: bytes, *, keep_alive: bool) -> None:
        """Send a complete answer, for the shortcut. lines: its head, without the empty line at the end."""
        together = cast("CoalescingTransport", self.transport)
        together.write_now(b"".join((*lines, b"\r\n" if keep_alive else b"connection: close\r\n\r\n", body)))
        if not keep_alive:
            together.close()
        self.on_response_complete()

    # -- closing and errors -------------------------------------------------------------------------------------------

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to uvicorn's WebSocket, which has its own time limits."""
        self._broken = True  # parse no more HTTP; no time limit runs from now on
        self._break_unread(0)
        super().handle_websocket_upgrade()

    def shutdown(self) -> None:
        """Stop. A request that has begun to arrive is answered first."""
        if self._way is not None:
            self._take_usual_way()
        super().shutdown()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # type: ignore[override]
        self._running = cycle
        super()._start_asgi_task(cycle, app)  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and end the request that runs. uvicorn itself ends only the newest request that arrived."""
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        if self._way is not None:
            self._take_usual_way()
        self._unlimit()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse data that uvicorn could not parse, or that a check has refused."""
        cause = getattr(sys.exception(), "__context__", None)
        self._not_understood(cause if isinstance(cause, ServiceError) else BadRequest(msg))

    def _too_long(self) -> str:
        if self._in_body:
            return f"between two pieces of a body there are at most {HEAD_BYTES_MAX} bytes, got more"
        return f"the head of a request has at most {HEAD_BYTES_MAX} bytes, got more"

    def _not_understood(self, error: ServiceError) -> None:
        """Ignore further data and report the error.

        For an error in a body, tell the application, unless it has already answered.
        """
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
        """Send the error in the usual shape, after the earlier answers, and close."""
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
        """Let the system break the connection if the client accepts no data for `seconds`; 0 switches this off."""
        line = self.transport.get_extra_info("socket")
        if hasattr(socket, "TCP_USER_TIMEOUT") and line.family in (socket.AF_INET, socket.AF_INET6):  # Linux
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * seconds))
