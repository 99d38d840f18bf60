"""Events that forget, correct or reconfigure, and events that end such changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hinged.answers import JobKind
from hinged.service.data.configuration import read_configuration
from hinged.service.model.events.base import NOTHING, Facts, NamesNoExample, Outcome, Redacted, Untold
from hinged.service.model.jobs import Job
from hinged.service.model.tombstones import MARK_BYTES, SALT_BYTES, Tombstones

if TYPE_CHECKING:
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model


@dataclass(frozen=True, slots=True)
class ExampleForgotten(Facts, NamesNoExample, Untold):
    """An example was forgotten. mark: the keyed hash of its id (tombstones.py). salt: the key of this hash.

    number: the number of the example. None if the example was never learned.
    """

    KIND: ClassVar[str] = "forgotten"
    mark: str
    salt: str
    number: int | None
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Refuse an invalid mark or salt."""
        if (len(bytes.fromhex(self.mark)), len(bytes.fromhex(self.salt))) != (MARK_BYTES, SALT_BYTES):
            raise ValueError("mark and salt must have 16 bytes each")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Forget the example at once where that is possible, and begin the job that retrains everything else."""
        model.tombstones.add(self.salt, self.mark, self.number)
        model.floor = position

        def forgotten(ids: Iterable[str]) -> set[str]:
            return {given for given in ids if model.tombstones.mark_of(given) == self.mark}

        for given in forgotten(candidate.id for candidate in model.pool):
            model.pool.forget(given)
        for given in forgotten(answer.id for answer in model.annotators):
            model.annotators.forget(given)
        for given in forgotten(model.revisions):
            model.revisions.forget(given)
        for given in forgotten(prediction.id for prediction in model.pending):
            model.pending.pop(given)
        model.alerts = model.alerts.without(forgotten(model.alerts.ids))
        if model.novelty is not None:
            model.novelty = model.novelty.without(forgotten(model.novelty.named), model.learner.reading)
        folds = False
        for learner in model.learners:
            learner.forget_candidates(forgotten(given for given in learner.warmup.ids if given is not None))
            # The columns may have been found from examples that included the candidate.
            folds |= learner.warmup.candidates > 0 and not learner.warmup.active
        if self.number is not None:
            model.answers.forget(self.number)
            model.old_ids.pop(self.number, None)
            model.corrections.pop(self.number, None)
            for learner in model.learners:
                learner.metrics.forget([self.number])
                if learner.exact:
                    learner.forget([self.number])
                else:
                    folds = True
        model.jobs.add(Job(position, "forget", folds, self.number))
        return NOTHING


@dataclass(frozen=True, slots=True)
class LabelCorrected(Facts, Untold):
    """The label of an example was changed. label: the class number. content: hex of the 16 bytes that now identify the
    example.

    annotator: the annotator who changed their own answer.
    """

    KIND: ClassVar[str] = "corrected"
    number: int
    label: int
    content: str
    at_ms: int
    annotator: str | None = None

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """Return None (the event stays) unless its example was forgotten."""
        return Redacted(None) if cls.decoded(payload).number in tombstones.numbers else None

    def admit(self, coming: Coming) -> None:
        """Refuse an unknown example or class."""
        if not (0 <= self.label < coming.classes and 1 <= self.number <= coming.learned):
            raise ValueError(f"there is no example {self.number}, or no class {self.label}")
        if len(bytes.fromhex(self.content)) != 16:
            raise ValueError("content must have 16 bytes")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Correct the label at once where that is possible, and begin the job that retrains everything else."""
        former = model.corrections.get(self.number, model.answers.label_of(self.number))
        model.corrections[self.number] = self.label
        given = model.id_of(self.number)
        model.annotators.correct(given, self.annotator, model.labels.labels[self.label])
        if former == self.label:  # somebody confirmed the label
            return NOTHING
        model.answers.correct(self.number, self.label, bytes.fromhex(self.content))
        folds = False
        for learner in model.learners:
            if learner.exact:
                learner.relabel(self.number, self.label)
            else:
                folds = True
        if folds:
            model.jobs.add(Job(position, "correct", folds, self.number))
        return NOTHING


@dataclass(frozen=True, slots=True)
class ChangeIntended(Facts, NamesNoExample, Untold):
    """A configuration that takes effect only after a learner with this configuration has learned the log.

    shadow: the name of the challenger that gets the configuration. None for the model itself.
    """

    KIND: ClassVar[str] = "intended"
    configuration: dict[str, Any]
    shadow: str | None
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Refuse an invalid configuration."""
        read_configuration(self.configuration)

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Begin the job."""
        kind: JobKind = "configure" if self.shadow is None else "shadow"
        model.jobs.add(Job(position, kind, folds=True, configuration=self.configuration, shadow=self.shadow))
        return NOTHING


@dataclass(frozen=True, slots=True)
class ModelReconfigured(Facts, NamesNoExample, Untold):
    """The model's configuration was changed, and its solver adapted in place."""

    KIND: ClassVar[str] = "reconfigured"
    MARKED: ClassVar[bool] = True
    configuration: dict[str, Any]
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Refuse an invalid configuration."""
        read_configuration(self.configuration)

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Reconfigure the learner, and adapt the waiting candidates and predictions."""
        former = model.configuration
        model.learner.reconfigure(read_configuration(self.configuration))
        model.configure_waiting(former)
        return NOTHING


@dataclass(frozen=True, slots=True)
class JobsSettled(Facts, NamesNoExample, Untold):
    """These jobs are done, or failed because of `error`. A job is named by the position of the event that began it."""

    KIND: ClassVar[str] = "settled"
    jobs: list[int]
    result: dict[str, Any]
    error: str | None
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Accept always: unknown jobs are ignored."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """End the jobs."""
        model.jobs.settle(self.jobs, self.result, self.error)
        return NOTHING


@dataclass(frozen=True, slots=True)
class ChallengerRetired(Facts, NamesNoExample, Untold):
    """A challenger was retired."""

    KIND: ClassVar[str] = "retired"
    shadow: str
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Accept always: an unknown challenger is ignored."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Remove the challenger, and end its jobs."""
        model.shadows.pop(self.shadow, None)
        running = [job.at for job in model.jobs.running() if job.shadow == self.shadow]
        model.jobs.settle(running, {}, "the challenger was retired")
        return NOTHING


@dataclass(frozen=True, slots=True)
class ChallengerReconfigured(Facts, NamesNoExample, Untold):
    """Parts of a challenger's configuration that affect no solver were changed, as they were for the model."""

    KIND: ClassVar[str] = "challenger_reconfigured"
    configuration: dict[str, Any]
    shadow: str
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Refuse an invalid configuration, and an unknown challenger."""
        read_configuration(self.configuration)
        _check_shadow(coming, self.shadow)

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Reconfigure the challenger."""
        model.shadows[self.shadow].reconfigure(read_configuration(self.configuration))
        return NOTHING


@dataclass(frozen=True, slots=True)
class ChallengerPromoted(Facts, NamesNoExample, Untold):
    """A challenger replaced the model."""

    KIND: ClassVar[str] = "promoted"
    MARKED: ClassVar[bool] = True
    shadow: str
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Refuse an unknown challenger."""
        _check_shadow(coming, self.shadow)

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Let the challenger predict from now on."""
        shadow = model.shadows.pop(self.shadow)
        shadow.stopped = None
        model.replace_learner(shadow)
        return NOTHING


def _check_shadow(coming: Coming, shadow: str) -> None:
    if shadow not in coming.model.shadows:
        raise ValueError(f"there is no challenger {shadow!r}")
