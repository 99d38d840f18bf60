"""Count durations by length, for the metrics."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the counts, in seconds: the buckets of a Prometheus histogram."""


class Seen(NamedTuple):
    """counts: for each bound, the number of durations up to the bound; the last count is the total. seconds: sum of all
    durations.
    """

    counts: list[int]
    seconds: float


class Times:
    """Measured durations. Any thread may add and read."""

    def __init__(self, bounds_s: Sequence[float] = BOUNDS_S) -> None:
        self._lock = Lock()
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self._seconds = 0.0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Measure the duration of the block, even if it raises an error."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add(time.perf_counter() - began)

    def add(self, seconds: float) -> None:
        """Add a duration."""
        with self._lock:
            self._counts[bisect_left(self._bounds_s, seconds)] += 1
            self._seconds += seconds

    def seen(self) -> Seen:
        """Return the counts and the sum of all durations so far."""
        with self._lock:
            counts, seconds = list(self._counts), self._seconds
        for at in range(1, len(counts)):
            counts[at] += counts[at - 1]
        return Seen(counts, seconds)
