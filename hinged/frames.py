"""The binary format of events and snapshots: facts as JSON, arrays as bytes, and a checksum of the whole frame.

    magic "hng1" | checksum, 16 bytes | length of the header, 4 bytes | header, JSON | arrays, 8-byte aligned

The header contains the kind, the version of the format, the facts, and the name, dtype and shape of each array. Nothing
is ever unpickled, and only a fixed list of dtypes is allowed. The decoder checks all sizes against the number of bytes
before it makes an array.
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
"""Maximum number of axes of an array, as in NumPy. The limit keeps the product of a forged shape fast to compute."""
SHOWN = 80  # maximum number of characters of a name in a message
PIECE, PIECE_BYTES = 1_000, 2**18
"""Maximum number of list entries, and of array bytes, that are copied at once: about 0.1 ms under Python's lock."""
_PREFIX = struct.Struct("<4s16sI")
_NAMES = {np.dtype(name): name for name in DTYPES}
_STORED = {name: np.dtype(name).newbyteorder("<") for name in DTYPES}
_json = json.JSONEncoder(separators=(",", ":")).encode  # made once, because json.dumps makes an encoder for each call


class BadFrame(ValueError):
    """The bytes are not a frame, or differ from the frame that was written."""


def _padded(n: int) -> int:
    return -(-n // 8) * 8


def encode(
    kind: str, facts: Mapping[str, Any], arrays: Mapping[str, Array], *, long: bool = False, checksum: bool = True
) -> bytes:
    """Return a frame of this kind. The facts must be JSON. The arrays have a dtype of DTYPES and are stored
    little-endian.

    long: whether lists may have many thousands of entries, and arrays many megabytes. If so, other threads run in
    between. checksum: whether the frame has one.
    """
    listed: list[tuple[str, str, tuple[int, ...]]] = []
    parts: list[bytes] = []
    for name, array in arrays.items():
        dtype = _NAMES.get(array.dtype) or array.dtype.name  # NumPy computes the name at each access
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
    prefix = _PREFIX.pack(MAGIC, _checksum(*parts) if checksum else NO_CHECKSUM, len(header))
    return b"".join([prefix, *parts])  # the only copy; for a long frame, other threads run in between


def _pieced(value: Any) -> str:
    """Return the JSON of a value. Long lists are encoded in pieces, because the encoder keeps Python's lock until it is
    done.
    """
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return "{" + ",".join([f"{_json(key)}:{_pieced(part)}" for key, part in value.items()]) + "}"
    if isinstance(value, list) and len(value) > PIECE:
        pieces = [_json(value[begin : begin + PIECE])[1:-1] for begin in range(0, len(value), PIECE)]
        return "[" + ",".join(pieces) + "]"
    return _json(value)


def decode(data: bytes, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the facts and the writable arrays of a frame of this kind. Raise BadFrame if the frame is invalid or its
    checksum differs.
    """
    text, checksum = opened(data)
    if checksum != _checksum(memoryview(data)[_PREFIX.size :]):
        raise BadFrame(WRONG_CHECKSUM)
    facts, arrays = contents(data, _parsed(bytes(text)), kind)
    return facts, {name: array.copy() for name, array in arrays.items()}


def check_sent(data: bytes | bytearray) -> Iterator[None]:
    """Check a frame from the network, piece by piece. A checksum of sixteen zero bytes means that there is no checksum.
    Raise BadFrame.
    """
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
    """Return the JSON of the header, and the checksum. The JSON and the checksum are unchecked. Raise BadFrame."""
    begins = bytes(data[: len(MAGIC)])
    if begins != MAGIC:
        raise BadFrame(f"this is no file of hinged: it begins with {begins!r} instead of {MAGIC!r}")
    if len(data) < _PREFIX.size:
        raise BadFrame(f"a frame has at least {_PREFIX.size} bytes, got {len(data)}")
    _, checksum, header_bytes = _PREFIX.unpack_from(data)
    return memoryview(data)[_PREFIX.size : _PREFIX.size + header_bytes], checksum


def contents(data: bytes | bytearray, header: Any, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the facts and arrays of a frame with this header. The arrays are views of the frame. Raise BadFrame."""
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
        except (ValueError, OverflowError) as error:  # a shape may have both a very long axis and an empty axis
            raise BadFrame(f"array {name[:SHOWN]!r} cannot have shape {shape}: {error}") from None
        at += _padded(size * stored.itemsize)
    if at != len(data):
        raise BadFrame(f"the frame should have {at} bytes, got {len(data)}")
    return facts, arrays


def _product(shape: Sequence[int], most: int) -> int:
    """Return the number of elements of a shape. If the number is above `most`, return any number above `most`."""
    if 0 in shape:
        return 0
    size = 1
    for n in shape:
        size *= n
        if size > most:
            break
    return size


def prefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays of a part of a state, with a prefix before each name."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def part(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return the arrays whose names begin with a prefix, without the prefix."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def peek(data: bytes, kind: str) -> dict[str, Any]:
    """Return the facts of a frame of this kind, without checking the rest. Raise BadFrame if the frame has no facts."""
    return _header(_parsed(bytes(opened(data)[0])), kind)[0]


def contains(data: bytes, part: bytes) -> bool:
    """Return whether a frame contains some bytes. Other threads run in between."""
    begins = range(0, len(data), PIECE_BYTES)
    return any(data.find(part, begin, begin + PIECE_BYTES + len(part)) >= 0 for begin in begins)


def kind_of(data: bytes) -> str:
    """Return the kind that a frame claims to have. Return an empty string if the frame claims no kind; decoding will
    refuse such a frame.
    """
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
    """Return the facts, and the name, dtype and shape of each array. Every part is checked, because a checksum may fit
    an invalid header.
    """
    match header:
        case {"kind": str(found), "facts": dict(facts), "arrays": list(listed)}:
            if found != kind:
                raise BadFrame(f"expected a frame of kind {kind!r}, got {found[:SHOWN]!r}")
        case _:
            raise BadFrame("the header must have the parts kind, facts and arrays")
    for entry in listed:
        if not _tells_of_an_array(entry):
            raise BadFrame(
                f"an array must be a name, a dtype and a shape of at most {AXES_MAX} axes, got {repr_of(entry)}"
            )
    return facts, listed


def _tells_of_an_array(entry: object) -> bool:
    if type(entry) is not list or len(entry) != 3:
        return False
    name, dtype, shape = entry
    if type(name) is not str or type(dtype) is not str or dtype not in DTYPES or type(shape) is not list:
        return False
    if len(shape) > AXES_MAX:
        return False
    for n in shape:  # noqa: SIM110  takes a third of the time of all(), and runs for every array of every event
        if type(n) is not int or not 0 <= n < 2**63:
            return False
    return True


def _checksum(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()
