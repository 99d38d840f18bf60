"""The events of a model's log: everything that changes a model, in the order in which it did.

created     the configuration; always the first
class_added a label that gets the next class number
learned     a micro-batch of examples, in order
finished    the finishing step was run
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from service.configuration import read_configuration
from service.examples import SERVER_ID
from service.frames import BadFrame, decode, encode
from service.labels import Label
from service.parts import Configuration
from solvers.rows import Rows

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Created:
    """A model begins. at_ms: time, milliseconds since 1970."""

    KIND: ClassVar[str] = "created"
    configuration: dict[str, Any]
    at_ms: int

    def encode(self) -> bytes:
        """The event's payload."""
        return encode(self.KIND, {"configuration": self.configuration, "at_ms": self.at_ms}, {})


@dataclass(frozen=True, slots=True)
class ClassAdded:
    """A label that was not seen before gets the next class number."""

    KIND: ClassVar[str] = "class_added"
    label: Label

    def encode(self) -> bytes:
        """The event's payload."""
        return encode(self.KIND, {"label": self.label}, {})


@dataclass(frozen=True, slots=True)
class Learned:
    """A micro-batch. Examples are numbered from 1 on; the first here has number `first`.

    ids (m,): what the client gave, None where the server gives one. classes (m,) int32. rows: the m points.
    contents: m times 16 bytes that tell equal examples from others. at_ms: time, milliseconds since 1970.
    """

    KIND: ClassVar[str] = "learned"
    first: int
    ids: list[str | None]
    classes: Array
    rows: Rows
    contents: list[bytes]
    at_ms: int

    def encode(self) -> bytes:
        """The event's payload."""
        return encode(
            self.KIND,
            {"first": self.first, "ids": self.ids, "at_ms": self.at_ms, "dim": self.rows.dim},
            {
                "classes": self.classes,
                "contents": np.frombuffer(b"".join(self.contents), np.uint8),
                "indptr": self.rows.indptr,
                "indices": self.rows.indices,
                "values": self.rows.values,
                "norms": self.rows.norms,
                "selves": self.rows.selves,
            },
        )

    @property
    def given_ids(self) -> tuple[str, ...]:
        """The ids that clients gave."""
        return tuple(i for i in self.ids if i is not None)

    def id_of(self, index: int) -> str:
        """The id of an example of this batch."""
        return self.ids[index] or f"{SERVER_ID}{self.first + index}"


@dataclass(frozen=True, slots=True)
class Finished:
    """The finishing step was run."""

    KIND: ClassVar[str] = "finished"
    at_ms: int

    def encode(self) -> bytes:
        """The event's payload."""
        return encode(self.KIND, {"at_ms": self.at_ms}, {})


ModelEvent: TypeAlias = Created | ClassAdded | Learned | Finished


def decode_event(kind: str, payload: bytes) -> ModelEvent:
    """The event of a payload. BadFrame if it is none that this version knows."""
    facts, arrays = decode(payload, kind)
    match kind:
        case Created.KIND:
            return Created(facts["configuration"], facts["at_ms"])
        case ClassAdded.KIND:
            return ClassAdded(facts["label"])
        case Finished.KIND:
            return Finished(facts["at_ms"])
        case Learned.KIND:
            rows = Rows(
                arrays["indptr"],
                arrays["indices"],
                arrays["values"],
                arrays["norms"],
                arrays["selves"],
                facts["dim"],
            )
            contents = arrays["contents"].tobytes()
            digests = [contents[16 * r : 16 * (r + 1)] for r in range(len(rows))]
            return Learned(facts["first"], facts["ids"], arrays["classes"], rows, digests, facts["at_ms"])
        case _:
            raise BadFrame(f"unknown kind of event: {kind!r}")


def configuration_of(event: ModelEvent) -> Configuration:
    """The configuration with which a log begins."""
    if not isinstance(event, Created):
        raise BadFrame(f"a log begins with {Created.KIND!r}, got {event.KIND!r}")
    return read_configuration(event.configuration)
