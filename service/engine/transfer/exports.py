"""A model as one file: a frame whose facts say what it is, with a snapshot in it as it is kept by the store."""

from __future__ import annotations

import numpy as np

from hinged.frames import BadFrame, decode, encode

EXPORT = "export"
VERSION = 1
SUFFIX = ".hinged"


def pack_export(model: str, position: int, snapshot: bytes) -> bytes:
    """The file of a model's state at a position."""
    facts = {"version": VERSION, "model": model, "position": position}
    return encode(EXPORT, facts, {"snapshot": np.frombuffer(snapshot, np.uint8)})


def unpack_export(data: bytes) -> bytes:
    """The snapshot in a file. BadFrame if it is none, or one of another version."""
    facts, arrays = decode(data, EXPORT)
    if facts.get("version") != VERSION:
        raise BadFrame(f"the file has version {facts.get('version')!r:.20}, this server reads {VERSION}")
    if arrays.get("snapshot", np.zeros(0)).dtype != np.uint8:
        raise BadFrame("the file holds no snapshot")
    return arrays["snapshot"].tobytes()
