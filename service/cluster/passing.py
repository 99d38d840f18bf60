"""Forward a request to the server that owns its model, and forward the answer to the client, piece by piece."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import cast
from urllib.parse import urlsplit

from starlette.types import Message, Receive, Scope, Send

from hinged.service import limits
from hinged.service.api.wire import body_s, too_slow
from hinged.service.cluster.lines import ONE_HOP, PASSED_ON, Line, LineBroken, Lines
from hinged.service.cluster.members import Members
from hinged.service.edge.connection import MALFORMED, WHOLE
from hinged.service.edge.streams import Streams
from hinged.service.errors import BadRequest, ServiceError, Unavailable, foreseen
from hinged.service.peers.paths import target_of

log = logging.getLogger(__name__)

LEFT_S = 0.25
"""Seconds after which the server begins to notice that the client of a forwarded request has left. Most answers come
sooner and save the task for it."""
HELD_BYTES_MAX = 2**16
"""Maximum bytes of a body that is forwarded only once all of it has arrived, so that a slow client occupies no line.
uvicorn by itself reads no further ahead."""
OF_A_SERVER = ONE_HOP | {b"host", b"origin"}
"""Headers of a request that are meant for this server. This server has checked them and does not forward them."""
SAID_ANYWAY = ONE_HOP | {b"date", b"server"}
"""Headers of an answer that this server sets itself. It does not forward the owner's values."""
PROCESS = b"hinged-process"
"""Header of a request to one of several processes of a machine. Its value is the number of the process."""
EVENT_STREAM = b"text/event-stream"


class Passing:
    """The requests and WebSockets that are forwarded to other servers. Used on one event loop."""

    def __init__(self, members: Members, streams: Streams, request_s: float) -> None:
        """Take the members and the streams. request_s: seconds in which a client must begin the body of a request."""
        self.streams = streams
        self.request_s = request_s
        self.lines = Lines()
        self.sender = members.address.encode()
        self._lives = members.lives
        self._loop = asyncio.get_running_loop()
        self._under_way: dict[object, tuple[str, Callable[[], None]]] = {}
        members.beaten = self.look

    def senders(self, scope: Scope) -> bytes:
        """Return the value of PASSED_ON for a request: the servers that have forwarded it, and this server."""
        return b" ".join((*(value for name, value in scope["headers"] if name == PASSED_ON), self.sender))

    @contextmanager
    def one(self, address: str, gone: Callable[[], None]) -> Iterator[None]:
        """Forward a request or a WebSocket during the block. gone: called once the server at the address is dead."""
        key = object()
        self._under_way[key] = address, gone
        try:
            yield
        finally:
            del self._under_way[key]

    def look(self) -> None:
        """End what is forwarded to dead servers. A living server answers even if it has lost the model."""
        for address, gone in list(self._under_way.values()):
            if not self._lives(address):
                gone()

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
    """A request that is forwarded, from the arrival of its head to the end of its answer."""

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
        self._body: list[bytes] = []
        self._line: Line
        self._begun = self._ended = False  # whether the answer has begun; whether this server has ended it
        self._error: ServiceError | None = None  # why this server has ended it
        self._reading: asyncio.Task[None] | None = None  # reads the rest of the client's data

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
                async with asyncio.timeout(limits.STREAM_IDLE_S):
                    await self._line.writer.drain()
            while (await self._receive())["type"] != "http.disconnect":
                pass
            self._end()
        except TimeoutError:
            reason = f"it has read nothing for {limits.STREAM_IDLE_S:g} s"
            self._end(unanswered(self._address, reason))
        except OSError:  # `_carry` finds the reason
            return
        except Exception as error:  # noqa: BLE001
            self._end(foreseen(error))

    def _read_later(self) -> None:
        self._reading = self._loop.create_task(self._read_on())

    # -- to the owner -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send the request to the owner and the answer to the client. Raise Unavailable if the owner does not begin to
        answer.
        """
        lines = self._passing.lines
        line = self._line = await lines.take(self._address)
        reusable = False
        later = self._loop.call_later(LEFT_S if self._whole else 0.0, self._read_later)
        try:
            with self._passing.one(self._address, lambda: self._end(unanswered(self._address, "it is gone"))):
                self._write(self._body, self._head())
                await self._carry(line)
            reusable = self._whole and not (self._ended or line.last)
        except LineBroken as error:
            if self._error is not None or not self._ended:
                self._break(self._error or unanswered(self._address, str(error)))
            elif self._begun:  # the client has left, or the server stops an event stream
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            later.cancel()
            if self._reading is not None:
                self._reading.cancel()
            if reusable:
                lines.keep(line)
            else:
                line.abort()

    def _break(self, error: ServiceError) -> None:
        """Raise the error, or leave an answer that has begun incomplete, so that uvicorn closes the connection."""
        if not self._begun:
            raise error
        log.warning("the answer of another server broke off: %s", error)

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
        if self._chunked:
            body = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in body if piece]
            if self._whole:
                body.append(b"0\r\n\r\n")
        self._line.writer.write(b"".join((head, *body)))

    # -- to the client ------------------------------------------------------------------------------------------------

    async def _carry(self, line: Line) -> None:
        """Send the answer to the client. Raise LineBroken if the answer breaks off."""
        answer = line.answer(bodyless=self._scope["method"] == "HEAD")
        first = await anext(answer)
        first["headers"] = [header for header in first["headers"] if header[0] not in SAID_ANYWAY]
        if line.last and not self._whole:  # the owner reads no more of the body
            first["headers"].append((b"connection", b"close"))
        with self._passing.streams.one(self._end) if _is_event_stream(first) else nullcontext():
            self._begun = True
            await self._send(first)
            async for message in answer:
                await self._send(message)

    def _end(self, error: ServiceError | None = None) -> None:
        """End the request. Without an error, the client has left, or the server stops an event stream."""
        if not self._ended:
            self._ended, self._error = True, error
            self._line.abort()


def _is_event_stream(message: Message) -> bool:
    return any(name == b"content-type" and value.startswith(EVENT_STREAM) for name, value in message["headers"])


def unanswered(address: str, reason: str) -> Unavailable:
    """Return the error for a request that was sent to another server and whose outcome is unknown."""
    return Unavailable(
        f"the server at {address} did not answer: {reason}; its outcome is unknown, a retry with the same ids is safe",
        retry_after_s=1,
    )
