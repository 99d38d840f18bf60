"""Convert events to and from the form that Redis stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hinged.service.store.base import MISSING, SPOILED, Event
from hinged.service.store.checks import event_checksum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BATCH_BYTES = 2**20
"""Payload read or copied at once, in bytes; at least one event. A larger value blocks Redis for longer."""
BATCH_EVENTS = 1_000  # events read or copied at once, at most

Packed = tuple[bytes, bytes, int]
"""Kind, payload and checksum of an event."""


def pack(after: int, events: Sequence[Event]) -> list[bytes | int]:
    """The arguments of an append. UnicodeEncodeError before anything is sent."""
    packed: list[bytes | int] = [after, len(events)]
    for position, event in enumerate(events, after + 1):
        packed += [*pack_event(position, event), len(event.ids)]
        packed += [name.encode() for name in event.ids]
    return packed


def pack_event(position: int, event: Event) -> Packed:
    """An event in the form for a position."""
    kind = event.kind.encode()
    return kind, event.payload, event_checksum(position, kind, event.payload)


def unpack(after: int, entries: Sequence[tuple[bytes, Sequence[bytes]]]) -> Iterator[tuple[int, Event]]:
    """Stream entries after a position as events, with a MISSING event in each gap."""
    for entry, fields in entries:
        position = int(entry.partition(b"-")[0])
        yield from missing(after, position - 1)
        after = position
        parts = dict(zip(fields[::2], fields[1::2], strict=True))
        kind, payload, check = (parts.get(name, b"") for name in (b"kind", b"payload", b"checksum"))
        whole = check == b"%d" % event_checksum(after, kind, payload)
        yield after, Event(kind.decode(), payload) if whole else SPOILED


def missing(after: int, through: int) -> Iterator[tuple[int, Any]]:
    """MISSING events for a range of positions."""
    return ((position, MISSING) for position in range(after + 1, through + 1))
