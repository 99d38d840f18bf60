"""The transport of an HTTP connection, and its flow control."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sized
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl

from hinged.service import limits

TOGETHER_BYTES_MAX = 2**16  # if more bytes wait, send them now instead of at the end of the turn

PIECE_BYTES, TURN_S = 2**13, 0.004
"""Received data is handled in pieces, for at most this many seconds in a turn of the event loop. A piece may be 1,300
empty frames, or 300 requests: 6 ms."""

LINGER_S = 2.0
"""If a request is answered before all of it has arrived, its remaining data is discarded for this many seconds."""


def abort_if_unread(transport: asyncio.Transport, seconds: float) -> asyncio.TimerHandle:
    """Break the connection after `seconds`, and later if much data waits to be sent: a client may read as slowly as it
    may send.
    """
    allowed_s = seconds + transport.get_write_buffer_size() / limits.BODY_BYTES_PER_S
    return asyncio.get_running_loop().call_later(allowed_s, transport.abort)


class CoalescingTransport:
    """A transport that sends everything written in one turn of the event loop together, for example a head and its
    body.

    The transport also closes cleanly. If a connection is closed while data arrives, the system resets it, and the
    client may lose an answer that it has not read. So while `more_comes`, the transport announces the end and discards
    incoming data until the client closes too, for at most LINGER_S.

    Data that takes long to handle, such as many tiny requests, is handled in several turns of the event loop. The rest
    waits like data that was not read yet, and meanwhile nothing more is read.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._transport = transport
        self._loop = loop
        self._seconds = seconds
        self._parts: list[bytes] = []
        self._bytes = 0
        self._ended = False
        self._rest, self._at = b"", 0  # received data, and how much of it was handled
        self._later: asyncio.Handle | None = None  # the turn in which more of it is handled
        self._paused = self._stopped = False  # whether the protocol wants no data, and whether none is read
        self.more_comes: Callable[[], bool] = lambda: False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def receive(self, data: bytes, handle: Callable[[bytes], None]) -> None:
        """Give received data to `handle`, a piece at a time."""
        self._rest, self._handle = self.take_rest() + data, handle
        if self._later is None:
            self._receive()

    def _receive(self) -> None:
        self._later, end = None, time.perf_counter() + TURN_S
        while self.waits and not self.is_closing():
            if time.perf_counter() > end:
                self._stop()
                if not self._paused:
                    self._later = self._later or self._loop.call_soon(self._receive_more)
                return
            start, self._at = self._at, self._at + PIECE_BYTES
            self._handle(self._rest[start : self._at])
        self.take_rest()
        if self._stopped and not self._paused:
            self.resume_reading()

    def _receive_more(self) -> None:
        try:
            self._receive()
        except BaseException:  # as the loop does if an error comes from a protocol
            self._transport.abort()
            raise

    def _stop(self) -> None:
        self._stopped = True
        self._transport.pause_reading()

    def pause_reading(self) -> None:
        """Read no more, and handle no more in later turns."""
        self._paused = True
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._stop()

    def resume_reading(self) -> None:
        """Go on to handle what was received, then to read."""
        self._paused = False
        if self.waits:
            self._later = self._later or self._loop.call_soon(self._receive_more)
        elif not self._transport.is_closing():
            self._stopped = False
            self._transport.resume_reading()

    @property
    def waits(self) -> bool:
        """Whether received data was not handled yet."""
        return self._at < len(self._rest)

    def take_rest(self) -> bytes:
        """Return the received data that was not handled yet. It will not be handled."""
        rest, self._rest, self._at = self._rest[self._at :], b"", 0
        return rest

    def write(self, data: bytes) -> None:
        """Send at the end of this turn, or now if much data is waiting. The transport knows when to pause."""
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)
        self._bytes += len(data)
        if self._bytes > TOGETHER_BYTES_MAX:
            self._send()

    def write_now(self, data: bytes) -> None:
        """Send a complete answer, after all data that still waits to be sent."""
        if self._parts:
            self.write(data)
        elif not self.is_closing():
            self._transport.write(data)

    def is_sent(self) -> bool:
        """Return whether the system has everything that was written."""
        return not self._parts and not self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether nothing more can be written, and incoming data is ignored."""
        return self._ended or self._transport.is_closing()

    def close(self) -> None:
        """Close once everything is sent."""
        if self.is_closing():
            return
        self._send()
        self._ended = True
        if self.waits or self.more_comes():
            self._transport.write_eof()
            self._transport.resume_reading()
            self._loop.call_later(LINGER_S, self._transport.close)
        else:
            self._transport.close()
            if self._transport.get_write_buffer_size():
                abort_if_unread(self._transport, self._seconds)

    def _send(self) -> None:
        if self._parts and not self.is_closing():
            self._transport.write(b"".join(self._parts))
        self._parts.clear()
        self._bytes = 0


class Flow(FlowControl):
    """Flow control of a connection, which protects the memory against two kinds of clients.

    A client may send requests faster than they are answered: reading resumes only if no complete request waits. A
    client may read an answer very slowly, a few bytes from time to time: the connection is broken if the client has not
    read what waits in the time that `abort_if_unread` allows.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Sized, seconds: float) -> None:
        super().__init__(transport)
        self._waiting = waiting
        self._seconds = seconds
        self._unread: asyncio.TimerHandle | None = None

    def resume_reading(self) -> None:
        """Resume reading, if no request waits."""
        if not self._waiting:
            super().resume_reading()

    def pause_writing(self) -> None:
        """Wait until the client has read most of what was sent."""
        super().pause_writing()
        self._unread = self._unread or abort_if_unread(self._transport, self._seconds)

    def resume_writing(self) -> None:
        """Go on writing. The connection also calls this when it is lost."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()
