"""Plan a micro-batch of learn requests, before anything is written.

Each request is accepted or refused as a whole. There are three kinds of examples: new examples, repeats of an example
that is learned or comes earlier in the micro-batch, and votes for a candidate that needs several labels. An example
without x gets its x from the pool, or from the prediction that waits for its label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np

from hinged.service.commands.planned import AllNew, LearnRequest, NewExample, Plan
from hinged.service.commands.taking import Lookup, NewExamples, take, weights_fit
from hinged.service.data.classes import label_key
from hinged.service.data.examples import SERVER_ID
from hinged.service.data.inputs import Inputs, join_inputs
from hinged.service.data.parts import Configuration
from hinged.service.errors import Invalid, ServiceError
from hinged.service.model.events import ModelEvent
from hinged.service.model.events.learning import ClassAdded, ExamplesLearned, weights_of
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.settings import Settings

Array = np.ndarray[Any, Any]


def make_plan(
    model: Model,
    requests: Sequence[LearnRequest],
    lookup: Lookup,
    classes_max: int,
    at_ms: int,
    waiting: Mapping[str, Prediction] | None = None,
) -> Plan:
    """Decide what will happen to each example, given the model's current state. The model does not change.

    waiting: predictions that will be logged next.
    """
    if waiting is None:
        planned = _plain(model, requests, lookup, at_ms)
        if planned is not None:
            return planned
    plan, new = Plan(), NewExamples()
    for request in requests:
        try:
            read = request.read_for(model)
        except Invalid as error:
            plan.planned.append(error)
            continue
        plan.planned.append(take(model, read, lookup, classes_max, at_ms, waiting or {}, new))
    plan.new = len(new.examples)
    plan.events = [*new.events, *_learned(model, new.examples, at_ms)]
    return plan


def rehearse(configuration: Configuration, request: LearnRequest, settings: Settings) -> None:
    """Raise the error with which a new model of this configuration would refuse its first request."""
    model = Model("new", configuration, **settings.model_sizes)
    (planned,) = make_plan(model, [request], lambda _: {}, settings.classes_max, at_ms=0).planned
    if isinstance(planned, ServiceError):
        raise planned


def _plain(model: Model, requests: Sequence[LearnRequest], lookup: Lookup, at_ms: int) -> Plan | None:
    """Return the plan if every example brings an x, is new, and has a known class. Return None otherwise.

    One check of the whole micro-batch then replaces `taking.take` for each example. This check is ten times as fast.
    """
    batches = [request.inputs for request in requests if request.inputs is not None]
    ids = list(chain.from_iterable(request.ids for request in requests))
    contents = [content for request in requests for content in request.contents if content is not None]
    if len(contents) < len(ids) or len(ids) > model.room:
        return None
    if any(request.leases or request.elsewhere for request in requests):
        return None
    if not all(map(model.learner.takes, batches)):
        return None
    weights: Array | None = None
    if any(request.weights for request in requests):
        weights = weights_of([request.weight(r) for request in requests for r in range(len(request.ids))])
        if not weights_fit(model, weights):
            return None
    given = [i for i in ids if i is not None]
    if given and not _all_unknown(model, given, lookup, at_ms):
        return None
    labels = list(chain.from_iterable(request.labels for request in requests))
    kinds = list(zip(map(type, labels), labels, strict=True))  # True == 1, but their types differ
    numbers = {kind: model.labels.number(kind[1]) for kind in set(kinds)}
    if None in numbers.values():
        return None
    learned = ExamplesLearned(
        first=model.learned + 1,
        ids=ids,
        classes=np.array([numbers[kind] for kind in kinds], np.int32),
        inputs=join_inputs(batches),
        contents=contents,
        at_ms=at_ms,
        sources=np.zeros(len(ids), np.uint8),
        weights=weights,
    )
    ends = accumulate((len(request.ids) for request in requests), initial=0)
    planned = [AllNew(begin, request.ids) for begin, request in zip(ends, requests, strict=False)]
    return Plan([*planned], [learned], len(ids))


def _all_unknown(model: Model, given: list[str], lookup: Lookup, at_ms: int) -> bool:
    """Return whether all ids are different and unknown: not learned, forgotten, offered or pending."""
    different = set(given)
    return (
        len(different) == len(given)
        and not (model.pool and any(map(model.pool.find, given)))
        and not (model.pending and any(model.pending.find(i, at_ms) for i in given))
        and not model.answers.know_any(different)
        and not any(i.startswith(SERVER_ID) for i in given)
        and not model.tombstones.known(given)
        and not lookup(given)
    )


def _learned(model: Model, new: Sequence[NewExample], at_ms: int) -> list[ModelEvent]:
    """Return events for the new examples. A class is added just before its first example."""
    if not new:
        return []
    # For an imported candidate, it is unknown for which kernel its norms were computed.
    inputs = model.learner.rows(join_inputs(_runs(new)))
    numbers = {label_key(label): number for number, label in enumerate(model.labels.labels)}
    events: list[ModelEvent] = []
    classes: list[int] = []
    begin = 0

    def learned(end: int) -> None:
        if end > begin:
            annotators = [example.annotator for example in new[begin:end]]
            votes = [example.votes for example in new[begin:end]]
            events.append(
                ExamplesLearned(
                    first=model.learned + begin + 1,
                    ids=[example.given for example in new[begin:end]],
                    classes=np.array(classes[begin:end], np.int32),
                    inputs=inputs.part(begin, end),
                    contents=[example.content for example in new[begin:end]],
                    at_ms=at_ms,
                    sources=np.array([example.source for example in new[begin:end]], np.uint8),
                    annotators=annotators if any(annotators) else (),
                    votes=votes if any(votes) else (),
                    weights=weights_of([example.weight for example in new[begin:end]]),
                )
            )

    for index, example in enumerate(new):
        key = label_key(example.label)
        if key not in numbers:
            learned(index)
            begin = index
            numbers[key] = len(numbers)
            events.append(ClassAdded(example.label))
        classes.append(numbers[key])
    learned(len(new))
    return events


def _runs(new: Sequence[NewExample]) -> list[Inputs]:
    """Return the x of the examples in order. Consecutive rows of a batch stay together."""
    runs: list[tuple[Inputs, int, int]] = []
    for example in new:
        if runs and runs[-1][0] is example.batch and runs[-1][2] == example.row:
            runs[-1] = (example.batch, runs[-1][1], example.row + 1)
        else:
            runs.append((example.batch, example.row, example.row + 1))
    return [batch.part(begin, end) for batch, begin, end in runs]
