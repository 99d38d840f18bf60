"""Where a state begins, and where another takes its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from hinged.frames import encode
from hinged.service.model.events.facts import Array, Facts


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
class Swapped:
    """The whole state anew. It replaces what all events before it came to; those are not applied again.

    champion: whether the learner that answers is another, and not challengers alone.
    """

    KIND: ClassVar[str] = "swapped"
    state: bytes
    at_ms: int
    champion: bool = True

    def encode(self) -> bytes:
        """The event's payload."""
        facts = {"at_ms": self.at_ms, "champion": self.champion}
        return encode(self.KIND, facts, {"state": np.frombuffer(self.state, np.uint8)})

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload."""
        return cls(arrays["state"].tobytes(), facts["at_ms"], facts.get("champion", True))


@dataclass(frozen=True, slots=True)
class RolledBack(Facts):
    """The state became what it was at position `to`; what the log holds between counts no longer."""

    KIND: ClassVar[str] = "rolled_back"
    to: int
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
