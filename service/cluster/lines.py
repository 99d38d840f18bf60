"""Persistent connections (lines) to other servers. Each line carries one request at a time."""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from functools import cache
from typing import Any, SupportsIndex
from urllib.parse import urlsplit

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from hinged.service.errors import Unavailable

LINES_MAX = 1_000
"""Maximum number of unused lines. If there are more, a line is closed when its request ends."""
CONNECT_S = 2.0  # seconds in which a connection to another server must open
IDLE_S = 30.0
"""Seconds that an unused line stays open. The other server waits longer, so it does not close the line first."""
READ_BYTES = 2**16
"""Maximum bytes of an answer per read. If a client is slow, twice as many wait for it, and the line is not read."""

PASSED_ON = b"hinged-passed-on"
"""Header of a forwarded request. Its value lists the addresses of the servers that have forwarded the request."""
ONE_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
     b"transfer-encoding", b"upgrade", b"expect", PASSED_ON)
)  # fmt: skip
"""Headers that concern only one connection."""


class LineBroken(Exception):
    """Raised when an answer breaks off, or cannot be parsed. The outcome of its request is unknown."""


class Line(asyncio.StreamReader):
    """A connection to another server. No request is sent twice, because the outcome of a lost request is unknown."""

    writer: asyncio.StreamWriter

    def __init__(self, address: str) -> None:
        super().__init__(READ_BYTES)
        self.address = address
        self.expiry: asyncio.TimerHandle | None = None  # set while the line is unused
        self.last = False
        """Whether the other server accepts no further request on this line."""
        self._parser = httptools.HttpResponseParser(self)
        self._bodyless = self._whole = self._framed = False  # framed: the head declares the answer's length or chunks
        self._headers: list[tuple[bytes, bytes]] = []
        self._came: list[dict[str, Any]] = []

    @property
    def is_open(self) -> bool:
        """Return whether the line can carry another request."""
        return not (self.writer.is_closing() or self.at_eof())

    def abort(self) -> None:
        """Close the line at once."""
        self.writer.transport.abort()

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        """Receive a piece of an answer. Close the line if there was no request."""
        if self.expiry is None:
            super().feed_data(data)
        else:
            self.abort()

    async def answer(self, *, bodyless: bool) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of an answer, as ASGI defines them. bodyless: whether the answer has no body."""
        self._bodyless, self._whole = bodyless, False
        while not self._whole:
            try:
                data = await self.read(READ_BYTES)
                self._parser.feed_data(data)
            except OSError as error:
                raise LineBroken(str(error)) from error
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                raise LineBroken(f"its answer was not understood: {error}") from error
            if not data:
                raise LineBroken("it hung up")
            came, self._came = self._came, []
            for message in came:
                yield message

    # -- the parser -------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Note that an answer begins."""
        if self._whole:
            raise ValueError("two answers to one request")
        self._headers, self._framed = [], False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Record a header."""
        name = name.lower()
        self._framed = self._framed or name in {b"transfer-encoding", b"content-length"}
        if name not in ONE_HOP:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Check the head."""
        status = self._parser.get_status_code()
        ends = self._framed or status in {204, 304} or self._bodyless
        if status not in STATUS_LINE or status < 200 or not ends:
            raise ValueError(f"an answer {status} of unknown length")
        self.last = self._bodyless or not self._parser.should_keep_alive()  # the parser would wait for a body
        self._came.append({"type": "http.response.start", "status": status, "headers": self._headers})
        if self._bodyless:
            self.on_message_complete()

    def on_body(self, body: bytes) -> None:
        """Record a piece of the body."""
        self._came.append({"type": "http.response.body", "body": body, "more_body": True})

    def on_message_complete(self) -> None:
        """Note that the answer is complete."""
        self._whole = True
        if not (self._came and "body" in self._came[-1]):
            self.on_body(b"")
        self._came[-1]["more_body"] = False


class Lines:
    """The unused lines of a server, on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle: dict[str, list[Line]] = defaultdict(list)
        self._certificates = cache(ssl.create_default_context)  # reading the machine's certificates takes 20 ms

    async def take(self, address: str) -> Line:
        """Return a line to a server. Raise Unavailable if the connection does not open in time."""
        kept = self._idle[address]
        while kept:
            line = kept.pop()  # the line that was used last, so that surplus lines stay unused and close
            assert line.expiry is not None  # noqa: S101  the line is unused
            line.expiry.cancel()
            line.expiry = None
            if line.is_open:
                return line
            line.abort()
        return await self._open(address)

    async def _open(self, address: str) -> Line:
        to = urlsplit(address)
        secure = to.scheme == "https"
        port = to.port or (443 if secure else 80)
        line = Line(address)
        try:
            async with asyncio.timeout(CONNECT_S):
                transport, protocol = await self._loop.create_connection(
                    lambda: asyncio.StreamReaderProtocol(line),
                    to.hostname or "",
                    port,
                    ssl=self._certificates() if secure else None,
                )
        except OSError as error:  # includes TimeoutError
            raise Unavailable(
                f"the server at {address} does not answer: {str(error) or 'no connection'}; nothing was done",
                retry_after_s=1,
            ) from error
        line.writer = asyncio.StreamWriter(transport, protocol, line, self._loop)
        return line

    def keep(self, line: Line) -> None:
        """Keep a line open for later requests."""
        if not line.is_open or sum(map(len, self._idle.values())) >= LINES_MAX:
            line.abort()
            return
        self._idle[line.address].append(line)
        line.expiry = self._loop.call_later(IDLE_S, self._expire, line)

    def _expire(self, line: Line) -> None:
        self._idle[line.address].remove(line)
        line.abort()

    def close(self) -> None:
        """Close all lines."""
        for line in [line for kept in self._idle.values() for line in kept]:
            line.abort()
