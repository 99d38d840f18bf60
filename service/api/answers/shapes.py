"""What the routes of answers take and answer."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import TypeAdapter, with_config

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.api.examples.shapes import AnyX
from hinged.service.api.labels.shapes import HEAD, Name
from hinged.service.api.openapi import AT, Shape
from hinged.service.data.classes import Label
from hinged.service.data.examples import STRICT, Y


@with_config(STRICT)
class AnswerChange(TypedDict):
    """Another label for the same question, from the same annotator."""

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
    candidates that others labelled as well; agreed: those learned with this annotator's label. shared: of the answers
    that are kept, those to what others labelled as well; kappa: how far they agree with the labels that stand.
    """

    labelled: int
    skipped: int
    changed: int
    predicted: int
    as_predicted: int
    compared: int
    agreed: int
    shared: int
    kappa: float | None


class Agreement(TypedDict):
    """Two annotators who labelled the same examples, and how many of them the same."""

    annotators: list[str]
    examples: int
    same: int
    kappa: float | None


class Answers(TypedDict):
    """The newest answers, and what everybody's have come to."""

    model: str
    position: int
    answers: list[GivenAnswer]
    annotators: dict[str, Annotator]
    agreement: list[Agreement]
    answered: int
    disagreement: float | None


class ShownExample(TypedDict):
    """An example. number and label: null for a candidate, which has `show` where that came with it.

    x: null where neither model nor log have it.
    """

    model: str
    position: int
    id: str
    number: int | None
    label: Label | None
    x: AnyX | None
    show: NotRequired[Any]


class AnnotatorsAnswer(TypedDict):
    """Who gave which label."""

    annotator: str
    label: Label


class ListedExample(TypedDict):
    """A learned example. label: as it stands now; corrected: whether it was given again since, perhaps another.

    prediction: from right before, null also where it is known no more; source and at: null where no log tells them.
    """

    id: str
    number: int
    label: Label
    prediction: Label | None
    source: Literal["streamed", "queried", "random"] | None
    answers: list[AnnotatorsAnswer]
    corrected: bool
    at: str | None


class ListedExamples(TypedDict):
    """A page. missing: examples before all of which nothing is known any more; next: cursor, null at the end."""

    model: str
    position: int
    missing: int
    examples: list[ListedExample]
    next: str | None


class PredictedCandidate(TypedDict):
    """What the model says of a candidate, and how far that is from the boundary. show: what came with it."""

    id: str
    prediction: Label | None
    score: float | None
    show: NotRequired[Any]


class Candidates(TypedDict):
    """The pool. size: of all of it."""

    model: str
    position: int
    size: int
    candidates: list[PredictedCandidate]


CHANGE_ANSWER: TypeAdapter[AnswerChange] = TypeAdapter(AnswerChange)
ANSWER_BODY = Shape(CHANGE_ANSWER, {"annotator": "ann", "y": "rain"})
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
                "shared": 0,
                "kappa": None,
            }
        },
        "agreement": [{"annotators": ["ann", "bob"], "examples": 20, "same": 18, "kappa": 0.8}],
        "answered": 1,
        "disagreement": 0.0,
    },
)
EXAMPLE = Shape(ShownExample, {**HEAD, "id": "mon", "number": 1, "label": "sun", "x": [0.9, 0.1]})
LISTED = Shape(
    ListedExamples,
    {
        **HEAD,
        "missing": 0,
        "examples": [
            {
                "id": "mon",
                "number": 1,
                "label": "sun",
                "prediction": None,
                "source": "queried",
                "answers": [{"annotator": "ann", "label": "sun"}],
                "corrected": False,
                "at": AT,
            }
        ],
        "next": "4.1",
    },
)
CANDIDATES = Shape(Candidates, {**HEAD, "size": 2, "candidates": [{"id": "thu", "prediction": "rain", "score": 0.2}]})
