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
    beat_age_s: float
    models: NotRequired[int]
    loading: NotRequired[int]
    memory_bytes: NotRequired[int]
    memory_max_bytes: NotRequired[int]
    load: NotRequired[float]
    processors: NotRequired[int]


class Standing(TypedDict):
    """Where a model is, since which epoch, and the end of its log."""

    model: str
    owner: str | None
    epoch: int
    position: int


class ModelShown(Standing):
    """The same with what its owner says: its state, the events that it has not taken in yet, what it takes."""

    lag: NotRequired[int | None]
    state: NotRequired[str]
    memory_bytes: NotRequired[int]
    load: NotRequired[float]


class ClusterShown(TypedDict):
    """The servers and the models."""

    node: str
    nodes: list[NodeShown]
    models: list[ModelShown]


class OwnShown(TypedDict):
    """A model as its owner knows it."""

    model: str
    state: str
    position: NotRequired[int]
    memory_bytes: NotRequired[int]
    load: NotRequired[float]


class OwnModels(TypedDict):
    """A server and its models."""

    node: str
    models: list[OwnShown]


@with_config({"extra": "forbid", "strict": True})
class MoveBody(TypedDict):
    """To which server."""

    to: str


_STANDING: Standing = {"model": "weather", "owner": "http://10.0.0.2:8000", "epoch": 1780000000000000, "position": 5}
CLUSTER = Shape(
    ClusterShown,
    {
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
    },
)
NODE = Shape(
    OwnModels,
    {
        "node": "http://10.0.0.1:8000",
        "models": [{"model": "weather", "state": "serving", "position": 5, "memory_bytes": 16384, "load": 0.05}],
    },
)
STANDING = Shape(Standing, _STANDING)
MOVE_BODY = Shape(MoveBody, {"to": "http://10.0.0.2:8000"})
MOVE: TypeAdapter[MoveBody] = TypeAdapter(MoveBody)
