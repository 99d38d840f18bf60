"""This process as one of the workers of a server (`hinged serve --workers N`).

Whose a model is follows from its name alone. The addresses of the others stand for as long as the server runs: one that
is just being started again is one that does not answer.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from hinged.service import limits
from hinged.service.cluster.gate import Gate
from hinged.service.cluster.members import HERE
from hinged.service.cluster.passing import Passing
from hinged.service.cluster.placement import first_of
from hinged.service.cluster.relay import RELAY, Relay
from hinged.service.cluster.together import Together
from hinged.service.edge.access import Access
from hinged.service.edge.ending import end
from hinged.service.edge.middleware import Edge
from hinged.service.edge.streams import Streams
from hinged.service.store.folders import name_of

NAMES_KEPT = 4096


class Place(NamedTuple):
    """A worker among all: its number, from 1 on, where each of them is reached, and what signs their tickets."""

    number: int
    addresses: tuple[str, ...]
    secret: bytes

    @property
    def address(self) -> str:
        """Where this one is reached."""
        return self.addresses[self.number - 1]


def owner_of(name: str, count: int) -> int:
    """The number of the worker, of so many, that has a model. It stands in no file, and must never change."""
    names = {name_of(number, count): number for number in range(1, count + 1)}
    return names[first_of(names, name)]


class Shares:
    """Who owns which model."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._number_of = lru_cache(NAMES_KEPT)(lambda name: owner_of(name, len(place.addresses)))

    async def where(self, name: str) -> str:
        """The worker to ask for a model: HERE, or its address."""
        return self.elsewhere(name) or HERE

    def elsewhere(self, name: str) -> str | None:
        """The address of the worker that has a model; None where this one has it."""
        number: int = self._number_of(name)
        return None if number == self._place.number else self._place.addresses[number - 1]

    def lives(self, address: str) -> bool:  # noqa: ARG002
        """One that has ended breaks its lines by that."""
        return True


class Siblings(Collector):
    """What a worker needs of the others: what the application starts and stops."""

    def __init__(self, place: Place, app: Edge, access: Access, streams: Streams) -> None:
        access.share_tickets(place.secret)
        self._passing = Passing(place.address)
        self._shares = Shares(place)
        self._gate = Gate(app, self._shares, self._passing, access, reachable=False)
        self.gate = Together(self._gate, app, self._passing, place.number, place.addresses)
        self._relay = Relay(self._gate, streams, place.address, limits.STREAM_IDLE_S)

    def here(self, name: str) -> bool:
        """Whether this worker has a model."""
        return self._shares.elsewhere(name) is None

    def shared(self) -> dict[str, Any]:
        """What connections find in the lifespan's state."""
        return {RELAY: self._relay}

    def start(self) -> None:
        """End with the process that started this one: it keeps the other end of stdin open."""
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(sys.stdin)
            end()

        loop.add_reader(sys.stdin, gone)

    async def claims(self) -> None:
        """Return at once: there is nothing to claim."""

    def drain(self) -> None:
        """The server stops."""

    async def stop(self) -> None:
        """Let go of the others."""
        self._relay.close()
        await self._passing.close()

    def collect(self) -> Iterator[Metric]:
        """Figures of now."""
        yield CounterMetricFamily(
            "hinged_cluster_passed_on", "Requests passed on to a model's owner.", self._gate.passed_on
        )
