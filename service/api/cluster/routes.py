"""Routes for servers that share a store: show which server owns which model, and move models."""

from __future__ import annotations

from typing import Any, Protocol

from fastapi import Request
from starlette.responses import Response

from hinged.operations import ServerOperations
from hinged.operations.base import EVERY, Operation
from hinged.service.api.cluster.shapes import CLUSTER, MOVE_BODY, NODE, STANDING
from hinged.service.api.serving import Group
from hinged.service.api.wire import parsed, read_command
from hinged.service.edge.middleware import JSON
from hinged.service.errors import Conflict, StoreUnavailable

group = Group("cluster")


class NodeFace(Protocol):
    """This server as a node of a cluster. service/cluster/node.py implements this protocol."""

    async def overview(self, request: Request) -> dict[str, Any]:
        """Return the servers and the models of the cluster."""

    def figures(self) -> dict[str, Any]:
        """Return this server's figures and its models."""

    async def move(self, model: str, to: str, request: Request) -> dict[str, Any]:
        """Move a model to the server at `to`."""

    async def claim(self, model: str) -> dict[str, Any]:
        """Take a model that was released for this server."""


@group.serves(ServerOperations.cluster, CLUSTER, Conflict, StoreUnavailable)
async def show_cluster(request: Request) -> Response:
    """List the servers that share the store, with the memory and load of each server. Also list the owner, epoch,
    position, lag and memory of each model.
    """
    return JSON(await _node(request).overview(request))


@group.serves(Operation("GET", "/cluster/node", role="admin", covers=EVERY), NODE, Conflict)
async def show_node(request: Request) -> Response:
    """List the models that this server owns: the state, position, memory and load of each model."""
    return JSON(_node(request).figures())


@group.serves(ServerOperations.move, STANDING, Conflict, StoreUnavailable, takes=MOVE_BODY)
async def move_model(model: str, request: Request) -> Response:
    """Move a model to another server. Requests for the model wait meanwhile; nothing acknowledged is lost."""
    node = _node(request)
    body = parsed(MOVE_BODY.adapter, await read_command(request))
    return JSON(await node.move(model, body["to"], request))


@group.serves(
    Operation("POST", "/cluster/models/{model}/claim", role="admin", anywhere=True),
    STANDING,
    Conflict,
    StoreUnavailable,
)
async def claim_model(model: str, request: Request) -> Response:
    """Claim a model that no server owns or that was released for this server. This is the second half of a move."""
    return JSON(await _node(request).claim(model))


def _node(request: Request) -> NodeFace:
    node: NodeFace = request.app.state.peers
    return node
