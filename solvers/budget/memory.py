"""Data that a dual solver with a budget stores besides its points: the examples' own alpha, and the last rows.

alpha by key: example number k has place k modulo T, and a newer example overwrites it. With consecutive numbers, the
memory covers the last T examples. An example without a place has alpha = 0.
key      (T,) int64       number of the example, NONE for an empty place.
alpha    (K, T) float64   signed, within the box of the example's class.

The last rows, for further steps on them: a store of sparse points without columns (core/points.py). It has twice as
many slots as rows are needed. When it is full, its older half is removed.

rows      Points.
class_of  (2 R,) int32
number    (2 R,) int64    the examples' numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core import points as pts
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.points import (
    USED,
    Points,
    append_point,
)
from hinged.solvers.core.rows import rows_from_csr
from hinged.solvers.core.states import COUNT_MAX, MAGNITUDE_MAX, State, StateReader, check_range
from hinged.solvers.jit.compiled import in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

PLACES_MIN = 1024
NO_COLUMNS = 2**31  # a dim so large that a point store creates no columns


@handed
class Memory(NamedTuple):
    """The arrays in the form that compiled code uses; see the module's docstring."""

    key: Array
    alpha: Array
    rows: Points
    class_of: Array
    number: Array


def empty_memory(columns: int, places: int, recent: int, dtype: type) -> Memory:
    """Return a memory with `places` places, and room for the last `recent` rows."""
    rows = pts.empty_points(NO_COLUMNS, dtype, 2 * recent)
    slots = rows.start.size
    return Memory(
        np.full(places, NONE, np.int64),
        np.zeros((columns, places)),
        rows,
        np.full(slots, NONE, np.int32),
        np.full(slots, NONE, np.int64),
    )


@in_place
def place_of(memory, key):
    """Return the place of this example, or NONE."""
    at = key % memory.key.shape[0]
    return at if memory.key[at] == key else NONE


@in_place
def take_place(memory, key):
    """Give the example a place, with alpha = 0. The example that had this place is forgotten."""
    at = key % memory.key.shape[0]
    memory.key[at] = key
    for c in range(memory.alpha.shape[0]):
        memory.alpha[c, at] = 0.0
    return at


@in_place
def keep_row(memory, own, key, indices, values, norm, self_value):
    """Store a row as the newest row. There must be room."""
    s = append_point(memory.rows, indices, values, norm, self_value)
    memory.class_of[s] = own
    memory.number[s] = key


def with_places(memory: Memory, places: int) -> Memory:
    """Return the memory with more places."""
    columns = memory.alpha.shape[0]
    key, alpha = np.full(places, NONE, np.int64), np.zeros((columns, places))
    taken = np.flatnonzero(memory.key != NONE)
    at = memory.key[taken] % places
    key[at] = memory.key[taken]
    alpha[:, at] = memory.alpha[:, taken]
    return memory._replace(key=key, alpha=alpha)


def with_columns(memory: Memory, classes: int) -> Memory:
    """Return the memory for `classes` classes: see Solver._add_columns."""
    columns, places = memory.alpha.shape
    if columns == 0 or classes < 3:
        return memory._replace(alpha=np.zeros((min(classes, 1), places)))
    alpha = np.zeros((classes, places))
    if columns == 1:
        alpha[0], alpha[1] = 0.0 - memory.alpha[0], memory.alpha[0]
    else:
        alpha[:columns] = memory.alpha
    return memory._replace(alpha=alpha)


def without(memory: Memory, keys: Array) -> Memory:
    """Return the memory after removing all data of the examples with these numbers."""
    at = keys % memory.key.size
    at = at[memory.key[at] == keys]
    memory.key[at], memory.alpha[:, at] = NONE, 0.0
    used, slots = int(memory.rows.used[USED]), memory.rows.start.size
    kept = np.flatnonzero(np.isin(memory.number[:used], keys, invert=True))
    if kept.size == used:
        return memory
    class_of, number = np.full(slots, NONE, np.int32), np.full(slots, NONE, np.int64)
    class_of[: kept.size], number[: kept.size] = memory.class_of[kept], memory.number[kept]
    rows = pts.compacted(memory.rows, kept, NO_COLUMNS, slots, memory.rows.indices.size)
    return memory._replace(rows=rows, class_of=class_of, number=number)


def with_room(memory: Memory, recent: int, nnz: int) -> Memory:
    """Return the memory with its last `recent` rows at the front, and room for another row of nnz non-zeros."""
    used = int(memory.rows.used[USED])
    kept = np.arange(max(used - recent, 0), used) if used == memory.rows.start.size else np.arange(used)
    needed = int(memory.rows.length[kept].sum()) + nnz
    pool = memory.rows.indices.size
    pool = pool if needed <= pool // 2 else 2 * needed
    new = empty_memory(0, 1, recent, memory.rows.values.dtype.type)
    rows = pts.compacted(memory.rows, kept, NO_COLUMNS, memory.rows.start.size, pool)
    new.class_of[: kept.size], new.number[: kept.size] = memory.class_of[kept], memory.number[kept]
    return memory._replace(rows=rows, class_of=new.class_of, number=new.number)


def state_of(memory: Memory) -> State:
    """Return the arrays of a memory as a solver's state contains them."""
    used = int(memory.rows.used[USED])
    indptr, indices, values = pts.rows_of(memory.rows, np.arange(used))
    return {
        "memory_key": memory.key.copy(),
        "memory_alpha": memory.alpha.copy(),
        "recent_indptr": indptr,
        "recent_indices": indices,
        "recent_values": values,
        "recent_class": memory.class_of[:used].copy(),
        "recent_key": memory.number[:used].copy(),
    }


def read_memory(
    checked: StateReader,
    kernel: Kernel,
    dim: int,
    dtype: type,
    columns: int,
    classes: int,
    places: int,
    recent: int,
    bound: float,
) -> Memory:
    """Check the memory of a state, for a solver with at most `places` places and `recent` rows.

    bound: limit of any alpha.
    """
    key = checked.take("memory_key", np.int64, (None,), NONE, COUNT_MAX)
    if not 0 < key.size <= places:
        raise ValueError(f"memory_key must have from 1 to {places} places, got {key.size}")
    held = key != NONE
    if (key % key.size != np.arange(key.size))[held].any():
        raise ValueError("memory_key names an example at another's place")
    alpha = checked.take("memory_alpha", np.float64, (columns, key.size), -MAGNITUDE_MAX, MAGNITUDE_MAX)
    check_range("memory_alpha", alpha, -bound * held, bound * held)
    class_of = checked.take("recent_class", np.int32, (None,), 0, classes - 1)
    new = empty_memory(0, 1, recent, dtype)
    used = class_of.size
    if used > new.rows.start.size:
        raise ValueError(f"recent_class must have at most {new.rows.start.size} rows, got {used}")
    indptr = checked.take("recent_indptr", np.int64, (used + 1,), 0, COUNT_MAX)
    values = checked.take("recent_values", dtype, (None,))
    indices = checked.take("recent_indices", np.int32, (values.size,), 0, dim - 1)
    rows = pts.points_from_rows(rows_from_csr(indptr, indices, values, kernel, dim, dtype), NO_COLUMNS)
    rows = pts.compacted(rows, np.arange(used), NO_COLUMNS, new.rows.start.size, max(2 * values.size, 4096))
    new.class_of[:used], new.number[:used] = class_of, checked.take("recent_key", np.int64, (used,), 0, COUNT_MAX)
    return Memory(key, alpha, rows, new.class_of, new.number)


def bytes_of(memory: Memory) -> int:
    """Return the memory of all arrays, in bytes."""
    return pts.bytes_of(memory.rows) + int(sum(a.nbytes for a in (memory.key, memory.alpha, memory.class_of)))
