"""What a micro-batch of learn requests comes to, worked out before anything is written.

Each request is taken or refused whole. Of the examples of the requests taken, some are new, some repeat what the model
has learned or what stands earlier in the same micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from service.answers import Answer
from service.errors import Conflict, Invalid, ModelFull, ServiceError
from service.events import ClassAdded, Learned, ModelEvent
from service.examples import SERVER_ID
from service.labels import Label, label_key
from service.model import Model
from solvers.rows import Rows, joined

Lookup = Callable[[Sequence[str]], Mapping[str, Answer]]
"""First answers of those ids that the log holds but the model has forgotten."""


@dataclass(frozen=True, slots=True)
class LearnRequest:
    """Checked examples of one request, in order; `ids` holds None where the server is to give one."""

    ids: list[str | None]
    labels: list[Label]
    rows: Rows
    contents: list[bytes]


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one example: it is new number `new` of the micro-batch (or repeats that), or repeats `answer`."""

    given: str | None
    new: int | None
    answer: Answer | None
    duplicate: bool


@dataclass(slots=True)
class Plan:
    """Fates by request (or the error that refuses it), and the events that the new examples make."""

    fates: list[list[Fate] | ServiceError] = field(default_factory=list)
    events: list[ModelEvent] = field(default_factory=list)
    new: int = 0


@dataclass(slots=True)
class _New:
    """New examples so far: by id their content and number; per request the rows that are new."""

    by_id: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    classes: dict[str, Label] = field(default_factory=dict)
    ids: list[str | None] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    contents: list[bytes] = field(default_factory=list)
    batches: list[Rows] = field(default_factory=list)


def make_plan(model: Model, requests: Sequence[LearnRequest], lookup: Lookup, classes_max: int, at_ms: int) -> Plan:
    """Decide each example's fate against the model as it stands. Changes nothing."""
    plan, new = Plan(), _New()
    for request in requests:
        try:
            plan.fates.append(_take(model, request, lookup, classes_max, new))
        except ServiceError as error:
            plan.fates.append(error)
    plan.new = len(new.ids)
    plan.events = _events(model, new, at_ms)
    return plan


def _take(model: Model, request: LearnRequest, lookup: Lookup, classes_max: int, new: _New) -> list[Fate]:
    fates: list[Fate] = []
    additions: dict[str, tuple[bytes, int]] = {}
    rows: list[int] = []
    asked = [given for given in request.ids if given is not None and model.answers.find(given) is None]
    forgotten = lookup(asked) if asked else {}
    for index, (given, content) in enumerate(zip(request.ids, request.contents, strict=True)):
        if given is None:
            fates.append(Fate(None, len(new.ids) + len(rows), None, duplicate=False))
            rows.append(index)
            continue
        repeated = additions.get(given) or new.by_id.get(given)
        answer = None if repeated else model.answers.find(given) or forgotten.get(given)
        if repeated:
            _check_same(content, repeated[0], given, index)
            fates.append(Fate(given, repeated[1], None, duplicate=True))
        elif answer:
            _check_same(content, answer.content, given, index)
            fates.append(Fate(given, None, answer, duplicate=True))
        else:
            _check_free(model, given, index)
            additions[given] = (content, len(new.ids) + len(rows))
            fates.append(Fate(given, len(new.ids) + len(rows), None, duplicate=False))
            rows.append(index)
    labels = [request.labels[r] for r in rows]
    classes = _new_classes(model, new, labels, rows, classes_max)
    _check_room(model, len(new.ids) + len(rows))
    new.by_id |= additions
    new.classes |= classes
    if rows:
        new.ids += [request.ids[r] for r in rows]
        new.labels += labels
        new.contents += [request.contents[r] for r in rows]
        new.batches.append(request.rows if len(rows) == len(request.ids) else request.rows.take(np.array(rows)))
    return fates


def _check_same(content: bytes, learned: bytes, given: str, index: int) -> None:
    if content != learned:
        raise Conflict(
            f"examples[{index}]: the example with id {given!r} was learned with another x or y",
            index=index,
            id=given,
        )


def _check_free(model: Model, given: str, index: int) -> None:
    if not given.startswith(SERVER_ID):
        return
    if model.answers.number_of(given) is not None:
        raise Conflict(
            f"examples[{index}]: the example with id {given!r} was learned too long ago to compare it",
            index=index,
            id=given,
        )
    raise Invalid(f"examples[{index}].id: ids that begin with {SERVER_ID} are given by the server", index=index)


def _new_classes(
    model: Model, new: _New, labels: Sequence[Label], rows: Sequence[int], classes_max: int
) -> dict[str, Label]:
    found: dict[str, Label] = {}
    for row, label in zip(rows, labels, strict=True):
        key = label_key(label)
        if model.labels.number(label) is not None or key in new.classes or key in found:
            continue
        if model.configuration.classes is not None:
            allowed = ", ".join(label_key(known) for known in model.labels.labels)
            raise Invalid(f"examples[{row}].y: the classes are declared as {allowed}, got {key}", index=row)
        if len(model.labels) + len(new.classes) + len(found) >= classes_max:
            raise Invalid(f"examples[{row}].y: a model has at most {classes_max} classes, {key} is one more", index=row)
        found[key] = label
    return found


def _check_room(model: Model, examples: int) -> None:
    solver = model.solver
    if examples > solver.room:
        raise ModelFull(
            f"the model holds {solver.live} points of at most points_max = {solver.points_max}; finish it to drop what "
            "is no support vector, or use another model"
        )


def _events(model: Model, new: _New, at_ms: int) -> list[ModelEvent]:
    """The new examples as events; a class is added right before its first example."""
    if not new.ids:
        return []
    rows = joined(new.batches)
    numbers = {label_key(label): number for number, label in enumerate(model.labels.labels)}
    events: list[ModelEvent] = []
    classes: list[int] = []
    begin = 0

    def learned(end: int) -> None:
        if end > begin:
            events.append(
                Learned(
                    first=model.learned + begin + 1,
                    ids=new.ids[begin:end],
                    classes=np.array(classes[begin:end], np.int32),
                    rows=rows.part(begin, end),
                    contents=new.contents[begin:end],
                    at_ms=at_ms,
                )
            )

    for index, label in enumerate(new.labels):
        key = label_key(label)
        if key not in numbers:
            learned(index)
            begin = index
            numbers[key] = len(numbers)
            events.append(ClassAdded(label))
        classes.append(numbers[key])
    learned(len(new.ids))
    return events
