"""The one binary format of events and snapshots: a few facts as JSON, arrays as bytes, a checksum over all.

    magic "hng1" | checksum, 16 bytes | length of the header, 4 bytes | header, JSON | arrays, 8-byte aligned

The header tells the kind, the format's version, the facts, and of each array its name, dtype and shape. Nothing is
ever unpickled; dtypes are those of a fixed list; sizes are checked against the bytes that are there before any array
is made.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MAGIC = b"hng1"
DTYPES = ("int8", "uint8", "int32", "int64", "uint64", "float32", "float64")
_PREFIX = struct.Struct("<4s16sI")


class BadFrame(ValueError):
    """The bytes are no frame, or not the one that was written."""


def _padded(n: int) -> int:
    return -(-n // 8) * 8


def encode(kind: str, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """A frame of this kind. Facts must be JSON; arrays of a dtype in DTYPES, stored little-endian."""
    listed, parts = [], []
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise TypeError(f"array {name} must be one of {DTYPES}, got {array.dtype}")
        data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        listed.append([name, array.dtype.name, list(array.shape)])
        parts += [data, bytes(_padded(len(data)) - len(data))]
    header = json.dumps({"kind": kind, "facts": facts, "arrays": listed}, separators=(",", ":")).encode()
    start = _PREFIX.size + len(header)
    body = b"".join([header, bytes(_padded(start) - start), *parts])
    return _PREFIX.pack(MAGIC, _checksum(body), len(header)) + body


def decode(data: bytes, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The facts and (writable) arrays of a frame of this kind. BadFrame if it is not one or fails its checksum."""
    if len(data) < _PREFIX.size:
        raise BadFrame(f"a frame has at least {_PREFIX.size} bytes, got {len(data)}")
    magic, checksum, header_bytes = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise BadFrame(f"a frame begins with {MAGIC!r}, got {magic!r}")
    if checksum != _checksum(memoryview(data)[_PREFIX.size :]):
        raise BadFrame("the checksum does not match")
    start = _PREFIX.size + header_bytes
    header = json.loads(data[_PREFIX.size : start])
    if header["kind"] != kind:
        raise BadFrame(f"expected a frame of kind {kind!r}, got {header['kind']!r}")
    arrays = {}
    at = _padded(start)
    for name, dtype, shape in header["arrays"]:
        if dtype not in DTYPES or any(n < 0 for n in shape):
            raise BadFrame(f"array {name} has dtype {dtype} and shape {shape}")
        size = math.prod(shape)
        bytes_needed = size * np.dtype(dtype).itemsize
        if at + bytes_needed > len(data):
            raise BadFrame(f"array {name} of shape {shape} is longer than the frame")
        arrays[name] = np.frombuffer(data, np.dtype(dtype).newbyteorder("<"), size, at).reshape(shape).astype(dtype)
        at += _padded(bytes_needed)
    return header["facts"], arrays


def _checksum(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
