"""The answers of the routes for the server itself."""

from __future__ import annotations

from hinged.answers import Alive, Readiness
from hinged.service.api.openapi import AT, Shape

ALIVE = Shape(Alive, {"status": "ok"})
READINESS = Shape(Readiness, {"status": "ready", "models": {"total": 3, "loading": 0, "serving": 2, "stopped": 1}})
METRICS = 'hinged_log_position{model="weather"} 5.0\n'
KEY = {"name": "ann", "role": "annotator", "models": ["fraud-*"]}
TICKET = {"ticket": "8bJ0v1xkq2dSgVdE0Zt3rQ", "expires_at": AT}
