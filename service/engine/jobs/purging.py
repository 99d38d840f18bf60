"""Purges of a store, which take as long as all of it is large: one serves all who asked before it began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hinged.service.store.base import Store

REST = 3.0
"""How many times as long as the last purge took the store then rests: purges take its disk for a quarter of the time at
most, however many examples are forgotten."""

Call = Callable[[Callable[[], list[str]]], Awaitable[list[str]]]


class Purging:
    """What all models of a store share to have it purged. Used on one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._begun = 0
        self._ended: tuple[int, list[str]] = 0, []  # the newest that has: its number, and what it told
        self._rests_until = 0.0

    async def purge(self, call: Call) -> list[str]:
        """What a purge that begins after this told, once it is done. `call` runs the store's function on a thread."""
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
