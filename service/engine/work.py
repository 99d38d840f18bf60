"""The kinds of work that a model's worker does, except learning. Each kind is a class that does its work on the model's
journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol

from hinged.service.commands.ask import Command, Offer
from hinged.service.commands.change import Correct, Forget
from hinged.service.engine.jobs.retraining import Retraining
from hinged.service.engine.journal import Journal
from hinged.service.engine.receipts.sealing import receipts_of
from hinged.service.errors import (
    Conflict,
    Invalid,
    ServiceError,
    StoreUnavailable,
)
from hinged.service.model.events import ModelEvent
from hinged.service.model.events.changes import JobsSettled
from hinged.service.model.events.learning import TrainingFinished
from hinged.service.model.events.states import EventSetAside, ModelRolledBack, StateSwapped
from hinged.service.model.pending import Made
from hinged.service.store.base import Damaged
from hinged.solvers.core.reports import Finish

SWAP_S = 1.0  # maximum seconds of training at a swap, while the model accepts no change; a longer swap is tried again


class Work(Protocol):
    """A piece of work. examples: the number of examples that it learns; askers: the number of callers that
    wait for it.
    """

    @property
    def examples(self) -> int:
        """Return the number of examples that the work learns."""

    @property
    def askers(self) -> int:
        """Return the number of callers. Each caller waits for its own answer."""

    def run(self, journal: Journal) -> Sequence[Any]:
        """Do the work; return the answer to each caller, which may be an error."""


class Done(NamedTuple):
    """The answers to the callers, and the predictions that should have been written with the work but were not."""

    answers: Sequence[Any]
    unlogged: list[Made]


def do(journal: Journal, work: Work, along: list[Made]) -> Done:
    """Do work on the worker's thread. along: predictions to write with the events of the work; the list is emptied,
    because to free many of them on the event loop would block it.

    If the work is refused or the store cannot be reached, the error becomes an answer. After any other error an event
    may be half applied.
    """
    try:
        journal.begin(along)
        answers = work.run(journal)
    except ServiceError as error:
        return Done([error] * work.askers, journal.along)
    except Damaged as error:
        told = StoreUnavailable(f"the log of model {journal.model.name} is damaged: {error}")
        return Done([told] * work.askers, journal.along)
    finally:
        along.clear()
    return Done(answers, journal.along)


class Single:
    """Work that learns no example and has one caller."""

    __slots__ = ()
    examples: ClassVar[int] = 0
    askers: ClassVar[int] = 1

    def run(self, journal: Journal) -> Sequence[Any]:
        """Do the work; return its one answer, for Work.run."""
        return [self.answer(journal)]

    def answer(self, journal: Journal) -> Any:
        """Do the work; return its answer."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Commanding(Single):
    """Carry out a command."""

    command: Command

    def answer(self, journal: Journal) -> dict[str, Any]:
        """Return the command's answer, with the model's position."""
        command = self.command
        if not isinstance(command, Forget):
            return self._answer(journal, command)
        left = journal.leave_behind(command.given)
        journal.lookup.forget()  # the example may be in the cache of the lookup
        try:
            return self._answer(journal, replace(command, waiting=bool(left)))
        except (ServiceError, Damaged):
            journal.along += left  # as far as the server knows, nothing was forgotten
            raise

    def _answer(self, journal: Journal, command: Command) -> dict[str, Any]:
        # The predictions were made before the command, so they are written first. If the command is refused, they stay
        # in the log.
        journal.commit()
        if isinstance(command, Offer):
            command = replace(command, learned=frozenset(journal.lookup.first_answers(journal.model, command.ids)))
        with journal.going_on():
            planned = command.plan(journal.model, journal.now_ms())
        journal.commit(planned.events)
        model = journal.model
        answer = {"model": model.name, "position": model.position, **planned.answer(model)}
        if journal.sealed is not None and isinstance(command, Forget | Correct):
            first = model.position - len(planned.events)  # the seal is at the model's position
            answer["receipts"] = receipts_of(journal.sealed, range(first, first + len(planned.events)))
        return answer


@dataclass(frozen=True, slots=True)
class Keeping(Single):
    """Write predictions now."""

    predictions: list[Made] = field(default_factory=list)

    def answer(self, journal: Journal) -> None:
        """Write the predictions and empty the list, as `do` does; return no answer."""
        journal.keep(self.predictions)
        self.predictions.clear()


@dataclass(frozen=True, slots=True)
class Finishing(Single):
    """Run the finishing step, after `epochs` further epochs over the log."""

    epochs: int = 0

    def answer(self, journal: Journal) -> dict[str, Any]:
        """Return the model's description after the step, and the outcome of the step."""
        if self.epochs:  # an unreadable log must be noticed before the event is written
            journal.snapshots.let_end()  # no trim may remove the log until a snapshot contains the result
            deque(journal.history.learned(journal.model, journal.model.position + 1), maxlen=0)
        outcomes = journal.commit([TrainingFinished(journal.now_ms(), self.epochs)])
        finish = outcomes[-1].finish or Finish(0, converged=True)
        journal.snapshots.take(journal.model)  # so that a recovery need not run the finishing step again
        figures = journal.model.describe()
        wanted = ("model", "position", "support_vectors", "points", "duality_gap")
        return {**{name: figures[name] for name in wanted}, **finish._asdict()}


@dataclass(frozen=True, slots=True)
class RollingBack(Single):
    """Restore the state at a position."""

    position: int

    def answer(self, journal: Journal) -> dict[str, Any]:
        """Return the position of the model after the rollback."""
        model, to = journal.model, self.position
        if not 1 <= to <= model.position:
            raise Invalid(f"position must be from 1 to {model.position}, where the model stands, got {to}")
        if to < model.floor:
            raise Conflict(f"an example was forgotten at {model.floor}: no state from before may come back")
        if not model.counts(to):
            # If an id was learned, undone and learned again, the store's index would need two positions for the id.
            raise Conflict(
                f"event {to} of model {model.name} was undone by a rollback; export the model as of {to} instead, and "
                "import that under another name"
            )
        journal.snapshots.let_end()  # no trim may remove events that a recovery needs until a later snapshot is saved
        with journal.going_on():
            event = ModelRolledBack(to, journal.now_ms(), model.hooks.state())
            successor = journal.history.successor(journal.next_position, event)
        journal.commit([event], successor)
        model = journal.model
        journal.snapshots.take(model)  # so that a recovery need not apply the same events again
        return {"model": model.name, "position": model.position, "rolled_back_to": to, "examples": model.learned}


@dataclass(frozen=True, slots=True)
class SettingAside(Single):
    """Skip the event that the model could not apply. position: the event's position; None accepts any."""

    position: int | None

    def answer(self, journal: Journal) -> dict[str, Any]:
        """Return the position of the model after the skipped event. The state is read now, and used after this work."""
        obstacle, name = journal.obstacle, journal.model.name
        if obstacle is None:
            raise Conflict(f"model {name} stands before no event that it could not apply")
        if self.position not in (None, obstacle.position):
            raise Conflict(f"model {name} stands before event {obstacle.position}, got {self.position}")
        event = EventSetAside(obstacle.position, obstacle.kind, obstacle.reason, journal.now_ms())
        journal.store.append(name, journal.store.end(name), [event.record()])
        model, further = journal.read_again()
        return {
            "model": name,
            "position": model.position,
            "set_aside": {"position": obstacle.position, "kind": obstacle.kind},
            "error": None if further is None else further.message,
        }


@dataclass(frozen=True, slots=True)
class Snapshotting(Single):
    """Save a snapshot now."""

    def answer(self, journal: Journal) -> Any:
        """Return the snapshot's position, and the future of its outcome."""
        journal.commit()
        return journal.snapshots.take(journal.model)


@dataclass(frozen=True, slots=True)
class CatchingUp(Single):
    """Let a retraining continue for some seconds while the model learns nothing."""

    retraining: Retraining
    seconds: float

    def answer(self, journal: Journal) -> None:
        """Advance the retraining; return no answer."""
        journal.commit()
        self.retraining.advance(journal.model.position, self.seconds)


@dataclass(frozen=True, slots=True)
class Swapping(Single):
    """Train retrained learners with the last events, then let them replace the old learners."""

    retraining: Retraining

    def answer(self, journal: Journal) -> int | None:
        """Return the position of the new state.

        Return None if the retraining no longer fits the model, or training with the last events took too long.
        """
        retraining = self.retraining
        journal.commit()
        model = journal.model
        if not retraining.fits(model):
            return None
        retraining.advance(model.position, SWAP_S)
        if retraining.position < model.position:  # training takes too long, or the server stops
            return None
        with journal.going_on():
            champion = None in retraining.learners
            swapped = StateSwapped(retraining.swapped(model).snapshot(), journal.now_ms(), champion)
            # The event is read back before it is written. So the model is the same as after a recovery.
            position = journal.next_position
            successor = journal.history.successor(position, swapped)
        journal.snapshots.let_end()
        journal.commit([swapped], successor)
        return position


@dataclass(frozen=True, slots=True)
class Settling(Single):
    """Record that the jobs of a retraining have ended. unwritten: events that the store could not rewrite."""

    retraining: Retraining
    unwritten: list[str]

    def answer(self, journal: Journal) -> None:
        """Write the events of the ended jobs; return no answer."""
        certificate = journal.model.solver.certificate()
        by_error: dict[str | None, list[int]] = {}
        for job in self.retraining.jobs:
            by_error.setdefault(self.retraining.error_of(job), []).append(job.at)
        now = journal.now_ms()
        events: list[ModelEvent] = []
        for error, jobs in by_error.items():
            result: dict[str, Any] = {"certificate": certificate} if error is None else {}
            if self.unwritten:
                result["unwritten"] = self.unwritten
            events.append(JobsSettled(jobs, result, error, now))
        journal.commit(events)
