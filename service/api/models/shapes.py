"""What the routes of models take and answer."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.api.openapi import Shape
from hinged.service.data.classes import Label
from hinged.service.data.configuration import CONFIGURATIONS

CONFIGURATION = {
    "solver": "lasvm",
    "kernel": {"type": "rbf", "gamma": 2.0},
    "features": {"type": "dense", "dim": 2},
    "C": 10.0,
}


class Created(TypedDict):
    """The model with every default filled in."""

    model: str
    configuration: dict[str, Any]


class Summary(TypedDict):
    """A model in short; one that is being loaded has nothing else, one that has stopped an error."""

    model: str
    state: Literal["loading", "serving", "stopped"]
    configuration: NotRequired[dict[str, Any]]
    position: NotRequired[int]
    examples: NotRequired[int]
    classes: NotRequired[list[Label]]
    error: NotRequired[str]


class Models(TypedDict):
    """All models that the key covers."""

    models: list[Summary]


class PassedOver(TypedDict):
    """An event that could not be applied and was set aside."""

    position: int
    kind: str


class Described(TypedDict):
    """A model in figures."""

    model: str
    state: Literal["serving", "stopped"]
    configuration: dict[str, Any]
    position: int
    examples: int
    classes: list[Label]
    support_vectors: int
    points: int
    duality_gap: float | None
    certificate: dict[str, Any]
    metrics: dict[str, Any]
    pool: dict[str, Any]
    pending: int
    memory_bytes: int
    features: NotRequired[dict[str, Any]]
    discards: NotRequired[dict[str, Any]]
    set_aside: NotRequired[list[PassedOver]]
    error: NotRequired[str]


class Deleted(TypedDict):
    """The model is gone."""

    model: str
    deleted: Literal[True]


MODEL = Shape(CONFIGURATIONS, CONFIGURATION)
CREATED = Shape(Created, {"model": "weather", "configuration": CONFIGURATION})
MODELS = Shape(
    Models,
    {
        "models": [
            {
                "model": "weather",
                "state": "serving",
                "configuration": CONFIGURATION,
                "position": 5,
                "examples": 3,
                "classes": ["sun", "rain"],
            }
        ]
    },
)
DESCRIBED = Shape(
    Described,
    {
        "model": "weather",
        "state": "serving",
        "configuration": CONFIGURATION,
        "position": 5,
        "examples": 3,
        "classes": ["sun", "rain"],
        "support_vectors": 3,
        "points": 3,
        "duality_gap": 0.0,
        "certificate": {},
        "metrics": {},
        "pool": {},
        "pending": 0,
        "memory_bytes": 4096,
    },
)
DELETED = Shape(Deleted, {"model": "weather", "deleted": True})
