"""Events of learning, and of predictions that wait for their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hinged.frames import PIECE, encode, peek
from hinged.service.data.classes import Label, label_key
from hinged.service.data.examples import SERVER_ID
from hinged.service.data.inputs import Inputs, inputs_state, read_inputs
from hinged.service.model.events.base import (
    NOTHING,
    Array,
    ErasedWhole,
    Facts,
    ModelEvent,
    NamesNoExample,
    Outcome,
    Redacted,
    Untold,
    sixteens,
)
from hinged.service.model.pending import Prediction, predictions_state, read_predictions
from hinged.service.model.tombstones import Tombstones
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import CLASSES_MAX, columns_of
from hinged.solvers.core.states import BOUND_MAX

if TYPE_CHECKING:
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model


@dataclass(frozen=True, slots=True)
class ClassAdded(Facts, NamesNoExample):
    """A new label got the next class number. This is the only kind of event without a time."""

    KIND: ClassVar[str] = "class_added"
    label: Label
    at_ms: int = field(default=0, init=False)

    def encode(self) -> bytes:
        return encode(self.KIND, {"label": self.label}, {})

    def admit(self, coming: Coming) -> None:
        """Refuse a known label, any label if the model has CLASSES_MAX classes, and a label whose weight times C is not
        a valid bound.
        """
        key, model = label_key(self.label), coming.model
        if model.labels.number(self.label) is not None or key in coming.added or coming.classes >= CLASSES_MAX:
            raise ValueError(f"{key} is a class already, or there are {CLASSES_MAX} classes")
        for learner in (model.learner, *model.shadows.values()):
            if not 0 < learner.solver.C * learner.configuration.weight_of(self.label) < BOUND_MAX:
                raise ValueError(f"C times the weight of {key} must be > 0 and < {BOUND_MAX:g}")
        coming.added.add(key)

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Add the class to all learners."""
        for learner in model.learners:
            learner.add_class(self.label)
        return NOTHING

    def told(self) -> dict[str, Any]:
        return {"label": self.label}


@dataclass(frozen=True, slots=True)
class ExamplesLearned(ModelEvent):
    """A learned micro-batch. Examples are numbered from 1 on; the first example of the batch has the number `first`.

    ids: (m,) the ids from the client, None where the server gives the id.
    classes: (m,) int32 class numbers. inputs: the m points.
    contents: m times 16 bytes that identify the example's x and y.
    sources: (m,) uint8, how each label was obtained (metrics.py).
    numbers: (m,) int64, the numbers of the remaining examples, if some examples were forgotten.
    annotators: (m,) for each example, the annotator whose answer to a question gave the label, or None. Empty if all
    are None.
    votes: (m,) for each example, the label that each annotator gave, if several were asked. Empty if no example has
    several annotators.
    weights: (m,) float64, the examples' own factors of C. None if each is 1.
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
    weights: Array | None = None

    @property
    def keys(self) -> Array:
        """Return the numbers (m,) of the examples."""
        return np.arange(self.first, self.first + len(self.ids)) if self.numbers is None else self.numbers

    def part(self, begin: int, end: int) -> ExamplesLearned:
        """Return the examples begin to end - 1 as a batch."""
        if end - begin == len(self.ids):
            return self
        return ExamplesLearned(
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
            weights=None if self.weights is None else self.weights[begin:end],
        )

    def take(self, wanted: Array) -> ExamplesLearned:
        """Return these rows as a batch."""
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
            weights=None if self.weights is None else self.weights[wanted],
        )

    def with_inputs(self, inputs: Inputs) -> ExamplesLearned:
        """Return the same examples with different rows."""
        return self if inputs is self.inputs else replace(self, inputs=inputs)

    def encode(self) -> bytes:
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
        arrays |= {} if self.weights is None else {"weights": self.weights}
        return encode(self.KIND, facts, arrays, long=len(self.ids) > PIECE)

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        inputs, contents = read_inputs(facts, arrays), sixteens(arrays["contents"])
        sources = arrays.get("sources", np.zeros(len(contents), np.uint8))
        first, ids, classes, numbers = facts["first"], facts["ids"], arrays["classes"], arrays.get("numbers")
        annotators = facts.get("annotators", ())
        votes = [[(voter, label) for voter, label in row] for row in facts.get("votes", ())]
        told = annotators, votes, arrays.get("weights")
        return cls(first, ids, classes, inputs, contents, facts["at_ms"], sources, numbers, *told)

    @property
    def given_ids(self) -> tuple[str, ...]:
        return tuple(i for i in self.ids if i is not None)

    def id_of(self, index: int) -> str:
        """Return the id of an example of this batch."""
        return self.ids[index] or f"{SERVER_ID}{self.keys[index]}"

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """Return the batch without the forgotten examples."""
        given = peek(payload, cls.KIND)["ids"]  # this takes a sixth of the time of reading the rows
        if None not in given and not tombstones.known(given):
            return None
        event = cls.decoded(payload)
        ids = [event.id_of(r) for r in range(len(event.ids))]
        gone = [r for r, each in enumerate(ids) if tombstones.knows(each)]
        if not gone:
            return None
        return Redacted(event.take(np.delete(np.arange(len(ids)), gone)), [ids[r] for r in gone])

    @property
    def is_partial(self) -> bool:
        return self.numbers is not None

    def admit(self, coming: Coming) -> None:
        """Refuse examples whose numbers do not follow the learned examples. Also refuse examples that are inconsistent,
        or do not fit the model and its solver.
        """
        m, classes, model = len(self.ids), self.classes, coming.model
        if self.first != coming.learned + 1 or not m:
            raise ValueError(
                f"{m} examples from number {self.first} on cannot follow {coming.learned} learned examples"
            )
        if not m == len(self.inputs) == len(self.contents) == classes.size == self.sources.size:
            raise ValueError(f"classes, contents and sources must have an entry for each of the {m} examples")
        if self.weights is not None:
            if self.weights.shape != (m,):
                raise ValueError(f"weights must have an entry for each of the {m} examples")
            model.learner.check_weights(self.weights)
        if m + coming.held > model.room:
            raise ValueError(f"there is room for {model.room} examples, got {m + coming.held}")
        if not (classes.min() >= 0 and classes.max() < coming.classes):
            raise ValueError(f"classes must be from 0 to {coming.classes - 1}")
        coming.check_x(self.inputs)
        if model.learner.warmup.encoder is None:
            assert isinstance(self.inputs, Rows)  # noqa: S101  records always have an encoder
            keys = np.arange(self.first, self.first + m)
            model.solver.check_batch(self.inputs, classes, keys, announced=coming.classes)
        coming.learned += m
        coming.held += m

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Predict each example, then learn it. Add the result to the learning curves."""
        outcome = model.learn(self)
        model.curves.note(position, model.learned, model.at_ms, model.learner, model.shadows)
        return outcome

    def told(self) -> dict[str, Any]:
        learned = int(self.keys[-1]) if len(self.ids) else self.first - 1
        return {"examples": len(self.ids), "learned": learned}


def weights_of(weights: Sequence[float]) -> Array | None:
    """Return the weights of examples as an event keeps them: None if each is 1."""
    return None if weights.count(1.0) == len(weights) else np.array(weights, np.float64)


@dataclass(frozen=True, slots=True)
class ExampleRevised(Facts, ErasedWhole, Untold):
    """Another program changed its copy of the example with this id at `changed_ms` (revisions.py)."""

    KIND: ClassVar[str] = "revised"
    id: str
    changed_ms: int
    at_ms: int

    @classmethod
    def named(cls, payload: bytes) -> list[str | None]:
        return [peek(payload, cls.KIND)["id"]]

    def admit(self, coming: Coming) -> None:
        """Accept always."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Record the time of the change."""
        model.revisions.note(self.id, self.changed_ms)
        return NOTHING


@dataclass(frozen=True, slots=True)
class TrainingFinished(Facts, NamesNoExample):
    """The finishing step was run, after a number of further epochs over the log.

    whole: whether the step after an epoch optimises over the whole log, and not only over the points. Before 0.3.0 it
    never did.
    """

    KIND: ClassVar[str] = "finished"
    MARKED: ClassVar[bool] = True
    at_ms: int
    epochs: int = 0
    whole: bool = False

    def admit(self, coming: Coming) -> None:
        """Accept always."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Finish the learner that predicts, and the challengers."""
        for shadow in model.shadows.values():
            if shadow.stopped is None:
                shadow.finish(self, epoch)
        found = model.learner.finish(self, epoch)
        model.reads_back_at = position if self.epochs else model.reads_back_at
        return Outcome(NOTHING.predictions, NOTHING.scores, found)

    def told(self) -> dict[str, Any]:
        return {"epochs": self.epochs}


@dataclass(frozen=True, slots=True)
class PredictionsMade(ErasedWhole):
    """Predictions that wait for their labels."""

    KIND: ClassVar[str] = "predicted"
    predictions: list[Prediction]
    at_ms: int

    def encode(self) -> bytes:
        facts, arrays = predictions_state(self.predictions)
        long = len(self.predictions) > PIECE
        return encode(self.KIND, {"predictions": facts, "at_ms": self.at_ms}, arrays, long=long)

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        return cls(read_predictions(facts["predictions"], arrays), facts["at_ms"])

    @classmethod
    def named(cls, payload: bytes) -> list[str | None]:
        return [*peek(payload, cls.KIND)["predictions"]["ids"]]

    def admit(self, coming: Coming) -> None:
        """Refuse predictions that do not fit this model's form and classes."""
        for prediction in self.predictions:
            coming.check_x(prediction.x)
            if prediction.columns.size > columns_of(coming.classes) or prediction.number >= coming.classes:
                raise ValueError(f"a prediction must be of at most {coming.classes} classes")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Store the predictions until their labels come."""
        model.keep(self.predictions)
        return NOTHING

    def told(self) -> dict[str, Any]:
        return {"predictions": len(self.predictions)}
