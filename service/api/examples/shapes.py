"""The bodies and answers of the example routes."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hinged.answers import ExampleDecisions, Learned, Predicted
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
LEARNED = Shape(
    Learned,
    {
        "model": "weather",
        "position": 5,
        "results": [
            {"id": "mon", "prediction": None, "score": None, "duplicate": False},
            {"id": "tue", "prediction": "sun", "score": 1.0, "duplicate": False},
        ],
    },
)
PREDICT = Shape(PredictBody[AnyX], {"examples": [{"id": "wed", "x": [0.8, 0.2]}]})
PREDICTED = Shape(
    Predicted,
    {
        "model": "weather",
        "position": 5,
        "results": [
            {
                "id": "wed",
                "prediction": "sun",
                "probability": None,
                "scores": {"sun": 0.76, "rain": -0.76},
                "label": {"wanted": True, "probability": 1.0, "reason": "active"},
            }
        ],
    },
)
DECIDE = Shape(DecideBody[AnyX], {"examples": [{"id": "p1", "x": [0.8, 0.2]}]})
DECIDED = Shape(
    ExampleDecisions,
    {
        "model": "payments",
        "position": 9,
        "results": [
            {
                "id": "p1",
                "decision": "ask",
                "probability": None,
                "cost": 2.0,
                "reason": "cost",
                "question": "p1",
                "gain": 3.5,
            }
        ],
    },
)
FINISH_BODY = Shape(FinishBody, {"epochs": 1})
FINISHED = {
    "model": "weather",
    "position": 7,
    "support_vectors": 2,
    "points": 2,
    "duality_gap": 0.0,
    "steps": 2,
    "converged": True,
}
