"""Tensors of the Open Inference Protocol: JSON, or bytes behind the JSON (the binary extension), to and from NumPy.

A tensor has a name, a datatype, a shape and its data: row by row, flat or nested as the shape is.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
from pydantic import ConfigDict, Field, StrictBool, StrictInt, StrictStr, TypeAdapter, ValidationError, with_config

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.data.problems import first_problem
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
Parameters = dict[str, StrictBool | StrictInt | Annotated[float, Field(strict=True)] | StrictStr]
Number = Annotated[float, Field(strict=True)]


@with_config(_CLOSED)
class InputTensor(TypedDict):
    """A tensor of a request. data is missing where `parameters.binary_data_size` says how many bytes it has."""

    name: str
    datatype: Datatype
    shape: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1, max_length=2)]
    parameters: NotRequired[Parameters]
    data: NotRequired[list[Any]]


@with_config(_CLOSED)
class OutputTensor(TypedDict):
    """A tensor of an answer."""

    name: str
    datatype: Datatype
    shape: list[int]
    parameters: NotRequired[Parameters]
    data: NotRequired[list[Any]]


def _data_of(kind: Any) -> TypeAdapter[Any]:
    element = Annotated[kind, Field(strict=True)]
    flat = Annotated[list[element], Field(fail_fast=True)]
    return TypeAdapter(flat | Annotated[list[flat], Field(fail_fast=True)], config=ConfigDict(strict=True))


_FLOATS, _INTEGERS, _TRUTHS, _TEXTS = (_data_of(kind) for kind in (float, int, bool, str))


def read_tensor(tensor: InputTensor, binary: bytes | None) -> Array | list[str]:
    """The values of a tensor in its shape, or its strings in a row. Invalid says what is wrong with it."""
    name, datatype, shape = tensor["name"], tensor["datatype"], tensor["shape"]
    size = math.prod(shape)
    where = f"input {name[:80]!r}"
    if binary is not None:
        return _from_bytes(binary, datatype, shape, where)
    if "data" not in tensor:
        raise Invalid(f"{where}: data is missing")
    data = tensor["data"]
    adapter = {"B": _TRUTHS, "U": _INTEGERS, "I": _INTEGERS, "F": _FLOATS}[datatype[0]]
    if datatype == "BYTES":
        adapter = _TEXTS
    try:
        values = adapter.validate_python(data)
    except ValidationError as error:
        raise Invalid(f"{where}: {first_problem(error, adapter)}") from None
    if values and isinstance(values[0], list):
        if len(shape) != 2 or any(len(row) != shape[1] for row in values) or len(values) != shape[0]:
            raise Invalid(f"{where}: data is nested otherwise than its shape {shape} says")
        values = [value for row in values for value in row]
    if len(values) != size:
        raise Invalid(f"{where}: shape {shape} has {size} elements, got {len(values)}")
    if datatype == "BYTES":
        return list(values)
    try:
        with np.errstate(over="ignore"):
            return np.array(values, DTYPES[datatype]).reshape(shape)
    except OverflowError:
        raise Invalid(f"{where}: a number is out of the range of {datatype}") from None


def _from_bytes(data: bytes, datatype: str, shape: Sequence[int], where: str) -> Array | list[str]:
    size = math.prod(shape)
    if datatype != "BYTES":
        dtype = np.dtype(DTYPES[datatype])
        if len(data) != size * dtype.itemsize:
            raise Invalid(
                f"{where}: shape {list(shape)} of {datatype} has {size * dtype.itemsize} bytes, got {len(data)}"
            )
        return np.frombuffer(data, dtype).reshape(shape)
    texts, at = [], 0
    while at + _LENGTH.size <= len(data):
        end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
        try:
            texts.append(data[at + _LENGTH.size : end].decode())
        except UnicodeDecodeError:
            raise Invalid(f"{where}: element {len(texts)} is no UTF-8") from None
        at = end
    if at != len(data) or len(texts) != size:
        raise Invalid(f"{where}: shape {list(shape)} has {size} strings, each behind its length in 4 bytes")
    return texts


def write_tensor(
    name: str, datatype: Datatype, values: Array | list[str], *, binary: bool
) -> tuple[OutputTensor, bytes]:
    """A tensor of an answer, and its bytes where they go behind the JSON."""
    shape = list(values.shape) if isinstance(values, np.ndarray) else [len(values)]
    tensor: OutputTensor = {"name": name, "datatype": datatype, "shape": shape}
    if not binary:
        flat = values.ravel().tolist() if isinstance(values, np.ndarray) else values
        return tensor | {"data": flat}, b""
    if isinstance(values, np.ndarray):
        data = values.astype(DTYPES[datatype]).tobytes()
    else:
        texts = [text.encode() for text in values]
        data = b"".join(_LENGTH.pack(len(text)) + text for text in texts)
    return tensor | {"parameters": {"binary_data_size": len(data)}}, data
