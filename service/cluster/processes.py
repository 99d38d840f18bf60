"""A process of a machine with several processes. Each process is a member of the cluster. Its name is the machine's
address and a number.

The machine's processes hand connections over to each other (service/peers). Other machines connect to the machine's
address. The process that accepts the connection hands it over to the owner.
"""

from __future__ import annotations

from pathlib import Path

from starlette.types import ASGIApp, Scope

from hinged.service.cluster.members import Members
from hinged.service.cluster.node import Node
from hinged.service.cluster.passing import PROCESS
from hinged.service.peers.alone import ServerParts
from hinged.service.peers.handing import Channel
from hinged.service.peers.paths import model_of
from hinged.service.peers.ring import Ring
from hinged.service.peers.siblings import Siblings
from hinged.service.store.nothing import Nothing

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


class NodeProcess(Node, Siblings):
    """A member of the cluster that has siblings: other processes on its machine."""

    def __init__(self, number: int, processes: int, folder: Path) -> None:
        self._claims = Claims(number, processes)
        super().__init__(self._claims, folder, b"", lambda _: Nothing())

    def join(self, parts: ServerParts) -> ASGIApp:
        """Build the gate and the links to the siblings; return the application that gets the requests first."""
        gate = super().join(parts)
        self._claims.members = self.members
        self.gate.sibling = lambda address: self.channel(self._claims.sibling(address))
        return self.link(parts, gate)

    def leads(self, scope: Scope) -> Channel | bool:
        """Return where a request must be answered (see Front.leads). A request may name a sibling by its number."""
        if scope["path"].startswith(OF_THE_CLUSTER):
            for name, value in scope["headers"]:
                if name == PROCESS and value.isdigit() and (channel := self.channel(int(value))) is not None:
                    return channel
        found, name = super().leads(scope), model_of(scope["path"])
        if found is True and name is not None:  # this process or another machine, or the owner is unknown
            return self.members.known(name) is not None
        return found
