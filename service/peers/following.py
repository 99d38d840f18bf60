"""Follow the models of other processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from hinged.service.engine.scheduling.threads import Lane
from hinged.service.errors import StoreUnavailable
from hinged.service.peers.notes import LINE_BYTES_MAX, follow_notes
from hinged.service.peers.replica import NotHere, Replica, Replicas
from hinged.service.settings import Settings
from hinged.service.store.base import Store

log = logging.getLogger(__name__)

AGAIN_S = 0.2
"""Seconds between attempts to reach an owner that is away. With more, following resumes that much later."""


class Following:
    """Follows the models of one owner. On one event loop."""

    def __init__(self, path: Path, open_store: Callable[[], Store], settings: Settings, lane: Lane) -> None:
        """path: socket on which the owner reports positions. open_store: opens the owner's part for reading."""
        self._path = path
        self._open_store = open_store
        self._settings = settings
        self._lane = lane
        self.replicas: Replicas | None = None
        self._store: Store | None = None

    async def run(self) -> None:
        """Follow the owner whenever it is there."""
        while True:
            with suppress(OSError, StoreUnavailable):  # the owner is away
                reader, writer = await asyncio.open_unix_connection(self._path, limit=LINE_BYTES_MAX)
                with closing(writer):
                    await self._follow(reader)
            await asyncio.sleep(AGAIN_S)

    async def _follow(self, reader: asyncio.StreamReader) -> None:
        if self.replicas is None:
            self._store = await asyncio.to_thread(self._open_store)  # it exists, because its owner runs
            self.replicas = Replicas(self._store, self._settings, self._lane)
        await follow_notes(reader, self.replicas.note)
        await self.replicas.settle()

    def drain(self) -> None:
        """Give up folds in progress."""
        self._lane.give_up("the server stops")

    async def stop(self) -> None:
        """Stop following."""
        if self.replicas is not None:
            await self.replicas.stop()
        if self._store is not None:
            self._store.close()


class Followed:
    """The replicas of all owners that this process follows; routes use it as the registry."""

    def __init__(self, owner: Callable[[str], int], followings: Mapping[int, Following], settings: Settings) -> None:
        self.settings = settings
        self._owner = owner
        self._followings = followings

    def get(self, name: str) -> Replica:
        """The replica of a model. NotHere if only its owner can answer."""
        following = self._followings.get(self._owner(name))
        if following is None or following.replicas is None:
            raise NotHere
        return following.replicas.get(name)
