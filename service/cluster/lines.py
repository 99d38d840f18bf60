"""Persistent connections (lines) to other servers. Each line carries one request at a time."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from hinged.service.errors import Unavailable

if TYPE_CHECKING:
    from hinged.service.cluster.passing import Passed

LINES_MAX = 1_000
"""Maximum number of open lines. If more are open, a line is closed when its request ends."""
CONNECT_S = 2.0  # seconds in which a connection to another server must open
UNREAD_S = 30.0
"""Seconds without progress after which sending to another server fails, for example because the machine lost power."""
IDLE_S = 30.0
"""Seconds that an unused line stays open. The other server waits longer, so it does not close the line first."""

PASSED_ON = b"hinged-passed-on"
"""Header of a forwarded request. Its value lists the addresses of the servers that have forwarded the request."""
ONE_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
     b"transfer-encoding", b"upgrade", b"expect", PASSED_ON)
)  # fmt: skip
"""Headers that concern only one connection."""


class Line(asyncio.Protocol):
    """A connection to another server. No request is sent twice, because the outcome of a lost request is unknown."""

    def __init__(self, lines: Lines, address: str) -> None:
        self.address = address
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.parser = httptools.HttpResponseParser(self)
        self._lines = lines
        self._asking: Passed | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._framed = False  # whether the answer's head declares its length or chunks
        self._whole = False
        self.last = False
        """Whether the other server accepts no further request on this line."""
        self._expiry: asyncio.TimerHandle | None = None

    # -- called by the sender -------------------------------------------------------------------------------------

    def begin(self, asking: Passed) -> None:
        """Begin a request of this sender."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._asking, self._whole = asking, False

    def end(self, *, reusable: bool) -> None:
        """End the request, because its answer is complete or no longer needed."""
        self._asking = None
        if reusable and not self.transport.is_closing():
            self._lines.keep(self)
        else:
            self.transport.abort()

    def expire_in(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Close the line after `seconds`, unless a request uses the line before then."""
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
        """Tell the sender to pause, because the other server reads too slowly."""
        if self._asking is not None:
            self._asking.full(full=True)

    def resume_writing(self) -> None:
        """Tell the sender to continue."""
        if self._asking is not None:
            self._asking.full(full=False)

    def data_received(self, data: bytes) -> None:
        """Parse a piece of an answer. Abort the line if the data is unexpected."""
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
        """Note that an answer begins."""
        if self._whole:
            raise ValueError("two answers to one request")
        self._headers, self._framed = [], False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Record a header."""
        name = name.lower()
        if name in ONE_HOP:
            self._framed = self._framed or name == b"transfer-encoding"
        else:
            self._framed = self._framed or name == b"content-length"
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Check the head and pass it to the sender."""
        status = self.parser.get_status_code()
        asking = self._asking
        ends = self._framed or status in {204, 304} or (asking is not None and asking.bodyless)
        if status not in STATUS_LINE or status < 200 or not ends:
            raise ValueError(f"an answer {status} of unknown length")
        self.last = not self.parser.should_keep_alive()
        if asking is not None:
            asking.head(status, self._headers, last=self.last)

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
        self._certificates = cache(ssl.create_default_context)  # reading the machine's certificates takes 20 ms

    def idle(self, address: str) -> Line | None:
        """Return an open unused line to a server, or None."""
        kept = self._idle[address]
        while kept:
            line = kept.pop()  # the line that was used last, so that surplus lines stay unused and close
            if not line.transport.is_closing():
                return line
        return None

    async def open(self, address: str) -> Line:
        """Open another line to a server. Raise Unavailable if the connection does not open in time."""
        to = urlsplit(address)
        secure = to.scheme == "https"
        port = to.port or (443 if secure else 80)
        try:
            async with asyncio.timeout(CONNECT_S):
                _, line = await self._loop.create_connection(
                    lambda: Line(self, address), to.hostname or "", port, ssl=self._certificates() if secure else None
                )
        except OSError as error:  # includes TimeoutError
            raise Unavailable(
                f"the server at {address} does not answer: {str(error) or 'no connection'}; nothing was done",
                retry_after_s=1,
            ) from error
        return line

    def came(self, line: Line) -> None:
        """Count an open line."""
        self._all.add(line)

    def keep(self, line: Line) -> None:
        """Keep a line open for later requests."""
        if len(self._all) > LINES_MAX:
            line.transport.abort()
            return
        self._idle[line.address].append(line)
        line.expire_in(self._loop, IDLE_S)

    def gone(self, line: Line) -> None:
        """Remove a closed line."""
        self._all.discard(line)
        if line in (kept := self._idle[line.address]):
            kept.remove(line)

    def close(self) -> None:
        """Abort all lines."""
        for line in list(self._all):
            line.transport.abort()
