"""Connections that readers hand on to the server: the socket itself, with what has come of a request on it.

A reader cannot give away half of a connection. So one on which something else was asked than predictions is the
server's from then on, as if it had taken it at once; no byte passes through two processes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, cast

from hinged.service.edge.accepting import ACCEPT_AGAIN_S
from hinged.service.edge.connection import Connection
from hinged.service.edge.serving import Server

log = logging.getLogger(__name__)

CONNECTION = "hinged.connection"
"""Of a scope: the Lent connection that the request came over."""
SENT_WITH = b"."  # a socket travels beside a byte at least
PIECE_BYTES = 2**20
END_OF_HEAD = b"\r\n\r\n"


class Lent(Connection):
    """A connection of a reader. path: where the server takes those that are handed on.

    What comes is parsed in parts of which none goes beyond the end of a request. So the bytes of each request that is
    not yet answered are known, and the connection can be handed on at any of them.
    """

    path: Path

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._came: deque[list[bytes]] = deque([[]])
        """The bytes of each request that is not answered; the last of them may not have come as a whole."""
        self._answered_early = False  # whether what comes is the rest of a request that was answered
        self._left: int | None = None  # bytes of the body that are to come; None where it is chunked

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Have it told whenever an answer is not sent as a whole: until it is, the connection stays here."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)

    def _parse(self, piece: bytes) -> None:
        at = 0
        while at < len(piece) and not self._broken:
            part = piece[at : self._edge(piece, at)]
            if not self._answered_early:
                self._came[-1].append(part)
            super()._parse(part)
            at += len(part)

    def _edge(self, piece: bytes, at: int) -> int:
        """Up to where a piece is parsed next: no further than the request that has begun."""
        if not self._in_message:
            end = piece.find(END_OF_HEAD, at)
            return len(piece) if end < 0 else end + len(END_OF_HEAD)
        if self._in_head or self._left is None:  # it ends with a line, whichever
            return piece.find(b"\n", at) + 1 or len(piece)
        return min(len(piece), at + self._left)

    def on_message_begin(self) -> None:
        """One more request."""
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)[CONNECTION] = self

    def on_headers_complete(self) -> None:
        """Its head says how long it is."""
        headers = dict(self.headers)
        self._left = None if b"transfer-encoding" in headers else int(headers.get(b"content-length", b"0"))
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of its body."""
        if self._left is not None:
            self._left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """What comes from here on is of the next request."""
        ended = not self._ignores_upgrade
        super().on_message_complete()
        if ended:
            if not self._answered_early:
                self._came.append([])
            self._answered_early = False

    def on_response_complete(self) -> None:
        """The request is answered, and nobody needs its bytes any more."""
        if len(self._came) > 1:
            self._came.popleft()
        else:
            self._came[0].clear()
            self._answered_early = self._in_message
        super().on_response_complete()

    def handle_websocket_upgrade(self) -> None:
        """A WebSocket is the server's."""
        self._broken = True  # for this protocol
        self._unlimit()
        self._handing = self.begin(self._hand_on_or_close(), lambda _: self.transport.close())

    async def _hand_on_or_close(self) -> None:
        if not await self.hand_on():
            self.transport.close()

    async def hand_on(self) -> bool:
        """Give it to the server, with all requests that are not answered. False where the server is gone."""
        self.transport.pause_reading()
        await asyncio.sleep(0)  # what was written in this turn is sent at its end
        await self.flow.drain()
        if self.transport.is_closing():
            return False
        line = socket.socket(fileno=os.dup(self.transport.get_extra_info("socket").fileno()))
        try:
            with line, socket.socket(socket.AF_UNIX) as way:
                way.setblocking(False)
                await self.loop.sock_connect(way, str(self.path))
                socket.send_fds(way, [SENT_WITH], [line.fileno()])
                await self.loop.sock_sendall(way, b"".join(chain.from_iterable(self._came)))
        except OSError:
            self.transport.resume_reading()
            return False
        self.transport.abort()  # the server has it open
        return True


class Taking:
    """The server's side."""

    def __init__(self, path: Path) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.setblocking(False)
        self._listening.bind(str(path))
        self._listening.listen(socket.SOMAXCONN)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, server: Server) -> None:
        """Take what comes as connections of this server."""
        self._begin(self._accept(server))

    async def stop(self) -> None:
        """Take no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listening.close()

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, server: Server) -> None:
        async for way in _accepted(self._listening):
            self._begin(self._take(way, server))

    async def _take(self, way: socket.socket, server: Server) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):  # the client is gone already, or the reader
            with way:
                line, parts = await _socket_from(way), []
                while part := await loop.sock_recv(way, PIECE_BYTES):
                    parts.append(part)
            await loop.connect_accepted_socket(lambda: _begun(server, b"".join(parts)), line)


async def _accepted(listening: socket.socket) -> AsyncIterator[socket.socket]:
    """Connections as they come, one at a time."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            line, _ = await loop.sock_accept(listening)
        except OSError as error:  # too many files are open
            log.warning("a connection could not be taken: %s", error)
            await asyncio.sleep(ACCEPT_AGAIN_S)
            continue
        line.setblocking(False)
        yield line


async def _socket_from(way: socket.socket) -> socket.socket:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(way, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(way)
    _, descriptors, _, _ = socket.recv_fds(way, len(SENT_WITH), 1)
    if not descriptors:
        raise ConnectionAbortedError("a reader ended before it had handed its connection on")
    line = socket.socket(fileno=descriptors[0])
    line.setblocking(False)
    return line


def _begun(server: Server, data: bytes) -> asyncio.Protocol:
    """The protocol of a connection on which this has come already."""
    protocol = server.protocol()
    made = protocol.connection_made

    def begin(transport: asyncio.Transport) -> None:
        made(transport)
        protocol.data_received(data)

    protocol.connection_made = begin  # type: ignore[method-assign]
    return protocol
