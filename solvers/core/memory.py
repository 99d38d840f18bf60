"""Arrays that begin at a line of the processor's caches.

NumPy's large arrays begin 16 bytes behind the start of a line. Then each vector of 512 bits lies across two lines, and
loops that do not wait for memory take up to twice as long.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LINE = 64
"""Bytes of a cache line, and of the widest vector."""


def aligned_zeros(shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
    """Zeros of this shape. The system provides the pages when they are first touched."""
    return _cut(np.zeros(_bytes(shape, dtype), np.uint8), shape, dtype)


def aligned_empty(shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
    """An uninitialised array of this shape."""
    return _cut(np.empty(_bytes(shape, dtype), np.uint8), shape, dtype)


def whole(array: Array) -> Array:
    """All rows of the aligned array whose first rows `array` (rows, width) is; else `array` itself."""
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
