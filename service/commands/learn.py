"""What a micro-batch of learn requests comes to, worked out before anything is written.

Each request is taken or refused whole. Of the examples of the requests taken, some are new, some repeat what the model
has learned or what stands earlier in the same micro-batch, and some are one of several labels that a candidate of the
pool needs. An example without x takes that of the pool or of the prediction that waits for its label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np

from hinged.service.data.classes import Label, label_key
from hinged.service.data.examples import SERVER_ID
from hinged.service.data.inputs import Inputs, content_of, join_inputs
from hinged.service.data.parts import Configuration
from hinged.service.errors import (
    Conflict,
    Gone,
    Invalid,
    ModelFull,
    NotFound,
    ServiceError,
)
from hinged.service.model.answers import Answer
from hinged.service.model.events import (
    ClassAdded,
    Learned,
    ModelEvent,
    Voted,
)
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.model.pool import Candidate

Lookup = Callable[[Sequence[str]], Mapping[str, Answer]]
"""First answers of those ids that the log holds but the model has forgotten."""


@dataclass(frozen=True, slots=True)
class LearnRequest:
    """Checked examples of one request, in order.

    ids: None where the server is to give one. inputs: the x of those that bring one, in order (None where none does).
    contents: 16 bytes of x and y, None where there is no x. leases: tokens, None where there is none; empty: none.
    reread: the same request as another configuration reads it (Invalid if it does not): by the time that its turn
    comes the model may have another kernel or precision than when it was read.
    """

    ids: list[str | None]
    labels: list[Label]
    inputs: Inputs | None
    contents: Sequence[bytes | None]
    leases: Sequence[str | None] = ()
    reread: Callable[[Configuration], LearnRequest] | None = None

    def read_for(self, model: Model) -> LearnRequest:
        """The request as the model's present configuration reads it. Invalid for an x that it does not take."""
        if self.inputs is None or model.learner.takes(self.inputs):
            return self
        if self.reread is None:
            raise Invalid("the model's configuration has changed since the request was read; send it again")
        return self.reread(model.configuration)

    def lease(self, index: int) -> str | None:
        """The lease that an example answers."""
        return self.leases[index] if self.leases else None


@dataclass(frozen=True, slots=True)
class Votes:
    """One of several labels was taken: so many there are now, so many it needs; `tally` once it has them."""

    collected: int
    needed: int
    tally: list[tuple[Label, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlannedExample:
    """What becomes of one example.

    It is number `new` of the micro-batch's new ones (or repeats that), or repeats `answer`, or is one of `votes`.
    """

    given: str | None
    new: int | None
    answer: Answer | None
    duplicate: bool
    votes: Votes | None = None


class AllNew(NamedTuple):
    """What becomes of the examples of a request that are all new: they are numbers `begin`... of the micro-batch's."""

    begin: int
    ids: Sequence[str | None]


@dataclass(slots=True)
class Plan:
    """Fates by request (or the error that refuses it), and the events that they make."""

    planned: list[list[PlannedExample] | AllNew | ServiceError] = field(default_factory=list)
    events: list[ModelEvent] = field(default_factory=list)
    new: int = 0


@dataclass(frozen=True, slots=True)
class _Example:
    """A new example; its x is row `row` of `batch`."""

    given: str | None
    batch: Inputs
    row: int
    label: Label
    content: bytes
    source: int


@dataclass(slots=True)
class _New:
    """What the requests so far add. by_id: content, label and place in `examples` of each id; votes by candidate."""

    examples: list[_Example] = field(default_factory=list)
    by_id: dict[str, tuple[bytes, Label, int]] = field(default_factory=dict)
    classes: dict[str, Label] = field(default_factory=dict)
    votes: dict[str, list[tuple[str, Label]]] = field(default_factory=dict)
    events: list[ModelEvent] = field(default_factory=list)


def make_plan(
    model: Model,
    requests: Sequence[LearnRequest],
    lookup: Lookup,
    classes_max: int,
    at_ms: int,
    waiting: Mapping[str, Prediction] | None = None,
) -> Plan:
    """Decide what becomes of each example, against the model as it stands. Changes nothing.

    waiting: predictions that are about to be logged.
    """
    if waiting is None:
        planned = _plain(model, requests, lookup, at_ms)
        if planned is not None:
            return planned
    plan, new = Plan(), _New()
    for request in requests:
        try:
            read = request.read_for(model)
        except Invalid as error:
            plan.planned.append(error)
            continue
        plan.planned.append(_take(model, read, lookup, classes_max, at_ms, waiting or {}, new))
    plan.new = len(new.examples)
    plan.events = [*new.events, *_learned(model, new.examples, at_ms)]
    return plan


def _plain(model: Model, requests: Sequence[LearnRequest], lookup: Lookup, at_ms: int) -> Plan | None:
    """The plan of a stream: every example brings an x, is new, and of a class that is known. None where one is not.

    One look at the whole micro-batch then says of all examples what `_Taking.plan_of` says of each, ten times as fast.
    """
    batches = [request.inputs for request in requests if request.inputs is not None]
    ids = list(chain.from_iterable(request.ids for request in requests))
    contents = [content for request in requests for content in request.contents if content is not None]
    if len(contents) < len(ids) or len(ids) > model.room or any(request.leases for request in requests):
        return None
    if not all(map(model.learner.takes, batches)):
        return None
    given = [i for i in ids if i is not None]
    if given and not _all_unknown(model, given, lookup, at_ms):
        return None
    labels = list(chain.from_iterable(request.labels for request in requests))
    kinds = list(zip(map(type, labels), labels, strict=True))  # True is 1, and another label
    numbers = {kind: model.labels.number(kind[1]) for kind in set(kinds)}
    if None in numbers.values():
        return None
    learned = Learned(
        first=model.learned + 1,
        ids=ids,
        classes=np.array([numbers[kind] for kind in kinds], np.int32),
        inputs=join_inputs(batches),
        contents=contents,
        at_ms=at_ms,
        sources=np.zeros(len(ids), np.uint8),
    )
    ends = accumulate((len(request.ids) for request in requests), initial=0)
    planned = [AllNew(begin, request.ids) for begin, request in zip(ends, requests, strict=False)]
    return Plan([*planned], [learned], len(ids))


def _all_unknown(model: Model, given: list[str], lookup: Lookup, at_ms: int) -> bool:
    """Whether these ids are all different and mean nothing yet: not learned, forgotten, offered or pending."""
    return (
        len(set(given)) == len(given)
        and not any(map(model.pool.find, given))
        and not (model.pending and any(model.pending.find(i, at_ms) for i in given))
        and not any(i.startswith(SERVER_ID) or model.answers.number_of(i) is not None for i in given)
        and not model.tombstones.known(given)
        and not lookup(given)
    )


def _take(
    model: Model,
    request: LearnRequest,
    lookup: Lookup,
    classes_max: int,
    at_ms: int,
    waiting: Mapping[str, Prediction],
    new: _New,
) -> list[PlannedExample] | ServiceError:
    """What becomes of a request's examples, which join the new ones; or the error that refuses it whole."""
    asked = [given for given in request.ids if given is not None and model.answers.find(given) is None]
    taking = _Taking(model, request, lookup(asked) if asked else {}, classes_max, at_ms, waiting, new)
    planned, row = [], 0
    try:
        for index, content in enumerate(request.contents):
            planned.append(taking.plan_of(index, None if content is None else row, content))
            row += content is not None
        _check_room(model, len(new.examples))
    except ServiceError as error:
        taking.undo()
        return error
    return planned


class _Taking:
    """One request against the model and the requests before it, whose additions it can take back."""

    def __init__(
        self,
        model: Model,
        request: LearnRequest,
        forgotten: Mapping[str, Answer],
        classes_max: int,
        at_ms: int,
        waiting: Mapping[str, Prediction],
        new: _New,
    ) -> None:
        self.model = model
        self.request = request
        self.forgotten = forgotten
        self.classes_max = classes_max
        self.at_ms = at_ms
        self.waiting = waiting
        self.new = new
        self.begin = len(new.examples)
        self.events = len(new.events)
        self.classes: list[str] = []
        self.voted: list[str] = []

    def undo(self) -> None:
        """Take back what the request has added."""
        for example in self.new.examples[self.begin :]:
            if example.given is not None:
                del self.new.by_id[example.given]
        for key in self.classes:
            del self.new.classes[key]
        for given in self.voted:
            self.new.votes[given].pop()
        del self.new.examples[self.begin :], self.new.events[self.events :]

    def plan_of(self, index: int, row: int | None, content: bytes | None) -> PlannedExample:
        """What becomes of one example; `row` of the request's x and `content` are None where it brings none."""
        batch = self.request.inputs
        given, label, token = self.request.ids[index], self.request.labels[index], self.request.lease(index)
        if given is None:
            if token is not None:
                raise Invalid(f"examples[{index}].id: an example with a lease needs its id", index=index)
            if batch is None or row is None or content is None:
                raise Invalid(f"examples[{index}].x: x is missing, and there is no id to know it by", index=index)
            return self._add(index, _Example(None, batch, row, label, content, 0))
        if self.model.tombstones.knows(given):
            raise Gone(f"examples[{index}]: the example with id {given!r} was forgotten", index=index, id=given)
        repeated = self.new.by_id.get(given)
        if repeated is not None:
            if token is None:
                self._check_same(index, content, label, repeated[0], repeated[1])
            return PlannedExample(given, repeated[2], None, duplicate=True)
        answer = self.model.answers.find(given) or self.forgotten.get(given)
        if answer is not None:
            if token is None:
                self._check_same(index, content, label, answer.content, self.model.labels.labels[answer.label])
            return PlannedExample(given, None, answer, duplicate=True)
        candidate = self.model.pool.find(given)
        if token is not None:
            return self._label_of_lease(index, given, token, candidate, content)
        prediction = self._prediction(given)
        known = candidate or prediction
        if content is None:
            if known is None:
                raise NotFound(
                    f"examples[{index}]: no x is known for the id {given!r}: it is neither in the pool nor pending",
                    index=index,
                    id=given,
                )
            batch, row, content = known.x, 0, content_of(known.digest, label)
        elif candidate is not None and content != content_of(candidate.digest, label):
            raise Conflict(f"examples[{index}]: the pool holds {given!r} with another x", index=index, id=given)
        assert batch is not None  # noqa: S101  a content is that of an x
        _check_free(self.model, given, index)
        # A prediction of another x under this id is none of this example.
        meant = prediction is not None and content == content_of(prediction.digest, label)
        source = candidate.source if candidate else prediction.source if prediction and meant else 0
        return self._add(index, _Example(given, batch, row or 0, label, content, source))

    def _prediction(self, given: str) -> Prediction | None:
        """The prediction that waits for this label once those about to be logged are (Pending.keep)."""
        kept, coming = self.model.pending.find(given, self.at_ms), self.waiting.get(given)
        return coming if kept is None or (coming is not None and coming.digest != kept.digest) else kept

    def _label_of_lease(
        self, index: int, given: str, token: str, candidate: Candidate | None, content: bytes | None
    ) -> PlannedExample:
        """The label of an annotator who has, or had, a lease: the first one wins, or the majority of several."""
        found = self.model.pool.find_lease(token)
        if found is None or candidate is None or found[0] is not candidate:
            raise NotFound(
                f"examples[{index}].lease: there is no such lease on {given!r}; ask for labels again",
                index=index,
                id=given,
            )
        label, needed, annotator = (
            self.request.labels[index],
            self.model.configuration.labels.overlap,
            found[1].annotator,
        )
        if content is not None and content != content_of(candidate.digest, label):
            raise Conflict(f"examples[{index}]: the pool holds {given!r} with another x", index=index, id=given)
        votes = [*candidate.votes, *self.new.votes.get(given, [])]
        if any(voter == annotator for voter, _ in votes):
            return PlannedExample(given, None, None, duplicate=True, votes=Votes(len(votes), needed))
        self._check_class(index, label)
        if needed > 1:
            self.new.votes.setdefault(given, []).append((annotator, label))
            self.voted.append(given)
            self.new.events.append(Voted(token, label, self.at_ms))
            votes.append((annotator, label))
            if len(votes) < needed:
                return PlannedExample(given, None, None, duplicate=False, votes=Votes(len(votes), needed))
        tally = _tally([voted for _, voted in votes])
        if tally:
            label = tally[0][0]  # the most frequent; of several, the one that came first
        content = content_of(candidate.digest, label)
        added = self._add(index, _Example(given, candidate.x, 0, label, content, found[1].source))
        return replace(added, votes=Votes(len(votes), needed, tally)) if tally else added

    def _add(self, index: int, example: _Example) -> PlannedExample:
        self._check_class(index, example.label)
        place = len(self.new.examples)
        key = label_key(example.label)
        if self.model.labels.number(example.label) is None and key not in self.new.classes:
            self.new.classes[key] = example.label
            self.classes.append(key)
        if example.given is not None:
            self.new.by_id[example.given] = (example.content, example.label, place)
        self.new.examples.append(example)
        return PlannedExample(example.given, place, None, duplicate=False)

    def _check_same(
        self, index: int, content: bytes | None, label: Label, learned: bytes, learned_label: Label
    ) -> None:
        same = label_key(label) == label_key(learned_label) if content is None else content == learned
        if not same:
            given = self.request.ids[index]
            raise Conflict(
                f"examples[{index}]: the example with id {given!r} was learned with another x or y",
                index=index,
                id=given,
            )

    def _check_class(self, index: int, label: Label) -> None:
        model, key = self.model, label_key(label)
        if model.labels.number(label) is not None or key in self.new.classes:
            return
        if model.configuration.classes is not None:
            allowed = ", ".join(label_key(known) for known in model.labels.labels)
            raise Invalid(f"examples[{index}].y: the classes are declared as {allowed}, got {key}", index=index)
        if len(model.labels) + len(self.new.classes) >= self.classes_max:
            raise Invalid(
                f"examples[{index}].y: a model has at most {self.classes_max} classes, {key} is one more", index=index
            )


def _tally(labels: Sequence[Label]) -> list[tuple[Label, int]]:
    """How often each label was given, the most frequent first, of those the earliest."""
    by_key = {label_key(label): label for label in reversed(labels)}
    return [(by_key[key], count) for key, count in Counter(map(label_key, labels)).most_common()]


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


def _check_room(model: Model, examples: int) -> None:
    solver = model.solver
    if examples > model.room:
        raise ModelFull(
            f"the model holds {solver.live} points of at most points_max = {solver.points_max}; finish it to drop what "
            "is no support vector, or use another model"
        )


def _learned(model: Model, new: Sequence[_Example], at_ms: int) -> list[ModelEvent]:
    """The new examples as events; a class is added right before its first example."""
    if not new:
        return []
    # A candidate that was imported does not say of which kernel its norms are.
    inputs = model.learner.rows(join_inputs(_runs(new)))
    numbers = {label_key(label): number for number, label in enumerate(model.labels.labels)}
    events: list[ModelEvent] = []
    classes: list[int] = []
    begin = 0

    def learned(end: int) -> None:
        if end > begin:
            events.append(
                Learned(
                    first=model.learned + begin + 1,
                    ids=[example.given for example in new[begin:end]],
                    classes=np.array(classes[begin:end], np.int32),
                    inputs=inputs.part(begin, end),
                    contents=[example.content for example in new[begin:end]],
                    at_ms=at_ms,
                    sources=np.array([example.source for example in new[begin:end]], np.uint8),
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


def _runs(new: Sequence[_Example]) -> list[Inputs]:
    """The examples' x in order; neighbours in a batch stay together."""
    runs: list[tuple[Inputs, int, int]] = []
    for example in new:
        if runs and runs[-1][0] is example.batch and runs[-1][2] == example.row:
            runs[-1] = (example.batch, runs[-1][1], example.row + 1)
        else:
            runs.append((example.batch, example.row, example.row + 1))
    return [batch.part(begin, end) for batch, begin, end in runs]
