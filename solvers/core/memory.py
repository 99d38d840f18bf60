"""Arrays that start at the beginning of a cache line of the processor.

Large NumPy arrays start 16 bytes after the beginning of a line. Each vector of 512 bits then crosses a line boundary,
and loops that do not wait for memory take up to twice as long.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LINE = 64
"""Bytes of a cache line, which is also the size of the widest vector."""


def aligned_zeros(shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
    """Return zeros of this shape. The system provides the memory pages when they are first used."""
    return _cut(np.zeros(_bytes(shape, dtype), np.uint8), shape, dtype)


def aligned_empty(shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
    """Return an uninitialised array of this shape."""
    return _cut(np.empty(_bytes(shape, dtype), np.uint8), shape, dtype)


def whole(array: Array) -> Array:
    """Return all rows of the aligned array of which `array` (rows, width) is the first rows; else `array` itself."""
    memory, row = array.base, array.shape[1] * array.itemsize
    if not (isinstance(memory, np.ndarray) and memory.dtype == np.uint8 and memory.ndim == 1):
        return array
    if row == 0 or not array.flags.c_contiguous:
        return array
    rows, left = divmod(memory.size - LINE, row)
    if left or array.ctypes.data - memory.ctypes.data != _offset(memory):
        return array
    return np.ndarray((rows, array.shape[1]), array.dtype, memory.data, _offset(memory))


def _bytes(shape: tuple[int, ...], dtype: Any) -> int:
    return math.prod(shape) * int(np.dtype(dtype).itemsize) + LINE


def _cut(memory: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    return np.ndarray(shape, dtype, memory.data, _offset(memory))


def _offset(memory: Array) -> int:
    return int(-memory.ctypes.data % LINE)
