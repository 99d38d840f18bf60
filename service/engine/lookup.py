"""Find examples in a model's log: facts that the model no longer keeps in memory, and positions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from hinged.frames import contains
from hinged.service.commands.change import Located
from hinged.service.data.examples import SERVER_ID
from hinged.service.data.inputs import content_of, x_digests
from hinged.service.model.answers import FirstAnswer, FirstAnswers
from hinged.service.model.events import KINDS, ModelEvent, decode_event
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.events.states import ModelImported
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.model import Model
from hinged.service.model.state import answers_of, ids_of
from hinged.service.store.base import Damaged, Store


class Lookup:
    """Finds examples in the log of one model by id."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._imported: FirstAnswers | None = None  # an imported model's first answers, from its first event

    def forget(self) -> None:
        """Drop everything that was read."""
        self._imported = None

    def first_answers(self, model: Model, ids: Sequence[str]) -> dict[str, FirstAnswer]:
        """Return the contents of the examples whose first answers the model no longer keeps. The contents are read from
        the log.
        """
        if model.answers.oldest == 1:
            return {}
        by_position: dict[int, list[str]] = {}
        for given, position in self._store.find(self._name, ids).items():
            if model.counts(position):
                by_position.setdefault(position, []).append(given)
        found: dict[str, FirstAnswer] = {}
        for position, given_ids in by_position.items():
            event = self._event_at(position)
            if isinstance(event, ExamplesLearned):
                places = {given: r for r, given in enumerate(event.ids)}
                found |= {
                    given: self._first_answer(model, event, places[given]) for given in given_ids if given in places
                }
            elif isinstance(event, ModelImported):
                if self._imported is None:  # read only once, because the event is as large as the model was
                    self._imported = answers_of(event.state)
                answers = [(given, self._imported.find(given)) for given in given_ids]
                found |= {given: replace(a, prediction=UNKNOWN, score=0.0) for given, a in answers if a is not None}
        return found

    def _first_answer(self, model: Model, event: ExamplesLearned, r: int) -> FirstAnswer:
        """Return the content and label of a logged example. If the label was corrected, return the corrected label."""
        content, label = event.contents[r], int(event.classes[r])
        corrected = model.corrections.get(int(event.keys[r]), label)
        if corrected != label:
            digest = x_digests(event.inputs.row(r))[0]
            content = content_of(digest, model.labels.labels[corrected])
        return FirstAnswer(content, corrected, UNKNOWN, 0.0)

    def locate(self, model: Model, given: str) -> Located | None:
        """Return the place of an example in the log. May run on any thread.

        Return None if the log does not contain the example, or no longer contains it.
        """
        if given.startswith(SERVER_ID):
            number = model.answers.number_of(given)
            return self._find_number(model, number) if number is not None else None
        for position in self._store.find(self._name, [given]).values():
            event = self._event_at(position)
            if isinstance(event, ExamplesLearned) and given in event.ids:
                return _located(position, event, event.ids.index(given))
            if isinstance(event, ModelImported) and (number := answers_of(event.state).number_of(given)) is not None:
                return Located(position, number, None)
        return None

    def names(self, given: str) -> bool:
        """Return whether an event or a snapshot names an example, although the model may have dropped it. May run on
        any thread, and reads the whole log.
        """
        quoted = json.dumps(given).encode()  # as in the facts of a frame; found faster than the facts are read
        for _, record in self._store.read_around(self._name, 0):
            if contains(record.payload, quoted):
                kind = KINDS.get(record.kind)
                try:
                    if kind is None or given in kind.named(record.payload):
                        return True
                except (KeyError, TypeError, ValueError):  # the event cannot be read, so it may name the example
                    return True
        for position in self._store.snapshots(self._name):
            with suppress(KeyError, ValueError, Damaged):  # a newer snapshot replaced it, or nobody can read it
                state = self._store.get_snapshot(self._name, position)
                if contains(state, quoted) and given in ids_of(state):
                    return True
        return False

    def _find_number(self, model: Model, number: int) -> Located | None:
        """Find an example without an id by its number, and return its place. The store has no index for numbers."""
        for position, record in self._store.read(self._name, 0):
            if record.kind == ExamplesLearned.KIND and model.counts(position):
                event = ExamplesLearned.decoded(record.payload)
                for row in np.flatnonzero(event.keys == number).tolist():
                    return _located(position, event, row) if event.ids[row] is None else None
        return None

    def _event_at(self, position: int) -> ModelEvent | None:
        """Return an event of the log; None if it has been trimmed, perhaps during this call."""
        try:
            at, record = next(self._store.read(self._name, position - 1), (0, None))
        except Damaged:
            at, record = next(self._store.read(self._name, 0), (0, None))
            if at <= position:
                raise
        return decode_event(record.kind, record.payload) if record is not None and at == position else None


def _located(position: int, event: ExamplesLearned, row: int) -> Located:
    x = event.inputs.row(row)
    return Located(position, int(event.keys[row]), x_digests(x)[0], x, int(event.classes[row]))
