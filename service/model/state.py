"""The parts of a model, and the only binary form of a model: the snapshot. A snapshot is written in one piece and
checked when it is read.

A snapshot may come from a file that anybody wrote. A state with inconsistent parts is refused, because compiled code
does not check bounds later.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from copy import copy
from typing import Any, Self, TypeVar

import numpy as np

from hinged.frames import BadFrame, decode, encode, part, peek, prefixed
from hinged.service import limits
from hinged.service.data.classes import Labels, label_key
from hinged.service.data.inputs import Inputs
from hinged.service.data.parts import Configuration
from hinged.service.model.annotators import Annotators
from hinged.service.model.answers import FirstAnswers
from hinged.service.model.curves import Curves
from hinged.service.model.decisions.alerts import Alerts
from hinged.service.model.decisions.rations import Rations
from hinged.service.model.hooks import Hooks
from hinged.service.model.jobs import Jobs
from hinged.service.model.learner import ModelLearner
from hinged.service.model.metrics import UNKNOWN, Prequential
from hinged.service.model.novelty import Novelty
from hinged.service.model.pending import Pending
from hinged.service.model.pool import Pool
from hinged.service.model.receipts import Ledger
from hinged.service.model.revisions import Revisions
from hinged.service.model.schema import FACTS
from hinged.service.model.tombstones import Tombstones
from hinged.solvers.core.solver import Solver, columns_of

Array = np.ndarray[Any, Any]
Part = TypeVar("Part", Pool, Pending)

SNAPSHOT = "model"
FORMAT = 3  # format of snapshots; CHANGELOG.md lists the changes
LATER = ("curves", "annotators", "revisions")  # parts that older snapshots lack


class State:
    """All parts of a model: its learners, first answers, pool, pending predictions, jobs and the rest."""

    def __init__(
        self,
        name: str,
        configuration: Configuration,
        learner: ModelLearner | None = None,
        /,
        *,
        cache_bytes: int,
        answers_kept: int,
    ) -> None:
        """learner: a learner of this configuration that has already learned. By default, a new learner is made."""
        self.name = name
        self.cache_bytes = cache_bytes
        self.position = 0
        self.learned = 0
        self.at_ms = 0
        self.undone: list[tuple[int, int]] = []  # (to, at) of each rollback: no event between the two positions counts
        self.reads_back_at = 0  # position of the newest event that is applied by reading earlier events
        self.floor = 0  # states before this position must not be rebuilt: an example was forgotten here
        self.learner = learner or ModelLearner(configuration, cache_bytes)
        self._read_for = self.learner.solver  # the solver for whose columns the novelty has read x
        self.shadows: dict[str, ModelLearner] = {}  # challengers, by name
        self.answers = FirstAnswers(answers_kept)
        self.old_ids: dict[int, str] = {}  # ids of points whose first answers were dropped, by number
        self.pool = Pool(configuration.labels.pool_max)
        self.pending = Pending(configuration.labels.pending_max, round(1000 * configuration.labels.pending_s))
        self.tombstones = Tombstones()
        self.corrections: dict[int, int] = {}  # by example number: classes that differ from the log's label
        self.jobs = Jobs()
        self.set_aside: list[tuple[int, str]] = []  # positions and kinds of events that could not be applied
        self.curves = Curves()
        self.annotators = Annotators()
        self.revisions = Revisions()
        self.hooks = Hooks()
        self.rations = Rations.new(configuration.capacity)
        self.alerts = Alerts()
        self.receipts: Ledger | None = None
        self.novelty = None if configuration.novelty is None else Novelty().watched(configuration.alarm)

    @property
    def configuration(self) -> Configuration:
        """Return the configuration of the learner that predicts."""
        return self.learner.configuration

    @property
    def solver(self) -> Solver:
        """Return the solver of the learner that predicts."""
        return self.learner.solver

    @property
    def labels(self) -> Labels:
        """Return the classes."""
        return self.learner.labels

    @property
    def metrics(self) -> Prequential:
        """Return the metrics of the model's predictions."""
        return self.learner.metrics

    @property
    def learners(self) -> list[ModelLearner]:
        """Return the learner that predicts, and the challengers."""
        return [self.learner, *self.shadows.values()]

    @property
    def room(self) -> int:
        """Return the number of examples that may still come before points_max is reached."""
        return self.learner.room

    def memory_bytes(self) -> int:
        """Return the memory of points, coefficients and kernel rows in bytes, including the challengers' memory and the
        novelty's.
        """
        own = 0 if self.novelty is None else self.novelty.memory_bytes()
        return own + sum(learner.solver.memory_bytes() for learner in self.learners)

    # -- writing and reading --------------------------------------------------------------------------------------

    def draft(self, own: Collection[str | None]) -> Self:
        """Return a copy of the state in which learners can be replaced.

        The copy has its own pool and its own pending predictions. The copy also has its own copies of the learners that
        `own` names; None names the learner that predicts. Everything else is shared with the original. In the copy, a
        shared part may be replaced as a whole, but not changed in place.
        """
        draft = copy(self)
        draft.pool = _copied(self.pool, Pool(self.pool.most))
        draft.pending = _copied(self.pending, Pending(self.pending.most, self.pending.age_ms))
        draft.learner = self.learner.copy() if None in own else self.learner
        draft.shadows = {name: shadow.copy() if name in own else shadow for name, shadow in self.shadows.items()}
        return draft

    def snapshot(self) -> bytes:
        """Return the whole state as one frame."""
        return encode(SNAPSHOT, *self.contents(), long=True)

    def contents(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the facts and arrays of a snapshot. They may share memory with the state."""
        facts: dict[str, Any] = {
            "format": FORMAT,
            "position": self.position,
            "learned": self.learned,
            "at_ms": self.at_ms,
            "undone": self.undone,
            "reads_back_at": self.reads_back_at,
            "floor": self.floor,
            "old_ids": sorted(self.old_ids.items()),
            "corrections": sorted(self.corrections.items()),
            "jobs": self.jobs.state(),
            "set_aside": self.set_aside,
            "shadows": {},
        }
        if self.hooks:
            facts["hooks"] = self.hooks.state()
        arrays: dict[str, Array] = {}
        if self.alerts:
            facts["alerts"] = self.alerts.state()
        if self.receipts is not None:
            facts["receipts"] = self.receipts.state()
        if self.rations:
            facts["rations"], own = self.rations.state()
            arrays |= prefixed("rations.", own)
        if self.novelty is not None:
            facts["novelty"], own = self.novelty.state()
            arrays |= prefixed("novelty.", own)
        for name, each in self._parts().items():
            facts[name], own = each.state()
            arrays |= prefixed(f"{name}.", own)
        for name, shadow in self.shadows.items():
            facts["shadows"][name], own = shadow.state()
            arrays |= prefixed(f"shadows.{name}/", own)
        return facts, arrays

    def _parts(self) -> dict[str, Any]:
        """Return the parts that have their own facts and arrays."""
        return {
            "learner": self.learner,
            "answers": self.answers,
            "pool": self.pool,
            "pending": self.pending,
            "traces": self.tombstones,
            "curves": self.curves,
            "annotators": self.annotators,
            "revisions": self.revisions,
        }

    @classmethod
    def restore(cls, name: str, snapshot: bytes, *, cache_bytes: int, answers_kept: int) -> Self:
        """Return the state of a snapshot. Raise ValueError (BadFrame) if the bytes are not a snapshot or are
        inconsistent.
        """
        facts, arrays = decode(snapshot, SNAPSHOT)
        if facts.get("format") != FORMAT:
            raise BadFrame(f"the snapshot must have format {FORMAT}, got {facts.get('format')}")
        FACTS.validate_python(facts)
        try:
            return cls._restore(name, facts, arrays, cache_bytes, answers_kept)
        except (KeyError, TypeError, IndexError, OverflowError) as error:
            raise BadFrame(f"the snapshot is inconsistent: {error!r}") from error

    @classmethod
    def _restore(
        cls, name: str, facts: dict[str, Any], arrays: dict[str, Array], cache_bytes: int, answers_kept: int
    ) -> Self:
        learner = ModelLearner.restore(facts["learner"], part(arrays, "learner."), cache_bytes)
        model = cls(name, learner.configuration, learner, cache_bytes=cache_bytes, answers_kept=answers_kept)
        for shadow, own in facts["shadows"].items():
            model.shadows[shadow] = ModelLearner.restore(own, part(arrays, f"shadows.{shadow}/"), cache_bytes)
        for key, own in model._parts().items():
            if key != "learner" and (key in facts or key not in LATER):
                own.load(facts[key], part(arrays, f"{key}."))
        model.old_ids, model.corrections = dict(facts["old_ids"]), dict(facts["corrections"])
        if len(model.old_ids) < len(facts["old_ids"]) or len(model.corrections) < len(facts["corrections"]):
            raise ValueError("an example is listed twice")
        model.position, model.learned, model.at_ms = facts["position"], facts["learned"], facts["at_ms"]
        model.undone = [(to, at) for to, at in facts["undone"]]
        model.reads_back_at, model.floor = facts["reads_back_at"], facts["floor"]
        model.jobs.load(facts["jobs"])
        model.set_aside = [(at, kind) for at, kind in facts.get("set_aside", [])]
        model.hooks = Hooks.of(facts.get("hooks"))
        model.alerts = Alerts.of(facts.get("alerts"))
        model.receipts = Ledger.of(facts.get("receipts"))
        model.rations = model.rations.loaded(facts.get("rations", {}), part(arrays, "rations."))
        if (model.novelty is None) != ("novelty" not in facts):
            raise ValueError("the snapshot's novelty differs from its configuration")
        if model.novelty is not None:
            model.novelty = model.novelty.loaded(facts["novelty"], part(arrays, "novelty."))
        model._check(arrays)
        return model

    def _check(self, arrays: dict[str, Array]) -> None:
        """Refuse a state with inconsistent parts."""
        classes = len(self.labels)
        if classes != len({label_key(label) for label in self.labels.labels}):
            raise ValueError("the snapshot lists a label twice")
        for name in ("answers.labels", "answers.predictions", "pending.numbers"):
            numbers = arrays.get(name, np.zeros(0, np.int32))
            if numbers.size and not UNKNOWN <= numbers.min() <= numbers.max() < classes:
                raise ValueError(f"{name} must be numbers of {classes} classes")
        if self.answers.newest != self.learned:
            raise ValueError(f"the snapshot has learned {self.learned} examples, but answered {self.answers.newest}")
        self._check_learners()
        self.curves.check(self.position, self.learned, self.at_ms)
        self.hooks.check(self.position)
        for name, numbered in (
            ("corrections", self.corrections.keys()),
            ("old_ids", self.old_ids.keys()),
            ("traces", self.tombstones.numbers),
        ):
            if not all(1 <= number <= self.learned for number in numbered):
                raise ValueError(f"{name} must be among the {self.learned} learned examples")
        if not all(0 <= label < classes for label in self.corrections.values()):
            raise ValueError(f"corrected labels must be numbers of {classes} classes")
        self._check_waiting()

    def _check_learners(self) -> None:
        if self.learner.stopped is not None:
            raise ValueError("the model's own learner has stopped")
        if len(self.shadows) > limits.SHADOWS_MAX:
            raise ValueError(
                f"a model may have at most {limits.SHADOWS_MAX} challengers, the snapshot has {len(self.shadows)}"
            )
        for learner in self.learners:
            numbers = learner.numbers()
            if numbers.size and not 1 <= numbers.min() <= numbers.max() <= self.learned:
                raise ValueError(f"a learner holds examples outside the {self.learned} learned")
            if learner.metrics.added > self.learned or learner.ages.newest_ms > self.at_ms:
                raise ValueError("a learner has counted more examples than were learned")
            if learner.learned > self.learned:
                raise ValueError(f"the snapshot has learned {self.learned} examples, but a learner more of them")
        for shadow in self.shadows.values():
            if shadow.configuration.features != self.configuration.features:
                raise ValueError("a challenger has other features than the model")
            if list(map(label_key, shadow.labels.labels)) != list(map(label_key, self.labels.labels)):
                raise ValueError("a challenger has other classes than the model")

    def _check_waiting(self) -> None:
        """Check the candidates, and the predictions that wait for their labels."""
        if not self.pool.disagreed <= self.pool.answered <= self.learned:
            raise ValueError(
                f"{self.pool.answered} answered candidates do not fit {self.pool.disagreed} with different labels"
            )
        classes = len(self.labels)
        if any(p.columns.size > columns_of(classes) for p in self.pending):
            raise ValueError(f"a pending prediction has more columns than {classes} classes")
        if len(self.pool) > self.pool.most or len(self.pending) > self.pending.most:
            raise ValueError("the snapshot has more candidates or pending predictions than its configuration allows")
        waiting = [*(candidate.x for candidate in self.pool), *(p.x for p in self.pending)]
        if self.novelty is not None:
            waiting += self.novelty.xs
            self.novelty.check(self.configuration.features.dim, self.configuration.dtype)
        if waiting:
            self._check_x(waiting)

    def _check_x(self, batches: list[Inputs]) -> None:
        """Refuse an x whose form, width, precision or norm differs from the model's."""
        if not self.configuration.features.check_held(batches, self.configuration, self.solver.kernel):
            raise ValueError("the snapshot has an x of another form, width, precision or norm than the model's")


def was_undone(undone: Iterable[tuple[int, int]], position: int) -> bool:
    """Return whether one of these rollbacks has undone an event. Each rollback is (the position it returns to, its own
    position).
    """
    return any(to < position < at for to, at in undone)


def _copied(part: Part, fresh: Part) -> Part:
    facts, arrays = part.state()
    fresh.load(json.loads(json.dumps(facts)), arrays)
    return fresh


def answers_of(snapshot: bytes) -> FirstAnswers:
    """Return the first answers of a snapshot."""
    facts, arrays = decode(snapshot, SNAPSHOT)
    answers = FirstAnswers(max(1, len(facts["answers"]["ids"])))
    answers.load(facts["answers"], part(arrays, "answers."))
    return answers


def ids_of(snapshot: bytes) -> list[str | None]:
    """Return the ids of the examples that a snapshot names."""
    facts = peek(snapshot, SNAPSHOT)
    learners = (facts.get("learner", {}), *facts.get("shadows", {}).values())
    return [
        *facts["answers"]["ids"],
        *(given for _, given in facts.get("old_ids", ())),
        *(candidate["id"] for candidate in facts.get("pool", {}).get("candidates", ())),
        *facts.get("pending", {}).get("ids", ()),
        *(answer["id"] for answer in facts.get("annotators", {}).get("answers", ())),
        *(given for given, _ in facts.get("revisions", {}).get("newest", ())),
        *(alert[0] for part in ("waiting", "closed") for alert in facts.get("alerts", {}).get(part, ())),
        *facts.get("novelty", {}).get("ids", ()),
        *facts.get("novelty", {}).get("alarm", {}).get("ids", ()),
        *(given for learner in learners for given in learner.get("warm_ids", ())),
    ]
