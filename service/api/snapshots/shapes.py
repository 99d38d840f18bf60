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


class RollBack(TypedDict):
    """The position whose state is to come back."""

    position: int


@with_config(STRICT)
class RollBackBody(TypedDict):
    """The same as it is checked, which the document does not say in full."""

    position: Position


class PassOver(TypedDict):
    """The position of the event before which the model stands."""

    position: NotRequired[int]


@with_config(STRICT)
class PassOverBody(TypedDict):
    """The same as it is checked; without a position it is whichever event that is."""

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
ROLL_BACK: TypeAdapter[RollBackBody] = TypeAdapter(RollBackBody)
ROLL_BACK_BODY = Shape(RollBack, {"position": 5})
PASS_OVER: TypeAdapter[PassOverBody] = TypeAdapter(PassOverBody)
PASS_OVER_BODY = Shape(PassOver, {"position": 11})
SET_ASIDE = Shape(
    SetAside,
    {"model": "weather", "position": 12, "set_aside": {"position": 11, "kind": "learned"}, "error": None},
)
ROLLED_BACK = Shape(RolledBack, {"model": "weather", "position": 9, "rolled_back_to": 5, "examples": 3})
