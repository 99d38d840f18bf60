"""A gate limits how many models learn at once. The other models wait in order of arrival.

Two processors do less work on twenty micro-batches at once than on two, because Python's lock then changes hands all
the time. Without a gate the model that has computed least goes next, so some models wait ten times as long as other
models. At a gate, the model that arrived first goes first and takes everything in its queue. The more models wait, the
larger their micro-batches are. A model waits with one micro-batch at a time. So it gets no second turn before every
waiting model had a turn.

A gate has as many places as there are processors, but at least two. It has more places if micro-batches mostly wait for
the store. A long micro-batch keeps its place only for a limited time and then shares the processors with the other
models (turns.py). Models whose calls are usually long have their own gate, so that they do not delay other models.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from hinged.service.engine.scheduling.turns import SHORT_S, Account

HELD_S = 0.1
"""Maximum time in seconds for which a micro-batch keeps its place. With 0.5, the slowest of a hundred requests of the
exact solver took 3.0 s; with 0.1, 2.1 s; without a gate, 2.7 s (twenty models, two hundred clients)."""
GAIN = 0.02
"""Weight of the newest micro-batch in the moving average of the share of the time that micro-batches wait for the
store. With 0 a gate has no more places for a slow store: with an fsync of 10 ms, 100 clients of 100 models learned a
quarter as much."""
STORED_MAX = 0.95
"""Maximum share of the time that a micro-batch is assumed to wait for the store. At this share a gate has twenty times
its places. Without this bound, a gate would let all models in at once while the store is unavailable."""


class LearningGate:
    """Lets a limited number of micro-batches in at once. Used on the event loop."""

    def __init__(self, places: int) -> None:
        self._places = max(places, 2)  # one micro-batch computes while another waits for the store
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._stored = 0.0  # moving average of the share of the time that micro-batches wait for the store

    @property
    def most(self) -> int:
        """Return the number of micro-batches that may be inside at once."""
        return round(self._places / (1.0 - self._stored))

    @asynccontextmanager
    async def turn(self, account: Account) -> AsyncIterator[None]:
        """Wait for a place and hold it during the block, for at most HELD_S. account: the waiting model's record of
        CPU time.
        """
        await self._enter()
        place = _Place()
        late = asyncio.get_running_loop().call_later(HELD_S, self._leave, place)
        began, stored_s = time.perf_counter(), account.stored_s
        try:
            yield
        finally:
            late.cancel()
            if seconds := time.perf_counter() - began:
                stored = min((account.stored_s - stored_s) / seconds, STORED_MAX)
                self._stored += GAIN * (stored - self._stored)
            self._leave(place)

    async def _enter(self) -> None:
        if self._inside < self.most and not self._waiting:
            self._inside += 1
            return
        let_in = asyncio.get_running_loop().create_future()
        self._waiting.append(let_in)
        try:
            await let_in
        except asyncio.CancelledError:
            if not let_in.cancelled():  # the gate had already let it in
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
    """A place inside the gate. kept: whether the gate still counts it as taken."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept = True


class Gates:
    """The two gates of a server. Used on the event loop."""

    def __init__(self, places: int) -> None:
        """Take the number of places to compute on."""
        self._gate, self._long = LearningGate(places), LearningGate(places)

    def turn(self, account: Account) -> AbstractAsyncContextManager[None]:
        """Return a turn at the right gate: the second gate if the model's calls are usually long."""
        return (self._gate if account.usual_s < SHORT_S else self._long).turn(account)
