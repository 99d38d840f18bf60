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
"""Maximum seconds for which a micro-batch keeps its place. With 0.5, the slowest of a hundred requests of the exact
solver took 3.0 s; with 0.1, 2.1 s; without a gate, 2.7 s (twenty models, two hundred clients)."""
GAIN = 0.02
"""Weight of the newest micro-batch in the moving average of the share of the time in which micro-batches compute. The
average counts as at least GAIN, so a gate has at most fifty times its places while the store is unavailable. With 0 a
gate has no more places for a slow store: with an fsync of 10 ms, 100 clients of 100 models learned a quarter as much.
"""


class LearningGate:
    """Lets a limited number of micro-batches in at once. Used on the event loop."""

    def __init__(self, places: int) -> None:
        self._places = max(places, 2)  # one micro-batch computes while another waits for the store
        self._inside: set[asyncio.Future[None]] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._computing = 1.0  # moving average of the share of the time in which micro-batches compute

    @property
    def most(self) -> int:
        """Return the number of micro-batches that may be inside at once."""
        return round(self._places / max(self._computing, GAIN))

    @asynccontextmanager
    async def turn(self, account: Account) -> AsyncIterator[None]:
        """Wait for a place and hold it during the block, for at most HELD_S. account: the waiting model's record of
        CPU time.
        """
        place = await self._enter()
        late = asyncio.get_running_loop().call_later(HELD_S, self._leave, place)
        began, stored_s = time.perf_counter(), account.stored_s
        try:
            yield
        finally:
            late.cancel()
            if seconds := time.perf_counter() - began:
                computing = max(0.0, 1.0 - (account.stored_s - stored_s) / seconds)
                self._computing += GAIN * (computing - self._computing)
            self._leave(place)

    async def _enter(self) -> asyncio.Future[None]:
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._let_in()
        try:
            await place
        except asyncio.CancelledError:
            self._leave(place)  # the gate may have already let it in
            raise
        return place

    def _leave(self, place: asyncio.Future[None]) -> None:
        if place in self._inside:
            self._inside.discard(place)
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and len(self._inside) < self.most:
            place = self._waiting.popleft()
            if not place.done():  # its model may have stopped waiting
                self._inside.add(place)
                place.set_result(None)


class Gates:
    """The two gates of a server. Used on the event loop."""

    def __init__(self, places: int) -> None:
        """Take the number of places to compute on."""
        self._gate, self._long = LearningGate(places), LearningGate(places)

    def turn(self, account: Account) -> AbstractAsyncContextManager[None]:
        """Return a turn at the right gate: the second gate if the model's calls are usually long."""
        return (self._gate if account.usual_s < SHORT_S else self._long).turn(account)
