"""Connections to other servers, each with one request at a time, and kept for further requests."""

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
"""Most open lines. Beyond it, an unused line is closed instead of kept."""
CONNECT_S = 2.0  # seconds that a connection to another server may take
UNREAD_S = 30.0
"""Seconds that another server may take none of the data sent to it, such as a machine that lost its power."""
IDLE_S = 30.0
"""Seconds that an unused line is kept: less than the other server waits, so that it does not hang up first."""

PASSED_ON = b"hinged-passed-on"
"""Header of a request that another server passed on; its value is the address of that server."""
ONE_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
     b"transfer-encoding", b"upgrade", b"expect", PASSED_ON)
)  # fmt: skip
"""Headers that concern one connection alone."""


P = TypeVar("P", bound=asyncio.Protocol)


async def connect(make: Callable[[], P], address: str) -> P:
    """Connect to another server, with a protocol from `make`. Unavailable if there is no connection in time."""
    to = urlsplit(address)
    try:
        async with asyncio.timeout(CONNECT_S):
            _, protocol = await asyncio.get_running_loop().create_connection(make, to.hostname or "", to.port or 80)
    except OSError as error:  # includes TimeoutError
        raise Unavailable(
            f"the server at {address} does not answer: {str(error) or 'no connection'}; nothing was done",
            retry_after_s=1,
        ) from error
    return protocol


class LineRequest(ABC):
    """The sender of a request over a line; its methods are called with the answer."""

    @abstractmethod
    def head(self, status: int, headers: list[tuple[bytes, bytes]], *, last: bool) -> None:
        """Take the head of the answer, without the headers that concern only the line. last: the line ends with it."""

    @abstractmethod
    def piece(self, data: bytes) -> None:
        """Take a piece of the body."""

    @abstractmethod
    def whole(self) -> None:
        """The answer is complete."""

    @abstractmethod
    def lost(self, reason: str) -> None:
        """The line broke before the answer was complete."""

    @abstractmethod
    def full(self, *, full: bool) -> None:
        """Whether the line can take no more data for now."""


class Line(asyncio.Protocol):
    """A connection to another server. It sends nothing twice, because the outcome of a lost request is unknown."""

    def __init__(self, lines: Lines, address: str) -> None:
        self.address = address
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.parser = httptools.HttpResponseParser(self)
        self._lines = lines
        self._asking: LineRequest | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._framed = False  # whether the answer declares its length
        self._whole = False
        self.last = False
        """Whether the other server takes no further request."""
        self._expiry: asyncio.TimerHandle | None = None

    # -- called by the sender -------------------------------------------------------------------------------------

    def begin(self, asking: LineRequest) -> None:
        """Send a request for this sender."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._asking, self._whole = asking, False

    def end(self, *, reusable: bool) -> None:
        """End the request, whose answer is complete or no longer wanted."""
        self._asking = None
        if reusable and not self.transport.is_closing():
            self._lines.keep(self)
        else:
            self.transport.abort()

    def expire_in(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Close the line after `seconds`, unless a request uses it before."""
        self._expiry = loop.call_later(seconds, self.transport.abort)

    # -- the transport ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the open connection."""
        self.transport = cast("asyncio.Transport", transport)
        self._lines.came(self)
        line = transport.get_extra_info("socket")
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * UNREAD_S))

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is closed."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._lines.gone(self)
        self._break(str(exc) if exc else "it hung up")

    def pause_writing(self) -> None:
        """Tell the sender to pause, because the other server takes data too slowly."""
        if self._asking is not None:
            self._asking.full(full=True)

    def resume_writing(self) -> None:
        """Tell the sender to go on."""
        if self._asking is not None:
            self._asking.full(full=False)

    def data_received(self, data: bytes) -> None:
        """Parse a piece of an answer, or abort at unexpected data."""
        if self._asking is None:
            self.transport.abort()
            return
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._break(f"its answer was not understood: {error}")
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
        """Begin an answer."""
        if self._whole:
            raise ValueError("two answers to one request")
        self._headers, self._framed = [], False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        name = name.lower()
        if name in ONE_HOP:
            self._framed = self._framed or name == b"transfer-encoding"
        else:
            self._framed = self._framed or name == b"content-length"
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Check the head and pass it to the sender."""
        status = self.parser.get_status_code()
        if status not in STATUS_LINE or status < 200 or not (self._framed or status in {204, 304}):
            raise ValueError(f"an answer {status} of unknown length")
        self.last = not self.parser.should_keep_alive()
        if self._asking is not None:
            self._asking.head(status, self._headers, last=self.last)

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body to the sender."""
        if self._asking is not None:
            self._asking.piece(body)

    def on_message_complete(self) -> None:
        """Note that the answer is complete."""
        self._whole = True


class Lines:
    """The lines of a server, on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle: dict[str, list[Line]] = defaultdict(list)
        self._all: set[Line] = set()

    def idle(self, address: str) -> Line | None:
        """An open unused line to a server, or None."""
        kept = self._idle[address]
        while kept:
            line = kept.pop()  # the newest, so that unneeded lines grow old and close
            if not line.transport.is_closing():
                return line
        return None

    async def open(self, address: str) -> Line:
        """Open another line. Unavailable if the server does not accept it."""
        return await connect(lambda: Line(self, address), address)

    def came(self, line: Line) -> None:
        """Count an open line."""
        self._all.add(line)

    def keep(self, line: Line) -> None:
        """Keep a line for later requests."""
        if len(self._all) > LINES_MAX:
            line.transport.abort()
            return
        self._idle[line.address].append(line)
        line.expire_in(self._loop, IDLE_S)

    def gone(self, line: Line) -> None:
        """Forget a closed line."""
        self._all.discard(line)
        if line in (kept := self._idle[line.address]):
            kept.remove(line)

    def close(self) -> None:
        """Abort all lines."""
        for line in list(self._all):
            line.transport.abort()
