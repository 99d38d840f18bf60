"""Routes for servers that share a store: show which server owns which model, and move models."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Request
from pydantic import with_config
from typing_extensions import TypedDict

from hinged.answers import OwnModels, Standing
from hinged.operations import ServerOperations
from hinged.operations.base import EVERY, Operation
from hinged.service.api.openapi import Shape
from hinged.service.api.serving import Group
from hinged.service.api.wire import SENT
from hinged.service.data.answers import Answer
from hinged.service.data.examples import STRICT
from hinged.service.errors import Conflict, StoreUnavailable

group = Group("cluster")


@with_config(STRICT)
class MoveBody(TypedDict):
    """The address of the server that a model moves to."""

    to: str


MOVE_BODY = Shape(MoveBody, {"to": "http://10.0.0.2:8000"})


@group.serves(ServerOperations.cluster, Conflict, StoreUnavailable)
async def show_cluster(request: Request) -> Answer:
    """List the servers that share the store, with the memory and load of each server. Also list the owner, epoch,
    position, lag and memory of each model.
    """
    found: Answer = await _node(request).overview(request)
    return found


@group.serves(Operation("GET", "/cluster/node", role="admin", covers=EVERY), Conflict, answers=OwnModels)
async def show_node(request: Request) -> Answer:
    """List the models that this server owns: the state, position, memory and load of each model."""
    found: Answer = _node(request).figures()
    return found


@group.serves(ServerOperations.move, Conflict, StoreUnavailable, takes=MOVE_BODY)
async def move_model(model: str, request: Request, body: Annotated[MoveBody, SENT]) -> Answer:
    """Move a model to another server. Requests for the model wait meanwhile; nothing acknowledged is lost."""
    found: Answer = await _node(request).move(model, body["to"], request)
    return found


@group.serves(
    Operation("POST", "/cluster/models/{model}/claim", role="admin", anywhere=True),
    Conflict,
    StoreUnavailable,
    answers=Standing,
)
async def claim_model(model: str, request: Request) -> Answer:
    """Claim a model that no server owns or that was released for this server. This is the second half of a move."""
    found: Answer = await _node(request).claim(model)
    return found


def _node(request: Request) -> Any:
    """Return this server as a node: an Alone of service/peers/alone.py, which no module of this room may import."""
    return request.app.state.peers
