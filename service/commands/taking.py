"""Process one learn request: decide what happens to each example, given the model and the earlier requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hinged.service.commands.agreement import combined
from hinged.service.commands.planned import CollectedLabels, LearnRequest, NewExample, PlannedExample
from hinged.service.data.classes import Label, label_key
from hinged.service.data.examples import SERVER_ID
from hinged.service.data.inputs import content_of
from hinged.service.data.parts import Labelling
from hinged.service.errors import Conflict, Gone, Invalid, ModelFull, NotFound, ServiceError
from hinged.service.model.answers import FirstAnswer
from hinged.service.model.events import ModelEvent
from hinged.service.model.events.labelling import VoteCast
from hinged.service.model.events.learning import ExampleRevised
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.model.pool import Candidate


def revised(model: Model, given: str, changed_ms: int | None, at_ms: int) -> list[ModelEvent]:
    """Return the event that records when another program changed an example. Return no event if the time is unknown or
    already recorded.
    """
    return [] if changed_ms in (None, model.revisions.of(given)) else [ExampleRevised(given, changed_ms or 0, at_ms)]


def weights_fit(model: Model, weights: np.ndarray[Any, Any] | None) -> bool:
    """Return whether the model's solver allows these weights."""
    try:
        model.learner.check_weights(np.ones(0) if weights is None else weights)
    except ValueError:
        return False
    return True


Lookup = Callable[[Sequence[str]], Mapping[str, FirstAnswer]]
"""A function that returns the first answers of ids that are in the log although the model has dropped these answers."""


@dataclass(slots=True)
class NewExamples:
    """Everything that the requests so far have added. by_id: the content, label and index in `examples` of an id.
    votes: the votes by candidate.
    """

    examples: list[NewExample] = field(default_factory=list)
    by_id: dict[str, tuple[bytes, Label, int]] = field(default_factory=dict)
    classes: dict[str, Label] = field(default_factory=dict)
    votes: dict[str, list[tuple[str, Label]]] = field(default_factory=dict)
    events: list[ModelEvent] = field(default_factory=list)


def take(
    model: Model,
    request: LearnRequest,
    lookup: Lookup,
    classes_max: int,
    at_ms: int,
    waiting: Mapping[str, Prediction],
    new: NewExamples,
) -> list[PlannedExample] | ServiceError:
    """Add the new examples of a request, and return what happens to each of its examples. If the request is refused as
    a whole, return the error.
    """
    asked = [given for given in request.ids if given is not None and model.answers.find(given) is None]
    taking = _Taking(model, request, lookup(asked) if asked else {}, classes_max, at_ms, waiting, new)
    planned, row = [], 0
    try:
        _check_weights(model, request)
        for index, content in enumerate(request.contents):
            planned.append(taking.plan_of(index, None if content is None else row, content))
            taking.note_revision(index)
            row += content is not None
        _check_room(model, len(new.examples))
    except ServiceError as error:
        taking.undo()
        return error
    return planned


class _Taking:
    """Processes one request, given the model and the earlier requests. `undo` removes everything that the request has
    added.
    """

    def __init__(
        self,
        model: Model,
        request: LearnRequest,
        forgotten: Mapping[str, FirstAnswer],
        classes_max: int,
        at_ms: int,
        waiting: Mapping[str, Prediction],
        new: NewExamples,
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
        """Undo what the request has added."""
        for example in self.new.examples[self.begin :]:
            if example.given is not None:
                del self.new.by_id[example.given]
        for key in self.classes:
            del self.new.classes[key]
        for given in self.voted:
            self.new.votes[given].pop()
        del self.new.examples[self.begin :], self.new.events[self.events :]

    def note_revision(self, index: int) -> None:
        """Note when another program last changed its copy of the example."""
        given = self.request.ids[index]
        if self.request.elsewhere and given is not None:
            self.new.events += revised(self.model, given, self.request.elsewhere[index].changed_ms, self.at_ms)

    def plan_of(self, index: int, row: int | None, content: bytes | None) -> PlannedExample:
        """Return what happens to one example. `row` (in the request's x) and `content` are None if the example has no
        x.
        """
        batch = self.request.inputs
        given, label, token = self.request.ids[index], self.request.labels[index], self.request.lease(index)
        weight = self.request.weight(index)
        if given is None:
            if token is not None:
                raise Invalid(f"examples[{index}].id: an example with a lease needs its id", index=index)
            if batch is None or row is None or content is None:
                raise Invalid(
                    f"examples[{index}].x: x is missing, and without an id it cannot be looked up", index=index
                )
            return self._add(index, NewExample(None, batch, row, label, content, 0, weight=weight))
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
                    f"examples[{index}]: no x is known for the id {given!r}: it is not in the pool, nor pending",
                    index=index,
                    id=given,
                )
            batch, row, content = known.x, 0, content_of(known.digest, label)
        elif candidate is not None and content != content_of(candidate.digest, label):
            raise Conflict(f"examples[{index}]: the pool has {given!r} with another x", index=index, id=given)
        assert batch is not None  # noqa: S101  an example with content has an x
        _check_free(self.model, given, index)
        # If a prediction under this id has a different x, it does not belong to this example.
        meant = prediction is not None and content == content_of(prediction.digest, label)
        # A question of `decide` is in the pool without a lease, and its prediction says that it was asked for.
        leased = candidate.source if candidate else 0
        source = leased or (prediction.source if prediction and meant else 0)
        if prediction is not None and meant and weights_fit(self.model, np.array([weight * prediction.weight])):
            weight *= prediction.weight  # the solver may have changed since, and take no weights
        annotator = None
        if self.request.elsewhere:
            annotator, source, _ = self.request.elsewhere[index]
        return self._add(index, NewExample(given, batch, row or 0, label, content, source, annotator, weight=weight))

    def _prediction(self, given: str) -> Prediction | None:
        """Return the prediction that will wait for this label after the predictions in `waiting` are logged
        (Pending.keep).
        """
        kept, coming = self.model.pending.find(given, self.at_ms), self.waiting.get(given)
        return coming if kept is None or (coming is not None and coming.digest != kept.digest) else kept

    def _label_of_lease(
        self, index: int, given: str, token: str, candidate: Candidate | None, content: bytes | None
    ) -> PlannedExample:
        """Accept the label of an annotator who has or had a lease. The first label is learned. If the candidate needs
        several labels, the combined label is learned.
        """
        found = self.model.pool.find_lease(token)
        if found is None or candidate is None or found[0] is not candidate:
            raise NotFound(
                f"examples[{index}].lease: {given!r} has no lease with this token; ask for labels again",
                index=index,
                id=given,
            )
        label, annotator, labelling = self.request.labels[index], found[1].annotator, self.model.configuration.labels
        if content is not None and content != content_of(candidate.digest, label):
            raise Conflict(f"examples[{index}]: the pool has {given!r} with another x", index=index, id=given)
        votes = [*candidate.votes, *self.new.votes.get(given, [])]
        if any(voter == annotator for voter, _ in votes):
            needed = _needed([voted for _, voted in votes], labelling)
            return PlannedExample(given, None, None, duplicate=True, votes=CollectedLabels(len(votes), needed))
        self._check_class(index, label)
        needed = 1
        if labelling.overlap > 1:
            self.new.votes.setdefault(given, []).append((annotator, label))
            self.voted.append(given)
            self.new.events.append(VoteCast(token, label, self.at_ms))
            votes.append((annotator, label))
            needed = _needed([voted for _, voted in votes], labelling)
            if len(votes) < needed:
                return PlannedExample(given, None, None, duplicate=False, votes=CollectedLabels(len(votes), needed))
        tally = _tally([voted for _, voted in votes])
        if tally:
            label = tally[0][0]  # the most frequent label; if several are equally frequent, the label that came first
        if len(tally) > 1 and labelling.combine == "reliability":
            label = combined(self.model, given, votes)
        content = content_of(candidate.digest, label)
        asked = (found[1].source, annotator, votes)
        added = self._add(index, NewExample(given, candidate.x, 0, label, content, *asked))
        return replace(added, votes=CollectedLabels(len(votes), needed, tally)) if tally else added

    def _add(self, index: int, example: NewExample) -> PlannedExample:
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
            raise Invalid(f"examples[{index}].y: the model's declared classes are {allowed}, got {key}", index=index)
        if len(model.labels) + len(self.new.classes) >= self.classes_max:
            raise Invalid(
                f"examples[{index}].y: a model may have at most {self.classes_max} classes, and {key} would be another",
                index=index,
            )


def _needed(labels: Sequence[Label], labelling: Labelling) -> int:
    """Return how many labels a candidate needs, given its labels so far. A tie needs one more label, up to
    `tie_breakers` more.
    """
    tally = _tally(labels)
    tied = len(tally) > 1 and tally[0][1] == tally[1][1]
    if not tied or len(labels) < labelling.overlap:
        return max(labelling.overlap, len(labels))
    return min(len(labels) + 1, labelling.overlap + labelling.tie_breakers)


def _tally(labels: Sequence[Label]) -> list[tuple[Label, int]]:
    """Return how often each label was given. The most frequent label comes first; among equals, the earliest label."""
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
    raise Invalid(f"examples[{index}].id: ids that begin with {SERVER_ID} are reserved for the server", index=index)


def _check_weights(model: Model, request: LearnRequest) -> None:
    """Refuse a weight that the solver does not allow, and a weight of an annotator's label."""
    if not request.weights:
        return
    weights = np.array(request.weights)
    own = np.flatnonzero(weights != 1.0)
    for index in own.tolist() if request.leases else ():
        if request.lease(index) is not None:
            raise Invalid(f"examples[{index}].weight: an example with a lease has no weight of its own", index=index)
    try:
        model.learner.check_weights(weights[own])
    except ValueError:
        for index in own.tolist():  # find the first, because the error names it
            _check_weight(model, index, weights[index])


def _check_weight(model: Model, index: int, weight: float) -> None:
    try:
        model.learner.check_weights(np.array([weight]))
    except ValueError as error:
        raise Invalid(f"examples[{index}].weight: {error}", index=index) from None


def _check_room(model: Model, examples: int) -> None:
    solver = model.solver
    if examples > model.room:
        raise ModelFull(
            f"the model holds {solver.live} points, of at most points_max = {solver.points_max}; finish it to drop "
            "points that are no support vectors, or use another model"
        )
