"""What stores keep beside their data to know it again: a checksum of each event, a digest of each snapshot.

And what they ask of a redaction before they begin it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING
from zlib import crc32

from hinged.service.store.base import Damaged, Lost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hinged.service.store.base import Event


def event_checksum(position: int, kind: bytes, payload: bytes) -> int:
    """CRC-32 of an event and the place where it belongs."""
    return crc32(payload, crc32(b"%d %b " % (position, kind)))


def sound(model: str, events: Iterable[tuple[int, Event]]) -> Iterator[tuple[int, Event]]:
    """Events up to the first that is Lost, at which Damaged is raised."""
    for position, event in events:
        if isinstance(event, Lost):
            raise Damaged(f"event {position} of {model} {event.reason}")
        yield position, event


def snapshot_hash(position: int) -> blake2b:
    """A hash that a state at `position` is fed to."""
    return blake2b(b"%d " % position, digest_size=32)


def check_places(through: int, positions: Iterable[int]) -> None:
    """ValueError if one of `positions`, whose events are to be replaced, is not in 1..`through`."""
    outside = sorted(at for at in positions if not 1 <= at <= through)
    if outside:
        raise ValueError(f"events through {through} can be replaced, got one for position {outside[0]}")
