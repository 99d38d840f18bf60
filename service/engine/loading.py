"""Loading the models of a store beside each other: some at once, and one that somebody asks for before the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

from hinged.service.engine.scheduling.threads import Lane

LOADS_BESIDE_PLACES = 2  # loads at once, more than there are places to compute on: for those that wait for the store
LOAD_LONG_S = 0.5  # after which a load lets the next one begin although it goes on itself


class Loading:
    """The load of one model: where it runs, and whether it has begun."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.begin = asyncio.Event()
        self.counts = False  # among those that have begun and are not yet long
        self.task: asyncio.Task[None] | None = None


class Loads:
    """The models that are being loaded, by name. Used on the event loop."""

    def __init__(self, places: int) -> None:
        """places: to compute on."""
        self._most = places + LOADS_BESIDE_PLACES
        self._loading: dict[str, Loading] = {}
        self._short = 0  # that have begun and are not yet long

    def __contains__(self, name: str) -> bool:
        return name in self._loading

    def __iter__(self) -> Iterator[str]:
        return iter(self._loading)

    def __len__(self) -> int:
        return len(self._loading)

    def add(self, name: str, lane: Lane) -> None:
        """A model that is to be loaded on this lane."""
        self._loading[name] = Loading(lane)

    def run(self, name: str, load: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let this load a model; it is to wait for its `turn`."""
        task = self._loading[name].task = asyncio.create_task(load, name=f"load of {name}")
        return task

    def begin(self) -> None:
        """Let as many begin as may at once."""
        for loading in self._loading.values():
            if self._short >= self._most:
                return
            self._begin(loading)

    def hurry(self, name: str) -> None:
        """Let the load of a model begin before others, and count like what serves: somebody waits for it."""
        loading = self._loading[name]
        loading.lane.hurry()
        self._begin(loading)

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[Lane]:
        """Wait until the load of a model may begin: the lane to load it on. Behind this it loads no longer."""
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
        """End what all of them compute."""
        for loading in self._loading.values():
            loading.lane.give_up(why)

    async def cut_off(self, name: str, why: str) -> None:
        """Give up the load of a model; it has ended when this returns."""
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
