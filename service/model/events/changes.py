"""What is taken out of a model, put right, or configured anew, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hinged.answers import JobKind
from hinged.service.data.configuration import read_configuration
from hinged.service.model.events.base import NOTHING, Facts, NamesNoExample, Outcome, Redacted
from hinged.service.model.jobs import Job
from hinged.service.model.tombstones import MARK_BYTES, SALT_BYTES, Tombstones

if TYPE_CHECKING:
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model


class _Change(Facts):
    """A change of which followers are told no more than that it was made."""

    __slots__ = ()

    def told(self) -> dict[str, Any]:
        """Nothing."""
        return {}


@dataclass(frozen=True, slots=True)
class ExampleForgotten(_Change, NamesNoExample):
    """An example is to leave no trace. mark: what stays of its id (tombstones.py); salt: of the first mark's.

    number: the example's, None if it was never learned.
    """

    KIND: ClassVar[str] = "forgotten"
    mark: str
    salt: str
    number: int | None
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Its mark and salt must be such."""
        if (len(bytes.fromhex(self.mark)), len(bytes.fromhex(self.salt))) != (MARK_BYTES, SALT_BYTES):
            raise ValueError("mark and salt are 16 bytes each")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Forget it at once wherever that can be done, and begin the job that teaches all else anew."""
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
        folds = False
        for learner in model.learners:
            learner.forget_candidates(forgotten(given for given in learner.warmup.ids if given is not None))
            # It may have been among those from which the columns were found.
            folds |= learner.warmup.candidates > 0 and not learner.warmup.active
        if self.number is not None:
            model.answers.forget(self.number)
            model.old_ids.pop(self.number, None)
            model.corrections.pop(self.number, None)
            for learner in model.learners:
                if learner.exact:
                    learner.forget([self.number])
                else:
                    folds = True
        model.jobs.add(Job(position, "forget", folds, self.number))
        return NOTHING


@dataclass(frozen=True, slots=True)
class LabelCorrected(_Change):
    """An example has another label: class number, and hex of the 16 bytes that tell it from any other example now.

    annotator: who changed an answer of his own so.
    """

    KIND: ClassVar[str] = "corrected"
    number: int
    label: int
    content: str
    at_ms: int
    annotator: str | None = None

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """It stays, unless its example is forgotten."""
        return Redacted(None) if cls.decoded(payload).number in tombstones.numbers else None

    def admit(self, coming: Coming) -> None:
        """There must be such an example, and such a class."""
        if not (0 <= self.label < coming.classes and 1 <= self.number <= coming.learned):
            raise ValueError(f"there is no example {self.number} or no class {self.label}")
        if len(bytes.fromhex(self.content)) != 16:
            raise ValueError("a content has 16 bytes")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Correct it at once wherever that can be done, and begin the job that teaches all else anew."""
        former = model.corrections.get(self.number, model.answers.label_of(self.number))
        model.corrections[self.number] = self.label
        given = model.id_of(self.number)
        model.annotators.correct(given, self.annotator, model.labels.labels[self.label])
        if former == self.label:  # somebody has seen it, and it is right
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
class ChangeIntended(_Change, NamesNoExample):
    """Another configuration that is taught from the log before it takes its place.

    shadow: the name of the challenger that gets it, None for the model itself.
    """

    KIND: ClassVar[str] = "intended"
    configuration: dict[str, Any]
    shadow: str | None
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """There must be such a configuration."""
        read_configuration(self.configuration)

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Begin the job."""
        kind: JobKind = "configure" if self.shadow is None else "shadow"
        model.jobs.add(Job(position, kind, folds=True, configuration=self.configuration, shadow=self.shadow))
        return NOTHING


@dataclass(frozen=True, slots=True)
class ModelReconfigured(_Change, NamesNoExample):
    """The model has this configuration from now on, its solver changed in place."""

    KIND: ClassVar[str] = "reconfigured"
    MARKED: ClassVar[bool] = True
    configuration: dict[str, Any]
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """There must be such a configuration."""
        read_configuration(self.configuration)

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Configure what learns, and let what waits fit."""
        model.learner.reconfigure(read_configuration(self.configuration))
        model.configure_waiting()
        return NOTHING


@dataclass(frozen=True, slots=True)
class JobsSettled(_Change, NamesNoExample):
    """These jobs (positions of the events that began them) are done, or failed because of `error`."""

    KIND: ClassVar[str] = "settled"
    jobs: list[int]
    result: dict[str, Any]
    error: str | None
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Always: jobs that nobody knows are passed over."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """End the jobs."""
        model.jobs.settle(self.jobs, self.result, self.error)
        return NOTHING


@dataclass(frozen=True, slots=True)
class ChallengerRetired(_Change, NamesNoExample):
    """A challenger is gone."""

    KIND: ClassVar[str] = "retired"
    shadow: str
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Always: a challenger that is no longer there cannot be in the way."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Drop it, and give its jobs up."""
        model.shadows.pop(self.shadow, None)
        running = [job.at for job in model.jobs.running() if job.shadow == self.shadow]
        model.jobs.settle(running, {}, "the challenger was retired")
        return NOTHING


@dataclass(frozen=True, slots=True)
class ChallengerPromoted(_Change, NamesNoExample):
    """A challenger took the model's place."""

    KIND: ClassVar[str] = "promoted"
    MARKED: ClassVar[bool] = True
    shadow: str
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """There must be such a challenger."""
        if self.shadow not in coming.model.shadows:
            raise ValueError(f"there is no challenger {self.shadow!r}")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Let the challenger predict from now on."""
        shadow = model.shadows.pop(self.shadow)
        shadow.stopped = None
        model.learner = shadow
        model.configure_waiting()
        return NOTHING
