"""Hand connections over from one process of a server to another: the socket itself, with the data that has arrived on
it.

A connection cannot be handed over in part. After a request for another process's model, the connection belongs to that
process, as if that process had accepted it. No byte of an answer passes through two processes. A datagram of a Unix
socket contains the socket and the data. The datagram arrives as a whole or not at all. If no process receives it, the
system reports that at once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from hinged.service import limits
from hinged.service.edge.connection import Connection
from hinged.service.edge.middleware import error_response
from hinged.service.edge.serving import Server
from hinged.service.errors import ServiceError, Unavailable

log = logging.getLogger(__name__)

CONNECTION = "hinged.connection"
"""Key of a scope: the Lent connection of the request."""
INLINE_BYTES_MAX = 2**16 if sys.platform == "linux" else 1_024
"""Maximum bytes of data in the datagram. Longer data is sent on a separate socket. macOS sends at most 2,048 bytes."""
LENGTH_BYTES = 8  # bytes of the length before the data
PIECE_BYTES = 2**20  # maximum bytes per read from a socket with longer data
FULL = frozenset({errno.EAGAIN, errno.ENOBUFS})
"""Errors of a socket that can accept no data at the moment."""
END_OF_HEAD = b"\r\n\r\n"


class Channel:
    """A channel to another process, which receives connections at a path."""

    def __init__(self, number: int, path: Path) -> None:
        self.number = number
        self._path = str(path)
        self._socket: socket.socket | None = None
        self.handed = 0
        self._turn = asyncio.Lock()  # lets connections be sent one after the other
        self._sending: set[asyncio.Task[None]] = set()

    def hand_now(self, line: int, came: bytes) -> bool:
        """Hand a connection over; return false if that would take time. Raise Unavailable if no process receives it."""
        return not self._turn.locked() and len(came) <= INLINE_BYTES_MAX and self._send([line], came)

    async def hand(self, line: int, came: bytes) -> None:
        """Hand a connection over, and wait if needed. Raise Unavailable if no process receives it in time."""
        try:
            # The client may leave meanwhile, and another connection may get the same descriptor.
            with socket.socket(fileno=socket.dup(line)) as kept:
                async with asyncio.timeout(limits.HAND_OVER_S), self._turn:
                    await self._send_soon([kept.fileno()], came)
        except TimeoutError:
            raise Unavailable(
                f"process {self.number} of this server took nothing for {limits.HAND_OVER_S:g} s; nothing was done",
                retry_after_s=1,
            ) from None

    async def _send_soon(self, lines: list[int], came: bytes) -> None:
        if len(came) <= INLINE_BYTES_MAX:
            while not self._send(lines, came):
                await self._writable()
            return
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                while not self._send([*lines, theirs.fileno()], b"", len(came)):
                    await self._writable()
        except BaseException:
            ours.close()
            raise
        sending = asyncio.create_task(_send_all(ours, came))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    def _send(self, lines: list[int], came: bytes, length: int | None = None) -> bool:
        told = (len(came) if length is None else length).to_bytes(LENGTH_BYTES, "big") + came
        for known in (self._socket is not None, False):
            try:
                if self._socket is None:
                    self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                    self._socket.setblocking(False)
                    self._socket.connect(self._path)
                socket.send_fds(self._socket, [told], lines)
            except OSError as error:
                if error.errno in FULL:
                    return False
                self.close()
                if not known:  # retry once on an old connection, because the process may have restarted
                    raise Unavailable(
                        f"process {self.number} of this server is away and comes back; nothing was done",
                        retry_after_s=1,
                    ) from error
            else:
                self.handed += 1
                return True
        raise AssertionError

    async def _writable(self) -> None:
        assert self._socket is not None  # noqa: S101  _send has just used it
        loop, writable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._socket, writable.set)
        try:
            await writable.wait()
        finally:
            loop.remove_writer(self._socket)

    def close(self) -> None:
        """Close the channel."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


async def _send_all(channel: socket.socket, data: bytes) -> None:
    channel.setblocking(False)
    with channel, suppress(OSError):  # the other process has ended, so the connection is lost
        await asyncio.get_running_loop().sock_sendall(channel, data)


Leads = Callable[[Scope], "Channel | bool"]
"""Returns where a request must be answered: the channel to another process, True for this process, or False if the
process is not yet known."""


class Lent(Connection):
    """A connection that may be handed over to another process.

    Data is parsed in parts, and no part extends beyond the end of a request. So the bytes of each unanswered request
    are known, and the connection can be handed over at the start of any request.
    """

    leads: Leads

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.taken = False
        """Whether another process has handed the connection over, and no request has been answered since."""
        self._came: deque[bytearray | None] = deque([bytearray()])
        """The bytes of each unanswered request; None for a request that this process answers. The last request may be
        incomplete."""
        self._answered_early = False  # whether the rest of an answered request is still arriving
        self._left: int | None = None  # bytes of the body that are still missing; None for a chunked body
        self._receiving = False
        self._parsed = 0  # number of parsed bytes of the received data
        self._leaving: Callable[[bytes], None] | None = None  # called with the data that was not parsed

    # -- incoming data --------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Parse the data, up to the point where the connection is handed over."""
        self._receiving, self._parsed = True, 0
        super().receive(data)
        self._receiving = False
        if self._leaving is not None:
            leave, self._leaving = self._leaving, None
            leave(data[self._parsed :] + self.together.take_rest())

    def _parse(self, piece: bytes) -> None:
        at = 0
        while at < len(piece) and not self._broken:
            part = piece[at : self._edge(piece, at)]
            came = self._came[-1]
            if came is not None:
                came += part
            at += len(part)
            self._parsed += len(part)
            super()._parse(part)

    def _edge(self, piece: bytes, at: int) -> int:
        """Return the end of the part to parse next, within the request that has begun."""
        if not self._in_message:
            end = piece.find(END_OF_HEAD, at)
            return len(piece) if end < 0 else end + len(END_OF_HEAD)
        if self._in_head or self._left is None:  # the head or chunked body ends with a line
            return piece.find(b"\n", at) + 1 or len(piece)
        return min(len(piece), at + self._left)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)[CONNECTION] = self

    def on_headers_complete(self) -> None:
        """Read the length of the body from the head."""
        headers = dict(self.headers)
        self._left = None if b"transfer-encoding" in headers else int(headers.get(b"content-length", b"0"))
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receive a piece of the body."""
        if self._left is not None:
            self._left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Begin to collect the bytes of the next request."""
        ended = not self._ignores_upgrade
        super().on_message_complete()
        if ended:
            if self._answered_early:
                self._came[-1] = bytearray()
            else:
                self._came.append(bytearray())
            self._answered_early = False

    def _answered(self) -> None:
        """Drop the bytes of the request that was just answered."""
        self.taken = False
        if len(self._came) > 1:
            self._came.popleft()
        else:
            self._came[0] = None
            self._answered_early = self._in_message

    # -- handing over ---------------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # type: ignore[override]
        """Answer the oldest unanswered request, or hand it over together with all later requests."""
        channel = self.leads(cast("Scope", cycle.scope))
        if isinstance(channel, bool):
            if channel:
                self._came[0] = None
            super()._start_asgi_task(cycle, app)
            return

        def stay(error: ServiceError) -> None:
            self._came[0] = None
            self._stay(cycle, error)

        self._broken = True  # parse nothing until it is known whether the connection is handed over
        self._leave(channel, stay)

    def _stay(self, cycle: RequestResponseCycle, error: ServiceError) -> None:
        super()._start_asgi_task(cycle, error_response(error, cycle.scope["path"]))

    def handle_websocket_upgrade(self) -> None:
        """Let the right process open a WebSocket."""
        scope = cast("Scope", self.scope)
        channel = self.leads(scope)
        if isinstance(channel, bool):
            super().handle_websocket_upgrade()
            return
        self._broken = True  # parse no more HTTP; no time limit runs from now on
        self._unlimit()
        self._leave(channel, self._refuse)

    def _leave(self, channel: Channel, stay: Callable[[ServiceError], None]) -> None:
        """Hand the connection over. stay: called with the error if the other process does not receive it."""

        def leave(behind: bytes) -> None:
            try:
                self._check_turn(channel)
                if self._is_sent() and channel.hand_now(self._line(), self._unanswered() + behind):
                    self.transport.abort()  # the other process keeps the connection open
                    return
            except Unavailable as error:
                go_on(behind, error)
            else:
                self.flow.pause_reading()
                self._handing = self.loop.create_task(soon(behind))

        async def soon(behind: bytes) -> None:
            try:
                await self._hand_over(channel, behind)
            except ServiceError as error:
                self.flow.resume_reading()
                go_on(behind, error)
            except Exception:
                log.exception("a connection could not be handed over")
                self.transport.abort()

        def go_on(behind: bytes, error: ServiceError) -> None:
            self._broken = False
            stay(error)
            if behind:
                self.data_received(behind)

        if self._receiving:
            self._leaving = leave
        else:
            leave(self.together.take_rest())

    async def hand_on(self, channel: Channel) -> None:
        """Hand the connection over, with all unanswered requests. Raise Unavailable if no process receives it."""
        self._check_turn(channel)
        self.transport.pause_reading()
        behind = self.together.take_rest()
        try:
            await self._hand_over(channel, behind)
        except ServiceError:
            self.transport.resume_reading()
            self.data_received(behind)
            raise

    def _check_turn(self, channel: Channel) -> None:
        """Raise Unavailable if a request would be handed over twice, because two processes disagree about its owner."""
        if self.taken:
            raise Unavailable(
                f"this process is not the owner, and process {channel.number} may not be; ask again", retry_after_s=1
            )

    async def _hand_over(self, channel: Channel, behind: bytes) -> None:
        await asyncio.sleep(0)  # lets the transport get the data that was written in this turn of the event loop
        self.transport.set_write_buffer_limits(high=0)  # `drain` then waits until the system has all data
        try:
            await self.flow.drain()
            if not self.transport.is_closing():
                await channel.hand(self._line(), self._unanswered() + behind)
                self.transport.abort()
        finally:
            self.transport.set_write_buffer_limits()

    def _is_sent(self) -> bool:
        return self.together.is_sent() and not self.transport.is_closing()

    def _line(self) -> int:
        number: int = self.transport.get_extra_info("socket").fileno()
        return number

    def _unanswered(self) -> bytes:
        return b"".join(came for came in self._came if came)


class Taking:
    """Receives the connections that other processes hand over."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)  # a killed process may have left it
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(str(path))
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, server: Server) -> None:
        """Receive connections for this server."""
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._take)  # one connection per turn of the event loop, as in Accepting

    def stop(self) -> None:
        """Receive the connections that were already handed over, then no more. Later senders get an error."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._path.unlink(missing_ok=True)
        self._socket.shutdown(socket.SHUT_RD)
        while self._take():
            pass
        self._socket.close()

    def _take(self) -> bool:
        try:
            told, lines, _, _ = socket.recv_fds(self._socket, LENGTH_BYTES + INLINE_BYTES_MAX, 2)
        except BlockingIOError:
            return False
        if not told:  # the socket is shut down
            return False
        if not lines:  # too many files are open
            log.warning("a connection that another process handed over could not be taken")
            return True
        length, came = int.from_bytes(told[:LENGTH_BYTES], "big"), told[LENGTH_BYTES:]
        sockets = [socket.socket(fileno=line) for line in lines]
        task = self._loop.create_task(self._begin(length, came, *sockets))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _begin(self, length: int, came: bytes, line: socket.socket, rest: socket.socket | None = None) -> None:
        line.setblocking(False)
        if rest is not None:
            came = await _all_of(rest)
        if len(came) < length:
            log.warning("a process ended before it had handed a connection over")
            line.close()
            return
        with suppress(OSError):  # the client is already gone
            await self._loop.connect_accepted_socket(lambda: _begun(self._loop, self._server, came), line)


async def _all_of(rest: socket.socket) -> bytes:
    loop, parts = asyncio.get_running_loop(), []
    rest.setblocking(False)
    with rest, suppress(OSError):
        while part := await loop.sock_recv(rest, PIECE_BYTES):
            parts.append(part)
    return b"".join(parts)


def _begun(loop: asyncio.AbstractEventLoop, server: Server, data: bytes) -> asyncio.Protocol:
    """Return the protocol of a connection on which `data` has already arrived.

    The protocol gets the data only after `connection_made`, because uvloop then begins to read even if the protocol has
    paused reading.
    """
    protocol: Any = server.protocol()
    if isinstance(protocol, Lent):
        protocol.taken = True
    made, received, came = protocol.connection_made, protocol.data_received, [data]

    def begin(transport: asyncio.Transport) -> None:
        made(transport)
        loop.call_soon(take)

    def take() -> None:
        first = b"".join(came)
        came.clear()
        received(first)

    def receive(more: bytes) -> None:
        if came:
            came.append(more)
        else:
            received(more)

    protocol.connection_made, protocol.data_received = begin, receive
    return cast("asyncio.Protocol", protocol)
