"""Connections to the other servers, each with one request under way, which are kept for the next one."""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar, cast
from urllib.parse import urlsplit

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from hinged.service.errors import Unavailable

LINES_MAX = 1_000
"""With more lines open, one that nobody needs is closed instead of kept."""
CONNECT_S = 2.0
UNREAD_S = 30.0
"""How long another server may take nothing of what it is sent. A machine that went without a word has no longer."""
IDLE_S = 30.0
"""How long a line is kept that nobody needs: less than the other server waits, so that it does not hang up first."""

PASSED_ON = b"hinged-passed-on"
"""The header with which a request comes from another server, which is named in it."""
ONE_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
     b"transfer-encoding", b"upgrade", b"expect", PASSED_ON)
)  # fmt: skip
"""Headers that concern one connection alone."""


P = TypeVar("P", bound=asyncio.Protocol)


async def connect(make: Callable[[], P], address: str) -> P:
    """A connection to another server, by the protocol that is made for it. Unavailable where there is none in time."""
    to = urlsplit(address)
    try:
        async with asyncio.timeout(CONNECT_S):
            _, protocol = await asyncio.get_running_loop().create_connection(make, to.hostname or "", to.port or 80)
    except OSError as error:  # and TimeoutError
        raise Unavailable(
            f"the server at {address} does not answer: {str(error) or 'no connection'}; nothing was done",
            retry_after_s=1,
        ) from error
    return protocol


class LineRequest(ABC):
    """Who sends a request over a line, and is told what is answered."""

    @abstractmethod
    def head(self, status: int, headers: list[tuple[bytes, bytes]], *, last: bool) -> None:
        """The head of the answer, with the headers that concern more than the line. last: the line ends with it."""

    @abstractmethod
    def piece(self, data: bytes) -> None:
        """Some of the body."""

    @abstractmethod
    def whole(self) -> None:
        """All of the answer has come."""

    @abstractmethod
    def lost(self, reason: str) -> None:
        """The line broke before that."""

    @abstractmethod
    def full(self, *, full: bool) -> None:
        """Whether the line takes no more for now."""


class Line(asyncio.Protocol):
    """A connection to another server. It never sends anything twice: what became of it nobody knows who lost a line."""

    def __init__(self, lines: Lines, address: str) -> None:
        self.address = address
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.parser = httptools.HttpResponseParser(self)
        self._lines = lines
        self._asking: LineRequest | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._framed = False  # whether the answer says where it ends
        self._whole = False
        self.last = False
        """Whether the other server takes no request after this one."""
        self._expiry: asyncio.TimerHandle | None = None

    # -- who asks -------------------------------------------------------------------------------------------------

    def begin(self, asking: LineRequest) -> None:
        """Take a request."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._asking, self._whole = asking, False

    def end(self, *, reusable: bool) -> None:
        """The answer is there, or nobody waits for it any more."""
        self._asking = None
        if reusable and not self.transport.is_closing():
            self._lines.keep(self)
        else:
            self.transport.abort()

    def expire_in(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Close it then, if nobody needs it before."""
        self._expiry = loop.call_later(seconds, self.transport.abort)

    # -- the transport ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self.transport = cast("asyncio.Transport", transport)
        self._lines.came(self)
        line = transport.get_extra_info("socket")
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * UNREAD_S))

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._lines.gone(self)
        self._break(str(exc) if exc else "it hung up")

    def pause_writing(self) -> None:
        """The other server does not take what it is sent as fast as it comes."""
        if self._asking is not None:
            self._asking.full(full=True)

    def resume_writing(self) -> None:
        """It does again."""
        if self._asking is not None:
            self._asking.full(full=False)

    def data_received(self, data: bytes) -> None:
        """Some of an answer, or nonsense."""
        if self._asking is None:
            self.transport.abort()
            return
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._break(f"what it said was not understood: {error}")
            return
        if self._whole and self._asking is not None:
            self._asking.whole()

    def _break(self, reason: str) -> None:
        asking, self._asking = self._asking, None
        if not self.transport.is_closing():
            self.transport.abort()
        if asking is not None:
            asking.lost(reason)

    # -- the parser -------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """An answer begins."""
        if self._whole:
            raise ValueError("two answers to one request")
        self._headers, self._framed = [], False

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        name = name.lower()
        if name in ONE_HOP:
            self._framed = self._framed or name == b"transfer-encoding"
        else:
            self._framed = self._framed or name == b"content-length"
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head has come."""
        status = self.parser.get_status_code()
        if status not in STATUS_LINE or status < 200 or not (self._framed or status in {204, 304}):
            raise ValueError(f"an answer {status} of unknown length")
        self.last = not self.parser.should_keep_alive()
        if self._asking is not None:
            self._asking.head(status, self._headers, last=self.last)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._asking is not None:
            self._asking.piece(body)

    def on_message_complete(self) -> None:
        """That was all."""
        self._whole = True


class Lines:
    """The lines of a server, on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle: dict[str, list[Line]] = defaultdict(list)
        self._all: set[Line] = set()

    def idle(self, address: str) -> Line | None:
        """A line to a server that is open and that nobody needs."""
        kept = self._idle[address]
        while kept:
            line = kept.pop()  # the newest: those that are not needed grow old
            if not line.transport.is_closing():
                return line
        return None

    async def open(self, address: str) -> Line:
        """Another one. Unavailable where the server does not take it."""
        return await connect(lambda: Line(self, address), address)

    def came(self, line: Line) -> None:
        """It is open."""
        self._all.add(line)

    def keep(self, line: Line) -> None:
        """Nobody needs it for now."""
        if len(self._all) > LINES_MAX:
            line.transport.abort()
            return
        self._idle[line.address].append(line)
        line.expire_in(self._loop, IDLE_S)

    def gone(self, line: Line) -> None:
        """It is closed."""
        self._all.discard(line)
        if line in (kept := self._idle[line.address]):
            kept.remove(line)

    def close(self) -> None:
        """Break all of them."""
        for line in list(self._all):
            line.transport.abort()
