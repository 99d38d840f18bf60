"""The bodies of the example routes."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hinged.service.api.openapi import Shape
from hinged.service.data.examples import STRICT, DecideBody, LearnBody, PredictBody
from hinged.service.data.features.catalogue import AnyX

EPOCHS_MAX = 100


@with_config(STRICT)
class FinishBody(TypedDict):
    """The number of epochs over the log before the finishing step."""

    epochs: NotRequired[Annotated[int, Field(ge=0, le=EPOCHS_MAX)]]


LEARN = Shape(
    LearnBody[AnyX],
    {"examples": [{"id": "mon", "x": [0.9, 0.1], "y": "sun"}, {"id": "tue", "x": [0.2, 0.8], "y": "rain"}]},
)
PREDICT = Shape(PredictBody[AnyX], {"examples": [{"id": "wed", "x": [0.8, 0.2]}]})
DECIDE = Shape(DecideBody[AnyX], {"examples": [{"id": "p1", "x": [0.8, 0.2]}]})
FINISH_BODY = Shape(FinishBody, {"epochs": 1})
