"""What stores keep beside their data to know it again: a checksum of each event, a digest of each snapshot."""

from __future__ import annotations

from hashlib import blake2b
from zlib import crc32


def event_checksum(position: int, kind: bytes, payload: bytes) -> int:
    """CRC-32 of an event and the place where it belongs."""
    return crc32(payload, crc32(b"%d %b " % (position, kind)))


def snapshot_hash(position: int) -> blake2b:
    """A hash that a state at `position` is fed to."""
    return blake2b(b"%d " % position, digest_size=32)
