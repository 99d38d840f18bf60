"""How many models are at work at once: the others wait at a gate, in the order in which they came.

Two processors do less of twenty micro-batches at once than of two: Python's lock then changes hands all the time. And
who has computed least goes next, so that some wait ten times as long as others. At a gate the first that came goes
first, and a model whose turn has come takes all that has queued up by then: the more models wait, the larger are their
micro-batches. Each model waits with one micro-batch at a time, so that none has a second turn before all that waited
have had one.

There are as many places as processors (two at least, for one always waits for something), and more where micro-batches
spend most of their time waiting for the store, which computes nothing. One that is at work for long keeps its place
for a moment only: from then on it shares the processors with the others (turns.py). Models whose calls are usually
long have a gate of their own, where that moment is longer: to take turns would make all of them late.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from hinged.service.engine.scheduling.turns import SHORT_S, Account

PLACES_MIN = 2
"""Places of a gate: one micro-batch computes while another waits for the store."""
HELD_S, LONG_HELD_S = 0.05, 0.1
"""Seconds for which a micro-batch keeps its place at most, and one of a model whose calls are usually long. With 500 ms
for long ones the slowest of a hundred requests of the exact solver took 3.0 s, with 100 ms 2.1, without a gate 2.7
(twenty models, two hundred clients)."""
GAIN = 0.02
"""Share of one micro-batch in the moving average of the time that micro-batches wait for the store."""
LONGEST = 4
"""Times HELD_S that one micro-batch counts in that average at most: one that hung says little of the next ones."""
STORED_MAX = 0.95
"""Share of their time that micro-batches are taken to wait for the store, at most: a gate has twenty times its places
then. Without a bound a store that is away lets all models in at once."""


class LearningGate:
    """Lets so many in at once. Used on the event loop."""

    def __init__(self, places: int, held_s: float) -> None:
        self._places = max(places, PLACES_MIN)
        self._held_s = held_s
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._seconds = self._stored_s = 0.0  # of micro-batches, the newest counting most

    @property
    def most(self) -> int:
        """How many may be inside at once."""
        waiting = min(self._stored_s / self._seconds, STORED_MAX) if self._seconds else 0.0
        return round(self._places / (1.0 - waiting))

    @asynccontextmanager
    async def turn(self, account: Account) -> AsyncIterator[None]:
        """Wait for a place, and keep it through the block, but not for long. account: of who works there."""
        await self._enter()
        place = _Place()
        late = asyncio.get_running_loop().call_later(self._held_s, self._leave, place)
        began, stored_s = time.perf_counter(), account.stored_s
        try:
            yield
        finally:
            late.cancel()
            self._note(time.perf_counter() - began, account.stored_s - stored_s)
            self._leave(place)

    def _note(self, seconds: float, stored_s: float) -> None:
        """What a micro-batch took. One that hung, or after which all was read again, tells little of the next ones."""
        counts = min(1.0, LONGEST * self._held_s / seconds) if seconds else 1.0
        self._seconds += counts * seconds - GAIN * self._seconds
        self._stored_s += counts * stored_s - GAIN * self._stored_s

    async def _enter(self) -> None:
        if self._inside < self.most and not self._waiting:
            self._inside += 1
            return
        let_in = asyncio.get_running_loop().create_future()
        self._waiting.append(let_in)
        try:
            await let_in
        except asyncio.CancelledError:
            if not let_in.cancelled():  # it has a place by now
                self._leave(_Place())
            raise

    def _leave(self, place: _Place) -> None:
        if place.kept:
            place.kept = False
            self._inside -= 1
            while self._waiting and self._inside < self.most:
                let_in = self._waiting.popleft()
                if not let_in.done():
                    self._inside += 1
                    let_in.set_result(None)


class _Place:
    """Whether it is kept yet."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept = True


class Gates:
    """The two gates of a server. Used on the event loop."""

    def __init__(self, places: int) -> None:
        """places: to compute on."""
        self._gate = LearningGate(places, HELD_S)
        self._long = LearningGate(places, LONG_HELD_S)

    def turn(self, account: Account) -> AbstractAsyncContextManager[None]:
        """As LearningGate.turn, at the gate of a model."""
        return (self._gate if account.usual_s < SHORT_S else self._long).turn(account)
