"""The bodies and answers of the cluster routes."""

from __future__ import annotations

from pydantic import with_config
from typing_extensions import TypedDict

from hinged.answers import OwnModels, Standing
from hinged.service.api.openapi import Shape


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
