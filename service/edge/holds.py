"""Measure how long the event loop is blocked (a hold). During a hold, no request is answered.

A timer is due every 10 ms. The timer is late if a callback runs long, or if a thread keeps Python's lock. In both cases
this process used CPU time meanwhile. If the process used no CPU time, the machine was busy with other processes, and
the delay is not counted. Linux also tells for how long the loop's thread was ready to run but had no core. That time is
not counted either: other threads of this process may have used CPU time meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress

from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

TICK_S = 0.01
"""Seconds between two checks of the loop. A measured hold may be too short by up to this time. Each check takes 6
us."""
BOUNDS_S = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of the histogram, in seconds. Holds below the first bound are not counted."""
RECENT_S = 60.0
"""Length of a span in seconds. The reported longest hold is from the last one or two spans, so a scrape each minute
misses no hold."""


class Holds(Collector):
    """Watches the event loop on which it is started, and reports holds to Prometheus."""

    def __init__(self) -> None:
        meaning = "Times that the event loop was held for more than 0.01 s."
        self._held = Histogram("hinged_loop_hold_seconds", meaning, buckets=BOUNDS_S, registry=None)
        self._longest = [0.0, 0.0]  # longest hold of the last span, and of the current span
        self._span_ends = self._looked = self._computed = self._queued = 0.0
        self._scheduled: int | None = None  # the file in which Linux counts the times of the loop's thread
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to check the running event loop."""
        with suppress(FileNotFoundError):
            self._scheduled = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        self._looked, self._computed, self._queued = time.perf_counter(), time.process_time(), self._queued_s()
        self._span_ends = self._looked + RECENT_S
        self._wait(asyncio.get_running_loop())

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
        if self._scheduled is not None:
            os.close(self._scheduled)
            self._scheduled = None

    def _queued_s(self) -> float:
        """Return the seconds for which the loop's thread was ready to run but had no core."""
        return 0.0 if self._scheduled is None else int(os.pread(self._scheduled, 64, 0).split()[1]) / 1e9

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(TICK_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now, computed, queued = time.perf_counter(), time.process_time(), self._queued_s()
        held = min(now - self._looked - TICK_S - (queued - self._queued), computed - self._computed)
        self._looked, self._computed, self._queued = now, computed, queued
        if now > self._span_ends:
            self._longest, self._span_ends = [self._longest[1], 0.0], now + RECENT_S
        if held > BOUNDS_S[0]:
            self._held.observe(held)
            self._longest[1] = max(self._longest[1], held)
        self._wait(loop)

    def describe(self) -> list[Metric]:
        """Return no metrics before the first collection."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the holds so far, and the longest recent hold."""
        yield from self._held.collect()
        longest = max(self._longest)
        yield GaugeMetricFamily(
            "hinged_loop_hold_longest_seconds", "Longest hold of the event loop in the last 1 to 2 minutes.", longest
        )
