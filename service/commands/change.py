"""Commands that change what was learned: forget, correct, reconfigure, and manage challengers.

As in ask.py, each command returns the events that it makes for the model's current state. If the solver cannot make a
change in place, the event begins a job (service/engine/jobs/background.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from hinged.service import limits
from hinged.service.commands.ask import Planned
from hinged.service.commands.taking import revised
from hinged.service.data.classes import Label, check_label, label_key
from hinged.service.data.configuration import BESIDE, configured_anew, differences, parse_configuration
from hinged.service.data.examples import SERVER_ID
from hinged.service.data.groups import FIXED
from hinged.service.data.inputs import Inputs, content_of
from hinged.service.data.names import MODEL_NAME
from hinged.service.data.parts import Configuration
from hinged.service.errors import (
    Conflict,
    Gone,
    Invalid,
    NotFound,
)
from hinged.service.model.events import ModelEvent
from hinged.service.model.events.changes import (
    ChallengerPromoted,
    ChallengerReconfigured,
    ChallengerRetired,
    ChangeIntended,
    ExampleForgotten,
    LabelCorrected,
    ModelReconfigured,
)
from hinged.service.model.events.learning import ClassAdded
from hinged.service.model.model import Model
from hinged.service.settings import Settings


@dataclass(frozen=True, slots=True)
class Located:
    """The log's record of an id: the position, and the example's number, x, digest and class number. Unknown parts are
    None.
    """

    position: int
    number: int
    digest: bytes | None
    x: Inputs | None = None
    label: int | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """Completely forget an example.

    located: what the log says about the id.
    waiting: whether a prediction of the example is not logged yet.
    named: whether the log names the example, although the model may have dropped it.
    """

    given: str
    located: Located | None = None
    waiting: bool = False
    named: bool = False

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise NotFound for an unknown id. A repeated request answers with the result of the first
        request.
        """
        if model.tombstones.knows(self.given):
            running = [job.at for job in model.jobs.running() if job.kind == "forget"]
            return Planned([], lambda model: _answer(model, max(running, default=None)))
        number = number_of(model, self.given, self.located)
        waits = self.waiting or self.named or self.given in model.alerts.ids or model.pool.find(self.given) is not None
        waits = waits or model.pending.find(self.given, 0) is not None
        waits = waits or (model.novelty is not None and self.given in model.novelty.named)
        if number is None and not waits and self.located is None:
            raise NotFound(f"there is no example {self.given!r}", id=self.given)
        salt = model.tombstones.fresh_salt()
        event = ExampleForgotten(model.tombstones.mark_of(self.given, salt), salt, number, now_ms)
        at = model.position + 1
        return Planned([event], lambda model: _answer(model, at))


@dataclass(frozen=True, slots=True)
class Correct:
    """Give a learned example a different label."""

    given: str
    label: Label
    classes_max: int
    located: Located | None = None
    annotator: str | None = None  # the annotator who changes an answer of their own
    changed_ms: int | None = None  # when another program changed the label

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise NotFound for an example that was not learned, Gone for a forgotten example, and
        Invalid for a label that is not allowed.
        """
        if model.tombstones.knows(self.given):
            raise Gone(f"the example {self.given!r} was forgotten", id=self.given)
        number = number_of(model, self.given, self.located)
        if number is None:
            raise NotFound(f"there is no learned example {self.given!r}", id=self.given)
        events = revised(model, self.given, self.changed_ms, now_ms)
        label = class_of(model, self.label, self.classes_max)
        if label == len(model.labels):
            events.append(ClassAdded(self.label))
        # Without an x, only the label can show that a request is repeated.
        digest = self.located.digest if self.located is not None else None
        content = content_of(digest or b"", self.label)
        if model.corrections.get(number) == label:  # the request is repeated
            running = [job.at for job in model.jobs.running() if (job.kind, job.number) == ("correct", number)]
            return Planned(events, lambda model: _answer(model, max(running, default=None)))
        events.append(LabelCorrected(number, label, content.hex(), now_ms, self.annotator))
        at = model.position + len(events)
        return Planned(events, lambda model: _answer(model, at if model.jobs.find(at) else None))


@dataclass(frozen=True, slots=True)
class Hear:
    """Record when another program last changed its copy of an example. The example itself does not change."""

    given: str
    changed_ms: int

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan, which has no events if the time is already known."""
        return Planned(revised(model, self.given, self.changed_ms, now_ms), lambda _: {})


@dataclass(frozen=True, slots=True)
class Configure:
    """Change parts of the configuration. The other parts stay the same."""

    changes: dict[str, Any]
    settings: Settings

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise Invalid for an invalid configuration, and for a change that would create a different
        model.
        """
        planned = [job for job in model.jobs.running() if job.configuration is not None and job.kind == "configure"]
        base = planned[-1].configuration if planned else model.configuration.model_dump(mode="json")
        configuration = changed(base or {}, self.changes, self.settings)
        facts = configuration.model_dump(mode="json")
        if planned and planned[-1].configuration == facts:  # the request is repeated
            return Planned([], lambda model: _answer(model, planned[-1].at))
        if not planned and configuration.same_as(model.configuration):
            return Planned([], lambda model: _answer(model, None))
        if not planned and in_place(model, configuration):
            events = [ModelReconfigured(facts, now_ms), *self._followed(model, facts, now_ms)]
            return Planned(events, lambda model: _answer(model, None))
        at = model.position + 1
        return Planned([ChangeIntended(facts, None, now_ms)], lambda model: _answer(model, at))

    def _followed(self, model: Model, facts: dict[str, Any], now_ms: int) -> Iterator[ModelEvent]:
        """Return the events by which the challengers follow a change of parts that affect no solver. Without them, a
        promotion would undo the change. A challenger keeps a part in which it differs from the model, and a part that
        does not fit its other parts.
        """
        then = model.configuration.model_dump(mode="json")
        taught = {name: learner.configuration.model_dump(mode="json") for name, learner in model.shadows.items()}
        coming = {job.shadow: job.configuration for job in model.jobs.running() if job.shadow and job.configuration}
        for name, own in {**taught, **coming}.items():
            parts = {part: facts[part] for part in BESIDE if facts[part] != then[part] == own.get(part)}
            kind = ChangeIntended if name in coming else ChallengerReconfigured
            if parts:
                with suppress(Invalid):
                    yield kind(changed(own, parts, self.settings).model_dump(mode="json"), name, now_ms)


@dataclass(frozen=True, slots=True)
class Challenge:
    """Start a challenger with the model's configuration and the given changes. The challenger learns the log first,
    then the stream.
    """

    shadow: str
    changes: dict[str, Any]
    settings: Settings

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise Conflict if the model already has the maximum number of challengers, or if this
        challenger has a different configuration.
        """
        if not MODEL_NAME.fullmatch(self.shadow):
            raise Invalid(f"a challenger's name must match {MODEL_NAME.pattern}, got {self.shadow[:80]!r}")
        configuration = changed(model.configuration.model_dump(mode="json"), self.changes, self.settings)
        running = next((job for job in model.jobs.running() if job.shadow == self.shadow), None)
        former = model.shadows.get(self.shadow)
        facts = configuration.model_dump(mode="json")
        if running is not None and running.configuration == facts:
            return Planned([], lambda model: _answer(model, running.at))
        if running is None and former is not None and former.configuration.same_as(configuration):
            return Planned([], lambda model: _answer(model, None))
        if running is not None or former is not None:
            raise Conflict(f"there is a challenger {self.shadow!r} with another configuration; delete it first")
        if len(model.shadows) + sum(job.kind == "shadow" for job in model.jobs.running()) >= limits.SHADOWS_MAX:
            raise Conflict(f"a model may have at most {limits.SHADOWS_MAX} challengers")
        at = model.position + 1
        return Planned([ChangeIntended(facts, self.shadow, now_ms)], lambda model: _answer(model, at))


@dataclass(frozen=True, slots=True)
class Retire:
    """Retire a challenger."""

    shadow: str

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise NotFound if no challenger has this name."""
        _check_shadow(model, self.shadow, running=True)
        return Planned([ChallengerRetired(self.shadow, now_ms)], lambda _: {"shadow": self.shadow, "deleted": True})


@dataclass(frozen=True, slots=True)
class Promote:
    """Let a challenger replace the model."""

    shadow: str

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise NotFound if no challenger has this name, and Conflict while the challenger still
        learns the log or after it has stopped.
        """
        _check_shadow(model, self.shadow, running=False)
        stopped = model.shadows[self.shadow].stopped
        if stopped is not None:
            raise Conflict(f"challenger {self.shadow!r} has stopped: {stopped}")
        if any(job.folds or job.kind == "configure" for job in model.jobs.running()):
            raise Conflict("the model is being retrained; promote the challenger when the job is done")
        return Planned([ChallengerPromoted(self.shadow, now_ms)], lambda model: _answer(model, None))


def class_of(model: Model, label: Label, classes_max: int) -> int:
    """Return the number of a label's class. A new label gets the next number. Raise Invalid for a label that is not
    allowed.
    """
    check_label(label, "y")
    number = model.labels.number(label)
    if number is not None:
        return number
    key = label_key(label)
    if model.configuration.classes is not None:
        raise Invalid(f"y: the model's classes are declared, and {key} is not among them")
    if len(model.labels) >= classes_max:
        raise Invalid(f"y: a model may have at most {classes_max} classes, and {key} would be another")
    return len(model.labels)


def number_of(model: Model, given: str, located: Located | None) -> int | None:
    """Return the number of the learned example with this id, or None."""
    number = model.answers.number_of(given)
    if number is not None and given.startswith(SERVER_ID) and number < model.answers.oldest:
        # The example with this number may have an id of its own. The model contains the ids of its points; the ids of
        # other examples are in the log.
        held = any(np.isin(number, learner.solver.keys()) for learner in (model.learner, *model.shadows.values()))
        number = number if held and number not in model.old_ids else None
    if number is None:
        number = next((number for number, own in model.old_ids.items() if own == given), None)
    if number is None and located is not None and model.counts(located.position):
        number = located.number
    return None if number in model.tombstones.numbers else number


def changed(base: dict[str, Any], changes: dict[str, Any], settings: Settings) -> Configuration:
    """Return a configuration with some parts changed. Raise Invalid if the result is invalid or would be a different
    model.
    """
    facts = configured_anew(base, changes)
    for name in FIXED:
        if facts.get(name) != base.get(name):
            raise Invalid(f"{name}: a model's {name} cannot be changed; create another model")
    return parse_configuration(json.dumps(facts), settings)


def in_place(model: Model, configuration: Configuration) -> bool:
    """Return whether the solver can adopt the configuration without being retrained."""
    differ = {*differences(configuration, model.configuration)}
    if differ <= BESIDE:
        return True
    of_distance = configuration.kernel.family.distance is not None
    same_type = model.configuration.kernel.type == configuration.kernel.type
    kernel_stays = "kernel" not in differ or (of_distance and same_type)
    return model.learner.exact and kernel_stays and differ <= BESIDE | {"C", "class_weight", "kernel"}


def _check_shadow(model: Model, name: str, *, running: bool) -> None:
    if name in model.shadows:
        return
    if any(job.shadow == name for job in model.jobs.running()):
        if running:
            return
        raise Conflict(f"challenger {name!r} is being taught; wait for its job")
    raise NotFound(f"there is no challenger {name!r}")


def _answer(model: Model, job: int | None) -> dict[str, Any]:
    """Return the job of an unfinished change, or the solver's certificate."""
    if job is not None:
        return {"at": job, "folds": bool((found := model.jobs.find(job)) and found.folds)}
    return {"certificate": model.solver.certificate()}
