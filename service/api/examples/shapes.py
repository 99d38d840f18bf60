"""What the routes of examples take and answer."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, TypeAdapter, with_config

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.api.openapi import Shape
from hinged.service.data.classes import Label
from hinged.service.data.examples import STRICT, LearnBody, PredictBody, X
from hinged.service.data.records import RecordX, TextX

AnyX = X | RecordX | TextX
EPOCHS_MAX = 100


class Votes(TypedDict):
    """How many labelled a candidate so."""

    label: Label
    count: int


class LearnedExample(TypedDict):
    """The prediction from right before an example was learned."""

    id: str
    prediction: Label | None
    score: float | None
    duplicate: bool
    collected: NotRequired[int]
    needed: NotRequired[int]
    votes: NotRequired[list[Votes]]


class Learned(TypedDict):
    """All examples are durable and learned."""

    model: str
    position: int
    results: list[LearnedExample]


class Wanted(TypedDict):
    """Whether a label is wanted, with which probability that came about, and why."""

    wanted: bool
    probability: float
    reason: str | None


class SupportVector(TypedDict):
    """An example that carries a score."""

    id: str
    label: Label
    contribution: float


class PredictedExample(TypedDict):
    """A prediction. outside: names or columns whose values lie outside of what was learned, where any do."""

    id: str | None
    prediction: Label | None
    probability: float | None
    probabilities: NotRequired[dict[str, float | None]]
    scores: dict[str, float]
    label: Wanted
    support_vectors: NotRequired[list[SupportVector]]
    outside: NotRequired[list[str | int]]


class Predicted(TypedDict):
    """Predictions in the order of the examples."""

    model: str
    position: int
    results: list[PredictedExample]


class Finished(TypedDict):
    """What the finishing step came to."""

    model: str
    position: int
    support_vectors: int
    points: int
    duality_gap: float | None
    steps: int
    converged: bool


@with_config(STRICT)
class FinishBody(TypedDict):
    """Epochs over the log before the finishing step."""

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
FINISH: TypeAdapter[FinishBody] = TypeAdapter(FinishBody)
FINISH_BODY = Shape(FINISH, {"epochs": 1})
FINISHED = Shape(
    Finished,
    {
        "model": "weather",
        "position": 7,
        "support_vectors": 2,
        "points": 2,
        "duality_gap": 0.0,
        "steps": 2,
        "converged": True,
    },
)
