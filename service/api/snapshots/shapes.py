"""What the routes of snapshots take and answer."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field, TypeAdapter, WithJsonSchema, with_config

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.api.models.shapes import CONFIGURATION, PassedOver
from hinged.service.api.openapi import Shape
from hinged.service.data.classes import Label
from hinged.service.data.examples import STRICT

Position = Annotated[int, Field(ge=1, lt=2**53)]


class KeptSnapshot(TypedDict):
    """A snapshot is durable, of the state at this position."""

    model: str
    position: int


class Imported(TypedDict):
    """The model that a file made."""

    model: str
    configuration: dict[str, Any]
    position: int
    examples: int
    classes: list[Label]


@with_config(STRICT)
class RollBack(TypedDict):
    """The position whose state is to come back."""

    position: Position


@with_config(STRICT)
class PassOver(TypedDict):
    """The position of the event before which the model stands; without one it is whichever event that is."""

    position: NotRequired[Position]


class RolledBack(TypedDict):
    """The state is again what it was."""

    model: str
    position: int
    rolled_back_to: int
    examples: int


class SetAside(TypedDict):
    """An event is passed over; `error` says why the model stands again, if it does."""

    model: str
    position: int
    set_aside: PassedOver
    error: str | None


File = Annotated[str, WithJsonSchema({"type": "string", "format": "binary"})]
SNAPSHOT = Shape(KeptSnapshot, {"model": "weather", "position": 8})
EXPORTED = Shape(File, "")
IMPORTED = Shape(
    Imported,
    {
        "model": "weather",
        "configuration": CONFIGURATION,
        "position": 1,
        "examples": 3,
        "classes": ["sun", "rain"],
    },
)
ROLL_BACK: TypeAdapter[RollBack] = TypeAdapter(RollBack)
ROLL_BACK_BODY = Shape(ROLL_BACK, {"position": 5})
PASS_OVER: TypeAdapter[PassOver] = TypeAdapter(PassOver)
PASS_OVER_BODY = Shape(PASS_OVER, {"position": 11})
SET_ASIDE = Shape(
    SetAside,
    {"model": "weather", "position": 12, "set_aside": {"position": 11, "kind": "learned"}, "error": None},
)
ROLLED_BACK = Shape(RolledBack, {"model": "weather", "position": 9, "rolled_back_to": 5, "examples": 3})
