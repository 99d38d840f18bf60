"""The contract of a store: an append-only log and snapshots for each model.

A model's log is a sequence of events at positions 1, 2, 3, ... without holes. The store does not look into an
event's payload; it keeps an index from example ids to the position of the event that carries them.

Methods are synchronous and may be called from several threads at once. They raise:

- NoModel: there is no such model. Every method with a model raises it, except `create`.
- StoreUnavailable: nothing was written.
- OutcomeUnknown: the write failed, and it may last or not. The caller must read the end of the log before it goes on.
- Damaged: the data read differs from the data written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hinged.service.errors import StoreUnavailable
from hinged.service.store.times import Times

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SNAPSHOT_CHUNK_BYTES = 2**20
"""Size of the pieces in which a snapshot is written, in bytes: an append never waits for more than one piece."""
SNAPSHOTS_KEPT = 2
"""Number of snapshots kept of each model, at the highest positions. Recovery needs a second if the first is damaged."""


class OutcomeUnknown(StoreUnavailable):
    """An append failed half way: only the log shows whether it lasts."""


class NoModel(StoreUnavailable):
    """The store has no such model, so nothing was read or written.

    If the server has the model in memory, the store has lost it.
    """

    def __init__(self, model: str) -> None:
        super().__init__(f"the store has no model {model}: it was emptied, or another store is in its place")


class PositionTaken(StoreUnavailable):
    """The log does not end where the writer expected: another writer wrote to it."""


class Fenced(StoreUnavailable):
    """Another server has taken the store over; this server can no longer write."""


class Damaged(Exception):
    """A record fails its checksum. It is never answered with a guess."""


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a log."""

    kind: str
    payload: bytes
    ids: tuple[str, ...] = ()
    """Ids of its examples, for `Store.find`."""


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """Returned for an event that is missing or damaged. reason: which of the two."""

    reason: str = ""


MISSING = Lost("", b"", (), "is missing")
SPOILED = Lost("", b"", (), "fails its checksum")


class Room(NamedTuple):
    """The space that a store uses on a disk, and the space that is free there."""

    used_bytes: int
    free_bytes: int


class Store(Protocol):
    """The contract of every store, tested by tests/service/store/."""

    commits: Times | None
    """How long writes took to reach the disk, counting a group of appends once; None if the store does not know."""

    def models(self) -> list[str]:
        """Names of the models that have a log, sorted."""

    def create(self, model: str, first: Event) -> None:
        """Begin the log of a new model, durably, with `first` at position 1. KeyError if the model exists."""

    def delete(self, model: str) -> None:
        """Remove a model's log, index and snapshots, durably.

        OutcomeUnknown may also mean that the model is gone and some of its bytes are not; the store removes them later.
        """

    def append(self, model: str, after: int, events: Sequence[Event]) -> int:
        """Append `events` after position `after`, all or none, durably; return the position of the last.

        When this returns, a crash of process or machine does not lose them. PositionTaken if the log does not end at
        `after`.
        """

    def end(self, model: str) -> int:
        """Position of the last event, even if it is trimmed."""

    def read(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Events after position `after`, up to the present end, in order, with empty ids.

        The first is at `after` + 1 or, if that is trimmed, the first that is left; from there on positions have no
        holes. Damaged if an event is missing or fails its checksum, after the events before it.
        """

    def read_around(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Like `read`, with a Lost event for each event that is missing or fails its checksum."""

    def find(self, model: str, ids: Sequence[str]) -> dict[str, int]:
        """The position of the newest event with each of `ids` that the log holds."""

    def put_snapshot(self, model: str, position: int, state: bytes) -> None:
        """Keep `state` as the model's state at `position`, durably; a crash half way leaves the older snapshots.

        PositionTaken if the log ends before `position`, because later events could lead to another state. Keeps the two
        snapshots at the highest positions and replaces a snapshot at the same position. Appends wait for a chunk at
        most.
        """

    def snapshots(self, model: str) -> list[int]:
        """Positions of the complete snapshots, newest first."""

    def get_snapshot(self, model: str, position: int) -> bytes:
        """The state at `position`. Damaged if it fails its checksum; KeyError if there is no such snapshot."""

    def trim(self, model: str, through: int) -> None:
        """Forget the events up to and including `through`, or all events if the log ends before.

        Their positions are never used again. Snapshots before `through` are removed too: the events after them are
        lost, so they cannot be folded on. A trim that fails may have forgotten some events, from the front.
        """

    def redact(self, model: str, through: int, events: Mapping[int, Event], ids: Sequence[str]) -> None:
        """Replace the events at these positions, and remove `ids` from the index, durably.

        All positions are in 1..`through`; trimmed positions are skipped. An id that came again after `through` stays,
        and so do the end and all other events. The ids of the given events are ignored. Snapshots before `through` are
        removed, even while they are written: no state from before may be folded again. Appends and reads go on
        meanwhile; a reader finds the old or the new event.

        ValueError for other positions, PositionTaken if the log ends before `through`. A redaction that fails may have
        replaced some events; each position then holds the old or the new event, and a call with the same arguments
        completes the redaction.
        """

    def purge(self) -> list[str]:
        """Rewrite the stored data, so that no file of the store holds anything that was removed or replaced.

        That includes redacted and trimmed events, ids taken out of the index, deleted models and dropped snapshots;
        until then a file may still hold their bytes, unread. Returns a sentence for the admin about each part that
        could not be rewritten; empty if all was.
        """

    def room(self) -> Room | None:
        """Disk space on this machine. None if the store uses none; OSError if the disks cannot be asked."""

    def close(self) -> None:
        """Finish the work in progress, and release files and threads."""
