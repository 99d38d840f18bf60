"""Splice a WebSocket to the owner of its model: pass the handshake on, then bytes in both directions.

Frames are neither changed nor kept. Only the ends of the owner's frames are tracked, so that this server can send the
client a close frame with the reason when the owner no longer can.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

from websockets.frames import Close, CloseCode, Frame, Opcode

from hinged.service.cluster.lines import connect
from hinged.service.cluster.passing import unanswered

if TYPE_CHECKING:
    from hinged.service.cluster.relay import Relay, Relaying

SWITCHED = b"HTTP/1.1 101 "
END_OF_HEAD = b"\r\n\r\n"


class FrameEnds:
    """Tracks where frames end, in the bytes from the answer to the handshake on."""

    def __init__(self) -> None:
        self.began = False
        """Whether any byte has passed."""
        self._open = False
        self._head = bytearray()  # of the answer to the handshake, then of the frame that has begun
        self._left = 0  # bytes of the frame that are still to come
        self._closed = False  # whether a close frame has passed

    @property
    def between(self) -> bool:
        """Whether another frame may be inserted here."""
        return self._open and not self._closed and not self._head and not self._left

    def feed(self, data: bytes) -> None:
        """Track passing bytes."""
        self.began = True
        at = 0
        if not self._open:
            self._head += data
            end = self._head.find(END_OF_HEAD)
            if end < 0 or not self._head.startswith(SWITCHED):  # after a refusal no frames come
                return
            data = bytes(self._head[end + len(END_OF_HEAD) :])
            self._head.clear()
            self._open = True
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
            else:
                self._head.append(data[at])
                at += 1
                self._read_head()

    def _read_head(self) -> None:
        head = self._head
        if len(head) < 2:
            return
        length = head[1] & 0x7F
        wide = {126: 2, 127: 8}.get(length, 0)
        if len(head) < 2 + wide + (4 if head[1] & 0x80 else 0):
            return
        self._left = int.from_bytes(head[2 : 2 + wide], "big") if wide else length
        self._closed = self._closed or head[0] & 0x0F == Opcode.CLOSE
        head.clear()


class Spliced:
    """An open WebSocket: the client's connection at one end, a connection to the owner at the other."""

    def __init__(self, relay: Relay, connection: Relaying, address: str) -> None:
        """Raise QueueFull if too many streams are open, Unavailable if the server stops."""
        self._relay = relay
        self._connection = connection
        self._address = address
        self._ends = FrameEnds()
        self.client = connection.transport
        self.owner: asyncio.Transport | None = None
        self._open = ExitStack()
        self._open.enter_context(relay.streams.one(lambda: self.end("the server stops")))

    async def begin(self, handshake: bytes) -> None:
        """Begin to carry bytes both ways. Unavailable if the owner cannot be reached."""
        try:
            await connect(lambda: _Owner(self), self._address)
        except BaseException:
            self._open.close()
            raise
        if self.client.is_closing() or self.owner is None:
            self.client_left()
            return
        self._connection.connections.discard(self._connection)  # so that a stop does not wait for it
        cast("Any", self.client).more_comes = lambda: True
        self.client.set_protocol(_Client(self))
        self._relay.begin(self)
        self.owner.write(handshake)
        self.client.resume_reading()

    # -- what comes -------------------------------------------------------------------------------------------------

    def from_client(self, data: bytes) -> None:
        """Send bytes of the client to the owner."""
        if self.owner is not None and not self.client.is_closing():
            self.owner.write(data)

    def from_owner(self, data: bytes) -> None:
        """Send bytes of the owner to the client."""
        if not self.client.is_closing():
            self._ends.feed(data)
            self.client.write(data)

    # -- ends -------------------------------------------------------------------------------------------------------

    def client_left(self) -> None:
        """Close the owner's end, because the client's end is closed."""
        self._relay.end(self)
        self._open.close()
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.close()

    def owner_left(self) -> None:
        """End the socket, because the owner's end is closed or the owner is gone."""
        self.owner = None
        self.end(f"the server at {self._address} is gone; the model comes back")

    def look(self) -> None:
        """End the socket if the owner is dead. A living owner itself ends the sockets of a model that it gives away."""
        if not self._relay.gate.lives(self._address):
            self.owner_left()

    def end(self, reason: str) -> None:
        """Ask the client to come back, unless the owner has closed the socket itself, and close."""
        self._relay.end(self)
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.abort()
        if self.client.is_closing():
            return
        if not self._ends.began:
            self._connection.refuse_handshake(unanswered(self._address, "it is gone"))
            return
        if self._ends.between:
            close = Close(CloseCode.SERVICE_RESTART, reason).serialize()
            self.client.write(Frame(Opcode.CLOSE, close).serialize(mask=False))
        self.client.close()


class _Client(asyncio.Protocol):
    def __init__(self, socket: Spliced) -> None:
        self._socket = socket

    def data_received(self, data: bytes) -> None:
        self._socket.from_client(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._socket.client_left()

    def pause_writing(self) -> None:
        if self._socket.owner is not None:
            self._socket.owner.pause_reading()

    def resume_writing(self) -> None:
        if self._socket.owner is not None:
            self._socket.owner.resume_reading()


class _Owner(asyncio.Protocol):
    def __init__(self, socket: Spliced) -> None:
        self._socket = socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket.owner = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._socket.from_owner(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self._socket.owner is not None:
            self._socket.owner_left()

    def pause_writing(self) -> None:
        if not self._socket.client.is_closing():
            self._socket.client.pause_reading()

    def resume_writing(self) -> None:
        if not self._socket.client.is_closing():
            self._socket.client.resume_reading()
