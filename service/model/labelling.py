"""What events make of a model's pool, and of the figures of those who answer."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from hinged.service.model.annotators import Given
from hinged.service.model.events import Learned, Leased, Offered, Released, Renewed, Shown, Skipped, Unskipped, Voted
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.pool import Asked, Candidate, Lease
from hinged.service.model.state import State

Array = np.ndarray[Any, Any]

QuestionEvent: TypeAlias = Offered | Shown | Leased | Renewed | Released | Skipped | Unskipped | Voted


def take_in(model: State, event: QuestionEvent) -> None:
    """What an event of the pool makes of a model."""
    match event:
        case Offered():
            for learner in model.learners:
                learner.offer(event.inputs, event.ids)
            parts = zip(event.ids, event.digests, event.labels, event.shows or [None] * len(event.ids), strict=True)
            candidates = [
                Candidate(given, event.inputs.take(np.array([r])), digest, label, show)
                for r, (given, digest, label, show) in enumerate(parts)
            ]
            model.pool.offer(candidates, event.at_ms)
        case Shown():
            for given, show in zip(event.ids, event.shows, strict=True):
                model.pool.show(given, show)
        case Leased():
            for lease in event.leases:
                rest = {key: value for key, value in lease.items() if key != "id"}
                model.pool.lend(lease["id"], Lease(annotator=event.annotator, **rest), event.at_ms)
            if event.request_id is not None:
                tokens = event.again + [lease["token"] for lease in event.leases]
                model.pool.remember(event.annotator, event.request_id, Asked(event.fingerprint, tokens))
        case Renewed():
            model.pool.renew(event.token, event.expires_ms)
        case Released():
            model.pool.release(event.token)
        case Skipped():
            model.annotators.skip(model.pool.lease(event.token)[1].annotator)
            model.pool.skip(event.token, for_all=event.for_all)
        case Unskipped():
            model.annotators.unskip(model.pool.lease(event.token)[1].annotator)
            model.pool.unskip(event.token, event.expires_ms)
        case Voted():
            candidate, leased = model.pool.lease(event.token)
            model.pool.vote(event.token, event.label)
            model.annotators.vote(candidate.id, leased.annotator, event.label, event.at_ms)


def note_answers(model: State, event: Learned, numbers: Array) -> None:
    """Note who answered what, while the pool still knows the votes."""
    labels = model.labels.labels
    for r, annotator in enumerate(event.annotators):
        given = event.ids[r]
        if annotator is None or given is None:
            continue
        candidate, label = model.pool.find(given), labels[event.classes[r]]
        if candidate is not None and candidate.votes:
            model.annotators.settle(candidate.votes, label)
        else:
            said = None if numbers[r] == UNKNOWN else labels[numbers[r]]
            model.annotators.answer(Given(given, annotator, label, said, event.at_ms))
