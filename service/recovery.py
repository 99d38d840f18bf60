"""A model's past as the store holds it: the state at any position that snapshots and log still reach, and what was
learned before it.

A rollback takes a model back to an earlier state, from which its log goes on. So what led to a state is not always the
whole log before it, but some stretches, each of which but the first begins with a rollback. They are found before
anything is folded: what was undone is not applied, however often a model was rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from service.errors import Conflict, NotFound
from service.events import (
    ClassAdded,
    Created,
    Erased,
    Finished,
    Learned,
    ModelEvent,
    RolledBack,
    Swapped,
    decode_event,
)
from service.frames import BadFrame
from service.inputs import Records
from service.model import Model, Outcome
from service.records import Record
from service.store.base import Damaged, Store
from solvers.warm import warm_up

log = logging.getLogger(__name__)

Taught = ClassAdded | Learned | Finished
TEACHING = (ClassAdded.KIND, Learned.KIND, Finished.KIND)


def as_it_should_be(event: Learned, forgotten: Container[int], corrections: Mapping[int, int]) -> Learned:
    """A learned batch without the examples that were forgotten, and with the labels that were corrected."""
    keys = event.keys.tolist()
    if corrections:
        classes = event.classes.copy()
        for r, key in enumerate(keys):
            classes[r] = corrections.get(key, classes[r])
        event = replace(event, classes=classes)
    kept = [r for r, key in enumerate(keys) if key not in forgotten]
    return event if len(kept) == len(keys) else event.take(np.array(kept, np.int64))


class History:
    """The past of one model. Methods may be called from any thread; the models that they make are the caller's."""

    def __init__(self, store: Store, name: str, *, cache_bytes: int, answers_kept: int) -> None:
        self.store = store
        self.name = name
        self._sizes = {"cache_bytes": cache_bytes, "answers_kept": answers_kept}

    def newest(self) -> Model:
        """The state at the end of the log. Damaged or ValueError where it cannot be read, Conflict if it is trimmed."""
        end = self.store.end(self.name)
        for position in self.store.snapshots(self.name):
            if position > end:
                log.warning("model %s: the snapshot at %d is not used: the log ends at %d", self.name, position, end)
        return self._fold(end)

    def at(self, position: int) -> Model:
        """The state at a position of the log. Conflict where log and snapshots no longer reach back so far."""
        try:
            return self._fold(position)
        except KeyError:
            raise NotFound(f"there is no model {self.name!r}") from None
        except (Damaged, ValueError):
            self._check_reach(position)  # a trim may have taken away what was being read
            raise

    def apply(self, model: Model, position: int, event: ModelEvent, former: Model | None = None) -> Outcome:
        """Apply an event of the log to the model. Conflict where it needs what is trimmed.

        former: the model as it was, for a rollback, where it is there already.
        """
        epoch = partial(self.learned, model, position)
        return model.apply(position, event, epoch, lambda to: former or self.at(to))

    def learned(self, model: Model, before: int) -> Iterator[Learned]:
        """The learned batches before a position that the model was made of, in order. Conflict if one is missing.

        Without the examples that were forgotten, and with the labels that were corrected.
        """
        for at, event in self.taught(before):
            if isinstance(event, Learned) and model.counts(at):
                rest = as_it_should_be(event, model.traces.numbers, model.corrections)
                if rest.ids:
                    yield rest

    def record_of(self, number: int, undone: Sequence[tuple[int, int]]) -> Record | None:
        """The named values of an example, where what is left of the log has them."""
        for at, record in self.store.read(self.name, 0):
            if record.kind == Learned.KIND and not any(to < at < back for to, back in undone):
                event = decode_event(record.kind, record.payload)
                if isinstance(event, Learned) and isinstance(event.inputs, Records):
                    for row in np.flatnonzero(event.keys == number):
                        return event.inputs.records[row]
        return None

    def taught(self, before: int, after: int = 0) -> Iterator[tuple[int, Taught]]:
        """The events between two positions that teach a learner. Conflict if the log does not begin with the first."""
        first = True
        for at, record in self.store.read(self.name, after):
            if first and at != after + 1:
                break
            if at == 1 and record.kind != Created.KIND:
                raise Conflict(f"model {self.name} was imported: its log does not hold all that it has learned")
            first = False
            if at >= before:
                return
            if record.kind in TEACHING:
                event = decode_event(record.kind, record.payload)
                assert isinstance(event, Taught)  # noqa: S101  decode_event checks the kind
                yield at, event
        if first and before > after + 1:
            raise Conflict(f"the log of model {self.name} is trimmed: there is no whole epoch to learn again")

    def _fold(self, position: int) -> Model:
        for at in self.store.snapshots(self.name):
            anew, stretches = self._stretches(at, position) if at <= position else (False, [])
            if not stretches:
                continue
            if anew:  # the log holds the state itself, later than the snapshot
                return self._along(stretches, None)
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
            return self._along(stretches, model)
        anew, stretches = self._stretches(0, position)
        if not anew:
            self._check_reach(position)
        return self._along(stretches, None)

    def _stretches(self, base: int, position: int) -> tuple[bool, list[tuple[int, int]]]:
        """What of the log behind `base` led from there to `position`: the first and the last event of each stretch.

        And whether it begins with an event that holds the whole state, for which `base` is not needed. None if the
        state at `base` was undone on the way.
        """
        rollbacks: dict[int, int | None] = {}
        for at, record in self.store.read(self.name, base):
            if at > position:
                break
            if record.kind == Swapped.KIND:
                rollbacks[at] = None
            if record.kind == RolledBack.KIND:
                event = decode_event(record.kind, record.payload)
                assert isinstance(event, RolledBack)  # noqa: S101  decode_event checks the kind
                rollbacks[at] = event.to
        found = []
        while back := [at for at in rollbacks if at <= position]:
            found.append((back[-1], position))
            to = rollbacks[back[-1]]
            if to is None:
                return True, found[::-1]
            position = to
        if position < base:
            return False, []
        found.append((base + 1, position))
        return False, found[::-1]

    def _along(self, stretches: list[tuple[int, int]], model: Model | None) -> Model:
        for first, last in stretches:
            for at, record in self.store.read(self.name, first - 1):
                if at > last:
                    break
                event = decode_event(record.kind, record.payload)
                if isinstance(event, Erased) or (isinstance(event, Learned) and event.numbers is not None):
                    raise Conflict(f"what event {at} of model {self.name} held was forgotten, and the states before")
                if model is None:
                    model = Model.begin(self.name, at, event, **self._sizes)
                    warm_up(model.configuration.solver, model.configuration.dtype)
                elif isinstance(event, RolledBack):
                    model.roll_back(at, event, model)
                else:
                    self.apply(model, at, event)
        if model is None or model.position != stretches[-1][1]:
            raise BadFrame(f"the log of model {self.name} ends before event {stretches[-1][1]}")
        return model

    def _check_reach(self, position: int) -> None:
        """Conflict if the log has lost its beginning, and no snapshot leads to this position."""
        first, _ = next(self.store.read(self.name, 0), (None, None))
        if first != 1:
            begin = "is empty" if first is None else f"begins with event {first}"
            raise Conflict(
                f"the state of model {self.name} at position {position} is gone: its log {begin}, and no readable "
                "snapshot leads there"
            )


def load_model(store: Store, name: str, *, cache_bytes: int, answers_kept: int) -> Model:
    """A model as its log says. Damaged, ValueError or Conflict where that cannot be read."""
    return History(store, name, cache_bytes=cache_bytes, answers_kept=answers_kept).newest()
