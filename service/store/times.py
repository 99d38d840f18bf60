"""How long something has taken, each time: counts by length, for whoever watches the server."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Seen(NamedTuple):
    """How many took at most each of BOUNDS_S, then how many in all; and all seconds together."""

    counts: list[int]
    seconds: float


class Times:
    """What was measured. Any thread may add and read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._seconds = 0.0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Measure the block, however it ends."""
        began = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            with self._lock:
                self._counts[bisect_left(BOUNDS_S, seconds)] += 1
                self._seconds += seconds

    def seen(self) -> Seen:
        """All so far."""
        with self._lock:
            counts, seconds = list(self._counts), self._seconds
        for at in range(1, len(counts)):
            counts[at] += counts[at - 1]
        return Seen(counts, seconds)
