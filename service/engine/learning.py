"""Learn a micro-batch of requests on a model's journal, and answer each request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import NamedTuple

import numpy as np

from hinged.answers import Receipt
from hinged.service.commands.learn import make_plan
from hinged.service.commands.planned import AllNew, CollectedLabels, LearnRequest, PlannedExample
from hinged.service.data.classes import Label
from hinged.service.data.examples import SERVER_ID
from hinged.service.engine.journal import Journal
from hinged.service.engine.receipts.sealing import receipts_of
from hinged.service.errors import ServiceError
from hinged.service.model.events import ModelEvent
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.model import Model


class Learnt(NamedTuple):
    """The answer to one learned example.

    prediction and score are None if the model had no class yet, or no longer keeps the first answer. votes:
    the labels collected so far, if the candidate needs several.
    """

    id: str
    prediction: Label | None
    score: float | None
    duplicate: bool
    votes: CollectedLabels | None = None


@dataclass(frozen=True, slots=True)
class LearnAnswer:
    """The answers in the order of the request, and the position of the model after the request. receipts: of the events
    that contain the request's new examples; empty without receipts.
    """

    position: int
    results: list[Learnt]
    receipts: list[Receipt] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Learning:
    """Requests that are learned together as a micro-batch."""

    requests: Sequence[LearnRequest]

    @property
    def examples(self) -> int:
        """Return the number of examples in the requests."""
        return sum(len(request.ids) for request in self.requests)

    def run(self, journal: Journal) -> list[LearnAnswer | ServiceError]:
        """Learn the new examples durably; return the answer to each request."""
        waiting = {made.prediction.id: made.prediction for made in journal.along}
        with journal.going_on():
            find = partial(journal.lookup.first_answers, journal.model)
            classes_max = journal.settings.classes_max
            plan = make_plan(journal.model, self.requests, find, classes_max, journal.now_ms(), waiting or None)
        first_new = journal.model.learned + 1
        outcomes = journal.commit(plan.events)
        predictions = np.concatenate([o.predictions for o in outcomes] or [np.zeros(0, np.int32)]).tolist()
        scores = np.concatenate([o.scores for o in outcomes] or [np.zeros(0)]).tolist()
        answers = [answer_of(journal.model, planned, first_new, predictions, scores) for planned in plan.planned]
        if journal.sealed is not None:
            first = journal.model.position - len(plan.events)  # the seal is at the model's position
            for planned, answer in zip(plan.planned, answers, strict=True):
                new = _new_of(planned)
                if new and isinstance(answer, LearnAnswer):
                    numbers = range(first_new + min(new), first_new + max(new) + 1)
                    positions = [first + at for at, event in enumerate(plan.events) if _learns(event, numbers)]
                    answer.receipts.extend(receipts_of(journal.sealed, positions))
        return answers


def _new_of(planned: list[PlannedExample] | AllNew | ServiceError) -> Sequence[int]:
    """Return which new examples of the micro-batch a request has, from 0 on."""
    if isinstance(planned, AllNew):
        return range(planned.begin, planned.begin + len(planned.ids))
    return [] if isinstance(planned, ServiceError) else [each.new for each in planned if each.new is not None]


def _learns(event: ModelEvent, numbers: range) -> bool:
    """Return whether an event contains examples from these consecutive numbers."""
    if not isinstance(event, ExamplesLearned):
        return False
    return event.first < numbers.stop and numbers.start < event.first + len(event.ids)


def answer_of(
    model: Model,
    planned: list[PlannedExample] | AllNew | ServiceError,
    first_new: int,
    predictions: list[int],
    scores: list[float],
) -> LearnAnswer | ServiceError:
    """Return the answer to a request, given the plan of its examples.

    first_new: number of the micro-batch's first new example; predictions, scores: results of all new examples in
    the micro-batch.
    """
    if isinstance(planned, ServiceError):
        return planned
    labels = model.labels.labels
    if isinstance(planned, AllNew):
        begin, end = planned.begin, planned.begin + len(planned.ids)
        own: list[float | None] = [*scores[begin:end]]
        numbers = predictions[begin:end]
        ids = [given or f"{SERVER_ID}{key}" for key, given in enumerate(planned.ids, first_new + begin)]
        if UNKNOWN in numbers:
            own = [None if number == UNKNOWN else score for number, score in zip(numbers, own, strict=True)]
        by_number = [*labels, None]  # UNKNOWN is -1, so it selects the last element
        return LearnAnswer(model.position, [*map(Learnt, ids, map(by_number.__getitem__, numbers), own, repeat(False))])
    results = []
    for example in planned:
        if example.answer is not None:
            number, score = example.answer.prediction, example.answer.score
        elif example.new is not None:
            number, score = predictions[example.new], scores[example.new]
        else:
            number, score = UNKNOWN, 0.0
        known = number != UNKNOWN
        results.append(
            Learnt(
                example.given if example.given is not None else f"{SERVER_ID}{first_new + (example.new or 0)}",
                labels[number] if known else None,
                score if known else None,
                example.duplicate,
                example.votes,
            )
        )
    return LearnAnswer(model.position, results)
