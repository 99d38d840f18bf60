"""The events of a model's log: everything that changes a model, in the order in which it did.

created     the configuration; the first, unless that is
imported    the state of a model that was exported
class_added a label that gets the next class number
learned     a micro-batch of examples, in order
finished    the finishing step was run, perhaps after further epochs
predicted   predictions that wait for their labels
offered     candidates for the pool
shown       candidates are shown as something else from now on
leased      candidates lent to an annotator, and what the request for them said
renewed, released, skipped, unskipped    what an annotator did with a lease
voted       one of several labels that a candidate needs
rolled_back the state became again what it was at an earlier position
forgotten   an example is to leave no trace
corrected   an example has another label
intended    another configuration, or a challenger, that is taught from the log before it takes its place
swapped     the whole state anew, made of the log without what was forgotten, with what is corrected or intended
settled     what was intended, corrected or forgotten is done, or has failed
reconfigured another configuration, in place
retired, promoted    what became of a challenger
set_aside   an event that could not be applied counts no longer
erased      an event that stood here and is none any more

at_ms is the time of an event, milliseconds since 1970; in a log it never falls.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from hinged.frames import BadFrame, decode, encode
from hinged.service.data.classes import Label
from hinged.service.data.examples import SERVER_ID
from hinged.service.data.inputs import Inputs, inputs_state, read_inputs
from hinged.service.model.pending import Prediction, predictions_state, read_predictions

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
class Unskipped(Facts):
    """A skip was taken back: its lease is open again, until expires_ms."""

    KIND: ClassVar[str] = "unskipped"
    token: str
    expires_ms: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Voted(Facts):
    """An annotator's label for a candidate that needs several."""

    KIND: ClassVar[str] = "voted"
    token: str
    label: Label
    at_ms: int


@dataclass(frozen=True, slots=True)
class Forgotten(Facts):
    """An example is to leave no trace. mark: what stays of its id (tombstones.py); salt: of the first mark's.

    number: the example's, None if it was never learned.
    """

    KIND: ClassVar[str] = "forgotten"
    mark: str
    salt: str
    number: int | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class Corrected(Facts):
    """An example has another label: class number, and hex of the 16 bytes that tell it from any other example now.

    annotator: who changed an answer of his own so.
    """

    KIND: ClassVar[str] = "corrected"
    number: int
    label: int
    content: str
    at_ms: int
    annotator: str | None = None


@dataclass(frozen=True, slots=True)
class Intended(Facts):
    """A configuration that is taught from the log, the model's own or that of a challenger named `shadow`."""

    KIND: ClassVar[str] = "intended"
    configuration: dict[str, Any]
    shadow: str | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class Reconfigured(Facts):
    """The model has this configuration from now on, its solver changed in place."""

    KIND: ClassVar[str] = "reconfigured"
    configuration: dict[str, Any]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Settled(Facts):
    """These jobs (positions of the events that began them) are done, or failed because of `error`."""

    KIND: ClassVar[str] = "settled"
    jobs: list[int]
    result: dict[str, Any]
    error: str | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class Retired(Facts):
    """A challenger is gone."""

    KIND: ClassVar[str] = "retired"
    shadow: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Promoted(Facts):
    """A challenger took the model's place."""

    KIND: ClassVar[str] = "promoted"
    shadow: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class SetAside(Facts):
    """The event at `event` is passed over: it could not be applied because of `error`. was: its kind."""

    KIND: ClassVar[str] = "set_aside"
    event: int
    was: str
    error: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Erased(Facts):
    """What stood here was about examples that are forgotten, and stands in a later `swapped` without them."""

    KIND: ClassVar[str] = "erased"
    was: str
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Swapped:
    """The whole state anew. It replaces what all events before it came to; those are not applied again."""

    KIND: ClassVar[str] = "swapped"
    state: bytes
    at_ms: int

    def encode(self) -> bytes:
        """The event's payload."""
        return encode(self.KIND, {"at_ms": self.at_ms}, {"state": np.frombuffer(self.state, np.uint8)})

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload."""
        return cls(arrays["state"].tobytes(), facts["at_ms"])


@dataclass(frozen=True, slots=True)
class Offered:
    """Candidates for the pool, m of them; labels: those that are known, for selection alone.

    rest: whether some of them were forgotten, and these are what is left. shows: what each is shown as in the place of
    its x, None where it is x; empty where that is all of them.
    """

    KIND: ClassVar[str] = "offered"
    ids: list[str]
    inputs: Inputs
    digests: list[bytes]
    labels: list[Label | None]
    at_ms: int
    rest: bool = False
    shows: Sequence[Any] = ()

    def without(self, forgotten: Container[str]) -> Self:
        """What is left without these ids."""
        kept = [r for r, given in enumerate(self.ids) if given not in forgotten]
        return type(self)(
            [self.ids[r] for r in kept],
            self.inputs.take(np.array(kept, np.int64)),
            [self.digests[r] for r in kept],
            [self.labels[r] for r in kept],
            self.at_ms,
            rest=True,
            shows=[self.shows[r] for r in kept] if self.shows else (),
        )

    def encode(self) -> bytes:
        """The event's payload."""
        facts, arrays = inputs_state(self.inputs)
        facts |= {"ids": self.ids, "labels": self.labels, "at_ms": self.at_ms} | ({"rest": True} if self.rest else {})
        facts |= {"shows": list(self.shows)} if self.shows else {}
        return encode(self.KIND, facts, arrays | {"digests": np.frombuffer(b"".join(self.digests), np.uint8)})

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload."""
        inputs = read_inputs(facts, arrays)
        digests = _sixteens(arrays["digests"])
        rest, shows = facts.get("rest", False), facts.get("shows", ())
        return cls(facts["ids"], inputs, digests, facts["labels"], facts["at_ms"], rest, shows)


@dataclass(frozen=True, slots=True)
class Shown(Facts):
    """Candidates of the pool, m of them, and what each is shown as from now on."""

    KIND: ClassVar[str] = "shown"
    ids: list[str]
    shows: list[Any]
    at_ms: int


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
        return self if end - begin == len(self.ids) else self.take(np.arange(begin, end))

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
        return replace(self, inputs=inputs)

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
        return encode(self.KIND, facts, arrays if self.numbers is None else arrays | {"numbers": self.numbers})

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload."""
        inputs, contents = read_inputs(facts, arrays), _sixteens(arrays["contents"])
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


ModelEvent: TypeAlias = (
    Created
    | Imported
    | RolledBack
    | ClassAdded
    | Learned
    | Finished
    | Predicted
    | Offered
    | Shown
    | Leased
    | Renewed
    | Released
    | Skipped
    | Unskipped
    | Voted
    | Forgotten
    | Corrected
    | Intended
    | Reconfigured
    | Settled
    | Retired
    | Promoted
    | SetAside
    | Erased
    | Swapped
)
KINDS: dict[str, type[ModelEvent]] = {
    event.KIND: event
    for event in (
        Created, Imported, RolledBack, ClassAdded, Learned, Finished, Predicted, Offered, Shown, Leased, Renewed,
        Released, Skipped, Unskipped, Voted, Forgotten, Corrected, Intended, Reconfigured, Settled, Retired, Promoted,
        SetAside, Erased, Swapped,
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
