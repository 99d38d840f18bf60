"""What the routes of the server itself answer."""

from __future__ import annotations

from typing import Literal

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.api.openapi import AT, Shape


class Alive(TypedDict):
    """The process runs."""

    status: Literal["ok"]


class Progress(TypedDict):
    """How many models there are, and how many of them do what."""

    total: int
    loading: int
    serving: int
    stopped: int


class Readiness(TypedDict):
    """Whether all models are loaded that can be."""

    status: Literal["ready", "starting"]
    models: Progress


class KeyShown(TypedDict):
    """A key, without its text."""

    name: str
    role: Literal["reader", "annotator", "writer", "admin"]
    models: list[str]


class Ticket(TypedDict):
    """What opens one stream."""

    ticket: str
    expires_at: str


ALIVE = Shape(Alive, {"status": "ok"})
READINESS = Shape(Readiness, {"status": "ready", "models": {"total": 3, "loading": 0, "serving": 2, "stopped": 1}})
METRICS = Shape(str, 'hinged_log_position{model="weather"} 5.0\n')
KEY = Shape(KeyShown, {"name": "ann", "role": "annotator", "models": ["fraud-*"]})
TICKET = Shape(Ticket, {"ticket": "8bJ0v1xkq2dSgVdE0Zt3rQ", "expires_at": AT})
