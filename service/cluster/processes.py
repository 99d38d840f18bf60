"""One of several processes of a machine, each a member of the cluster: its name is the address and a number.

The machine's processes hand connections to each other, like any equal processes. Other machines ask the address, and
whichever process takes the connection hands it to the owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import Metric
from starlette.types import ASGIApp, Scope

from hinged.service.cluster.members import Members
from hinged.service.cluster.node import Node
from hinged.service.cluster.passing import PROCESS
from hinged.service.peers.alone import ServerParts
from hinged.service.peers.handing import Channel, Lent
from hinged.service.peers.paths import model_of
from hinged.service.peers.ring import Ring
from hinged.service.peers.siblings import Siblings
from hinged.service.store.base import Store

OF_THE_CLUSTER = "/cluster/"
"""Prefix of the paths whose requests may name a process by its number."""


class Claims(Ring):
    """The processes of a machine, as the claims of models say who owns what."""

    members: Members | None = None

    def __init__(self, number: int, processes: int) -> None:
        super().__init__(number, processes, division=1, followers=0)
        self.owner = self._owner

    def _owner(self, name: str) -> int:
        """The sibling that owns a model; otherwise this process, whose gate finds the owner."""
        address = None if self.members is None else self.members.elsewhere(name)
        return (address and self.sibling(address)) or self.number

    def sibling(self, address: str) -> int | None:
        """The number of the sibling with an address; None for another machine."""
        assert self.members is not None  # noqa: S101  there are no addresses before
        machine, _, number = address.partition("#")
        return int(number) if number and self.members.address.startswith(machine + "#") else None


class NodeProcess(Node):
    """A member of the cluster that has siblings on its machine."""

    connection = Lent

    def __init__(self, number: int, processes: int, folder: Path) -> None:
        self._claims = Claims(number, processes)
        self.siblings = Siblings(self._claims, folder, b"", _follows_nobody)

    def join(self, parts: ServerParts) -> ASGIApp:
        """Build the gate, and the links to the siblings before it."""
        gate = super().join(parts)
        self._claims.members = self.members
        front = self.siblings.link(parts, gate)
        self.gate.sibling = lambda address: self.siblings.channel(self._claims.sibling(address))
        return front

    def leads(self, scope: Scope) -> Channel | bool:
        """Where a request leads: to the sibling that owns its model, or that it names."""
        if scope["path"].startswith(OF_THE_CLUSTER):
            for name, value in scope["headers"]:
                if name == PROCESS and value.isdigit() and (channel := self.siblings.channel(int(value))) is not None:
                    return channel
        found, name = self.siblings.leads(scope), model_of(scope["path"])
        if found is True and name is not None:  # this process, or another machine, or nobody that is known
            return self.here(name) or self.members.elsewhere(name) is not None
        return found

    async def start(self) -> None:
        """Begin to give signs of life and to claim."""
        await super().start()
        await self.siblings.start()

    async def claims(self) -> None:
        """Wait until the models that are this process's at its start are claimed and loaded."""
        await super().claims()
        await self.siblings.claims()

    def drain(self) -> None:
        """Claim no more, because the server stops."""
        super().drain()
        self.siblings.drain()

    async def stop(self) -> None:
        """Stop, and close the connections to other processes and servers."""
        await super().stop()
        await self.siblings.stop()

    def collect(self) -> Iterator[Metric]:
        """The present figures."""
        yield from super().collect()
        yield from self.siblings.collect()


def _follows_nobody(number: int) -> Store:
    raise AssertionError(number)
