"""A model as one file: a frame with facts about the model and its snapshot, in the store's form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np

from hinged.frames import BadFrame, decode, encode
from hinged.service.engine.history import ModelHistory
from hinged.service.engine.worker import Worker
from hinged.service.errors import Conflict, Invalid
from hinged.service.model.model import Model

EXPORT = "export"
VERSION = 1
SUFFIX = ".hinged"


def pack_export(model: str, position: int, snapshot: bytes) -> bytes:
    """The file of a model's state at a position."""
    facts = {"version": VERSION, "model": model, "position": position}
    return encode(EXPORT, facts, {"snapshot": np.frombuffer(snapshot, np.uint8)})


def unpack_export(data: bytes) -> bytes:
    """The snapshot in a file. BadFrame if there is no snapshot, or the file has another version."""
    facts, arrays = decode(data, EXPORT)
    if facts.get("version") != VERSION:
        raise BadFrame(f"the file has version {facts.get('version')!r:.20}, this server reads {VERSION}")
    if arrays.get("snapshot", np.zeros(0)).dtype != np.uint8:
        raise BadFrame("the file holds no snapshot")
    return arrays["snapshot"].tobytes()


async def exported(
    worker: Worker, history: ModelHistory, as_of: int | None, beside: Callable[[Callable[[], bytes]], Awaitable[bytes]]
) -> tuple[int, bytes]:
    """The position and snapshot of a model for export: the newest, or as of a position.

    beside: runs long computations. Invalid if there is no such position; Conflict if log and snapshots no longer reach
    it, or if it is before an example was forgotten.
    """
    if as_of is None:
        found: tuple[int, bytes] = await worker.read(_newest)
        return found
    floor = await worker.read(_oldest)
    if as_of > worker.published.position:
        raise Invalid(f"as_of must be from 1 to {worker.published.position}, got {as_of}")
    if as_of < floor:
        raise Conflict(f"an example was forgotten at {floor}: no state from before may leave the server")
    state = await beside(lambda: history.at(as_of).snapshot())
    if as_of < await worker.read(_oldest):
        raise Conflict("an example was forgotten meanwhile: no state from before may leave the server")
    return as_of, state


def _oldest(model: Model) -> int:
    """The position of the oldest state that may be exported. Conflict while an example is being forgotten."""
    if any(job.kind == "forget" for job in model.jobs.running()):
        raise Conflict("an example is being forgotten; try again when that is done", retry_after_s=1)
    return model.floor


def _newest(model: Model) -> tuple[int, bytes]:
    _oldest(model)
    return model.position, model.snapshot()
