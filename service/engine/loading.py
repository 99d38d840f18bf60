"""Load the models of a store, several at once. A model that a client asks for is loaded first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

from hinged.service.engine.scheduling.threads import Lane

LOADS_BESIDE_PLACES = 2  # loads beyond one per processor, because some loads wait for the store
LOAD_LONG_S = 0.5  # seconds after which the next load may begin, even if this load has not ended


class Loading:
    """The load of one model. begin: an event that is set when the load may begin."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.begin = asyncio.Event()
        self.counts = False  # whether it has begun and took less than LOAD_LONG_S so far
        self.task: asyncio.Task[None] | None = None


class Loads:
    """The models that are being loaded, by name. Used on the event loop."""

    def __init__(self, places: int) -> None:
        """Take the number of places, which is the number of calls that may compute at once."""
        self._most = places + LOADS_BESIDE_PLACES
        self._loading: dict[str, Loading] = {}
        self._short = 0  # loads that have begun and took less than LOAD_LONG_S so far

    def __contains__(self, name: str) -> bool:
        return name in self._loading

    def __iter__(self) -> Iterator[str]:
        return iter(self._loading)

    def __len__(self) -> int:
        return len(self._loading)

    def add(self, name: str, lane: Lane) -> None:
        """Add a model that is to be loaded on this lane."""
        self._loading[name] = Loading(lane)

    def run(self, name: str, load: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start the task that loads a model; the task must wait for its `turn`."""
        task = self._loading[name].task = asyncio.create_task(load, name=f"load of {name}")
        return task

    def begin(self) -> None:
        """Start waiting loads, as many as may run at the same time."""
        for loading in self._loading.values():
            if self._short >= self._most:
                return
            self._begin(loading)

    def hurry(self, name: str) -> None:
        """Let the load of a model begin before other loads, because a client waits for it."""
        self._begin(self._loading[name])

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[Lane]:
        """Wait until the load of a model may begin; yield its lane. After the block the model no longer counts as
        loading.
        """
        loading = self._loading[name]
        await loading.begin.wait()
        long = asyncio.get_running_loop().call_later(LOAD_LONG_S, self._let_next_begin, loading)
        try:
            yield loading.lane
        finally:
            self._loading.pop(name, None)
            long.cancel()
            self._let_next_begin(loading)

    def give_up(self, why: str) -> None:
        """Stop the computations of all loads."""
        for loading in self._loading.values():
            loading.lane.give_up(why)

    async def cut_off(self, name: str, why: str) -> None:
        """Give up the load of a model; return once it has ended."""
        loading = self._loading.pop(name)
        loading.lane.give_up(why)
        self._begin(loading)
        if loading.task is not None:
            await asyncio.wait([loading.task])

    def _begin(self, loading: Loading) -> None:
        if not loading.begin.is_set():
            loading.begin.set()
            loading.counts = True
            self._short += 1

    def _let_next_begin(self, before: Loading) -> None:
        if before.counts:
            before.counts = False
            self._short -= 1
            self.begin()
