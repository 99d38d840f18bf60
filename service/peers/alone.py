"""A server with a single process. Servers with several processes override some of its methods, so the application need
not know which kind of server it runs in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.types import ASGIApp

from hinged.service.edge.access import Access
from hinged.service.edge.connection import Connection
from hinged.service.edge.middleware import Edge
from hinged.service.edge.streams import Streams
from hinged.service.engine.registry import Registry
from hinged.service.errors import Conflict
from hinged.service.settings import Settings
from hinged.service.store.base import Store

NO_NODE = "this server has its store to itself; servers that share a store are started with HINGED_NODE"


class ServerParts(NamedTuple):
    """The parts of a server."""

    store: Store
    registry: Registry
    settings: Settings
    edge: Edge
    access: Access
    streams: Streams


class Alone(Collector):
    """A server that owns all models and knows no other process or server."""

    connection: type[Connection] = Connection
    """The class that speaks HTTP."""

    def join(self, parts: ServerParts) -> ASGIApp:
        """Receive the parts of a server that is about to start; return the application that gets its requests."""
        return parts.edge

    def here(self, name: str) -> bool:  # noqa: ARG002
        """Return whether this process certainly owns a model."""
        return True

    async def start(self) -> None:
        """Do what is necessary when the server begins to start."""

    async def claims(self) -> None:
        """Wait until this server has claimed and loaded the models that it gets at its start."""

    def drain(self) -> None:
        """Begin to stop: take over no more models."""

    async def stop(self) -> None:
        """Close the connections to other processes or servers."""

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        return iter(())

    # -- for the routes of /cluster -------------------------------------------------------------------------------

    async def overview(self, request: Request) -> dict[str, Any]:  # noqa: ARG002
        """Return the servers and the models. Raise Conflict if there is only one server."""
        raise Conflict(NO_NODE)

    def figures(self) -> dict[str, Any]:
        """Return the load of this server and of its models. Raise Conflict if there is only one server."""
        raise Conflict(NO_NODE)

    async def move(self, model: str, to: str, request: Request) -> dict[str, Any]:  # noqa: ARG002
        """Move a model to the server at `to`. Raise Conflict if there is only one server."""
        raise Conflict(NO_NODE)

    async def claim(self, model: str) -> dict[str, Any]:  # noqa: ARG002
        """Claim a model that was released for this server. Raise Conflict if there is only one server."""
        raise Conflict(NO_NODE)
