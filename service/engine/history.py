"""A model's past, as read from the store: the examples that it learned, and its states at earlier positions.

A rollback returns a model to an earlier state, and the log continues from there. So the events that led to a state may
be in several ranges of the log. Every range except the first begins with a rollback. The ranges are determined before
any event is applied, so undone events are never applied, however often a model was rolled back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hinged.frames import BadFrame
from hinged.service.data.inputs import Inputs
from hinged.service.engine.patience import Patience
from hinged.service.engine.scheduling.turns import stand_back
from hinged.service.errors import (
    Conflict,
    ServiceError,
    StoreUnavailable,
)
from hinged.service.model.events import ModelEvent, decode_event
from hinged.service.model.events.base import Outcome
from hinged.service.model.events.labelling import CandidatesOffered
from hinged.service.model.events.learning import ClassAdded, ExamplesLearned, TrainingFinished
from hinged.service.model.events.states import EventSetAside, ModelCreated, ModelRolledBack, StateSwapped
from hinged.service.model.model import Model
from hinged.service.model.state import was_undone
from hinged.service.store.base import (
    Damaged,
    Event,
    Lost,
    Store,
)
from hinged.solvers.core.turns import Abandoned
from hinged.solvers.warm import warm_up

log = logging.getLogger(__name__)

Taught = ClassAdded | ExamplesLearned | TrainingFinished | CandidatesOffered
TEACHING = (ClassAdded.KIND, ExamplesLearned.KIND, TrainingFinished.KIND, CandidatesOffered.KIND)


def as_it_should_be(
    event: ExamplesLearned, forgotten: Container[int], corrections: Mapping[int, int]
) -> ExamplesLearned:
    """Return a learned batch without its forgotten examples and with corrected labels."""
    keys = event.keys.tolist()
    if corrections:
        classes = event.classes.copy()
        for r, key in enumerate(keys):
            classes[r] = corrections.get(key, classes[r])
        event = replace(event, classes=classes)
    kept = [r for r, key in enumerate(keys) if key not in forgotten]
    return event if len(kept) == len(keys) else event.take(np.array(kept, np.int64))


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An event that cannot be applied. kind: "" if the event cannot be read."""

    position: int
    kind: str
    reason: str

    @property
    def message(self) -> str:
        """Return a sentence about the obstacle, for people."""
        return f"event {self.position}{self.kind and f' ({self.kind})'} cannot be applied: {self.reason}"


class Blocked(ValueError):
    """Raised when an obstacle prevents the model from applying further events."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(obstacle.message)
        self.obstacle = obstacle


class ModelHistory:
    """The past of one model. Methods may be called from any thread; the caller owns the models that they return.

    leave: an event that is set when no caller needs to wait any longer for an unavailable store.
    """

    def __init__(self, store: Store, name: str, *, cache_bytes: int, answers_kept: int) -> None:
        self.store = store
        self.name = name
        self.leave = threading.Event()
        self._sizes = {"cache_bytes": cache_bytes, "answers_kept": answers_kept}

    def newest(self) -> Model:
        """Return the state at the end of the log.

        Raise Damaged or ValueError if the log cannot be read, Conflict if the log is trimmed.
        """
        end = self.store.end(self.name)
        for position in self.store.snapshots(self.name):
            if position > end:
                log.warning("model %s: the snapshot at %d is not used: the log ends at %d", self.name, position, end)
        return self._fold(end)

    def reached(self) -> tuple[Model, Obstacle | None]:
        """Return the newest state that can be rebuilt from the log, and the event that could not be applied, if any.

        Raise the errors of `newest` if no state can be rebuilt.
        """
        try:
            return self.newest(), None
        except Blocked as blocked:
            if blocked.obstacle.position == 1:
                raise
            log.exception("model %s stands before an event that it cannot apply", self.name)
            return self._fold(blocked.obstacle.position - 1), blocked.obstacle

    def at(self, position: int) -> Model:
        """Return the state at a position of the log. Raise Conflict if log and snapshots no longer reach back to the
        position.
        """
        try:
            return self._fold(position)
        except (Damaged, ValueError):
            self._check_reach(position)  # perhaps a trim removed the events during the read
            raise

    def successor(self, position: int, event: ModelEvent) -> Model | None:
        """Return the model after an event at `position` that replaces the model; None for any other event.

        Raise the errors of `at` for a rollback, and the errors of Model.begin for an event that contains the whole
        state.
        """
        match event:
            case ModelRolledBack():
                former = self.at(event.to)
                former.come_back(position, event)
                return former
            case StateSwapped():
                return Model.begin(self.name, position, event, **self._sizes)
            case _:
                return None

    def apply(self, model: Model, position: int, event: ModelEvent) -> Outcome:
        """Apply an event that may read the log again. Raise Conflict if the needed events are trimmed.

        Further epochs wait for an unavailable store, because a logged event can no longer be refused.
        """
        return model.apply(position, event, partial(self.learned, model, position, patiently=True))

    def learned(self, model: Model, before: int, *, patiently: bool = False) -> Iterator[ExamplesLearned]:
        """Yield the learned batches before a position, in order, without undone batches and forgotten examples.

        Corrected labels replace the original labels. Raise Conflict if a batch is missing.
        """
        for _, event in (self._patiently if patiently else self.taught)(model.undone, before):
            if isinstance(event, ExamplesLearned):
                rest = as_it_should_be(event, model.tombstones.numbers, model.corrections)
                if rest.ids:
                    yield rest

    def x_of(self, number: int, undone: Sequence[tuple[int, int]]) -> Inputs | None:
        """Return the x of an example, if the remaining log contains it."""
        for at, record in self.store.read(self.name, 0):
            if record.kind == ExamplesLearned.KIND and not was_undone(undone, at):
                event = ExamplesLearned.decoded(record.payload)
                rows = np.flatnonzero(event.keys == number)
                if rows.size:
                    return event.inputs.take(rows[:1])
        return None

    def taught(self, undone: Sequence[tuple[int, int]], before: int, after: int = 0) -> Iterator[tuple[int, Taught]]:
        """Yield the events between two positions that train a learner, without undone events.

        Raise Conflict if the first of these events is no longer in the log, Damaged if an event cannot be read.
        """
        first = True
        for at, record in self.store.read_around(self.name, after):
            if first and at != after + 1:
                break
            if at == 1 and record.kind != ModelCreated.KIND:
                raise Conflict(f"model {self.name} was imported: its log does not hold all that it has learned")
            first = False
            if at >= before:
                return
            if was_undone(undone, at):
                continue
            if isinstance(record, Lost):
                raise Damaged(f"event {at} of {self.name} {record.reason}")
            if record.kind in TEACHING:
                event = decode_event(record.kind, record.payload)
                assert isinstance(event, Taught)  # noqa: S101  decode_event checks the kind
                yield at, event
        if first and before > after + 1:
            raise Conflict(f"the log of model {self.name} is trimmed: there is no whole epoch to learn again")

    def _patiently(self, undone: Sequence[tuple[int, int]], before: int) -> Iterator[tuple[int, Taught]]:
        """Yield the events of `taught` from the beginning of the log. After an outage of the store, continue with the
        next event.
        """
        at, patience = 0, Patience(self.name)
        while True:
            try:
                for found in self.taught(undone, before, at):
                    yield found
                    at = found[0]
                    patience.renew()
            except StoreUnavailable as error:
                stand_back()
                if self.leave.wait(patience.after(error)):
                    raise
            else:
                return

    def _fold(self, position: int) -> Model:
        for at in self.store.snapshots(self.name):
            anew, stretches, aside = self._stretches(at, position) if at <= position else (False, [], {})
            if not stretches:
                continue
            if anew:  # an event after the snapshot contains a whole state
                return self._along(stretches, None, aside)
            try:
                model = Model.restore(self.name, self.store.get_snapshot(self.name, at), **self._sizes)
                if model.position != at:
                    raise BadFrame(f"it holds the state at {model.position}")
            except KeyError:  # a newer snapshot replaced it
                continue
            except (Damaged, ValueError) as error:
                log.warning("model %s: the snapshot at %d is not used: %s", self.name, at, error)
                continue
            warm_up(model.configuration.solver, model.configuration.dtype)
            return self._along(stretches, model, aside)
        anew, stretches, aside = self._stretches(0, position)
        if not anew:
            self._check_reach(position)
        return self._along(stretches, None, aside)

    def _stretches(self, base: int, position: int) -> tuple[bool, list[tuple[int, int]], dict[int, str]]:
        """Return (whole, ranges, set aside) for the way from `base` to `position`.

        whole: whether the first range begins with an event that contains the whole state, so that `base` is not needed.
        ranges: the first and last event of each range of the log that led to `position`; empty if the state at `base`
        was undone. set aside: every event that was ever set aside, by position.
        """
        rollbacks: dict[int, int | None] = {}
        aside: dict[int, str] = {}
        for at, record in self.store.read_around(self.name, base):
            if record.kind == EventSetAside.KIND:
                put_aside = EventSetAside.decoded(record.payload)
                aside[put_aside.event] = put_aside.was
            if at > position:
                continue
            if record.kind == StateSwapped.KIND:
                rollbacks[at] = None
            if record.kind == ModelRolledBack.KIND:
                rollbacks[at] = ModelRolledBack.decoded(record.payload).to
        rollbacks = {at: to for at, to in rollbacks.items() if at not in aside}
        found = []
        while back := [at for at in rollbacks if at <= position]:
            found.append((back[-1], position))
            to = rollbacks[back[-1]]
            if to is None:
                return True, found[::-1], aside
            position = to
        if position < base:
            return False, [], aside
        found.append((base + 1, position))
        return False, found[::-1], aside

    def _along(self, stretches: list[tuple[int, int]], model: Model | None, aside: Mapping[int, str]) -> Model:
        for first, last in stretches:
            for at, record in self.store.read_around(self.name, first - 1):
                if at > last:
                    break
                if at in aside and model is not None:
                    model.pass_over(at, aside[at])
                    continue
                if isinstance(record, Lost):
                    raise Blocked(Obstacle(at, "", f"it {record.reason}"))
                try:
                    model = self._stepped(model, at, record)
                except (ServiceError, Damaged, Abandoned):
                    raise
                except BaseException as error:  # any error of the model's code, perhaps from Rust or a compiler
                    raise Blocked(Obstacle(at, record.kind, told(error))) from error
        if model is None or model.position != stretches[-1][1]:
            raise BadFrame(f"the log of model {self.name} ends before event {stretches[-1][1]}")
        return model

    def _stepped(self, model: Model | None, at: int, record: Event) -> Model:
        """Return the model after one more event. If there is no model yet, return the model that the event creates."""
        event = self._whole(at, record)
        if model is None:
            model = Model.begin(self.name, at, event, **self._sizes)
            warm_up(model.configuration.solver, model.configuration.dtype)
        elif isinstance(event, ModelRolledBack):
            model.come_back(at, event)
        else:
            self.apply(model, at, event)
        return model

    def followed(self, model: Model, at: int, record: Event) -> Model:
        """Return the newest model after one more event of a growing log. Raise the errors of `at`."""
        event = self._whole(at, record)
        successor = self.successor(at, event)
        if successor is None:
            self.apply(model, at, event)
        return successor or model

    def _whole(self, at: int, record: Event) -> ModelEvent:
        """Return the event of a record.

        Raise Conflict if a part of the event was forgotten: the state after the event can no longer be rebuilt.
        """
        event = decode_event(record.kind, record.payload)
        if event.is_partial:
            raise Conflict(f"event {at} of model {self.name} was forgotten in part, and so were the states before")
        return event

    def _check_reach(self, position: int) -> None:
        """Raise Conflict if the beginning of the log is gone and no snapshot can replace it for this position."""
        first, _ = next(self.store.read(self.name, 0), (None, None))
        if first != 1:
            begin = "is empty" if first is None else f"begins with event {first}"
            raise Conflict(
                f"the state of model {self.name} at position {position} is gone: its log {begin}, and no readable "
                "snapshot leads there"
            )


def told(error: BaseException) -> str:
    """Return a one-line description of an error, for people who do not see the traceback."""
    said = str(error).partition("\n")[0][:200]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
