"""The open WebSockets and event streams: their number is limited, and all end when the server stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from hinged.service.errors import QueueFull, Unavailable


class Streams:
    """Counts the open streams and ends them. Methods run on one event loop."""

    def __init__(self, most: int) -> None:
        self.stopping = False
        self.stops_at: float | None = None  # deadline for all streams to end, by the monotonic clock
        self.most = most
        self._open: dict[int, Callable[[], None]] = {}
        self._number = 0
        self._none_left = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def check(self) -> None:
        """Raise QueueFull if too many streams are open, Unavailable once the server stops."""
        if self.stopping:
            raise Unavailable("the server is stopping")
        if len(self._open) >= self.most:
            raise QueueFull(f"{len(self._open)} streams of at most {self.most} are open")

    @contextmanager
    def one(self, end: Callable[[], None]) -> Iterator[None]:
        """Count a stream as open during the block. end: asks the stream to end."""
        self.check()
        self._number += 1
        number = self._number
        self._open[number] = end
        try:
            yield
        finally:
            del self._open[number]
            if not self._open:
                self._none_left.set()

    async def stop(self, seconds: float) -> None:
        """Open no more streams, end all, and wait up to `seconds` until they have ended."""
        self.stopping, self.stops_at = True, time.monotonic() + seconds
        self._none_left.clear()
        for end in list(self._open.values()):
            end()
        if self._open:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._none_left.wait(), seconds)
