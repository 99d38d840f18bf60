"""Changing what was learned: forgetting, correcting, another configuration, challengers.

Like the questions of ask.py each command says which events it makes of the model as it stands. What a solver
cannot do in place begins a job (service/engine/jobs/background.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from hinged.service import limits
from hinged.service.commands.ask import Planned
from hinged.service.commands.taking import revised
from hinged.service.data.classes import Label, check_label, label_key
from hinged.service.data.configuration import BESIDE, configured_anew, parse_configuration
from hinged.service.data.examples import SERVER_ID
from hinged.service.data.inputs import Inputs, content_of
from hinged.service.data.names import MODEL_NAME
from hinged.service.data.parts import Configuration
from hinged.service.errors import (
    Conflict,
    Gone,
    Invalid,
    NotFound,
)
from hinged.service.model.events.changes import (
    ChallengerPromoted,
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
    """What the log says of an id: the position, and number, x, its digest and the class number of the example.

    None for what is not known.
    """

    position: int
    number: int
    digest: bytes | None
    x: Inputs | None = None
    label: int | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """An example is to leave no trace. located: where the log has it; waiting: a prediction of it is not yet logged."""

    given: str
    located: Located | None = None
    waiting: bool = False

    def plan(self, model: Model, now_ms: int) -> Planned:
        """NotFound for an id that nobody knows. Asked again it answers what became of the first time."""
        if model.tombstones.knows(self.given):
            running = [job.at for job in model.jobs.running() if job.kind == "forget"]
            return Planned([], lambda model: _answer(model, max(running, default=None)))
        number = number_of(model, self.given, self.located)
        waits = self.waiting or model.pool.find(self.given) is not None or model.pending.find(self.given, 0) is not None
        if number is None and not waits and self.located is None:
            raise NotFound(f"there is no example {self.given!r}", id=self.given)
        salt = model.tombstones.fresh_salt()
        event = ExampleForgotten(model.tombstones.mark_of(self.given, salt), salt, number, now_ms)
        at = model.position + 1
        return Planned([event], lambda model: _answer(model, at))


@dataclass(frozen=True, slots=True)
class Correct:
    """An example has another label."""

    given: str
    label: Label
    classes_max: int
    located: Located | None = None
    annotator: str | None = None  # who changes an answer of his own
    changed_ms: int | None = None  # when another program changed it

    def plan(self, model: Model, now_ms: int) -> Planned:
        """NotFound for an example that was not learned, Gone for one that is forgotten, Invalid for the label."""
        if model.tombstones.knows(self.given):
            raise Gone(f"the example {self.given!r} was forgotten", id=self.given)
        number = number_of(model, self.given, self.located)
        if number is None:
            raise NotFound(f"there is no learned example {self.given!r}", id=self.given)
        events = revised(model, self.given, self.changed_ms, now_ms)
        label = class_of(model, self.label, self.classes_max)
        if label == len(model.labels):
            events.append(ClassAdded(self.label))
        # Without an x there is nothing that a repetition could be compared with but the label.
        digest = self.located.digest if self.located is not None else None
        content = content_of(digest or b"", self.label)
        if model.corrections.get(number) == label:  # asked again
            running = [job.at for job in model.jobs.running() if (job.kind, job.number) == ("correct", number)]
            return Planned(events, lambda model: _answer(model, max(running, default=None)))
        events.append(LabelCorrected(number, label, content.hex(), now_ms, self.annotator))
        at = model.position + len(events)
        return Planned(events, lambda model: _answer(model, at if model.jobs.find(at) else None))


@dataclass(frozen=True, slots=True)
class Hear:
    """Another program has changed what it keeps under this id, and no example is to change by that."""

    given: str
    changed_ms: int

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Nothing where that is known."""
        return Planned(revised(model, self.given, self.changed_ms, now_ms), lambda _: {})


@dataclass(frozen=True, slots=True)
class Configure:
    """Another configuration: what is named changes, the rest stays."""

    changes: dict[str, Any]
    settings: Settings

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Invalid for a configuration that is none, Conflict for what makes it another model."""
        planned = [job for job in model.jobs.running() if job.configuration is not None and job.kind == "configure"]
        base = planned[-1].configuration if planned else model.configuration.model_dump(mode="json")
        configuration = changed(base or {}, self.changes, self.settings)
        facts = configuration.model_dump(mode="json")
        if planned and planned[-1].configuration == facts:  # asked again
            return Planned([], lambda model: _answer(model, planned[-1].at))
        if not planned and configuration.same_as(model.configuration):
            return Planned([], lambda model: _answer(model, None))
        if not planned and in_place(model, configuration):
            return Planned([ModelReconfigured(facts, now_ms)], lambda model: _answer(model, None))
        at = model.position + 1
        return Planned([ChangeIntended(facts, None, now_ms)], lambda model: _answer(model, at))


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenger of this name: the model's configuration with changes, taught from the log, then from the stream."""

    shadow: str
    changes: dict[str, Any]
    settings: Settings

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Conflict where there are as many as there may be, or one of this name with another configuration."""
        if not MODEL_NAME.fullmatch(self.shadow):
            raise Invalid(f"a challenger's name is made like a model's, got {self.shadow[:80]!r}")
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
            raise Conflict(f"a model has at most {limits.SHADOWS_MAX} challengers")
        at = model.position + 1
        return Planned([ChangeIntended(facts, self.shadow, now_ms)], lambda model: _answer(model, at))


@dataclass(frozen=True, slots=True)
class Retire:
    """A challenger goes."""

    shadow: str

    def plan(self, model: Model, now_ms: int) -> Planned:
        """NotFound if there is none of this name."""
        _check_shadow(model, self.shadow, running=True)
        return Planned([ChallengerRetired(self.shadow, now_ms)], lambda _: {"shadow": self.shadow, "deleted": True})


@dataclass(frozen=True, slots=True)
class Promote:
    """A challenger takes the model's place."""

    shadow: str

    def plan(self, model: Model, now_ms: int) -> Planned:
        """NotFound if there is none of this name, Conflict while it is not taught or when it stopped."""
        _check_shadow(model, self.shadow, running=False)
        stopped = model.shadows[self.shadow].stopped
        if stopped is not None:
            raise Conflict(f"challenger {self.shadow!r} has stopped: {stopped}")
        if any(job.folds or job.kind == "configure" for job in model.jobs.running()):
            raise Conflict("the model is being taught anew; promote the challenger when that is done")
        return Planned([ChallengerPromoted(self.shadow, now_ms)], lambda model: _answer(model, None))


def class_of(model: Model, label: Label, classes_max: int) -> int:
    """The number of a label's class, that of the next class for a new one. Invalid for a label that may not come."""
    check_label(label, "y")
    number = model.labels.number(label)
    if number is not None:
        return number
    key = label_key(label)
    if model.configuration.classes is not None:
        raise Invalid(f"y: the classes are declared, and {key} is none of them")
    if len(model.labels) >= classes_max:
        raise Invalid(f"y: a model has at most {classes_max} classes, {key} is one more")
    return len(model.labels)


def number_of(model: Model, given: str, located: Located | None) -> int | None:
    """The number of the learned example with this id."""
    number = model.answers.number_of(given)
    if number is not None and given.startswith(SERVER_ID) and number < model.answers.oldest:
        # It may have an id of its own. Of a point that is known; else the log tells.
        held = any(np.isin(number, learner.solver.keys()) for learner in (model.learner, *model.shadows.values()))
        number = number if held and number not in model.old_ids else None
    if number is None:
        number = next((number for number, own in model.old_ids.items() if own == given), None)
    if number is None and located is not None and model.counts(located.position):
        number = located.number
    return None if number in model.tombstones.numbers else number


def changed(base: dict[str, Any], changes: dict[str, Any], settings: Settings) -> Configuration:
    """A configuration with some parts changed. Invalid if that is none, or another model."""
    facts = configured_anew(base, changes)
    for name in ("features", "classes"):
        if facts.get(name) != base.get(name):
            raise Invalid(f"{name}: a model's {name} cannot be changed; make another model")
    return parse_configuration(json.dumps(facts), settings)


def in_place(model: Model, configuration: Configuration) -> bool:
    """Whether the solver can go there without being taught anew."""
    then, now = model.configuration.model_dump(), configuration.model_dump()
    differ = {name for name in now if then.get(name) != now[name]}
    if differ <= BESIDE:
        return True
    of_distance = configuration.kernel.family.distance is not None
    kernel_stays = "kernel" not in differ or (of_distance and then["kernel"]["type"] == now["kernel"]["type"])
    return model.learner.exact and kernel_stays and differ <= BESIDE | {"C", "class_weight", "kernel"}


def _check_shadow(model: Model, name: str, *, running: bool) -> None:
    if name in model.shadows:
        return
    if any(job.shadow == name for job in model.jobs.running()):
        if running:
            return
        raise Conflict(f"challenger {name!r} is being taught; see its job")
    raise NotFound(f"there is no challenger {name!r}")


def _answer(model: Model, job: int | None) -> dict[str, Any]:
    """Where a change is seen: a job that goes on, or the solver's certificate."""
    if job is not None:
        return {"at": job, "folds": bool((found := model.jobs.find(job)) and found.folds)}
    return {"certificate": model.solver.certificate()}
