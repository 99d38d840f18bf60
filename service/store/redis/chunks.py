"""Snapshots on Redis: chunks in a hash of their own, and a record with the name, number, size and digest of the chunks.

The chunks are written one by one. The record, which makes them visible, is written last.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import SNAPSHOT_CHUNK_BYTES, SNAPSHOTS_KEPT, Damaged
from hinged.service.store.checks import snapshot_hash
from hinged.service.store.redis import scripts

if TYPE_CHECKING:
    from collections.abc import Callable

    from hinged.service.store.redis.scripts import Steps

REPLACED_MAX = 3
"""Most attempts to read a snapshot that is replaced while it is read."""


def write(steps: Steps, model: str, name: str, position: int, state: bytes) -> None:
    """Write the chunks; then, in one step, make them visible and remove snapshots that are no longer kept.

    The snapshot has begun. StoreUnavailable if it is dropped meanwhile.
    """
    hashed, parts = snapshot_hash(position), range(0, len(state), SNAPSHOT_CHUNK_BYTES)
    for part, start in enumerate(parts):
        chunk = memoryview(state)[start : start + SNAPSHOT_CHUNK_BYTES]
        hashed.update(chunk)
        _go_on(model, steps(scripts.ADD_CHUNK, name, part, chunk))
    record = f"{name} {len(parts)} {len(state)} {hashed.hexdigest()}"
    _go_on(model, steps(scripts.COMPLETE_SNAPSHOT, name, record, SNAPSHOTS_KEPT, lasting=True))


def _go_on(model: str, answer: tuple[str, list[Any]]) -> None:
    if answer[0] == "dropped":
        raise StoreUnavailable(
            f"a snapshot of {model} was dropped while it was written: the log was trimmed or redacted"
        )


def read(ask: Callable[..., Any], key: str, model: str, position: int) -> bytes:
    """Read the chunks; begin again if the snapshot is replaced meanwhile.

    key: of the hash of records. KeyError if there is no snapshot at this position, Damaged if it is incomplete.
    """
    damaged = Damaged(f"the snapshot of {model} at position {position} fails its checksum")
    for _ in range(REPLACED_MAX):
        record = ask("HGET", key, position)
        if record is None:
            raise KeyError(position)
        try:
            name, parts, size, hexdigest = record.decode().split()
            state = _joined(ask, f"{key}:{name}", int(parts), int(size))
        except ValueError:
            raise damaged from None
        if state is None:
            if ask("HGET", key, position) == record:
                raise damaged
            continue
        hashed = snapshot_hash(position)
        hashed.update(state)
        if hashed.hexdigest() != hexdigest:
            raise damaged
        return state
    raise StoreUnavailable(f"the snapshot of {model} at position {position} is replaced faster than it is read")


def _joined(ask: Callable[..., Any], key: str, parts: int, size: int) -> bytes | None:
    """The joined parts of a snapshot; None if a part is missing or the size differs."""
    state = BytesIO()
    for part in range(parts):
        chunk = ask("HGET", key, part)
        if chunk is None or state.tell() + len(chunk) > size:
            return None
        state.write(chunk)
    return state.getvalue() if state.tell() == size else None
