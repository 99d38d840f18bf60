"""A server of one process. What is more than one overrides what differs; the application asks nowhere which it is."""

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

NO_NODE = "this server has its store to itself; servers that share one are started with HINGED_NODE"


class ServerParts(NamedTuple):
    """What a server is made of."""

    store: Store
    registry: Registry
    settings: Settings
    edge: Edge
    access: Access
    streams: Streams


class Alone(Collector):
    """Has all models, and nobody to ask."""

    connection: type[Connection] = Connection
    """What speaks HTTP."""

    def join(self, parts: ServerParts) -> ASGIApp:
        """Know the server, which is about to start; what its requests go to."""
        return parts.edge

    def here(self, name: str) -> bool:  # noqa: ARG002
        """Whether a model is this server's beyond doubt."""
        return True

    def shared(self) -> dict[str, Any]:
        """What connections find in the lifespan's state."""
        return {}

    async def start(self) -> None:
        """The server has begun to start."""

    async def claims(self) -> None:
        """Return once what is this server's when it starts is claimed and loaded."""

    def drain(self) -> None:
        """The server stops: it takes nothing over any more."""

    async def stop(self) -> None:
        """Let go of the others."""

    def collect(self) -> Iterator[Metric]:
        """Figures of now."""
        return iter(())

    # -- what the routes of /cluster ask --------------------------------------------------------------------------

    async def overview(self, request: Request) -> dict[str, Any]:  # noqa: ARG002
        """The servers and the models. Conflict where there are no several servers."""
        raise Conflict(NO_NODE)

    def figures(self) -> dict[str, Any]:
        """This server and its models. Conflict as above."""
        raise Conflict(NO_NODE)

    async def move(self, model: str, to: str, request: Request) -> dict[str, Any]:  # noqa: ARG002
        """Let the server at `to` have a model. Conflict as above."""
        raise Conflict(NO_NODE)

    async def claim(self, model: str) -> dict[str, Any]:  # noqa: ARG002
        """Take a model that was released for this server. Conflict as above."""
        raise Conflict(NO_NODE)
