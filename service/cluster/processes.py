"""A process of a machine with several processes. Each process is a member of the cluster. Its name is the machine's
address and a number.

The machine's processes hand connections over to each other (service/peers). Other machines connect to the machine's
address. The process that accepts the connection hands it over to the owner.
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
"""Prefix of the paths on which a request may name a process by its number."""


class Claims(Ring):
    """The processes of a machine. The claims in the store determine which process owns which model."""

    members: Members | None = None

    def __init__(self, number: int, processes: int) -> None:
        super().__init__(number, processes, division=1, followers=0)
        self.owner = self._owner

    def _owner(self, name: str) -> int:
        """Return the number of the sibling that owns a model.

        If no sibling owns it, return this process's number, because the gate of this process finds the owner.
        """
        address = None if self.members is None else self.members.known(name)
        return (address and self.sibling(address)) or self.number

    def sibling(self, address: str) -> int | None:
        """Return the number of the sibling with this address; None for another machine."""
        assert self.members is not None  # noqa: S101  there are no addresses before
        machine, _, number = address.partition("#")
        return int(number) if number and self.members.address.startswith(machine + "#") else None


class NodeProcess(Node):
    """A member of the cluster that has siblings: other processes on its machine."""

    connection = Lent

    def __init__(self, number: int, processes: int, folder: Path) -> None:
        self._claims = Claims(number, processes)
        self.siblings = Siblings(self._claims, folder, b"", _follows_nobody)

    def join(self, parts: ServerParts) -> ASGIApp:
        """Build the gate and the links to the siblings; return the application that gets the requests first."""
        gate = super().join(parts)
        self._claims.members = self.members
        front = self.siblings.link(parts, gate)
        self.gate.sibling = lambda address: self.siblings.channel(self._claims.sibling(address))
        return front

    def leads(self, scope: Scope) -> Channel | bool:
        """Return where a request must be answered (see Front.leads). A request may name a sibling by its number."""
        if scope["path"].startswith(OF_THE_CLUSTER):
            for name, value in scope["headers"]:
                if name == PROCESS and value.isdigit() and (channel := self.siblings.channel(int(value))) is not None:
                    return channel
        found, name = self.siblings.leads(scope), model_of(scope["path"])
        if found is True and name is not None:  # this process or another machine, or the owner is unknown
            return self.members.known(name) is not None
        return found

    async def start(self) -> None:
        """Begin to send heartbeats and to claim models."""
        await super().start()
        await self.siblings.start()

    async def claims(self) -> None:
        """Wait until this process has claimed and loaded the models that it gets at its start."""
        await super().claims()
        await self.siblings.claims()

    def drain(self) -> None:
        """Claim no more models, because the server is about to stop."""
        super().drain()
        self.siblings.drain()

    async def stop(self) -> None:
        """Stop the heartbeats, and close the connections to other processes and servers."""
        await super().stop()
        await self.siblings.stop()

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        yield from super().collect()
        yield from self.siblings.collect()


def _follows_nobody(number: int) -> Store:
    raise AssertionError(number)
