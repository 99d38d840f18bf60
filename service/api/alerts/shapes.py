"""The bodies and answers of the alert routes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter, with_config

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service import limits
from hinged.service.api.openapi import Shape
from hinged.service.data.examples import STRICT


@with_config(STRICT)
class AcknowledgeBody(TypedDict):
    """The ids of alerts."""

    ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=limits.ID_CHARS_MAX)]],
        Field(min_length=1, max_length=limits.ALERTS_KEPT),
    ]


ACKNOWLEDGE: TypeAdapter[AcknowledgeBody] = TypeAdapter(AcknowledgeBody)
ACKNOWLEDGE_BODY = Shape(ACKNOWLEDGE, {"ids": ["p7"]})
ACKNOWLEDGED = {"model": "payments", "position": 9, "acknowledged": 1, "waiting": 3}
_ALERT = {
    "id": "p7",
    "decision": "fraud",
    "probability": 0.93,
    "cost": 0.7,
    "gain": 45.8,
    "reason": "cost",
    "at": "2026-05-01T12:00:00.000Z",
}
ALERTS = {"model": "payments", "position": 8, "waiting": 4, "alerts": [_ALERT], "next": "45.8/17"}
