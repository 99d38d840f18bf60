"""The kinds of work that a model's worker does on the model's journal, except learning."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple

from hinged.service.commands.ask import Command, Offer
from hinged.service.commands.change import Correct, Forget
from hinged.service.engine.jobs.retraining import Retraining
from hinged.service.engine.journal import Journal
from hinged.service.engine.learning import Learning
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
from hinged.solvers.core.reports import WholeFinish

SWAP_S = 1.0  # maximum seconds of training at a swap, while the model accepts no change; a longer swap is tried again


Work = Learning | Callable[[Journal], Any]
"""A micro-batch to learn, or a function that does its work on a journal and returns the answer to its one caller."""


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
    askers = len(work.requests) if isinstance(work, Learning) else 1
    try:
        journal.begin(along)
        answers = work.run(journal) if isinstance(work, Learning) else [work(journal)]
    except ServiceError as error:
        return Done([error] * askers, journal.along)
    except Damaged as error:
        told = StoreUnavailable(f"the log of model {journal.model.name} is damaged: {error}")
        return Done([told] * askers, journal.along)
    finally:
        along.clear()
    return Done(answers, journal.along)


def carry_out(journal: Journal, command: Command) -> dict[str, Any]:
    """Carry out a command; return its answer, with the model's position."""
    if not isinstance(command, Forget):
        return _carried_out(journal, command)
    left = journal.leave_behind(command.given)
    journal.lookup.forget()  # the example may be in the cache of the lookup
    try:
        return _carried_out(journal, replace(command, waiting=bool(left)))
    except (ServiceError, Damaged):
        journal.along += left  # as far as the server knows, nothing was forgotten
        raise


def _carried_out(journal: Journal, command: Command) -> dict[str, Any]:
    # The predictions were made before the command, so they are written first. If the command is refused, they stay in
    # the log.
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


def keep(journal: Journal, predictions: list[Made]) -> None:
    """Write predictions now, and empty the list, as `do` does."""
    journal.keep(predictions)
    predictions.clear()


def finish(journal: Journal, epochs: int = 0) -> dict[str, Any]:
    """Run the finishing step, after `epochs` further epochs over the log; return the model's description after the
    step, and the outcome of the step. After an epoch, the step is over the whole log.
    """
    if epochs:  # an unreadable log must be noticed before the event is written
        journal.snapshots.let_end()  # no trim may remove the log until a snapshot contains the result
        deque(journal.history.learned(journal.model, journal.model.position + 1), maxlen=0)
    outcomes = journal.commit([TrainingFinished(journal.now_ms(), epochs, whole=epochs > 0)])
    outcome = outcomes[-1].finish or WholeFinish(0, converged=True, missing=0)
    journal.snapshots.take(journal.model)  # so that a recovery need not run the finishing step again
    figures = journal.model.describe()
    wanted = ("model", "position", "support_vectors", "points", "duality_gap")
    return {**{name: figures[name] for name in wanted}, **outcome._asdict()}


def roll_back(journal: Journal, to: int) -> dict[str, Any]:
    """Restore the state at a position; return the position of the model after the rollback."""
    model = journal.model
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


def set_aside(journal: Journal, position: int | None) -> dict[str, Any]:
    """Skip the event that the model could not apply; return the position of the model after the skipped event.

    position: the event's position; None accepts any. The state is read now, and used after this work.
    """
    obstacle, name = journal.obstacle, journal.model.name
    if obstacle is None:
        raise Conflict(f"model {name} stands before no event that it could not apply")
    if position not in (None, obstacle.position):
        raise Conflict(f"model {name} stands before event {obstacle.position}, got {position}")
    event = EventSetAside(obstacle.position, obstacle.kind, obstacle.reason, journal.now_ms())
    journal.store.append(name, journal.store.end(name), [event.record()])
    model, further = journal.read_again()
    return {
        "model": name,
        "position": model.position,
        "set_aside": {"position": obstacle.position, "kind": obstacle.kind},
        "error": None if further is None else further.message,
    }


def snapshot(journal: Journal) -> tuple[int, Future[ServiceError | None]]:
    """Begin a snapshot now; return its position, and the future of its outcome."""
    journal.commit()
    return journal.snapshots.take(journal.model)


def catch_up(journal: Journal, retraining: Retraining, seconds: float) -> None:
    """Let a retraining continue for some seconds while the model learns nothing."""
    journal.commit()
    retraining.advance(journal.model.position, seconds)


def swap(journal: Journal, retraining: Retraining) -> int | None:
    """Train retrained learners with the last events, then let them replace the old learners; return the position of the
    new state.

    Return None if the retraining no longer fits the model, or training with the last events took too long.
    """
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


def settle_jobs(journal: Journal, retraining: Retraining, unwritten: list[str]) -> None:
    """Record that the jobs of a retraining have ended. unwritten: what the store could not rewrite."""
    certificate = journal.model.solver.certificate()
    by_error: dict[str | None, list[int]] = {}
    for job in retraining.jobs:
        by_error.setdefault(retraining.error_of(job), []).append(job.at)
    now = journal.now_ms()
    events: list[ModelEvent] = []
    for error, jobs in by_error.items():
        result: dict[str, Any] = {"certificate": certificate} if error is None else {}
        if unwritten:
            result["unwritten"] = unwritten
        events.append(JobsSettled(jobs, result, error, now))
    journal.commit(events)
