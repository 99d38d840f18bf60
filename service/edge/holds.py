"""How long something held the event loop: while it is held, nobody at all is answered.

A timer is due each 10 ms. It comes late where a callback runs long, or where a thread keeps Python's lock, and then
this process has computed meanwhile; where it has not, the machine was busy with others, which is no hold of ours.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hinged.service.store.times import Times

TICK_S = 0.01
"""How often the loop is looked at, seconds. A hold shows as up to so much shorter than it is; each look takes 5 us."""
BOUNDS_S = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
RECENT_S = 60.0
"""The longest hold is that of the newest one or two spans of so many seconds: a scrape each minute misses none."""


class Holds(Collector):
    """Watches the event loop on which it is started, and tells Prometheus of its holds."""

    def __init__(self) -> None:
        self._times = Times(BOUNDS_S)
        self._longest = [0.0, 0.0]  # of the span before, and of this one
        self._span_ends = self._looked = self._computed = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin, on the event loop that runs."""
        self._looked, self._computed = time.perf_counter(), time.process_time()
        self._span_ends = self._looked + RECENT_S
        self._wait(asyncio.get_running_loop())

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(TICK_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now, computed = time.perf_counter(), time.process_time()
        held = min(now - self._looked - TICK_S, computed - self._computed)
        self._looked, self._computed = now, computed
        if now > self._span_ends:
            self._longest, self._span_ends = [self._longest[1], 0.0], now + RECENT_S
        if held > BOUNDS_S[0]:
            self._times.add(held)
            self._longest[1] = max(self._longest[1], held)
        self._wait(loop)

    def describe(self) -> list[Metric]:
        """Nothing before it is asked."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The holds so far, and the longest of late."""
        seen = self._times.seen()
        buckets = list(zip([*map(str, BOUNDS_S), "+Inf"], map(float, seen.counts), strict=True))
        meaning = "Times that the event loop was held for more than 0.01 s."
        yield HistogramMetricFamily("hinged_loop_hold_seconds", meaning, buckets=buckets, sum_value=seen.seconds)
        longest = max(self._longest)
        yield GaugeMetricFamily(
            "hinged_loop_hold_longest_seconds", "The longest of the newest 1 to 2 minutes.", longest
        )
