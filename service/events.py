"""The events of a model's log: everything that changes a model, in the order in which it did.

created     the configuration; the first, unless that is
imported    the state of a model that was exported
class_added a label that gets the next class number
learned     a micro-batch of examples, in order
finished    the finishing step was run, perhaps after further epochs
predicted   predictions that wait for their labels
offered     candidates for the pool
leased      candidates lent to an annotator, and what the request for them said
renewed, released, skipped    what an annotator did with a lease
voted       one of several labels that a candidate needs
rolled_back the state became again what it was at an earlier position

at_ms is the time of an event, milliseconds since 1970; in a log it never falls.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from service.examples import SERVER_ID
from service.frames import BadFrame, decode, encode
from service.inputs import Inputs, inputs_state, read_inputs
from service.labels import Label
from service.pending import Prediction, predictions_state, read_predictions

Array = np.ndarray[Any, Any]


class Facts:
    """An event without arrays: its fields are its payload."""

    KIND: ClassVar[str]

    def encode(self) -> bytes:
        """The event's payload."""
        return encode(self.KIND, asdict(self), {})  # type: ignore[call-overload]

    @classmethod
    def read(cls, facts: dict[str, Any], _: dict[str, Array]) -> Self:
        """The event of a payload."""
        return cls(**facts)


@dataclass(frozen=True, slots=True)
class Created(Facts):
    """A model begins."""

    KIND: ClassVar[str] = "created"
    configuration: dict[str, Any]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Imported:
    """A model begins with the state of another: `state` is a snapshot, `ids` those of its examples that it knows."""

    KIND: ClassVar[str] = "imported"
    state: bytes
    at_ms: int
    ids: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """The event's payload. The ids stand in the state."""
        return encode(self.KIND, {"at_ms": self.at_ms}, {"state": np.frombuffer(self.state, np.uint8)})

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload."""
        return cls(arrays["state"].tobytes(), facts["at_ms"])


@dataclass(frozen=True, slots=True)
class RolledBack(Facts):
    """The state became what it was at position `to`; what the log holds between counts no longer."""

    KIND: ClassVar[str] = "rolled_back"
    to: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class ClassAdded(Facts):
    """A label that was not seen before gets the next class number."""

    KIND: ClassVar[str] = "class_added"
    label: Label


@dataclass(frozen=True, slots=True)
class Finished(Facts):
    """The finishing step was run, after so many further epochs over the log."""

    KIND: ClassVar[str] = "finished"
    at_ms: int
    epochs: int = 0


@dataclass(frozen=True, slots=True)
class Leased(Facts):
    """Candidates were lent. leases: id, token, expires_ms, reason, score of each. again: tokens held already.

    fingerprint: what the request said, where it has an id.
    """

    KIND: ClassVar[str] = "leased"
    annotator: str
    request_id: str | None
    fingerprint: str
    leases: list[dict[str, Any]]
    again: list[str]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Renewed(Facts):
    """A lease lasts longer."""

    KIND: ClassVar[str] = "renewed"
    token: str
    expires_ms: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Released(Facts):
    """A lease was given back."""

    KIND: ClassVar[str] = "released"
    token: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Skipped(Facts):
    """A lease was given back: its annotator, or nobody, is to be asked again."""

    KIND: ClassVar[str] = "skipped"
    token: str
    for_all: bool
    at_ms: int


@dataclass(frozen=True, slots=True)
class Voted(Facts):
    """An annotator's label for a candidate that needs several."""

    KIND: ClassVar[str] = "voted"
    token: str
    label: Label
    at_ms: int


@dataclass(frozen=True, slots=True)
class Offered:
    """Candidates for the pool, m of them; labels: those that are known, for selection alone."""

    KIND: ClassVar[str] = "offered"
    ids: list[str]
    inputs: Inputs
    digests: list[bytes]
    labels: list[Label | None]
    at_ms: int

    def encode(self) -> bytes:
        """The event's payload."""
        facts, arrays = inputs_state(self.inputs)
        facts |= {"ids": self.ids, "labels": self.labels, "at_ms": self.at_ms}
        return encode(self.KIND, facts, arrays | {"digests": np.frombuffer(b"".join(self.digests), np.uint8)})

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload."""
        inputs = read_inputs(facts, arrays)
        return cls(facts["ids"], inputs, _sixteens(arrays["digests"]), facts["labels"], facts["at_ms"])


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predictions that wait for their labels."""

    KIND: ClassVar[str] = "predicted"
    predictions: list[Prediction]
    at_ms: int

    def encode(self) -> bytes:
        """The event's payload."""
        facts, arrays = predictions_state(self.predictions)
        return encode(self.KIND, {"predictions": facts, "at_ms": self.at_ms}, arrays)

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload."""
        return cls(read_predictions(facts["predictions"], arrays), facts["at_ms"])


@dataclass(frozen=True, slots=True)
class Learned:
    """A micro-batch. Examples are numbered from 1 on; the first here has number `first`.

    ids (m,): what the client gave, None where the server gives one. classes (m,) int32. inputs: the m points.
    contents: m times 16 bytes that tell equal examples from others. sources (m,) uint8: why each label came
    (service/metrics.py).
    """

    KIND: ClassVar[str] = "learned"
    first: int
    ids: list[str | None]
    classes: Array
    inputs: Inputs
    contents: list[bytes]
    at_ms: int
    sources: Array = field(default_factory=lambda: np.zeros(0, np.uint8))

    def encode(self) -> bytes:
        """The event's payload."""
        facts, arrays = inputs_state(self.inputs)
        facts |= {"first": self.first, "ids": self.ids, "at_ms": self.at_ms}
        arrays |= {
            "classes": self.classes,
            "contents": np.frombuffer(b"".join(self.contents), np.uint8),
            "sources": self.sources,
        }
        return encode(self.KIND, facts, arrays)

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload."""
        inputs, contents = read_inputs(facts, arrays), _sixteens(arrays["contents"])
        sources = arrays.get("sources", np.zeros(len(contents), np.uint8))
        return cls(facts["first"], facts["ids"], arrays["classes"], inputs, contents, facts["at_ms"], sources)

    @property
    def given_ids(self) -> tuple[str, ...]:
        """The ids that clients gave."""
        return tuple(i for i in self.ids if i is not None)

    def id_of(self, index: int) -> str:
        """The id of an example of this batch."""
        return self.ids[index] or f"{SERVER_ID}{self.first + index}"


ModelEvent: TypeAlias = (
    Created
    | Imported
    | RolledBack
    | ClassAdded
    | Learned
    | Finished
    | Predicted
    | Offered
    | Leased
    | Renewed
    | Released
    | Skipped
    | Voted
)
KINDS: dict[str, type[ModelEvent]] = {
    event.KIND: event
    for event in (
        Created, Imported, RolledBack, ClassAdded, Learned, Finished, Predicted, Offered, Leased, Renewed, Released,
        Skipped, Voted,
    )
}  # fmt: skip


def decode_event(kind: str, payload: bytes) -> ModelEvent:
    """The event of a payload. BadFrame if it is none that this version knows."""
    facts, arrays = decode(payload, kind)
    if kind not in KINDS:
        raise BadFrame(f"unknown kind of event: {kind!r}")
    try:
        return KINDS[kind].read(facts, arrays)
    except (KeyError, TypeError) as error:
        raise BadFrame(f"an event of kind {kind!r} of another version: {error!r}") from None


def _sixteens(array: Array) -> list[bytes]:
    data = array.tobytes()
    return [data[at : at + 16] for at in range(0, len(data), 16)]
