"""The bodies and answers of the model routes."""

from __future__ import annotations

from hinged.answers import Models
from hinged.service.api.openapi import Shape
from hinged.service.data.configuration import CONFIGURATIONS

CONFIGURATION = {
    "solver": "lasvm",
    "kernel": {"type": "rbf", "gamma": 2.0},
    "features": {"type": "dense", "dim": 2},
    "C": 10.0,
}


MODEL = Shape(CONFIGURATIONS, CONFIGURATION)
CREATED = {"model": "weather", "configuration": CONFIGURATION}
_IN_SHORT = {
    "model": "weather",
    "state": "serving",
    "configuration": CONFIGURATION,
    "position": 5,
    "examples": 3,
    "classes": ["sun", "rain"],
}
MODELS = Shape(Models, {"models": [_IN_SHORT]})
DESCRIBED = {
    **_IN_SHORT,
    "support_vectors": 3,
    "points": 3,
    "duality_gap": 0.0,
    "certificate": {},
    "metrics": {},
    "pool": {},
    "pending": 0,
    "memory_bytes": 4096,
    "jobs": [],
}
COLUMNS = {
    "model": "weather",
    "position": 5,
    "columns": [
        {
            "name": "0",
            "kinds": ["number"],
            "values": 0,
            "frequent": [],
            "usual": [-0.2, 1.2],
            "missing": None,
            "effect": 0.5,
        }
    ],
}
_RULE = {"right": 0.02, "false": 0.05, "missed": 0.0, "asked": 0.01, "cost": 0.07}
THRESHOLDS = {
    "model": "payments",
    "position": 900,
    "class": "fraud",
    "other": "ok",
    "examples": 880.5,
    "costs": {"missed": 9.0, "false": 1.0, "ask": 0.5},
    "threshold": 0.1,
    "rules": {"present": _RULE},
    "curve": {
        "threshold": [0.1],
        "missed_cost": [9.0],
        **{name: [value] for name, value in _RULE.items()},
        "precision": [0.3],
        "recall": [0.9],
        "f_beta": [0.45],
    },
}
OVERVIEW = {
    "models": [
        {
            "model": "weather",
            "state": "serving",
            "position": 5,
            "examples": 3,
            "classes": ["sun", "rain"],
            "solver": "lasvm",
            "accuracy": 0.5,
            "curve": [None, 0.5],
            "points": 3,
            "drifts": 0,
            "drifted": False,
            "alarmed": False,
            "input_alarmed": False,
            "queue": 0,
            "queue_max": 10_000,
            "pool": 0,
            "conflicts": 0,
            "jobs": 0,
        }
    ]
}
HISTORY = {
    "model": "weather",
    "position": 5,
    "points_max": 512,
    "stride": 1,
    "curve": {
        "position": [5],
        "examples": [3],
        "at_ms": [1777636800000],
        "accuracy": [0.5],
        "fading": [0.5],
        "streamed": [0.5],
        "queried": [None],
        "random": [None],
        "log_loss": [0.7],
        "support_vectors": [3.0],
        "points": [3.0],
        "gap": [0.01],
    },
    "shadows": {},
    "marks": [{"kind": "finished", "text": "finishing step", "position": 4, "examples": 2, "at_ms": 1777636800000}],
    "snapshots": [4],
}
DELETED = {"model": "weather", "deleted": True}
