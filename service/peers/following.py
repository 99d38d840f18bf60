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
"""Seconds between attempts to reach an owner that does not answer. With a larger value, following resumes later."""


class Following:
    """Follows the models of one owner. Used on one event loop."""

    def __init__(self, path: Path, open_store: Callable[[], Store], settings: Settings, lane: Lane) -> None:
        """Take the socket's path on which the owner reports positions. open_store: opens the owner's part
        for reading.
        """
        self._path = path
        self._open_store = open_store
        self._settings = settings
        self._lane = lane
        self.replicas: Replicas | None = None
        self._store: Store | None = None

    async def run(self) -> None:
        """Follow the owner's models whenever the owner can be reached."""
        while True:
            with suppress(OSError, StoreUnavailable):  # the owner cannot be reached
                reader, writer = await asyncio.open_unix_connection(self._path, limit=LINE_BYTES_MAX)
                with closing(writer):
                    await self._follow(reader)
            await asyncio.sleep(AGAIN_S)

    async def _follow(self, reader: asyncio.StreamReader) -> None:
        if self.replicas is None:
            self._store = await asyncio.to_thread(self._open_store)  # the store exists, because its owner runs
            self.replicas = Replicas(self._store, self._settings, self._lane)
        await follow_notes(reader, self.replicas.note)
        await self.replicas.settle()

    def drain(self) -> None:
        """Stop reading the logs that are being read."""
        self._lane.give_up("the server stops")

    async def stop(self) -> None:
        """Stop following."""
        if self.replicas is not None:
            await self.replicas.stop()
        if self._store is not None:
            self._store.close()


class Followed:
    """The replicas of all owners that this process follows. Routes use this object as the registry."""

    def __init__(self, owner: Callable[[str], int], followings: Mapping[int, Following], settings: Settings) -> None:
        self.settings = settings
        self._owner = owner
        self._followings = followings

    def get(self, name: str) -> Replica:
        """Return the replica of a model. Raise NotHere if only its owner can answer."""
        following = self._followings.get(self._owner(name))
        if following is None or following.replicas is None:
            raise NotHere
        return following.replicas.get(name)
