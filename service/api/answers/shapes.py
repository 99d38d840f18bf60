"""What the routes of answers take and answer."""

from __future__ import annotations

from pydantic import TypeAdapter, with_config

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.api.examples.shapes import AnyX
from hinged.service.api.labels.shapes import HEAD, Name
from hinged.service.api.openapi import AT, Shape
from hinged.service.data.classes import Label
from hinged.service.data.examples import STRICT, Y


class AnswerChange(TypedDict):
    """Another label for the same question, from the same annotator."""

    annotator: Name
    y: Label


@with_config(STRICT)
class AnswerBody(TypedDict):
    """The same as it is checked, which the document does not say in full."""

    annotator: Name
    y: Y


class GivenAnswer(TypedDict):
    """An answer. prediction: what the model had said; learned: whether the candidate has all its labels."""

    id: str
    annotator: str
    label: Label
    prediction: Label | None
    learned: bool
    at: str


class Annotator(TypedDict):
    """An annotator in numbers.

    predicted: answers of which the model had said something before; as_predicted: those that were the same. compared:
    candidates that others labelled as well; agreed: those learned with this annotator's label.
    """

    labelled: int
    skipped: int
    changed: int
    predicted: int
    as_predicted: int
    compared: int
    agreed: int


class Answers(TypedDict):
    """The newest answers, and what everybody's have come to."""

    model: str
    position: int
    answers: list[GivenAnswer]
    annotators: dict[str, Annotator]
    answered: int
    disagreement: float | None


class ShownExample(TypedDict):
    """An example. number and label: null for a candidate; x: null where neither model nor log have it."""

    model: str
    position: int
    id: str
    number: int | None
    label: Label | None
    x: AnyX | None


class PredictedCandidate(TypedDict):
    """What the model says of a candidate, and how far that is from the boundary."""

    id: str
    prediction: Label | None
    score: float | None


class Candidates(TypedDict):
    """The pool. size: of all of it."""

    model: str
    position: int
    size: int
    candidates: list[PredictedCandidate]


CHANGE_ANSWER: TypeAdapter[AnswerBody] = TypeAdapter(AnswerBody)
ANSWER_BODY = Shape(AnswerChange, {"annotator": "ann", "y": "rain"})
ANSWERS = Shape(
    Answers,
    {
        **HEAD,
        "answers": [{"id": "thu", "annotator": "ann", "label": "sun", "prediction": "rain", "learned": True, "at": AT}],
        "annotators": {
            "ann": {
                "labelled": 1,
                "skipped": 0,
                "changed": 0,
                "predicted": 1,
                "as_predicted": 0,
                "compared": 0,
                "agreed": 0,
            }
        },
        "answered": 1,
        "disagreement": 0.0,
    },
)
EXAMPLE = Shape(ShownExample, {**HEAD, "id": "mon", "number": 1, "label": "sun", "x": [0.9, 0.1]})
CANDIDATES = Shape(Candidates, {**HEAD, "size": 2, "candidates": [{"id": "thu", "prediction": "rain", "score": 0.2}]})
