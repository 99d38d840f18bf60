"""Rows of numbers as the bytes that the server's routes take instead of JSON (docs/http.md, "Rows as bytes")."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MEDIA_TYPE = "application/vnd.hinged.batch"
PREFIX = struct.Struct("<4s16sI")  # magic, no checksum (TCP has one), length of the header
FLOATS = ("float32", "float64")


def pack(
    X: Any,
    y: Sequence[Any] | None = None,
    ids: Sequence[str | None] | None = None,
    shows: Sequence[Any] | None = None,
) -> bytes:
    """A batch of rows: X (m, dim) an array or a SciPy sparse matrix, y m labels, ids m texts, shows what m candidates
    are shown as, None for x.

    ValueError where they do not fit together.
    """
    arrays, facts = _arrays_of(X), {}
    m = arrays["x"].shape[0] if "x" in arrays else arrays["indptr"].size - 1
    for name, given in (("y", y), ("ids", ids), ("shows", shows)):
        if given is not None and len(given) != m:
            raise ValueError(f"{name} must have a length of {m}, as X has rows, got {len(given)}")
    if ids is not None:
        facts["ids"] = list(ids)
    if shows is not None:
        facts["shows"] = list(shows)
    if y is not None:
        labels = y.tolist() if hasattr(y, "tolist") else list(y)
        kinds = list(zip(map(type, labels), labels, strict=True))  # True is 1, and another label
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        facts["labels"] = [label for _, label in numbers]
        arrays["y"] = np.array([numbers[kind] for kind in kinds], np.int32)
    return _framed(facts, arrays)


def _arrays_of(X: Any) -> dict[str, Any]:
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        return {"indptr": _integers(X.indptr), "indices": _integers(X.indices), "values": _floats(X.data)}
    X = _floats(np.asarray(X))
    if X.ndim != 2:
        raise ValueError(f"X must have two axes (rows, features), got {X.ndim}")
    return {"x": X}


def _floats(array: Any) -> Any:
    return array if array.dtype.name in FLOATS else array.astype(np.float64)


def _integers(array: Any) -> Any:
    return array if array.dtype.name in ("int32", "int64") else array.astype(np.int64)


def _framed(facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    listed, parts = [], []
    for name, array in arrays.items():
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        listed.append([name, array.dtype.name, list(array.shape)])
        parts += [data, bytes(-len(data) % 8)]
    header = json.dumps({"kind": "batch", "facts": facts, "arrays": listed}, separators=(",", ":")).encode()
    start = PREFIX.size + len(header)
    return b"".join([PREFIX.pack(b"hng1", bytes(16), len(header)), header, bytes(-start % 8), *parts])
