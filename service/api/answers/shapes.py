"""The bodies and answers of the answer routes."""

from __future__ import annotations

from pydantic import with_config
from typing_extensions import TypedDict

from hinged.answers import ShownExample
from hinged.service.api.labels.shapes import HEAD, Name
from hinged.service.api.openapi import AT, Shape
from hinged.service.data.examples import STRICT, Y
from hinged.service.data.features.catalogue import AnyX


@with_config(STRICT)
class AnswerChange(TypedDict):
    """A new label for a question that the same annotator has already answered."""

    annotator: Name
    y: Y


ANSWER_BODY = Shape(AnswerChange, {"annotator": "ann", "y": "rain"})
ANSWERS = {
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
            "reliability": None,
        }
    },
    "agreement": [{"annotators": ["ann", "bob"], "examples": 20, "same": 18, "kappa": 0.8}],
    "answered": 1,
    "disagreement": 0.0,
}
EXAMPLE = Shape(ShownExample[AnyX], {**HEAD, "id": "mon", "number": 1, "label": "sun", "x": [0.9, 0.1]})
LISTED = {
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
}
CANDIDATES = {**HEAD, "size": 2, "candidates": [{"id": "thu", "prediction": "rain", "score": 0.2}]}
