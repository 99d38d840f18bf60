"""A server of one process. Servers of several processes override what differs; the application does not ask which."""

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
    """A server that has all models, and no other process or server to ask."""

    connection: type[Connection] = Connection
    """The class that speaks HTTP."""

    def join(self, parts: ServerParts) -> ASGIApp:
        """Take the parts of the server, which is about to start; return the application that gets its requests."""
        return parts.edge

    def here(self, name: str) -> bool:  # noqa: ARG002
        """Whether a model is certainly this server's."""
        return True

    def shared(self) -> dict[str, Any]:
        """Entries of the lifespan's state, for connections."""
        return {}

    async def start(self) -> None:
        """Called when the server begins to start."""

    async def claims(self) -> None:
        """Wait until the models that are this server's at its start are claimed and loaded."""

    def drain(self) -> None:
        """Called when the server begins to stop: it takes no more models over."""

    async def stop(self) -> None:
        """Close the connections to other processes or servers."""

    def collect(self) -> Iterator[Metric]:
        """The present figures."""
        return iter(())

    # -- for the routes of /cluster -------------------------------------------------------------------------------

    async def overview(self, request: Request) -> dict[str, Any]:  # noqa: ARG002
        """The servers and the models. Conflict if there is only one server."""
        raise Conflict(NO_NODE)

    def figures(self) -> dict[str, Any]:
        """This server and its models. Conflict if there is only one server."""
        raise Conflict(NO_NODE)

    async def move(self, model: str, to: str, request: Request) -> dict[str, Any]:  # noqa: ARG002
        """Move a model to the server at `to`. Conflict if there is only one server."""
        raise Conflict(NO_NODE)

    async def claim(self, model: str) -> dict[str, Any]:  # noqa: ARG002
        """Take a model that was released for this server. Conflict if there is only one server."""
        raise Conflict(NO_NODE)
