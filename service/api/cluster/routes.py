"""Routes for servers that share a store: show which server owns which model, and move models."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from pydantic import with_config
from starlette.responses import Response
from typing_extensions import TypedDict

from hinged.answers import OwnModels, Standing
from hinged.operations import ServerOperations
from hinged.operations.base import EVERY, Operation
from hinged.service.api.openapi import Shape
from hinged.service.api.serving import Group
from hinged.service.api.wire import parsed, read_command
from hinged.service.edge.middleware import JSON
from hinged.service.errors import Conflict, StoreUnavailable

group = Group("cluster")


@with_config({"extra": "forbid", "strict": True})
class MoveBody(TypedDict):
    """The address of the server that a model moves to."""

    to: str


_STANDING: Standing = {"model": "weather", "owner": "http://10.0.0.2:8000", "epoch": 1780000000000000, "position": 5}
CLUSTER = {
    "node": "http://10.0.0.1:8000",
    "nodes": [
        {
            "node": "http://10.0.0.1:8000",
            "alive": True,
            "beat_age_s": 0.4,
            "models": 3,
            "loading": 0,
            "memory_bytes": 81920,
            "memory_max_bytes": 2**34,
            "load": 0.25,
            "processors": 4,
        }
    ],
    "models": [{**_STANDING, "lag": 0, "state": "serving", "memory_bytes": 16384, "load": 0.05}],
}
NODE = Shape(
    OwnModels,
    {
        "node": "http://10.0.0.1:8000",
        "models": [{"model": "weather", "state": "serving", "position": 5, "memory_bytes": 16384, "load": 0.05}],
    },
)
STANDING = Shape(Standing, _STANDING)
MOVE_BODY = Shape(MoveBody, {"to": "http://10.0.0.2:8000"})


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


def _node(request: Request) -> Any:
    """Return this server as a node: an Alone of service/peers/alone.py, which no module of this room may import."""
    return request.app.state.peers
