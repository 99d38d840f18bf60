"""What is learned, and predicted before its label is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from hinged.frames import PIECE, encode
from hinged.service.data.classes import Label
from hinged.service.data.examples import SERVER_ID
from hinged.service.data.inputs import Inputs, inputs_state, read_inputs
from hinged.service.model.events.facts import Array, Facts, sixteens
from hinged.service.model.pending import Prediction, predictions_state, read_predictions


@dataclass(frozen=True, slots=True)
class ClassAdded(Facts):
    """A label that was not seen before gets the next class number."""

    KIND: ClassVar[str] = "class_added"
    label: Label


@dataclass(frozen=True, slots=True)
class Learned:
    """A micro-batch. Examples are numbered from 1 on; the first here has number `first`.

    ids (m,): what the client gave, None where the server gives one. classes (m,) int32. inputs: the m points.
    contents: m times 16 bytes that tell equal examples from others. sources (m,) uint8: why each label came
    (metrics.py). numbers (m,) int64: where some of them were forgotten, the numbers of those that are left.
    annotators (m,): who answered a question with it, None where nobody did; empty where nobody did at all.
    votes (m,): where several labels were asked for, each annotator's; empty where they were of no example.
    """

    KIND: ClassVar[str] = "learned"
    first: int
    ids: list[str | None]
    classes: Array
    inputs: Inputs
    contents: list[bytes]
    at_ms: int
    sources: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    numbers: Array | None = None
    annotators: Sequence[str | None] = ()
    votes: Sequence[Sequence[tuple[str, Label]]] = ()

    @property
    def keys(self) -> Array:
        """(m,) the examples' numbers."""
        return np.arange(self.first, self.first + len(self.ids)) if self.numbers is None else self.numbers

    def part(self, begin: int, end: int) -> Learned:
        """The examples begin..end as a batch of their own."""
        if end - begin == len(self.ids):
            return self
        return Learned(
            first=self.first + begin,
            ids=self.ids[begin:end],
            classes=self.classes[begin:end],
            inputs=self.inputs.part(begin, end),
            contents=self.contents[begin:end],
            at_ms=self.at_ms,
            sources=self.sources[begin:end],
            numbers=None if self.numbers is None else self.numbers[begin:end],
            annotators=self.annotators[begin:end],
            votes=self.votes[begin:end],
        )

    def take(self, wanted: Array) -> Learned:
        """These rows as a batch of their own."""
        return replace(
            self,
            ids=[self.ids[r] for r in wanted],
            classes=self.classes[wanted],
            inputs=self.inputs.take(wanted),
            contents=[self.contents[r] for r in wanted],
            sources=self.sources[wanted],
            numbers=self.keys[wanted],
            annotators=[self.annotators[r] for r in wanted] if self.annotators else (),
            votes=[self.votes[r] for r in wanted] if self.votes else (),
        )

    def with_inputs(self, inputs: Inputs) -> Learned:
        """The same examples in other rows."""
        return self if inputs is self.inputs else replace(self, inputs=inputs)

    def encode(self) -> bytes:
        """The event's payload."""
        facts, arrays = inputs_state(self.inputs)
        facts |= {"first": self.first, "ids": self.ids, "at_ms": self.at_ms}
        if self.annotators:
            facts["annotators"] = list(self.annotators)
        if self.votes:
            facts["votes"] = [[list(vote) for vote in votes] for votes in self.votes]
        arrays |= {
            "classes": self.classes,
            "contents": np.frombuffer(b"".join(self.contents), np.uint8),
            "sources": self.sources,
        }
        arrays |= {} if self.numbers is None else {"numbers": self.numbers}
        return encode(self.KIND, facts, arrays, long=len(self.ids) > PIECE)

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload."""
        inputs, contents = read_inputs(facts, arrays), sixteens(arrays["contents"])
        sources = arrays.get("sources", np.zeros(len(contents), np.uint8))
        first, ids, classes, numbers = facts["first"], facts["ids"], arrays["classes"], arrays.get("numbers")
        annotators = facts.get("annotators", ())
        votes = [[(voter, label) for voter, label in row] for row in facts.get("votes", ())]
        return cls(first, ids, classes, inputs, contents, facts["at_ms"], sources, numbers, annotators, votes)

    @property
    def given_ids(self) -> tuple[str, ...]:
        """The ids that clients gave."""
        return tuple(i for i in self.ids if i is not None)

    def id_of(self, index: int) -> str:
        """The id of an example of this batch."""
        return self.ids[index] or f"{SERVER_ID}{self.keys[index]}"


@dataclass(frozen=True, slots=True)
class Finished(Facts):
    """The finishing step was run, after so many further epochs over the log."""

    KIND: ClassVar[str] = "finished"
    at_ms: int
    epochs: int = 0


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predictions that wait for their labels."""

    KIND: ClassVar[str] = "predicted"
    predictions: list[Prediction]
    at_ms: int

    def encode(self) -> bytes:
        """The event's payload."""
        facts, arrays = predictions_state(self.predictions)
        long = len(self.predictions) > PIECE
        return encode(self.KIND, {"predictions": facts, "at_ms": self.at_ms}, arrays, long=long)

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload."""
        return cls(read_predictions(facts["predictions"], arrays), facts["at_ms"])
