"""The contract of a store: an append-only log and snapshots for each model.

A model's log is a sequence of events at positions 1, 2, 3, ... without holes. The store does not read an event's
payload. It keeps an index from example ids to the position of the event that contains them.

Methods are synchronous and may be called from several threads at once. They raise:

- NoModel: there is no such model. Every method with a model raises it, except `create`.
- StoreUnavailable: nothing was written.
- OutcomeUnknown: the write failed, and its data may or may not be in the store. The caller must read the end of the log
  before it continues.
- Damaged: the data in the store differs from the data that was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hinged.service.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client import Histogram

SNAPSHOT_CHUNK_BYTES = 2**20
"""Size in bytes of the chunks in which a snapshot is written. An append never waits for more than one chunk."""
SNAPSHOTS_KEPT = 2
"""Number of snapshots that are kept per model. Recovery uses the second if the first is damaged."""
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the histograms of writes, in seconds."""


class OutcomeUnknown(StoreUnavailable):
    """Raised when an append failed halfway. Only the log shows whether the events are in the store."""


class NoModel(StoreUnavailable):
    """Raised when the store has no such model, so that nothing was read or written.

    If the server has the model in memory, the store has lost the model.
    """

    def __init__(self, model: str) -> None:
        super().__init__(f"the store has no model {model}: it was emptied, or another store is in its place")


class PositionTaken(StoreUnavailable):
    """Raised when the log does not end where the writer expected, because another writer wrote to it."""


class Fenced(StoreUnavailable):
    """Raised when another server has taken over the store, so that this server can no longer write."""


class Damaged(Exception):
    """Raised when a record fails its checksum. The store never returns a guess instead."""


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a log."""

    kind: str
    payload: bytes
    ids: tuple[str, ...] = ()
    """Ids of the event's examples, for `Store.find`."""


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """Returned for an event that is missing or damaged. reason: says whether it is missing or damaged."""

    reason: str = ""


MISSING = Lost("", b"", (), "is missing")
SPOILED = Lost("", b"", (), "fails its checksum")


class Room(NamedTuple):
    """The bytes that a store uses on a disk, and the bytes that are free on that disk."""

    used_bytes: int
    free_bytes: int


class Store(Protocol):
    """The contract of every store, tested by tests/service/store/."""

    commits: Histogram | None
    """Durations of writes to the disk; a group of appends counts once. None if the store does not know them."""

    def models(self) -> list[str]:
        """Return the sorted names of the models that have a log."""

    def create(self, model: str, first: Event) -> None:
        """Begin the log of a new model durably, with `first` at position 1. Raise KeyError if the model exists."""

    def delete(self, model: str) -> None:
        """Remove a model's log, index and snapshots durably.

        OutcomeUnknown may also mean that the model is gone but some of its bytes remain. The store removes these bytes
        later.
        """

    def append(self, model: str, after: int, events: Sequence[Event]) -> int:
        """Append all of `events` or none after position `after`, durably; return the position of the last event.

        Once this returns, a crash of the process or the machine does not lose the events. Raise PositionTaken if the
        log does not end at `after`.
        """

    def end(self, model: str) -> int:
        """Return the position of the last event, even if that event is trimmed."""

    def read(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Yield in order the events after position `after`, up to the current end, with empty ids.

        The first event is at `after` + 1, or later if that event is trimmed. After the first event, positions have no
        holes. At an event that is missing or fails its checksum, raise Damaged after the earlier events.
        """

    def read_around(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Do the same as `read`, but yield a Lost event for each event that is missing or fails its checksum."""

    def find(self, model: str, ids: Sequence[str]) -> dict[str, int]:
        """Return the position of the newest event in the log with each of `ids`."""

    def put_snapshot(self, model: str, position: int, state: bytes) -> None:
        """Save `state` as the model's state at `position` durably. A crash halfway leaves the older snapshots in place.

        Raise PositionTaken if the log ends before `position`, because later events could lead to another state. The
        store keeps the two snapshots at the highest positions, and replaces a snapshot at the same position. Appends
        wait for at most one chunk.
        """

    def snapshots(self, model: str) -> list[int]:
        """Return the positions of the complete snapshots, newest first."""

    def get_snapshot(self, model: str, position: int) -> bytes:
        """Return the state at `position`.

        Raise Damaged if the state fails its checksum, KeyError if there is no such snapshot.
        """

    def trim(self, model: str, through: int) -> None:
        """Remove the events up to and including `through`, or all events if the log ends before it.

        Their positions are never used again. Snapshots before `through` are removed too: the events after these
        snapshots are lost, so no later state can be rebuilt from them. A trim that fails may have removed some of the
        first events.
        """

    def redact(self, model: str, through: int, events: Mapping[int, Event], ids: Sequence[str]) -> None:
        """Replace the events at these positions, and remove `ids` from the index, durably.

        All positions are in 1..`through`; trimmed positions are skipped. Keep ids that were used again after `through`.
        Also keep the end of the log and all other events. The ids of the given events are ignored. Snapshots before
        `through` are removed, even while they are being written, so that no earlier state can be rebuilt. Appends and
        reads continue meanwhile; a reader finds the old or the new event.

        Raise ValueError for other positions, PositionTaken if the log ends before `through`. A redaction that fails may
        have replaced some events. Each position then has the old or the new event, and a call with the same arguments
        completes the redaction.
        """

    def purge(self) -> list[str]:
        """Rewrite the stored data, so that no file of the store contains removed or replaced data.

        This concerns redacted and trimmed events, ids removed from the index, deleted models and dropped snapshots.
        Until a purge, a file may still contain their bytes. Return a sentence for the admin about each part that could
        not be rewritten; return an empty list if everything was rewritten.
        """

    def room(self) -> Room | None:
        """Return the disk space on this machine, or None if the store uses no disk here.

        Raise OSError if the system does not report the space.
        """

    def close(self) -> None:
        """Finish the work in progress, and release files and threads."""
