"""What the routes of a cluster take and answer."""

from __future__ import annotations

from typing import NotRequired

from pydantic import TypeAdapter, with_config
from typing_extensions import TypedDict

from hinged.service.api.openapi import Shape


class NodeShown(TypedDict):
    """A server."""

    node: str
    alive: bool
    models: NotRequired[int]
    memory_bytes: NotRequired[int]


class Standing(TypedDict):
    """Where a model is, since which epoch, and the end of its log."""

    model: str
    owner: str | None
    epoch: int
    position: int


class ClusterShown(TypedDict):
    """The servers and the models."""

    node: str
    nodes: list[NodeShown]
    models: list[Standing]


@with_config({"extra": "forbid", "strict": True})
class MoveBody(TypedDict):
    """To which server."""

    to: str


_STANDING: Standing = {"model": "weather", "owner": "http://10.0.0.2:8000", "epoch": 1780000000000000, "position": 5}
CLUSTER = Shape(
    ClusterShown,
    {
        "node": "http://10.0.0.1:8000",
        "nodes": [{"node": "http://10.0.0.1:8000", "alive": True, "models": 3, "memory_bytes": 81920}],
        "models": [_STANDING],
    },
)
STANDING = Shape(Standing, _STANDING)
MOVE_BODY = Shape(MoveBody, {"to": "http://10.0.0.2:8000"})
MOVE: TypeAdapter[MoveBody] = TypeAdapter(MoveBody)
