"""Convert tensors of the Open Inference Protocol to and from NumPy. A tensor is sent as JSON, or as bytes after the
JSON (the binary extension).

A tensor has a name, a datatype, a shape and its data. The data is in row order, either flat or nested like the shape.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, Literal, NotRequired, cast

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, WithJsonSchema, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from hinged.service.data.answers import Parts
from hinged.service.data.problems import NAME_CHARS_MAX, first_problem
from hinged.service.data.slices import Slices
from hinged.service.data.trees import Flat
from hinged.service.errors import Invalid

Array = np.ndarray[Any, Any]

Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
]
DTYPES: dict[str, str] = {
    "BOOL": "?", "UINT8": "<u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "<i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_LENGTH = struct.Struct("<I")

_CLOSED = ConfigDict(strict=True)


def _check_parameters(found: dict[str, Any]) -> dict[str, Any]:
    """Refuse invalid parameters, with one error that names all of them."""
    if len(found) > PARAMETERS_MAX:
        raise PydanticCustomError("parameters", "at most {most} are allowed", {"most": PARAMETERS_MAX})
    for name, value in found.items():
        if not isinstance(value, bool | int | float | str):
            raise PydanticCustomError(
                "parameters", "{name} must be a boolean, a number or a string", {"name": repr(name[:NAME_CHARS_MAX])}
            )
    return found


PARAMETERS_MAX = 1_000
Parameters = Annotated[
    dict[str, Any],
    AfterValidator(_check_parameters),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": PARAMETERS_MAX,
            "additionalProperties": {"anyOf": [{"type": kind} for kind in ("boolean", "integer", "number", "string")]},
        }
    ),
]
Number = Annotated[float, Field(strict=True)]


@with_config(_CLOSED)
class InputTensor(TypedDict):
    """A tensor in a request. If `parameters.binary_data_size` gives the number of its bytes, `data` is absent."""

    name: str
    datatype: Datatype
    shape: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1, max_length=2)]
    parameters: NotRequired[Parameters]
    data: NotRequired[list[Any]]


@with_config(_CLOSED)
class OutputTensor(TypedDict):
    """A tensor in an answer."""

    name: str
    datatype: Datatype
    shape: list[int]
    parameters: NotRequired[Parameters]
    data: NotRequired[list[Any]]


def _data_of(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(Annotated[list[Annotated[kind, Field(strict=True)]], Field(fail_fast=True)])


_FLOATS, _INTEGERS, _TRUTHS, _TEXTS = (_data_of(kind) for kind in (float, int, bool, str))
AT_ONCE, TEXTS_AT_ONCE = 20_000, 2_000
"""Number of elements that are checked, or texts that are decoded, before the event loop gets a turn. This many take
about a millisecond.
"""


def read_tensor(tensor: InputTensor, binary: memoryview | None) -> Slices[Array | list[str]]:
    """Return a tensor's values in the tensor's shape, or its strings as a list. Raise Invalid."""
    name, datatype, shape = tensor["name"], tensor["datatype"], tensor["shape"]
    size = math.prod(shape)
    where = f"input {name[:80]!r}"
    if binary is not None:
        return (yield from _from_bytes(binary, datatype, shape, where))
    if "data" not in tensor:
        raise Invalid(f"{where}: data is missing")
    adapter = {"B": _TRUTHS, "U": _INTEGERS, "I": _INTEGERS, "F": _FLOATS}[datatype[0]]
    if datatype == "BYTES":
        adapter = _TEXTS
    texts: list[str] = []
    parts: list[Array] = []
    values = _in_a_row(tensor["data"], shape, where)
    if len(values) != size:
        raise Invalid(f"{where}: shape {shape} has {size} elements, got {len(values)}")
    for first in range(0, size, AT_ONCE):
        try:
            checked = adapter.validate_python(values[first : first + AT_ONCE])
        except ValidationError as error:
            raise Invalid(f"{where}: {first_problem(error, adapter)}") from None
        if datatype == "BYTES":
            texts += checked
        else:
            parts.append(_array(checked, datatype, where))
        yield
    if datatype == "BYTES":
        return texts
    return np.concatenate(parts or [np.zeros(0, DTYPES[datatype])]).reshape(shape)


def _in_a_row(data: list[Any], shape: list[int], where: str) -> list[Any]:
    """Return the elements as a flat list. Raise Invalid if the nesting contradicts the shape."""
    if isinstance(data, Flat):
        lengths = data.lengths
    elif data and all(isinstance(row, list) for row in data):  # of a short body
        lengths = [len(row) for row in data]
        data = [*chain.from_iterable(data)]
    else:
        return data
    if len(shape) != 2 or len(lengths) != shape[0] or {*lengths} != {shape[1]}:
        raise Invalid(f"{where}: the nesting of data does not match its shape {shape}")
    return data


def _array(values: list[Any], datatype: str, where: str) -> Array:
    try:
        with np.errstate(over="ignore"):
            return np.array(values, DTYPES[datatype])
    except OverflowError:
        raise Invalid(f"{where}: a number is out of the range of {datatype}") from None


def _from_bytes(data: memoryview, datatype: str, shape: Sequence[int], where: str) -> Slices[Array | list[str]]:
    size = math.prod(shape)
    if datatype != "BYTES":
        dtype = np.dtype(DTYPES[datatype])
        if len(data) != size * dtype.itemsize:
            raise Invalid(
                f"{where}: shape {list(shape)} of {datatype} has {size * dtype.itemsize} bytes, got {len(data)}"
            )
        return np.frombuffer(data, dtype).reshape(shape)
    texts: list[str] = []
    at = 0
    while at + _LENGTH.size <= len(data) and len(texts) <= size:
        if len(texts) % TEXTS_AT_ONCE == TEXTS_AT_ONCE - 1:
            yield
        end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
        try:
            texts.append(bytes(data[at + _LENGTH.size : end]).decode())
        except UnicodeDecodeError:
            raise Invalid(f"{where}: element {len(texts)} is not UTF-8") from None
        at = end
    if at != len(data) or len(texts) != size:
        raise Invalid(f"{where}: shape {list(shape)} must have {size} strings, each preceded by its length in 4 bytes")
    return texts


def write_tensor(
    name: str, datatype: Datatype, values: Array | list[str], *, binary: bool
) -> tuple[OutputTensor, bytes]:
    """Return a tensor for an answer, and its bytes if they are sent after the JSON."""
    shape = list(values.shape) if isinstance(values, np.ndarray) else [len(values)]
    tensor: OutputTensor = {"name": name, "datatype": datatype, "shape": shape}
    if not binary:
        flat = values.ravel() if isinstance(values, np.ndarray) else values
        parts = Parts(len(flat), 1, lambda begin, end: _listed(flat[begin:end]))
        return cast("OutputTensor", tensor | {"data": parts.all() if parts.short else parts}), b""
    if isinstance(values, np.ndarray):
        data = values.astype(DTYPES[datatype]).tobytes()
    else:
        texts = [text.encode() for text in values]
        data = b"".join(_LENGTH.pack(len(text)) + text for text in texts)
    return tensor | {"parameters": {"binary_data_size": len(data)}}, data


def _listed(values: Array | list[str]) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else values
