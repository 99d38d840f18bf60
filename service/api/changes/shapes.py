"""What the routes of changes take and answer."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import TypeAdapter, with_config

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.api.openapi import Shape
from hinged.service.data.examples import STRICT, Y


@with_config(STRICT)
class Correction(TypedDict):
    """The label that an example should have had."""

    y: Y


class Changed(TypedDict):
    """A change that was made (certificate), or that a job makes."""

    model: str
    position: int
    certificate: NotRequired[dict[str, Any]]
    unwritten: NotRequired[list[str]]
    job: NotRequired[str]


class JobState(TypedDict):
    """What became of a job. progress: from 0 to 1. unwritten: what the store could not write anew."""

    job: str
    model: str
    kind: Literal["forget", "correct", "configure", "shadow"]
    state: Literal["running", "done", "failed"]
    progress: float
    certificate: dict[str, Any] | None
    unwritten: NotRequired[list[str]]
    error: NotRequired[str]


class Certified(TypedDict):
    """How good the solution is."""

    model: str
    position: int
    certificate: dict[str, Any]


class LeftOut(TypedDict):
    """The leave-one-out error."""

    model: str
    position: int
    examples: int
    errors: int
    error: float | None


class Challengers(TypedDict):
    """The model and its challengers, each with its figures."""

    model: str
    position: int
    champion: dict[str, Any]
    shadows: dict[str, dict[str, Any]]


class Retired(TypedDict):
    """The challenger is gone."""

    model: str
    position: int
    shadow: str
    deleted: Literal[True]


CORRECTION: TypeAdapter[Correction] = TypeAdapter(Correction)
CORRECTION_BODY = Shape(CORRECTION, {"y": "rain"})
CHANGES: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
CHANGES_BODY = Shape(CHANGES, {"C": 5.0})
CHANGED = Shape(Changed, {"model": "weather", "position": 6, "job": "/jobs/weather.6"})
JOB = Shape(
    JobState,
    {
        "job": "/jobs/weather.6",
        "model": "weather",
        "kind": "forget",
        "state": "running",
        "progress": 0.5,
        "certificate": None,
    },
)
CERTIFICATE = Shape(Certified, {"model": "weather", "position": 5, "certificate": {"gap": 0.0, "support_vectors": 3}})
LEFT_OUT = Shape(LeftOut, {"model": "weather", "position": 5, "examples": 3, "errors": 1, "error": 1 / 3})
CHALLENGERS = Shape(Challengers, {"model": "weather", "position": 5, "champion": {}, "shadows": {"softer": {}}})
RETIRED = Shape(Retired, {"model": "weather", "position": 7, "shadow": "softer", "deleted": True})
