"""Purges of a store. A purge takes time in proportion to the whole store, so one serves all who asked before it
began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hinged.service.store.base import Store

REST = 3.0
"""Rest of the store after a purge, as a multiple of its duration: however many examples are forgotten, purges use the
disk for at most a quarter of the time."""

Call = Callable[[Callable[[], list[str]]], Awaitable[list[str]]]


class Purging:
    """Purges the store on behalf of all its models. Used on one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._begun = 0
        self._ended: tuple[int, list[str]] = 0, []  # number and result of the newest purge that has ended
        self._rests_until = 0.0

    async def purge(self, call: Call) -> list[str]:
        """Wait for a purge that begins after this call; return its result. call: runs the store's function on a
        thread.
        """
        asked = self._begun
        async with self._turn:
            number, told = self._ended
            if number > asked:
                return told
            loop = asyncio.get_running_loop()
            await asyncio.sleep(self._rests_until - loop.time())
            self._begun += 1
            number, start = self._begun, loop.time()
            try:
                told = await call(self._store.purge)
            finally:
                self._rests_until = loop.time() + REST * (loop.time() - start)
            self._ended = number, told
            return told
