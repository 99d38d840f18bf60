"""The links of this process to the other processes at the same port. The application starts and stops the links."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.types import ASGIApp, Scope

from hinged.service.edge.ending import end
from hinged.service.peers.alone import Alone, ServerParts
from hinged.service.peers.following import Followed, Following
from hinged.service.peers.front import Front
from hinged.service.peers.handing import Channel, Lent
from hinged.service.peers.notes import Notes
from hinged.service.peers.ring import Ring
from hinged.service.peers.together import Together
from hinged.service.store.base import Store


class Sockets:
    """The paths of a process's Unix sockets, in the folder that it shares with the other processes."""

    def __init__(self, folder: Path, number: int) -> None:
        self.connections = folder / f"{number}.connections"
        """Socket that receives connections from other processes."""
        self.requests = folder / f"{number}.requests"
        """Socket for HTTP with the other processes."""
        self.notes = folder / f"{number}.notes"
        """Socket that reports the positions of this process's models to followers."""


class Siblings(Alone):
    """A process's links to the other processes. Used on one event loop."""

    connection = Lent

    def __init__(self, ring: Ring, folder: Path, secret: bytes, open_part: Callable[[int], Store]) -> None:
        """Take the ring and the folder of the sockets.

        secret: signs the tickets of all processes. open_part: opens the part of the owner with this number for reading.
        """
        self.sockets = Sockets(folder, ring.number)
        self._ring = ring
        self._folder = folder
        self._secret = secret
        self._open_part = open_part
        self._front: Front | None = None
        self.when_loaded: Callable[[], None] = lambda: None
        self._tasks: list[asyncio.Task[None]] = []

    def join(self, parts: ServerParts) -> ASGIApp:
        """Build the links; return the application that also answers for other processes' models."""
        parts.access.share_tickets(self._secret)
        return self.link(parts, parts.edge)

    def link(self, parts: ServerParts, app: ASGIApp) -> ASGIApp:
        """Build the links; return the application that also answers for other processes' models.

        app: answers for this process's models.
        """
        ring = self._ring
        self._notes = Notes(self.sockets.notes, parts.registry.positions)
        self._followings = {
            owner: Following(
                Sockets(self._folder, owner).notes,
                lambda owner=owner: self._open_part(owner),  # type: ignore[misc]
                parts.settings,
                parts.registry.lane(),
            )
            for owner in ring.followed
        }
        self._channels = {other: Channel(other, Sockets(self._folder, other).connections) for other in ring.others}
        followed = Followed(ring.owner, self._followings, parts.settings)
        self._front = Front(app, parts.edge, parts.access, ring, self._channels, followed)
        others = {other: Sockets(self._folder, other).requests for other in ring.others}
        self._together = Together(self._front, parts.edge, ring.number, others)
        return self._together

    def leads(self, scope: Scope) -> Channel | bool:
        """Return where a request must be answered (see Front.leads)."""
        return self._front is None or self._front.leads(scope)

    def channel(self, number: int | None) -> Channel | None:
        """Return the channel to another process; None if there is no such process."""
        return None if number is None else self._channels.get(number)

    def here(self, name: str) -> bool:
        """Return whether this process owns a model."""
        return self._ring.here(name)

    async def start(self) -> None:
        """Follow other processes, and accept followers. If stdin closes, the supervisor has ended, so this process ends
        too.
        """
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(sys.stdin)
            shutil.rmtree(self._folder, ignore_errors=True)  # the supervisor can no longer remove it
            end()

        loop.add_reader(sys.stdin, gone)
        await self._notes.start()
        self._tasks = [loop.create_task(following.run()) for following in self._followings.values()]

    async def claims(self) -> None:
        """Report that all models are loaded."""
        self.when_loaded()

    def drain(self) -> None:
        """Stop following."""
        for task in self._tasks:
            task.cancel()
        for following in self._followings.values():
            following.drain()

    async def stop(self) -> None:
        """Close the links to the other processes."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for following in self._followings.values():
            await following.stop()
        await self._notes.stop()
        await self._together.close()
        for channel in self._channels.values():
            channel.close()

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        handed = sum(channel.handed for channel in self._channels.values())
        yield CounterMetricFamily("hinged_connections_handed_over", "Connections handed to another process.", handed)
        if not self._followings:
            return
        meaning = "Examples predicted for clients since the start."
        lag, served = 0, CounterMetricFamily("hinged_predictions_served", meaning, labels=["model"])
        for following in self._followings.values():
            if following.replicas is not None:
                lag = max(lag, *following.replicas.lags().values(), 0)
                for name, predictions in following.replicas.served().items():
                    served.add_metric([name], float(predictions))
        yield served
        meaning = "Events that the followed model furthest behind lacks."
        yield GaugeMetricFamily("hinged_followed_lag_events", meaning, float(lag))
