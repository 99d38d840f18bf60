"""The bodies and files of the snapshot routes."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, WithJsonSchema, with_config
from typing_extensions import TypedDict

from hinged.service.api.openapi import Shape
from hinged.service.data.examples import STRICT

Position = Annotated[int, Field(ge=1, lt=2**53)]


@with_config(STRICT)
class RollBack(TypedDict):
    """The position of the state to which the model returns."""

    position: Position


@with_config(STRICT)
class PassOver(TypedDict):
    """The position of the event at which the model stopped. By default, that event is skipped whatever its position."""

    position: NotRequired[Position]


File = Annotated[str, WithJsonSchema({"type": "string", "format": "binary"})]
EXPORTED = Shape(File, "")
ROLL_BACK_BODY = Shape(RollBack, {"position": 5})
PASS_OVER_BODY = Shape(PassOver, {"position": 11})
