"""A model's past as the store holds it: the state at any position that snapshots and log still reach, and what was
learned before it.

A rollback takes a model back to an earlier state, from which its log goes on. So what led to a state is not always the
whole log before it, but some stretches, each of which but the first begins with a rollback. They are found before
anything is folded: what was undone is not applied, however often a model was rolled back.
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
    """A learned batch without the examples that were forgotten, and with the labels that were corrected."""
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
    """An event that cannot be applied: where it stands, its kind ("" if it cannot be read), and why."""

    position: int
    kind: str
    reason: str

    @property
    def message(self) -> str:
        """For people."""
        return f"event {self.position}{self.kind and f' ({self.kind})'} cannot be applied: {self.reason}"


class Blocked(ValueError):
    """A state could not be folded beyond an obstacle."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(obstacle.message)
        self.obstacle = obstacle


class ModelHistory:
    """The past of one model. Methods may be called from any thread; the models that they make are the caller's.

    leave: set once nobody waits any more for a store that is away.
    """

    def __init__(self, store: Store, name: str, *, cache_bytes: int, answers_kept: int) -> None:
        self.store = store
        self.name = name
        self.leave = threading.Event()
        self._sizes = {"cache_bytes": cache_bytes, "answers_kept": answers_kept}

    def newest(self) -> Model:
        """The state at the end of the log. Damaged or ValueError where it cannot be read, Conflict if it is trimmed."""
        end = self.store.end(self.name)
        for position in self.store.snapshots(self.name):
            if position > end:
                log.warning("model %s: the snapshot at %d is not used: the log ends at %d", self.name, position, end)
        return self._fold(end)

    def reached(self) -> tuple[Model, Obstacle | None]:
        """The newest state that can be folded, and the event before which it stands, if there is one.

        The errors of `newest` where there is no state at all.
        """
        try:
            return self.newest(), None
        except Blocked as blocked:
            if blocked.obstacle.position == 1:
                raise
            log.exception("model %s stands before an event that it cannot take in", self.name)
            return self._fold(blocked.obstacle.position - 1), blocked.obstacle

    def at(self, position: int) -> Model:
        """The state at a position of the log. Conflict where log and snapshots no longer reach back so far."""
        try:
            return self._fold(position)
        except (Damaged, ValueError):
            self._check_reach(position)  # a trim may have taken away what was being read
            raise

    def successor(self, position: int, event: ModelEvent) -> Model | None:
        """The model as it stands behind an event at `position` that makes it another; None for all other events.

        The errors of `at` for a rollback, those of Model.begin for an event that holds the whole state.
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
        """Apply an event that may go over the log again. Conflict where it needs what is trimmed.

        Further epochs wait for a store that is away: what is in the log is not refused any more.
        """
        return model.apply(position, event, partial(self.learned, model, position, patiently=True))

    def learned(self, model: Model, before: int, *, patiently: bool = False) -> Iterator[ExamplesLearned]:
        """The learned batches before a position that the model was made of, in order. Conflict if one is missing.

        Without the examples that were forgotten, and with the labels that were corrected.
        """
        for _, event in (self._patiently if patiently else self.taught)(model.undone, before):
            if isinstance(event, ExamplesLearned):
                rest = as_it_should_be(event, model.tombstones.numbers, model.corrections)
                if rest.ids:
                    yield rest

    def x_of(self, number: int, undone: Sequence[tuple[int, int]]) -> Inputs | None:
        """The x of an example, where what is left of the log has it."""
        for at, record in self.store.read(self.name, 0):
            if record.kind == ExamplesLearned.KIND and not was_undone(undone, at):
                event = ExamplesLearned.decoded(record.payload)
                rows = np.flatnonzero(event.keys == number)
                if rows.size:
                    return event.inputs.take(rows[:1])
        return None

    def taught(self, undone: Sequence[tuple[int, int]], before: int, after: int = 0) -> Iterator[tuple[int, Taught]]:
        """The events between two positions that teach a learner, without those that were undone.

        Conflict if the log does not begin with the first; Damaged for one that cannot be read.
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
        """`taught` from the beginning, which goes on where it was when the store is back."""
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
            if anew:  # the log holds the state itself, later than the snapshot
                return self._along(stretches, None, aside)
            try:
                model = Model.restore(self.name, self.store.get_snapshot(self.name, at), **self._sizes)
                if model.position != at:
                    raise BadFrame(f"it holds the state at {model.position}")
            except KeyError:  # a newer one took its place
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
        """What of the log behind `base` led from there to `position`: the first and the last event of each stretch.

        And whether it begins with an event that holds the whole state, for which `base` is not needed. None if the
        state at `base` was undone on the way. Last, the events that were set aside, at whatever time, by position.
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
                except BaseException as error:  # of the model's own code, which may be Rust's or a compiler's
                    raise Blocked(Obstacle(at, record.kind, told(error))) from error
        if model is None or model.position != stretches[-1][1]:
            raise BadFrame(f"the log of model {self.name} ends before event {stretches[-1][1]}")
        return model

    def _stepped(self, model: Model | None, at: int, record: Event) -> Model:
        """The model behind one more event; with none before it, it is the one that the event begins."""
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
        """The model behind one more event of a log that goes on, whose newest state it was. The errors of `at`."""
        event = self._whole(at, record)
        successor = self.successor(at, event)
        if successor is None:
            self.apply(model, at, event)
        return successor or model

    def _whole(self, at: int, record: Event) -> ModelEvent:
        """The event of a record. Conflict where a part of it was forgotten: the state behind it is no more."""
        event = decode_event(record.kind, record.payload)
        if event.is_partial:
            raise Conflict(f"what event {at} of model {self.name} held was forgotten, and the states before")
        return event

    def _check_reach(self, position: int) -> None:
        """Conflict if the log has lost its beginning, and no snapshot leads to this position."""
        first, _ = next(self.store.read(self.name, 0), (None, None))
        if first != 1:
            begin = "is empty" if first is None else f"begins with event {first}"
            raise Conflict(
                f"the state of model {self.name} at position {position} is gone: its log {begin}, and no readable "
                "snapshot leads there"
            )


def told(error: BaseException) -> str:
    """An error in a line of its own, for people who do not see the traceback."""
    said = str(error).partition("\n")[0][:200]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
