"""Whether a model can take events in: what is asked before anything is appended.

What stands in the log must be applicable for ever, so nothing is appended that `Model.apply` could refuse. Commands and
plans refuse what a client should not have sent; this is the last look at what they made of it, in one place. An event
that it refuses is an error of the server's own: nothing of it is in the log, and the model goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hinged.service.data.classes import Label, label_key
from hinged.service.data.configuration import read_configuration
from hinged.service.data.inputs import Inputs, Records
from hinged.service.model.events import (
    ClassAdded,
    Corrected,
    Created,
    Erased,
    Forgotten,
    Imported,
    Intended,
    Learned,
    Leased,
    ModelEvent,
    Offered,
    Predicted,
    Promoted,
    Reconfigured,
    Released,
    Renewed,
    RolledBack,
    Shown,
    Skipped,
    Unskipped,
    Voted,
)
from hinged.service.model.model import Model
from hinged.service.model.tombstones import MARK_BYTES, SALT_BYTES
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import CLASSES_MAX, columns_of
from hinged.solvers.core.states import BOUND_MAX


class Inapplicable(Exception):
    """An event that the model could not take in."""


def check_events(model: Model, events: Sequence[ModelEvent]) -> None:
    """Raise Inapplicable where one of these events, in order, could not be applied. Changes nothing."""
    coming = _Coming(model)
    for event in events:
        try:
            coming.take(event)
        except (ValueError, KeyError, TypeError) as error:
            raise Inapplicable(f"{event.KIND}: {error}") from error


class _Coming:
    """A model and the events that come before the one that is looked at."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.added = set[str]()  # classes, by their keys
        self.learned = model.learned
        self.held = 0  # examples of the events before, each perhaps a point

    @property
    def classes(self) -> int:
        """How many there are by then."""
        return len(self.model.labels) + len(self.added)

    def take(self, event: ModelEvent) -> None:
        """Look at one event, then count it among those that have come."""
        match event:
            case ClassAdded():
                self._class(event.label)
            case Learned():
                self._examples(event)
            case Predicted():
                for prediction in event.predictions:
                    self._x(prediction.x)
                    if prediction.columns.size > columns_of(self.classes) or prediction.number >= self.classes:
                        raise ValueError(f"a prediction of more than {self.classes} classes")
            case Offered():
                self._x(event.inputs)
                if not len(event.ids) == len(event.digests) == len(event.labels) == len(event.inputs):
                    raise ValueError("ids, digests and labels must be as many as the candidates")
                if len(event.shows) not in (0, len(event.ids)):
                    raise ValueError("what is shown must be as many as the candidates, or nothing")
            case Shown():
                if len(event.shows) != len(event.ids) or None in map(self.model.pool.find, event.ids):
                    raise ValueError("what is shown must be as many as the candidates, all of them in the pool")
            case Leased():
                for lease in event.leases:
                    if self.model.pool.find(lease["id"]) is None:
                        raise ValueError("there is no such candidate")
            case Renewed() | Released() | Skipped() | Unskipped() | Voted():
                if self.model.pool.find_lease(event.token) is None:
                    raise ValueError("there is no such lease")
            case Created() | Imported() | Erased():
                raise ValueError("no such event comes behind others")
            case RolledBack():
                if not (1 <= event.to <= self.model.position and self.model.counts(event.to)):
                    raise ValueError(f"there is no state to go back to at position {event.to}")
            case _:
                self._change(event)

    def _change(self, event: ModelEvent) -> None:
        match event:
            case Forgotten():
                if (len(bytes.fromhex(event.mark)), len(bytes.fromhex(event.salt))) != (MARK_BYTES, SALT_BYTES):
                    raise ValueError("mark and salt are 16 bytes each")
            case Corrected():
                if not (0 <= event.label < self.classes and 1 <= event.number <= self.learned):
                    raise ValueError(f"there is no example {event.number} or no class {event.label}")
                if len(bytes.fromhex(event.content)) != 16:
                    raise ValueError("a content has 16 bytes")
            case Intended() | Reconfigured():
                read_configuration(event.configuration)
            case Promoted():
                if event.shadow not in self.model.shadows:
                    raise ValueError(f"there is no challenger {event.shadow!r}")
            case _:
                pass

    def _class(self, label: Label) -> None:
        known = self.model.labels.number(label) is not None or label_key(label) in self.added
        if known or self.classes >= CLASSES_MAX:
            raise ValueError(f"{label_key(label)} is a class already, or one more than {CLASSES_MAX}")
        for learner in (self.model.learner, *self.model.shadows.values()):
            if not 0 < learner.solver.C * learner.configuration.weight_of(label) < BOUND_MAX:
                raise ValueError(f"C times the weight of {label_key(label)} must be > 0 and < {BOUND_MAX:g}")
        self.added.add(label_key(label))

    def _examples(self, event: Learned) -> None:
        m, classes = len(event.ids), event.classes
        if event.first != self.learned + 1 or not m:
            raise ValueError(f"{m} examples from number {event.first} on, behind {self.learned} that were learned")
        if not m == len(event.inputs) == len(event.contents) == classes.size == event.sources.size:
            raise ValueError(f"classes, contents and sources must be as many as the examples, {m}")
        if m + self.held > self.model.room:
            raise ValueError(f"there is room for {self.model.room} examples, got {m + self.held}")
        if not (classes.min() >= 0 and classes.max() < self.classes):
            raise ValueError(f"classes must be from 0 to {self.classes - 1}")
        self._x(event.inputs)
        if self.model.learner.warmup.encoder is None:
            assert isinstance(event.inputs, Rows)  # noqa: S101  records are those of named features
            keys = np.arange(event.first, event.first + m)
            self.model.solver.check_batch(event.inputs, classes, keys, announced=self.classes)
        self.learned += m
        self.held += m

    def _x(self, inputs: Inputs) -> None:
        if isinstance(inputs, Records) != (self.model.vocabulary is not None):
            raise ValueError("x has another form than the model's features")
        if isinstance(inputs, Records):
            return
        dim = self.model.configuration.features.dim
        if not self.model.learner.takes(inputs) or inputs.dim != dim:
            raise ValueError(
                f"rows must have {dim} features in the form of the model's configuration, got {inputs.dim} in "
                f"{inputs.values.dtype} and sizes of {inputs.measure}"
            )
