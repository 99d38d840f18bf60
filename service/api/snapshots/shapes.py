"""The bodies and answers of the snapshot routes."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, TypeAdapter, WithJsonSchema, with_config

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.api.models.shapes import CONFIGURATION
from hinged.service.api.openapi import Shape
from hinged.service.data.examples import STRICT

Position = Annotated[int, Field(ge=1, lt=2**53)]


@with_config(STRICT)
class RollBack(TypedDict):
    """The position whose state shall come back."""

    position: Position


@with_config(STRICT)
class PassOver(TypedDict):
    """The position of the event before which the model has stopped; by default whichever event that is."""

    position: NotRequired[Position]


File = Annotated[str, WithJsonSchema({"type": "string", "format": "binary"})]
SNAPSHOT = {"model": "weather", "position": 8}
EXPORTED = Shape(File, "")
IMPORTED = {
    "model": "weather",
    "configuration": CONFIGURATION,
    "position": 1,
    "examples": 3,
    "classes": ["sun", "rain"],
}
ROLL_BACK: TypeAdapter[RollBack] = TypeAdapter(RollBack)
ROLL_BACK_BODY = Shape(ROLL_BACK, {"position": 5})
PASS_OVER: TypeAdapter[PassOver] = TypeAdapter(PassOver)
PASS_OVER_BODY = Shape(PASS_OVER, {"position": 11})
SET_ASIDE = {"model": "weather", "position": 12, "set_aside": {"position": 11, "kind": "learned"}, "error": None}
ROLLED_BACK = {"model": "weather", "position": 9, "rolled_back_to": 5, "examples": 3}
