"""Forward a request to the server that owns its model, and forward the answer to the client, piece by piece."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, cast
from urllib.parse import urlsplit

from starlette.types import Message, Receive, Scope, Send

from hinged.service.api.wire import body_s, too_slow
from hinged.service.cluster.lines import ONE_HOP, PASSED_ON, UNREAD_S, Line, Lines
from hinged.service.cluster.members import Members
from hinged.service.edge.connection import MALFORMED, WHOLE
from hinged.service.edge.streams import Streams
from hinged.service.errors import BadRequest, ServiceError, Unavailable, foreseen
from hinged.service.peers.paths import target_of

log = logging.getLogger(__name__)

LOOK_S = 0.25
"""Seconds between two checks of a forwarded request. A check finds a dead owner and a client that has left."""
HELD_BYTES_MAX = 2**16
"""Maximum bytes of a body that is forwarded only once all of it has arrived, so that a slow client occupies no line.
uvicorn by itself reads no further ahead. If more bytes of an answer wait for a slow client, the line is not read."""
OF_A_SERVER = ONE_HOP | {b"host", b"origin"}
"""Headers of a request that are meant for this server. This server has checked them and does not forward them."""
SAID_ANYWAY = ONE_HOP | {b"date", b"server"}
"""Headers of an answer that this server sets itself. It does not forward the owner's values."""
PROCESS = b"hinged-process"
"""Header of a request to one of several processes of a machine. Its value is the number of the process."""
EVENT_STREAM = b"text/event-stream"


class Passing:
    """The lines to the other servers, and the requests and WebSockets that they carry. Used on one event loop."""

    def __init__(self, members: Members, streams: Streams, request_s: float) -> None:
        """Take the members and the streams. request_s: seconds in which a client must begin the body of a request."""
        self.lives = members.lives
        self.streams = streams
        self.request_s = request_s
        self.lines = Lines()
        self.sender = members.address.encode()
        self._loop = asyncio.get_running_loop()
        self._looks: set[Callable[[], None]] = set()
        self._looking: asyncio.TimerHandle | None = None

    def senders(self, scope: Scope) -> bytes:
        """Return the value of PASSED_ON for a request: the servers that have forwarded it, and this server."""
        return b" ".join((*(value for name, value in scope["headers"] if name == PASSED_ON), self.sender))

    def watch(self, look: Callable[[], None]) -> None:
        """Call `look` every LOOK_S seconds, until `forget`. It checks a request or a WebSocket."""
        self._looks.add(look)
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK_S, self._look)

    def forget(self, look: Callable[[], None]) -> None:
        """Stop calling `look`."""
        self._looks.discard(look)

    def _look(self) -> None:
        for look in list(self._looks):
            look()
        self._looking = self._loop.call_later(LOOK_S, self._look) if self._looks else None

    def close(self) -> None:
        """Stop all checks, and abort all lines."""
        if self._looking is not None:
            self._looking.cancel()
        self.lines.close()

    async def ask(
        self, address: str, path: str, headers: list[tuple[bytes, bytes]], method: str = "POST", read_s: float = 60.0
    ) -> tuple[int, bytes]:
        """Send a request without a body; return status and body of the answer. Raise Unavailable if no complete answer
        arrives in time.
        """
        status, parts, whole = 0, [], False

        async def take(message: Message) -> None:
            nonlocal status, whole
            status, whole = message.get("status", status), not message.get("more_body", True)
            parts.append(message.get("body", b""))

        number = urlsplit(address).fragment.encode()
        headers = [*headers, (PROCESS, number)] if number else headers
        scope = {"method": method, "path": path, "query_string": b"", "headers": headers}
        never = cast("Receive", self._loop.create_future)
        try:
            async with asyncio.timeout(read_s):
                await Passed(self, scope, never, take, address).run()
        except TimeoutError:
            raise unanswered(address, f"{read_s:g} s have passed") from None
        if not whole:
            raise unanswered(address, "its answer broke off")
        return status, b"".join(parts)


class Passed:
    """A request that is forwarded, from the arrival of its head to the end of its answer. Its line calls `head`,
    `piece`, `whole`, `lost` and `full`.
    """

    def __init__(self, passing: Passing, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        self._passing = passing
        self._scope = scope
        self._receive = receive
        self._send = send
        self._address = address
        self._loop = asyncio.get_running_loop()
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self._length = int(headers.get(b"content-length", b"0"))
        self._chunked = b"transfer-encoding" in headers
        self._whole = not (self._length or self._chunked)  # whether the whole request has arrived
        self.bodyless = scope["method"] == "HEAD"
        self._line: Line | None = None
        self._reading: asyncio.Task[None] | None = None  # reads the rest of the client's data
        self._room = asyncio.Event()  # set while the line accepts more data
        self._full_since: float | None = None
        self._answer: deque[dict[str, Any]] = deque()  # messages for the client
        self._unsent = 0  # bytes in these messages
        self._begun = self._over = self._paused = False  # whether the answer has begun; is over; waits for the client
        self._error: ServiceError | None = None
        self._news: asyncio.Future[None] | None = None  # awaited while `_answer` is empty
        self._body: list[bytes] = []

    # -- from the client ----------------------------------------------------------------------------------------------

    async def hold(self) -> None:
        """Receive a small body to its end.

        Raise RequestTimeout if the client is too slow, BadRequest if the body is incomplete.
        """
        if self._length > HELD_BYTES_MAX:
            return
        size, seconds, began = 0, self._passing.request_s, self._loop.time()
        while not self._whole and size <= HELD_BYTES_MAX:
            if WHOLE in self._scope:
                self._body.append(await self._piece())
                return
            try:
                async with asyncio.timeout_at(began + body_s(size, seconds)):
                    self._body.append(await self._piece())
            except TimeoutError:
                raise too_slow(size, seconds) from None
            size += len(self._body[-1])

    async def _piece(self) -> bytes:
        message = await self._receive()
        if MALFORMED in self._scope:  # the body is incomplete, and must not be taken for complete
            raise BadRequest(self._scope[MALFORMED])
        if message["type"] == "http.disconnect":
            raise BadRequest("the client went away in the middle of the body")
        self._whole = not message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece

    async def _read_on(self) -> None:
        """Send the rest of the body as it arrives. Then wait until the client disconnects."""
        try:
            while not self._whole:
                self._write([await self._piece()])
                await self._room.wait()
            while (await self._receive())["type"] != "http.disconnect":
                pass
            self._end()
        except Exception as error:  # noqa: BLE001
            self._fail(foreseen(error))

    # -- to the owner -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send the request to the owner and the answer to the client. Raise Unavailable if the owner does not begin to
        answer.
        """
        lines = self._passing.lines
        line = self._line = lines.idle(self._address) or await lines.open(self._address)
        self._passing.watch(self.look)
        try:
            line.begin(self)
            self._room.set()
            self._write(self._body, self._head())
            if not self._whole:
                self._reading = self._loop.create_task(self._read_on())
            first = await self._message()
            with self._passing.streams.one(self._end) if _is_event_stream(first) else nullcontext():
                await self._carry(first)
        finally:
            self._passing.forget(self.look)
            if self._reading is not None:
                self._reading.cancel()
            self._let_go(reusable=False)

    def _head(self) -> bytes:
        parts = [self._scope["method"].encode(), b" ", target_of(self._scope), b" HTTP/1.1\r\nhost: "]
        parts += [urlsplit(self._address).netloc.encode(), b"\r\n"]
        for name, value in self._scope["headers"]:
            if name not in OF_A_SERVER:
                parts += [name, b": ", value, b"\r\n"]
        if self._chunked:
            parts.append(b"transfer-encoding: chunked\r\n")
        parts += [PASSED_ON, b": ", self._passing.senders(self._scope), b"\r\n\r\n"]
        return b"".join(parts)

    def _write(self, body: list[bytes], head: bytes = b"") -> None:
        if self._line is None:  # the answer is complete already
            return
        if self._chunked:
            body = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in body if piece]
            if self._whole:
                body.append(b"0\r\n\r\n")
        self._line.transport.write(b"".join((head, *body)))

    def full(self, *, full: bool) -> None:
        """Pause sending if the line is full, or resume it."""
        if full:
            self._full_since = time.monotonic()
            self._room.clear()
        else:
            self._full_since = None
            self._room.set()

    # -- from the owner -----------------------------------------------------------------------------------------------

    def head(self, status: int, headers: list[tuple[bytes, bytes]], *, last: bool) -> None:
        """Begin the answer. last: whether the other server closes the line after this answer."""
        self._begun = True
        headers = [header for header in headers if header[0] not in SAID_ANYWAY]
        if last and not self._whole:  # the owner reads no more of the body
            headers.append((b"connection", b"close"))
        self._put({"type": "http.response.start", "status": status, "headers": headers})
        if self.bodyless:
            self._end()

    def piece(self, data: bytes) -> None:
        """Queue a piece of the answer's body. Pause the line if too many bytes wait for the client."""
        self._put({"type": "http.response.body", "body": data, "more_body": True})
        self._unsent += len(data)
        if self._unsent > HELD_BYTES_MAX and self._line is not None and not self._paused:
            self._paused = True
            self._line.transport.pause_reading()

    def whole(self) -> None:
        """Finish the answer, and release the line."""
        self._end(reusable=self._whole and self._line is not None and not self._line.last)

    def lost(self, reason: str) -> None:
        """Give up, because the line broke."""
        self._line = None
        self._fail(unanswered(self._address, reason))

    def look(self) -> None:
        """Give up if the owner is dead or reads no more. A living server answers even if it has lost the model."""
        if self._full_since is not None and time.monotonic() > self._full_since + UNREAD_S:
            self._fail(unanswered(self._address, "it takes no more of the request"))
        elif not self._begun and not self._passing.lives(self._address):
            self._fail(unanswered(self._address, "it is gone"))
        elif self._reading is None:  # only for requests that take long, because most are answered at once
            self._reading = self._loop.create_task(self._read_on())

    # -- to the client ------------------------------------------------------------------------------------------------

    async def _carry(self, message: Message) -> None:
        """Send the answer to the client. If the owner's answer breaks off, leave the answer incomplete, so that uvicorn
        closes the connection.
        """
        try:
            await self._send(message)
            while message.get("more_body", True):
                message = await self._message()
                await self._send(message)
                self._unsent -= len(message["body"])
                if self._paused and not self._answer:
                    self._paused = False
                    if self._line is not None:
                        self._line.transport.resume_reading()
        except ServiceError as error:
            log.warning("the answer of another server broke off: %s", error)

    async def _message(self) -> Message:
        """Return the next message for the client. Raise Unavailable if the owner's answer broke off."""
        while not self._answer:
            if self._error is not None:
                raise self._error
            self._news = self._loop.create_future()
            await self._news
        return self._answer.popleft()

    def _put(self, message: dict[str, Any]) -> None:
        self._answer.append(message)
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _end(self, *, reusable: bool = False) -> None:
        """End the answer without an error: it is complete, the client has left, or the server stops an event stream."""
        if self._over:
            return
        self._over = True
        self._let_go(reusable=reusable)
        if self._answer and "body" in self._answer[-1]:
            self._answer[-1]["more_body"] = False
        else:
            self._put({"type": "http.response.body", "body": b"", "more_body": False})

    def _fail(self, error: ServiceError) -> None:
        """Let the request fail, or break off an answer that has begun."""
        if not self._over:
            self._over, self._error = True, error
            self._let_go(reusable=False)
            self._wake()

    def _let_go(self, *, reusable: bool) -> None:
        line, self._line = self._line, None
        if line is not None:
            if self._paused and reusable:
                line.transport.resume_reading()
            line.end(reusable=reusable)


def _is_event_stream(message: Message) -> bool:
    return any(name == b"content-type" and value.startswith(EVENT_STREAM) for name, value in message.get("headers", ()))


def unanswered(address: str, reason: str) -> Unavailable:
    """Return the error for a request that was sent to another server and whose outcome is unknown."""
    return Unavailable(
        f"the server at {address} did not answer: {reason}; its outcome is unknown, a retry with the same ids is safe",
        retry_after_s=1,
    )
