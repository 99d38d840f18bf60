"""A connection that speaks HTTP: what uvicorn's lacks where clients are slow, or send what nobody can understand."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence, Sized
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote

import httptools
from pydantic_core import to_json
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hinged.service.edge.shortcut import SMALL_BYTES, Shortcut, Way
from hinged.service.errors import BadRequest, RequestTimeout, ServiceError, foreseen

HEAD_BYTES_MAX = 2**16
"""Longest head of a request: its first line and its headers. So much may also stand between two pieces of a body."""

TOGETHER_BYTES_MAX = 2**16

LINGER_S = 2.0
"""How long the rest of a request is thrown away that was answered before it had come."""

REST_S = 0.05
"""How long the rest of a small request may come behind its head: many clients send the body by itself. From then on it
is waited for as on the usual way."""

WHOLE = "hinged.whole"
"""Of a scope: its body has come, so that to receive it takes no time."""

MALFORMED = "hinged.malformed"
"""Of a scope: what is wrong with its body, of which nothing more comes."""

VERSIONS = frozenset({"1.0", "1.1"})
URL_PARTS = re.compile(rb"[/?#]")
"""What ends the host and port of a URL."""


class CoalescingTransport:
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

    def write_now(self, data: bytes) -> None:
        """Send what is a whole, behind what waits to be sent."""
        if self._parts:
            self.write(data)
        elif not self.is_closing():
            self._transport.write(data)

    def is_sent(self) -> bool:
        """Whether the system has all that was written."""
        return not self._parts and not self._transport.get_write_buffer_size()

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


class Flow(FlowControl):
    """What pauses reading, and lets it go on: not while whole requests wait for the answers to those before them.

    uvicorn reads on with each answer, so that who sends faster than he is answered fills the memory with requests.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, if nothing waits."""
        if not self._waiting:
            super().resume_reading()


class Connection(HttpToolsProtocol):
    """An HTTP connection whose client gets so many seconds for the head of a request, and to read some of an answer.

    uvicorn itself waits for ever, takes heads of any length, and closes without a word where it cannot understand a
    body. How long a body may take is for whoever reads it.

    It takes what comes for the same requests as any other parser does, or refuses it: a proxy sends the requests of
    several clients over one connection, and where the two disagree about the end of one request, its client writes the
    next one. So a head that only some parsers understand is refused (`_check_head`), nothing behind the last request of
    a connection is looked at, and an `Upgrade` to anything but a WebSocket is ignored (`_without_upgrade`).
    """

    seconds = 60.0
    shortcut: Shortcut | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.parser = httptools.HttpRequestParser(self)  # without the leniency that uvicorn gives its own
        self._limit: asyncio.TimerHandle | None = None
        self._opens_socket = False  # whether the head is a WebSocket's handshake
        self._ignores_upgrade = False  # whether it is to be parsed again without its Upgrade
        self._version = ""  # of HTTP, of the newest head
        self._last = False  # whether no request comes after the one that has come as a whole
        self._in_message = False
        self._in_head = False
        self._in_body = False  # of a request that the application was given
        self._apart = 0  # bytes since the last whole head, or the last piece of a body
        self._moved = False  # whether what was parsed just now ended a head, or brought some of a body
        self._whole_head = False  # whether a head began in what is parsed just now
        self._broken = False  # what comes from here on is not looked at
        self._refusal: ServiceError | None = None  # an answer that has to wait for those before it
        self._way: Way | None = None  # of a request that takes the shortcut if it has come as a whole
        self._held = b""  # what has come of its body
        self._rest: asyncio.TimerHandle | None = None  # while more of it is to come
        self._quiet: asyncio.TimerHandle | None = None
        self._quiet_since: float | None = None  # the answer to one, while nothing has come behind it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.flow = Flow(transport, self.pipeline)
        together = CoalescingTransport(transport, self.loop)
        together.more_comes = lambda: self._in_message or self._broken
        self.transport = cast("asyncio.Transport", together)
        self._limit = self.loop.call_later(self.seconds, self._too_late)
        self._break_unread(self.seconds)

    def data_received(self, data: bytes) -> None:
        """Between two requests a part of a head has come; or the rest of a body that was refused unread.

        Parsed in pieces, so that none holds more of a head than may come.
        """
        self._quiet_since = None
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
                except httptools.HttpParserUpgrade as upgrade:  # the parser stops at the end of such a head
                    size: int = upgrade.args[0]
                    self._upgrade(more_came=size < len(rest))
                    rest = memoryview(rest)[size:]
                else:
                    return
        except httptools.HttpParserError:
            if self._last and not self._in_message:
                self._broken = True  # for that request was told to be the last one
            else:
                self.send_400_response("this is no request of HTTP/1.1 that every parser understands alike")

    def _upgrade(self, *, more_came: bool) -> None:
        """Open a WebSocket, or parse on as if the head had no Upgrade. more_came: whether bytes came with the head."""
        if self._ignores_upgrade:
            head = self._without_upgrade()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.feed_data(head)
        elif self.cycle is not None and not self.cycle.response_complete:
            self._not_understood(BadRequest("a WebSocket is not opened while other requests are under way"))
        elif more_came:
            self._not_understood(BadRequest("frames come once the handshake of their WebSocket is answered"))
        else:
            self.handle_websocket_upgrade()

    def _without_upgrade(self) -> bytes:
        """The head that has come, as one that asks for no other protocol.

        The parser takes a head with any Upgrade for the last words of HTTP on its connection, and what follows for no
        body, whatever its length. We speak no such protocol and may ignore the offer (RFC 9110, section 7.8).
        """
        self._ignores_upgrade = False
        lines = [self.parser.get_method(), b" ", self.url, b" HTTP/", self.parser.get_http_version().encode(), b"\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                lines += [name, b": ", value, b"\r\n"]
        return b"".join((*lines, b"\r\n"))

    def _check_head(self) -> None:
        """BadRequest for a head that parsers may understand in several ways, or that asks for what is not spoken."""
        version = self._version = self.parser.get_http_version()
        if version not in VERSIONS:
            raise BadRequest(f"HTTP/1.1 and HTTP/1.0 are spoken here, got version {version}")
        if self.parser.get_method() == b"CONNECT":
            raise BadRequest("there is no CONNECT here: this is no proxy")
        codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings and (codings != [b"chunked"] or version != "1.1"):
            told = ", ".join(repr(coding[:100].decode("latin-1")) for coding in codings)
            raise BadRequest(f"Transfer-Encoding is `chunked`, once and in HTTP/1.1, got {told} in HTTP/{version}")
        if not self.url.startswith(b"/"):
            self.url = self._path_of(self.url)

    def _path_of(self, target: bytes) -> bytes:
        """The path and the query of a target that is a whole URL. BadRequest for one that is none of this server's."""
        scheme, _, rest = target.partition(b"://")
        authority = URL_PARTS.split(rest, maxsplit=1)[0]
        hosts = [value.lower() for name, value in self.headers if name == b"host"]
        if scheme.lower() not in {b"http", b"https"} or hosts != [authority.lower()]:
            told = target[:100].decode("latin-1")
            raise BadRequest(f"a target is a path, or a URL whose host and port are those of Host, got {told!r}")
        path = rest[len(authority) :]
        return path if path.startswith(b"/") else b"/" + path

    def _is_handshake(self) -> bool:
        """Whether a head with an Upgrade opens a WebSocket: by the one method that does, and without a body."""
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
        """The first byte of a head has come."""
        if self._last:
            raise BadRequest("the request before was the last one")  # which stops the parser, and is not answered
        super().on_message_begin()
        self._in_message = self._in_head = self._whole_head = True
        self._in_body = False

    def on_headers_complete(self) -> None:
        """From here on the request is the application's."""
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
            self.headers = []  # what stands behind a chunked body is no header

    def on_body(self, body: bytes) -> None:
        """A piece of a body has come."""
        self._moved = True
        if self._way is None:
            super().on_body(body)
            return
        self._held += body
        if len(self._held) > SMALL_BYTES:
            self._take_usual_way()

    def on_message_complete(self) -> None:
        """All of the body is here: whoever reads it need not look at the clock."""
        if self._ignores_upgrade:
            return
        self._last = self._version != "1.1" or not self.parser.should_keep_alive()
        if self._way is not None:
            if self._takes_shortcut(self._way):
                self._in_message = False
                return
            self._take_usual_way()
        super().on_message_complete()
        self._in_message = self._in_body = False
        cast("dict[str, Any]", self.scope)[WHOLE] = True

    def on_response_complete(self) -> None:
        """The next answer may be that what came cannot be understood."""
        self._answered()
        super().on_response_complete()
        if self._refusal is not None:
            self._refuse(self._refusal)

    def _answered(self) -> None:
        """The first of the requests that were not answered is."""

    # -- the shortcut ---------------------------------------------------------------------------------------------

    def _short_way(self) -> Way | None:
        """Where a request leads whose head has come; None for one that cannot take the shortcut."""
        if self.shortcut is None or (self.cycle is not None and not self.cycle.response_complete):
            return None
        parser = self.parser
        if parser.get_method() != b"POST" or self._version != "1.1" or parser.should_upgrade():
            return None
        if self.flow.write_paused or self.transport.is_closing():
            return None
        return self.shortcut.way(self.url, self.headers)

    def _takes_shortcut(self, way: Way) -> bool:
        """Whether a request that has come as a whole is answered by the shortcut."""
        assert self.shortcut is not None  # noqa: S101  it knew the way
        asked = self.shortcut.begin(way, self, self._held)
        if asked is None:
            return False
        self._let_go()
        self.cycle = cast("RequestResponseCycle", asked)
        return True

    def _take_usual_way(self) -> None:
        """Begin as if nothing had been held back."""
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
        """Send a whole answer, for the shortcut. lines: its head, without the empty line at the end."""
        together = cast("CoalescingTransport", self.transport)
        together.write_now(b"".join((*lines, b"\r\n" if keep_alive else b"connection: close\r\n\r\n", body)))
        if not keep_alive:
            together.close()
        if self.pipeline or self._refusal is not None or together.is_closing():
            self.on_response_complete()
            return
        # The same without a timer for each answer.
        self._answered()
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._quiet_since = self.loop.time()
        if self._quiet is None:
            self._quiet = self.loop.call_later(self.timeout_keep_alive, self._look_if_quiet)

    def _look_if_quiet(self) -> None:
        """Close if nothing has come for as long as a connection may be idle."""
        self._quiet = None
        if self._quiet_since is None:
            return
        left_s = self._quiet_since + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._quiet = self.loop.call_later(left_s, self._look_if_quiet)
        else:
            self.timeout_keep_alive_handler()

    # -- ends -----------------------------------------------------------------------------------------------------

    def handle_websocket_upgrade(self) -> None:
        """A WebSocket counts the time by itself."""
        self._broken = True  # for this protocol, and no time is counted any more
        self._break_unread(0)
        super().handle_websocket_upgrade()

    def begin(self, work: Coroutine[Any, Any, None], fail: Callable[[ServiceError], None]) -> asyncio.Task[None]:
        """Let a task serve the connection, for which nobody else does anything meanwhile.

        fail: ends what the task was to serve where it raised what nobody foresaw.
        """

        async def ending() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001
                fail(foreseen(error))

        return self.loop.create_task(ending())

    def shutdown(self) -> None:
        """The server stops: what has begun to come is answered before."""
        if self._way is not None:
            self._take_usual_way()
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any more."""
        if self._way is not None:
            self._take_usual_way()
        self._unlimit()
        if self._quiet is not None:
            self._quiet.cancel()
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
