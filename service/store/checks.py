"""Integrity checks that all stores share: event checksums, snapshot digests, and the positions of a redaction."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING
from zlib import crc32

from hinged.service.store.base import Damaged, Lost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hinged.service.store.base import Event


def event_checksum(position: int, kind: bytes, payload: bytes) -> int:
    """CRC-32 of an event and its position."""
    return crc32(payload, crc32(b"%d %b " % (position, kind)))


def sound(model: str, events: Iterable[tuple[int, Event]]) -> Iterator[tuple[int, Event]]:
    """The events up to the first Lost event, at which Damaged is raised."""
    for position, event in events:
        if isinstance(event, Lost):
            raise Damaged(f"event {position} of {model} {event.reason}")
        yield position, event


def snapshot_hash(position: int) -> blake2b:
    """A hash for the state at `position`; feed it the state."""
    return blake2b(b"%d " % position, digest_size=32)


def check_places(through: int, positions: Iterable[int]) -> None:
    """Raise ValueError if one of `positions`, whose events are to be replaced, is not in 1..`through`."""
    outside = sorted(at for at in positions if not 1 <= at <= through)
    if outside:
        raise ValueError(f"events through {through} can be replaced, got an event for position {outside[0]}")
