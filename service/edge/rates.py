"""How many requests each key may send.

The generic cell rate algorithm (ITU-T I.371, annex A). A key may send a number of requests a second, and save up one
second of them. Each key needs one number: the time at which its requests would end if they were done at this rate.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from hinged.service.edge.keys import Key
from hinged.service.errors import QueueFull

KEPT = 1_000
"""Number of keys beyond which the times of idle keys are dropped."""


class Rates:
    """The requests of each key. rate: requests a second, at least 1; None for no limit. clock: returns seconds."""

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = math.inf if rate is None else rate
        self._clock = clock
        self._ends: dict[str, float] = {}

    def wait_s(self, key: Key) -> float:
        """Return the seconds until the key may send its next request; 0 if it may send it now."""
        end = self._ends.get(key.name)
        return 0.0 if end is None else max(0.0, end - self._clock() + 1.0 / self._rate - 1.0)

    def count(self, key: Key, requests: int = 1) -> None:
        """Count requests of a key."""
        if self._rate == math.inf:
            return
        now = self._clock()
        if len(self._ends) > KEPT:
            self._ends = {name: end for name, end in self._ends.items() if end > now}
        self._ends[key.name] = max(now, self._ends.get(key.name, now)) + requests / self._rate

    def check(self, key: Key) -> None:
        """Count a request of a key. Raise QueueFull if it comes too soon."""
        if wait_s := self.wait_s(key):
            raise QueueFull(
                f"the key {key.name} may send {self._rate:g} requests a second", retry_after_s=max(1, math.ceil(wait_s))
            )
        self.count(key)

    async def paced(self, key: Key, requests: int) -> None:
        """Count requests of a key, and wait until the key may send the last of them."""
        self.count(key, requests)
        if wait_s := max(0.0, self.wait_s(key) - 1.0 / self._rate):
            await asyncio.sleep(wait_s)
