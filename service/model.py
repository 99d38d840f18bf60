"""A model is a fold over its log: state = fold(apply, log).

`apply` is deterministic and does no I/O, reads no clock and draws from no generator but the solver's own, so the same
events give the same state to the bit, whether they came one by one, in batches, or again after a crash.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.answers import Answers
from service.configuration import read_configuration
from service.events import ClassAdded, Created, Finished, Learned, ModelEvent
from service.frames import decode, encode
from service.labels import Label, Labels
from service.metrics import STREAMED, UNKNOWN, Prequential
from service.parts import Configuration
from solvers.rows import Rows
from solvers.solver import Finish, View

Array = np.ndarray[Any, Any]

SNAPSHOT = "model"
FORMAT = 2  # of snapshots; CHANGELOG.md tells what changed


def predicted(columns: Array, classes: int) -> tuple[Array, Array]:
    """Class numbers (m,) and the scores (m,) of those classes, from decision values (m, K) of the columns.

    With one column the second class is its positive side. Without any class the prediction is UNKNOWN, the score 0.
    """
    m = columns.shape[0]
    if classes == 0:
        return np.full(m, UNKNOWN, np.int32), np.zeros(m)
    if columns.shape[1] == 1:
        f = columns[:, 0]
        second = (f > 0) & (classes > 1)
        return second.astype(np.int32), np.where(second, f, 0.0 - f)
    numbers = columns.argmax(axis=1)
    return numbers.astype(np.int32), columns[np.arange(m), numbers]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `apply` found: for a learned batch the class numbers and scores from right before each example."""

    predictions: Array
    scores: Array
    finish: Finish | None = None


NOTHING = Outcome(np.zeros(0, np.int32), np.zeros(0))


@dataclass(frozen=True, slots=True)
class Published:
    """What predictions read. It never changes; learning publishes another."""

    view: View
    labels: tuple[Label, ...]
    names: tuple[str, ...]
    position: int
    examples: int

    def predict(self, rows: Rows) -> list[tuple[Label | None, dict[str, float]]]:
        """For each row the predicted label (None while no class is known) and the score of each class by name."""
        if not self.labels:
            return [(None, {})] * len(rows)
        columns = self.view.decision(rows)
        numbers, _ = predicted(columns, len(self.labels))
        if columns.shape[1] == 1:
            columns = np.concatenate((0.0 - columns, columns), axis=1)[:, : len(self.labels)]
        return [
            (self.labels[number], dict(zip(self.names, scores, strict=True)))
            for number, scores in zip(numbers.tolist(), columns.tolist(), strict=True)
        ]


class Model:
    """The state of one model: solver, labels, metrics, first answers."""

    def __init__(self, name: str, configuration: Configuration, *, cache_bytes: int, answers_kept: int) -> None:
        self.name = name
        self.configuration = configuration
        self.position = 0
        self.learned = 0
        self.solver = configuration.build_solver(cache_bytes)
        self.labels = Labels()
        self.metrics = Prequential()
        self.answers = Answers(answers_kept)
        for label in configuration.classes or ():
            self._add_class(label)

    def _add_class(self, label: Label) -> None:
        self.labels.add(label)
        self.solver.add_class(self.configuration.weight_of(label))
        self.metrics.add_class()

    # -- the fold -------------------------------------------------------------------------------------------------

    def apply(self, position: int, event: ModelEvent) -> Outcome:
        """Take in the event at this position of the log. It was validated before it was logged."""
        if position != self.position + 1:
            raise ValueError(f"model {self.name} stands at position {self.position}, got the event of {position}")
        outcome = NOTHING
        match event:
            case Created():
                pass
            case ClassAdded():
                self._add_class(event.label)
            case Learned():
                outcome = self._learn(event)
            case Finished():
                outcome = Outcome(NOTHING.predictions, NOTHING.scores, self.solver.finish())
        self.position = position
        return outcome

    def _learn(self, event: Learned) -> Outcome:
        m = len(event.ids)
        keys = np.arange(event.first, event.first + m)
        columns = self.solver.learn(event.rows, event.classes, keys)
        # Before the first example of all nothing is known, whatever classes were declared.
        numbers, scores = predicted(columns, len(self.labels))
        if self.learned == 0 and m:
            numbers[0], scores[0] = UNKNOWN, 0.0
        self.metrics.add(columns, numbers, event.classes, np.full(m, STREAMED, np.uint8))
        self.answers.add(event, numbers, scores)
        self.learned += m
        return Outcome(numbers, scores)

    # -- reading --------------------------------------------------------------------------------------------------

    def published(self) -> Published:
        """The present state for predictions."""
        seen = tuple(self.labels.labels) if self.learned else ()
        return Published(self.solver.view(), seen, tuple(self.labels.names), self.position, self.learned)

    def describe(self) -> dict[str, Any]:
        """The model in figures."""
        certificate = self.solver.certificate()
        return {
            "model": self.name,
            "configuration": self.configuration.model_dump(mode="json"),
            "position": self.position,
            "examples": self.learned,
            "classes": list(self.labels.labels),
            "support_vectors": certificate["support_vectors"],
            "points": certificate["points"],
            "duality_gap": certificate["gap"],
            "certificate": certificate,
            "metrics": self.metrics.figures(self.labels.labels),
            "memory_bytes": self.solver.memory_bytes(),
        }

    # -- state ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state as one frame."""
        answer_facts, answer_arrays = self.answers.state()
        facts = {
            "format": FORMAT,
            "configuration": self.configuration.model_dump(mode="json"),
            "position": self.position,
            "learned": self.learned,
            "labels": self.labels.labels,
            "answers": answer_facts,
        }
        arrays = {f"solver.{name}": array for name, array in self.solver.state().items()}
        arrays |= {f"metrics.{name}": array for name, array in self.metrics.state().items()}
        arrays |= {f"answers.{name}": array for name, array in answer_arrays.items()}
        return encode(SNAPSHOT, facts, arrays)

    @classmethod
    def restore(cls, name: str, snapshot: bytes, *, cache_bytes: int, answers_kept: int) -> Model:
        """The model of a snapshot. ValueError (BadFrame) if the bytes are none or do not fit together."""
        facts, arrays = decode(snapshot, SNAPSHOT)
        if facts["format"] != FORMAT:
            raise ValueError(f"the snapshot has format {facts['format']}, this version reads {FORMAT}")
        configuration = read_configuration(facts["configuration"])
        model = cls(name, configuration, cache_bytes=cache_bytes, answers_kept=answers_kept)

        def part(prefix: str) -> dict[str, Array]:
            return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}

        model.labels = Labels()
        for label in facts["labels"]:
            model.labels.add(label)
        model.solver.load(part("solver."))
        if model.solver.classes != len(model.labels):
            raise ValueError(f"the snapshot has {len(model.labels)} labels for {model.solver.classes} classes")
        model.metrics.load(part("metrics."))
        if model.metrics.classes != len(model.labels):
            raise ValueError(f"the snapshot has {len(model.labels)} labels for metrics of {model.metrics.classes}")
        model.answers.load(facts["answers"], part("answers."))
        model.position, model.learned = facts["position"], facts["learned"]
        return model

    def digest(self) -> str:
        """A hash of the whole state but the position: equal for equal folds, however they were batched."""
        position, self.position = self.position, 0
        try:
            return hashlib.sha256(self.snapshot()).hexdigest()
        finally:
            self.position = position
