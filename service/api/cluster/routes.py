"""Routes for servers that share a store: which server owns which model, and moves."""

from __future__ import annotations

from typing import Any, Protocol

from fastapi import Request
from starlette.responses import Response

from hinged.operations import ServerOperations
from hinged.operations.base import EVERY, Operation
from hinged.service.api.cluster.shapes import CLUSTER, MOVE, MOVE_BODY, NODE, STANDING
from hinged.service.api.serving import Group
from hinged.service.api.wire import parsed, read_command
from hinged.service.edge.middleware import JSON
from hinged.service.errors import Conflict, StoreUnavailable

group = Group("cluster")


class NodeFace(Protocol):
    """This server as a node of a cluster (service/cluster/node.py)."""

    async def overview(self, request: Request) -> dict[str, Any]:
        """Return the servers and the models."""

    def figures(self) -> dict[str, Any]:
        """Return this server and its models."""

    async def move(self, model: str, to: str, request: Request) -> dict[str, Any]:
        """Move a model to the server at `to`."""

    async def claim(self, model: str) -> dict[str, Any]:
        """Take a model that was released for this server."""


@group.serves(ServerOperations.cluster, CLUSTER, Conflict, StoreUnavailable)
async def show_cluster(request: Request) -> Response:
    """List the servers that share the store: the memory and load of each; and each model's owner, epoch, position, lag
    and memory.
    """
    return JSON(await _node(request).overview(request))


@group.serves(Operation("GET", "/cluster/node", role="admin", covers=EVERY), NODE, Conflict)
async def show_node(request: Request) -> Response:
    """List this server's own models: state, position, memory and load of each."""
    return JSON(_node(request).figures())


@group.serves(ServerOperations.move, STANDING, Conflict, StoreUnavailable, takes=MOVE_BODY)
async def move_model(model: str, request: Request) -> Response:
    """Move a model to another server. Requests for the model wait meanwhile; nothing acknowledged is lost."""
    node = _node(request)
    body = parsed(MOVE, await read_command(request))
    return JSON(await node.move(model, body["to"], request))


@group.serves(
    Operation("POST", "/cluster/models/{model}/claim", role="admin", anywhere=True),
    STANDING,
    Conflict,
    StoreUnavailable,
)
async def claim_model(model: str, request: Request) -> Response:
    """Claim a model: no server owns it, or it was released for this server. This is the second half of a move."""
    return JSON(await _node(request).claim(model))


def _node(request: Request) -> NodeFace:
    node: NodeFace = request.app.state.peers
    return node
