"""What the server asks of a store: an append-only log and snapshots for each model.

A model's log is a sequence of events at positions 1, 2, 3, ... without holes. The store does not look into an
event's payload; it keeps an index from example ids to the position of the event that carries them.

Methods are synchronous and may be called from several threads at once. Where a method raises, its errors are:

- StoreUnavailable: the store says that nothing was written.
- OutcomeUnknown: the write failed in a way that does not tell whether it lasts. The caller must read the end of
  the log before it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from service.errors import StoreUnavailable


class OutcomeUnknown(StoreUnavailable):
    """An append failed half way: whether it lasts stands in the log, not in this error."""


class PositionTaken(StoreUnavailable):
    """The log does not end where the writer believed: somebody else wrote to it."""


class Damaged(Exception):
    """A record fails its checksum. Never answered with a guess."""


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a log."""

    kind: str
    payload: bytes
    ids: tuple[str, ...] = ()
    """Ids of the examples in it, for `Store.find`."""


class Store(Protocol):
    """The contract. tests/store/ holds every store to it."""

    def models(self) -> list[str]:
        """Names of the models that have a log, sorted."""

    def create(self, model: str, first: Event) -> None:
        """Begin the log of a new model, durably, with `first` at position 1. KeyError if the model exists."""

    def delete(self, model: str) -> None:
        """Remove a model's log, index and snapshots, durably. KeyError if there is no such model."""

    def append(self, model: str, after: int, events: Sequence[Event]) -> int:
        """Append `events` behind position `after`, all or none, durably; return the position of the last.

        When it returns, a crash of process or machine does not lose them. PositionTaken if the log does not end
        at `after`; KeyError if there is no such model.
        """

    def end(self, model: str) -> int:
        """Position of the last event; KeyError if there is no such model."""

    def read(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Events behind position `after`, in order (with their ids empty). Damaged if one fails its checksum."""

    def find(self, model: str, ids: Sequence[str]) -> dict[str, int]:
        """For those of `ids` that the log holds, the position of the event."""

    def put_snapshot(self, model: str, position: int, state: bytes) -> None:
        """Keep `state` as the model's state at `position`, durably; a crash half way leaves the older readable.

        Keeps the newest two. Does not hold up appends for longer than a chunk takes.
        """

    def snapshots(self, model: str) -> list[int]:
        """Positions of the complete snapshots, newest first."""

    def get_snapshot(self, model: str, position: int) -> bytes:
        """The state at `position`. Damaged if it fails its checksum; KeyError if there is none."""

    def trim(self, model: str, through: int) -> None:
        """Forget the events up to and with position `through`; positions are never used again."""

    def close(self) -> None:
        """Finish what is under way and release files and threads."""
