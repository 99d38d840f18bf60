"""What the server asks of a store: an append-only log and snapshots for each model.

A model's log is a sequence of events at positions 1, 2, 3, ... without holes. The store does not look into an
event's payload; it keeps an index from example ids to the position of the event that carries them.

Methods are synchronous and may be called from several threads at once. Where a method raises, its errors are:

- NoModel: there is no such model. All methods that take a model raise it, but `create`.
- StoreUnavailable: the store says that nothing was written.
- OutcomeUnknown: the write failed in a way that does not tell whether it lasts. The caller must read the end
  of the log before it goes on.
- Damaged: what was read is not what was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hinged.service.errors import StoreUnavailable
from hinged.service.store.times import Times

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SNAPSHOT_CHUNK_BYTES = 2**20
"""A snapshot is written in pieces of this size, so that appends never wait for more than one."""
SNAPSHOTS_KEPT = 2
"""Of each model, those at the highest positions."""


class OutcomeUnknown(StoreUnavailable):
    """An append failed half way: whether it lasts stands in the log, not in this error."""


class NoModel(StoreUnavailable):
    """The store has no such model, so nothing of it was read or written.

    To a server that has the model in memory this says that the store has lost it.
    """

    def __init__(self, model: str) -> None:
        super().__init__(f"the store has no model {model}: it was emptied, or another store is in its place")


class PositionTaken(StoreUnavailable):
    """The log does not end where the writer believed: somebody else wrote to it."""


class Fenced(StoreUnavailable):
    """Another server has taken the store over; this one can write no more."""


class Damaged(Exception):
    """A record fails its checksum. Never answered with a guess."""


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a log."""

    kind: str
    payload: bytes
    ids: tuple[str, ...] = ()
    """Ids of the examples in it, for `Store.find`."""


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """What is read where an event cannot be; why."""

    reason: str = ""


MISSING = Lost("", b"", (), "is missing")
SPOILED = Lost("", b"", (), "fails its checksum")


class Room(NamedTuple):
    """What a store takes of a disk, and what is left there."""

    used_bytes: int
    free_bytes: int


class Store(Protocol):
    """The contract. tests/service/store/ holds every store to it."""

    commits: Times | None
    """How long writes took to reach the disk, several appends in one; None where the store does not see it."""

    def models(self) -> list[str]:
        """Names of the models that have a log, sorted."""

    def create(self, model: str, first: Event) -> None:
        """Begin the log of a new model, durably, with `first` at position 1. KeyError if the model exists."""

    def delete(self, model: str) -> None:
        """Remove a model's log, index and snapshots, durably.

        OutcomeUnknown may also mean that the model is gone and some of its bytes are not: the store removes
        them at the next chance.
        """

    def append(self, model: str, after: int, events: Sequence[Event]) -> int:
        """Append `events` behind position `after`, all or none, durably; return the position of the last.

        When it returns, a crash of process or machine does not lose them. PositionTaken if the log does not
        end at `after`.
        """

    def end(self, model: str) -> int:
        """Position of the last event, also when it is trimmed."""

    def read(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Events behind position `after` up to the end as it is now, in order (with their ids empty).

        The first is at `after` + 1 or, where that is trimmed, the first that is left; from there on positions
        have no holes. Damaged if an event is missing or fails its checksum; those before it come first.
        """

    def read_around(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """The same, but in the place of an event that is missing or fails its checksum comes a Lost one."""

    def find(self, model: str, ids: Sequence[str]) -> dict[str, int]:
        """For those of `ids` that the log holds, the position of the newest event that carries it."""

    def put_snapshot(self, model: str, position: int, state: bytes) -> None:
        """Keep `state` as the model's state at `position`, durably; a crash half way leaves the older ones.

        PositionTaken if the log ends before `position`: what comes to stand there may lead to another state.
        Keeps the two at the highest positions; one at the same position is replaced. Does not hold up appends
        for longer than a chunk takes.
        """

    def snapshots(self, model: str) -> list[int]:
        """Positions of the complete snapshots, newest first."""

    def get_snapshot(self, model: str, position: int) -> bytes:
        """The state at `position`. Damaged if it fails its checksum; KeyError if there is none."""

    def trim(self, model: str, through: int) -> None:
        """Forget the events up to and with position `through`, or all if it lies behind the end.

        Their positions are never used again. Snapshots before `through` go with them: what follows those is
        lost, so no state can be folded from them. A trim that fails may have forgotten some, from the front.
        """

    def redact(self, model: str, through: int, events: Mapping[int, Event], ids: Sequence[str]) -> None:
        """Put other events in the places of those at these positions, and take `ids` out of the index, durably.

        All positions are in 1..`through`; what is trimmed there is passed over. An id that came again behind
        `through` stays, and so do the end and all other events. Ids of the events given are not looked at.
        Snapshots before `through` go, those too that are being written: no state from before may be folded
        again. Appends and reads go on meanwhile; a reader finds the one event or the other.

        ValueError for other positions, PositionTaken if the log ends before `through`. A redaction that fails
        may have replaced some; each place then holds either the old event or the new one, and whoever calls
        again with the same arguments completes it.
        """

    def purge(self) -> list[str]:
        """Write anew what is kept, so that what was removed or replaced stands in none of the store's files.

        That is the bytes of events that were redacted or trimmed, of ids taken out of the index, of deleted
        models and of snapshots that were dropped; until then a file may still hold them, unread. Returns what
        could not be rewritten, a sentence each for whoever runs the server; empty if all was.
        """

    def room(self) -> Room | None:
        """What it takes of this machine's disks. None where it takes none; OSError where they do not say."""

    def close(self) -> None:
        """Finish what is under way and release files and threads."""
