"""The bodies and answers of the routes for changes."""

from __future__ import annotations

from typing import Any

from pydantic import with_config
from typing_extensions import TypedDict

from hinged.service.api.openapi import Shape
from hinged.service.data.examples import STRICT, Y


@with_config(STRICT)
class Correction(TypedDict):
    """The correct label of an example."""

    y: Y


CORRECTION_BODY = Shape(Correction, {"y": "rain"})
CHANGES_BODY = Shape(dict[str, Any], {"C": 5.0})
CHANGED = {"model": "weather", "position": 6, "job": "/jobs/weather.6"}
JOB = {
    "job": "/jobs/weather.6",
    "model": "weather",
    "kind": "forget",
    "state": "running",
    "progress": 0.5,
    "certificate": None,
}
CERTIFICATE = {"model": "weather", "position": 5, "certificate": {"gap": 0.0, "support_vectors": 3}}
LEFT_OUT = {"model": "weather", "position": 5, "examples": 3, "errors": 1, "error": 1 / 3}
CHALLENGERS = {"model": "weather", "position": 5, "champion": {}, "shadows": {"softer": {}}}
RETIRED = {"model": "weather", "position": 7, "shadow": "softer", "deleted": True}
