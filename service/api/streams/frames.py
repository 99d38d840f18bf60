"""Frames of a WebSocket: their contents, their operations and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json

from hinged.operations import FRAMES
from hinged.service.data.problems import shown
from hinged.service.data.slices import Slices
from hinged.service.data.trees import SMALL_BYTES, tree
from hinged.service.edge.shortcut import Outcome
from hinged.service.errors import BodyTooLarge, Invalid, ServiceError

REF_CHARS_MAX = 128


class FrameLimits(NamedTuple):
    """Limits of a frame: the number of its bytes, and of the elements of its arrays (trees.py)."""

    bytes_max: int
    elements: Mapping[str, int]


class Read(NamedTuple):
    """A parsed frame. refusal: the error that refuses the frame; op is then empty."""

    ref: str | None = None
    op: str = ""
    body: dict[str, Any] = {}  # noqa: RUF012  never modified
    refusal: ServiceError | None = None


def read_frame(data: str | bytes, limits: FrameLimits, standing: ServiceError | None = None) -> Slices[Read]:
    """Parse as much of a frame as possible. standing: the error that currently refuses all frames of the client, or
    None.
    """
    long = len(data) > SMALL_BYTES
    try:
        if long:
            frame = yield from tree(data if isinstance(data, bytes) else data.encode(), limits.elements)
        else:
            frame = from_json(data)
    except Invalid as error:
        return Read(refusal=Invalid(f"a frame must be a JSON object: {error.message}"))
    except ValueError as error:
        return Read(refusal=Invalid(f"a frame must be a JSON object: {error}"))
    if not isinstance(frame, dict):
        return Read(refusal=Invalid(f"a frame must be a JSON object, got {shown(frame)}"))
    ref, op = frame.pop("ref", None), frame.pop("op", None)
    if not (isinstance(ref, str) and 0 < len(ref) <= REF_CHARS_MAX):
        return Read(refusal=Invalid(f"ref must be a string of 1 to {REF_CHARS_MAX} characters, got {shown(ref)}"))
    if len(data) > limits.bytes_max // 4:  # a character takes at most four bytes
        size = len(data) if isinstance(data, bytes) else len(data.encode())
        if size > limits.bytes_max:
            return Read(ref, refusal=BodyTooLarge(f"a frame may have at most {limits.bytes_max} bytes, got {size}"))
    if not (isinstance(op, str) and op in FRAMES):
        return Read(ref, refusal=Invalid(f"op must be one of {', '.join(FRAMES)}, got {shown(op)}"))
    return Read(ref, refusal=standing) if standing is not None else Read(ref, op, frame)


def told(outcome: Outcome) -> dict[str, Any]:
    """Return the answer to a frame with this outcome."""
    if isinstance(outcome, ServiceError):
        return {"ok": False, **outcome.body()}
    return {"ok": True, **outcome}
