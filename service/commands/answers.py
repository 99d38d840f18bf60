"""Commands about earlier answers: annotators change or forget answers, and see how annotators and the model compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hinged.service.commands.agreement import agreement
from hinged.service.commands.ask import Planned
from hinged.service.commands.change import Correct, Forget, Located, class_of, number_of
from hinged.service.data.classes import Label, label_key
from hinged.service.data.inputs import Inputs
from hinged.service.data.times import shown_time
from hinged.service.errors import Conflict, Gone, NotFound
from hinged.service.model.events import ModelEvent
from hinged.service.model.events.labelling import VoteCast
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.model import Model
from hinged.service.model.pool import Candidate
from hinged.service.model.view import Published


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """An annotator replaces a label that the annotator gave before. The new label corrects a learned example, or
    changes a vote.
    """

    given: str
    label: Label
    annotator: str
    classes_max: int
    located: Located | None = None

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise NotFound if no answer of this annotator is kept, Gone if the example was forgotten."""
        if model.tombstones.knows(self.given):
            raise Gone(f"the example {self.given!r} was forgotten", id=self.given)
        _check_answered(model, self.given, self.annotator)
        candidate = model.pool.find(self.given)
        if candidate is None:
            learned = (self.classes_max, self.located, self.annotator)
            return Correct(self.given, self.label, *learned).plan(model, now_ms)
        events: list[ModelEvent] = []
        if label_key(dict(candidate.votes)[self.annotator]) != label_key(self.label):
            class_of(model, self.label, self.classes_max)
            token = next(lease.token for lease in candidate.leases if lease.annotator == self.annotator)
            events.append(VoteCast(token, self.label, now_ms))
        return Planned(events, lambda model: {"certificate": model.solver.certificate()})


@dataclass(frozen=True, slots=True)
class ForgetAnswer(Forget):
    """Completely forget an example that only this annotator has answered."""

    annotator: str = ""

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise NotFound if no answer of this annotator is kept. Raise Conflict if other annotators
        answered the example, or if the example waits for more labels.
        """
        if not model.tombstones.knows(self.given):
            _check_answered(model, self.given, self.annotator)
            if model.pool.find(self.given) is not None:
                raise Conflict(
                    f"{self.given!r} waits for labels of other annotators; change the answer instead", id=self.given
                )
            if any(a.id == self.given and a.annotator != self.annotator for a in model.annotators):
                raise Conflict(
                    f"other annotators have answered {self.given!r} as well; only a writer may forget it", id=self.given
                )
        return Forget.plan(self, model, now_ms)


def _check_answered(model: Model, given: str, annotator: str) -> None:
    if model.annotators.find(given, annotator) is None:
        raise NotFound(f"{annotator!r} has no kept answer to {given!r}: it is too old, or was never given", id=given)


def given_answers(model: Model, annotator: str | None, most: int) -> dict[str, Any]:
    """Return the newest answers of one annotator or of all annotators, and the figures of annotators and pairs."""
    by_annotator, pairs = agreement(model)
    nothing = {"shared": 0, "kappa": None, "reliability": None}
    kept = [a for a in model.annotators if annotator in (None, a.annotator)]
    return {
        "answers": [
            {
                "id": a.id,
                "annotator": a.annotator,
                "label": a.label,
                "prediction": a.prediction,
                "learned": model.pool.find(a.id) is None,
                "at": shown_time(a.at_ms),
            }
            for a in kept[:most]
        ],
        "annotators": {
            name: figures | by_annotator.get(name, nothing) for name, figures in model.annotators.figures().items()
        },
        "agreement": pairs,
        "answered": model.pool.answered,
        "disagreement": model.pool.disagreed / model.pool.answered if model.pool.answered else None,
    }


def first_candidates(model: Model, most: int) -> tuple[Published, list[Candidate], int]:
    """Return the published state, the oldest candidates, and the number of all candidates."""
    return model.published(), [c for c, _ in zip(model.pool, range(most), strict=False)], len(model.pool)


def predicted(published: Published, ids: Sequence[str], inputs: Inputs) -> list[dict[str, Any]]:
    """Return the state's prediction for each x, and the distance of each x from the boundary."""
    decided = published.decide(inputs)
    scores = published.distances(decided.columns) if decided.columns.shape[1] else np.full(len(ids), np.nan)
    return [
        {
            "id": given,
            "prediction": None if number == UNKNOWN else published.labels[number],
            "score": None if np.isnan(score) else float(score),
        }
        for given, number, score in zip(ids, decided.numbers.tolist(), scores, strict=True)
    ]


def known_example(model: Model, given: str, located: Located | None = None) -> dict[str, Any] | None:
    """Return everything that is stored about an example in the model or the log. Return None if the log must be read
    first.

    located: what the log says about the example. The result's x is null if neither the log nor the model has the x.
    Raise NotFound for an unknown id, and Gone for a forgotten example.
    """
    features = model.configuration.features
    if model.tombstones.knows(given):
        raise Gone(f"the example {given!r} was forgotten", id=given)
    candidate = model.pool.find(given)
    if candidate is not None:
        return {"id": given, "number": None, "label": None, "x": features.shown(candidate.x, 0), **candidate.told}
    prediction = model.pending.find(given, model.at_ms)
    if prediction is not None:
        return {"id": given, "number": None, "label": None, "x": features.shown(prediction.x, 0)}
    number = number_of(model, given, located)
    x = located.x if located is not None else None
    # With an encoder, the rows in the solver are not the client's x.
    if number is not None and x is None and model.learner.warmup.encoder is None:
        x = model.solver.row_of(number)
    if located is None and x is None:
        return None
    if number is None:
        raise NotFound(f"there is no example {given!r}", id=given)
    label = model.corrections.get(number, model.answers.label_of(number))
    if label is None and located is not None:
        label = located.label
    return {
        "id": given,
        "number": number,
        "label": None if label is None else model.labels.labels[label],
        "x": None if x is None else features.shown(x, 0),
    }
