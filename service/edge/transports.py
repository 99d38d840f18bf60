"""The transport of an HTTP connection, and its flow control."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl

from hinged.service import limits

TOGETHER_BYTES_MAX = 2**16  # if more bytes wait, send them now instead of at the end of the turn

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
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._transport = transport
        self._loop = loop
        self._seconds = seconds
        self._parts: list[bytes] = []
        self._bytes = 0
        self._ended = False
        self.more_comes: Callable[[], bool] = lambda: False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

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
        if self.more_comes():
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
