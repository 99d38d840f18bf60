"""The one binary format of events and snapshots: a few facts as JSON, arrays as bytes, a checksum over all.

    magic "hng1" | checksum, 16 bytes | length of the header, 4 bytes | header, JSON | arrays, 8-byte aligned

The header tells the kind, the format's version, the facts, and of each array its name, dtype and shape. Nothing is
ever unpickled; dtypes are those of a fixed list; sizes are checked against the bytes that are there before any array
is made.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from reprlib import repr as repr_of
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MAGIC = b"hng1"
DTYPES = ("int8", "uint8", "int32", "int64", "uint64", "float32", "float64")
NO_CHECKSUM = bytes(16)
WRONG_CHECKSUM = "the checksum does not match"
AXES_MAX = 32
"""Of an array. The product of so many axes takes no time, and NumPy has no more."""
SHOWN = 80  # characters of a name in a message
PIECE, PIECE_BYTES = 1_000, 2**18
"""Entries of a long list and bytes of a large array that are copied at once, under Python's lock: some 0.1 ms."""
_PREFIX = struct.Struct("<4s16sI")
_NAMES = {np.dtype(name): name for name in DTYPES}
_STORED = {name: np.dtype(name).newbyteorder("<") for name in DTYPES}
_json = json.JSONEncoder(separators=(",", ":")).encode  # made once: json.dumps makes one for each call


class BadFrame(ValueError):
    """The bytes are no frame, or not the one that was written."""


def _padded(n: int) -> int:
    return -(-n // 8) * 8


def encode(kind: str, facts: Mapping[str, Any], arrays: Mapping[str, Array], *, long: bool = False) -> bytes:
    """A frame of this kind. Facts must be JSON; arrays of a dtype in DTYPES, stored little-endian.

    long: there may be lists of many thousands and arrays of megabytes: others are to get Python's lock meanwhile.
    """
    listed: list[tuple[str, str, tuple[int, ...]]] = []
    parts: list[bytes] = []
    for name, array in arrays.items():
        dtype = _NAMES.get(array.dtype) or array.dtype.name  # the name is worked out anew each time it is asked for
        if dtype not in _STORED:
            raise TypeError(f"array {name} must be one of {DTYPES}, got {array.dtype}")
        stored = array.astype(_STORED[dtype], copy=False)
        listed.append((name, dtype, array.shape))
        if long and stored.nbytes > PIECE_BYTES:
            flat, count = stored.reshape(-1), PIECE_BYTES // stored.itemsize
            parts += [flat[begin : begin + count].tobytes() for begin in range(0, flat.size, count)]
        else:
            parts.append(stored.tobytes())
        if stored.nbytes % 8:
            parts.append(bytes(-stored.nbytes % 8))
    header = (_pieced if long else _json)({"kind": kind, "facts": facts, "arrays": listed}).encode()
    start = _PREFIX.size + len(header)
    parts = [header, bytes(_padded(start) - start), *parts]
    prefix = _PREFIX.pack(MAGIC, _checksum(*parts), len(header))
    return b"".join([prefix, *parts])  # the one copy of all, for which others get Python's lock where it is long


def _pieced(value: Any) -> str:
    """The same JSON, long lists a piece at a time: the encoder keeps Python's lock until it is done."""
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return "{" + ",".join([f"{_json(key)}:{_pieced(part)}" for key, part in value.items()]) + "}"
    if isinstance(value, list) and len(value) > PIECE:
        pieces = [_json(value[begin : begin + PIECE])[1:-1] for begin in range(0, len(value), PIECE)]
        return "[" + ",".join(pieces) + "]"
    return _json(value)


def decode(data: bytes, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The facts and (writable) arrays of a frame of this kind. BadFrame if it is not one or fails its checksum."""
    text, checksum = opened(data)
    if checksum != _checksum(memoryview(data)[_PREFIX.size :]):
        raise BadFrame(WRONG_CHECKSUM)
    facts, arrays = contents(data, _parsed(bytes(text)), kind)
    return facts, {name: array.copy() for name, array in arrays.items()}


def check_sent(data: bytes | bytearray) -> Iterator[None]:
    """Check a frame that came over the network, a piece at a time: sixteen zeros stand for no checksum. BadFrame."""
    _, checksum = opened(data)
    if checksum == NO_CHECKSUM:
        return
    digest, rest = hashlib.blake2b(digest_size=16), memoryview(data)[_PREFIX.size :]
    for begin in range(0, len(rest), PIECE_BYTES):
        digest.update(rest[begin : begin + PIECE_BYTES])
        yield
    if checksum != digest.digest():
        raise BadFrame(WRONG_CHECKSUM)


def opened(data: bytes | bytearray) -> tuple[memoryview, bytes]:
    """The JSON of a frame's header, and its checksum, neither of them checked. BadFrame."""
    if len(data) < _PREFIX.size:
        raise BadFrame(f"a frame has at least {_PREFIX.size} bytes, got {len(data)}")
    magic, checksum, header_bytes = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise BadFrame(f"a frame begins with {MAGIC!r}, got {magic!r}")
    return memoryview(data)[_PREFIX.size : _PREFIX.size + header_bytes], checksum


def contents(data: bytes | bytearray, header: Any, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The facts and arrays of a frame whose header says this, the arrays as they stand in the frame. BadFrame."""
    facts, listed = _header(header, kind)
    arrays: dict[str, Array] = {}
    at = _padded(_PREFIX.size + _PREFIX.unpack_from(data)[2])
    for name, dtype, shape in listed:
        stored = _STORED[dtype]
        size = _product(shape, len(data))
        if at + size * stored.itemsize > len(data):
            raise BadFrame(f"array {name[:SHOWN]!r} of shape {shape} is longer than the frame")
        try:
            arrays[name] = np.frombuffer(data, stored, size, at).reshape(shape).astype(dtype, copy=False)
        except (ValueError, OverflowError) as error:  # a long axis beside an empty one
            raise BadFrame(f"array {name[:SHOWN]!r} cannot have shape {shape}: {error}") from None
        at += _padded(size * stored.itemsize)
    if at != len(data):
        raise BadFrame(f"the frame should have {at} bytes, got {len(data)}")
    return facts, arrays


def _product(shape: Sequence[int], most: int) -> int:
    """The elements of an array of this shape; some number beyond `most` where they are more."""
    if 0 in shape:
        return 0
    size = 1
    for n in shape:
        size *= n
        if size > most:
            break
    return size


def peek(data: bytes, kind: str) -> dict[str, Any]:
    """The facts of a frame of this kind, before the rest of it is looked at. BadFrame if there are none."""
    if len(data) < _PREFIX.size:
        raise BadFrame(f"a frame has at least {_PREFIX.size} bytes, got {len(data)}")
    _, _, header_bytes = _PREFIX.unpack_from(data)
    return _header(_parsed(data[_PREFIX.size : _PREFIX.size + header_bytes]), kind)[0]


def kind_of(data: bytes) -> str:
    """The kind that a frame says it is of; nothing where it says none, which whoever decodes it will tell."""
    try:
        header = json.loads(data[_PREFIX.size : _PREFIX.size + _PREFIX.unpack_from(data)[2]])
    except (ValueError, RecursionError, struct.error):
        return ""
    return str(header.get("kind", "")) if isinstance(header, dict) else ""


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"the header is not JSON: {error}") from None


def _header(header: Any, kind: str) -> tuple[dict[str, Any], list[tuple[str, str, list[int]]]]:
    """The facts, and name, dtype and shape of each array. A right checksum is no right header: all is checked."""
    match header:
        case {"kind": str(found), "facts": dict(facts), "arrays": list(listed)}:
            if found != kind:
                raise BadFrame(f"expected a frame of kind {kind!r}, got {found[:SHOWN]!r}")
        case _:
            raise BadFrame("the header has not the parts kind, facts and arrays")
    for entry in listed:
        if not _tells_of_an_array(entry):
            raise BadFrame(f"an array is a name, a dtype and a shape of {AXES_MAX} axes at most, got {repr_of(entry)}")
    return facts, listed


def _tells_of_an_array(entry: object) -> bool:
    if type(entry) is not list or len(entry) != 3:
        return False
    name, dtype, shape = entry
    if type(name) is not str or type(dtype) is not str or dtype not in DTYPES or type(shape) is not list:
        return False
    if len(shape) > AXES_MAX:
        return False
    for n in shape:  # noqa: SIM110  a third of the time of all(), for each array of each event that is read
        if type(n) is not int or not 0 <= n < 2**63:
            return False
    return True


def _checksum(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()
