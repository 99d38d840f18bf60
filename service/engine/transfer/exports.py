"""A model as one file: a frame with facts about the model and its snapshot, encoded as in the store."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import chain, takewhile
from typing import TYPE_CHECKING

import numpy as np

from hinged.frames import PIECE_BYTES, BadFrame, decode, encode
from hinged.service.errors import Conflict, Invalid
from hinged.service.model.model import Model
from hinged.service.store.base import Event

if TYPE_CHECKING:
    from hinged.service.engine.history import ModelHistory
    from hinged.service.engine.worker import Worker

EXPORT = "export"
VERSION = 1
FORGOTTEN = "an example was forgotten meanwhile: no state from before may leave the server"
RECORD = struct.Struct(">QQB")
"""Position, length of the payload, and length of the kind. Kind and payload follow."""


def pack_export(model: str, position: int, snapshot: bytes) -> bytes:
    """Return the file of a model's state at a position."""
    facts = {"version": VERSION, "model": model, "position": position}
    return encode(EXPORT, facts, {"snapshot": np.frombuffer(snapshot, np.uint8)})


def unpack_export(data: bytes) -> bytes:
    """Return the snapshot in a file. Raise BadFrame if there is no snapshot, or the file has another version."""
    facts, arrays = decode(data, EXPORT)
    if facts.get("version") != VERSION:
        raise BadFrame(f"the file has version {facts.get('version')!r:.20}, this server reads {VERSION}")
    if arrays.get("snapshot", np.zeros(0)).dtype != np.uint8:
        raise BadFrame("the file holds no snapshot")
    return arrays["snapshot"].tobytes()


def log_export(worker: Worker, position: int, snapshot: bytes, sizes: Mapping[str, int]) -> Iterator[bytes]:
    """Yield a file with a model's state at a position, and the events of its log up to there, for `hinged verify`.

    Each record has a position, a kind and a payload. The record of the state comes first; its position is 0.
    sizes: as in Model.begin. They are part of the file, because they affect the state. Raise Conflict instead of the
    last piece if an example was forgotten meanwhile: the events may have been read before, during or after their
    redaction.
    """
    facts = {"version": VERSION, "model": worker.name, "position": position, "sizes": dict(sizes)}
    state = encode(EXPORT, facts, {"snapshot": np.frombuffer(snapshot, np.uint8)}, long=True)
    records = chain([(0, Event(EXPORT, state))], worker.journal.store.read(worker.name, 0))
    piece = bytearray()
    for at, event in takewhile(lambda record: record[0] <= position, records):
        kind = event.kind.encode()
        piece += RECORD.pack(at, len(event.payload), len(kind)) + kind
        for begin in range(0, len(event.payload), PIECE_BYTES):
            piece += event.payload[begin : begin + PIECE_BYTES]
            if len(piece) >= PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
    if worker.model.floor > position:
        raise Conflict(FORGOTTEN)
    yield bytes(piece)


async def exported(
    worker: Worker, history: ModelHistory, as_of: int | None, beside: Callable[[Callable[[], bytes]], Awaitable[bytes]]
) -> tuple[int, bytes]:
    """Return the position and snapshot of a model for an export.

    as_of: the position; None for the newest. beside: runs long computations. Raise Invalid if there is no such
    position. Raise Conflict if log and snapshots no longer reach the position, or an example was forgotten after it.
    """
    if as_of is None:
        return await worker.read(_newest)
    floor = await worker.read(_oldest)
    if as_of > worker.published.position:
        raise Invalid(f"as_of must be from 1 to {worker.published.position}, got {as_of}")
    if as_of < floor:
        raise Conflict(f"an example was forgotten at {floor}: no state from before may leave the server")
    state = await beside(lambda: history.at(as_of).snapshot())
    if as_of < await worker.read(_oldest):
        raise Conflict(FORGOTTEN)
    return as_of, state


def _oldest(model: Model) -> int:
    """Return the position of the oldest state that may be exported. Raise Conflict while an example is
    being forgotten.
    """
    if any(job.kind == "forget" for job in model.jobs.running()):
        raise Conflict("an example is being forgotten; try again when that is done", retry_after_s=1)
    return model.floor


def _newest(model: Model) -> tuple[int, bytes]:
    _oldest(model)
    return model.position, model.snapshot()
