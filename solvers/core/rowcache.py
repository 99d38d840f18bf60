"""A cache of kernel rows, k(x_slot, x_s) for s = 0..filled, over the points of one store.

Points are only added at the end, so the filled part of a line stays valid. Computing the values for newer points
completes the line. If no line is free, the clock rule evicts one: a hand moves round and selects the first line that
was not requested since the hand last passed. A new line also counts as not requested. No step scans all lines.

The state of the cache never affects a result: a kernel value has the same bits whether it is cached or computed.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import point_row
from hinged.solvers.core.memory import aligned_empty
from hinged.solvers.core.points import USED, Points
from hinged.solvers.core.terms import count_below
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

HAND, HITS, MISSES, VALUES, FREE, REACHED = range(6)
LINES_MIN = 8
MOVED = 1024  # numbers of a line moved at once
NEARLY = 8  # memory that lacks at most 1 / NEARLY of the allowed size is reused like memory of that size

ADVISED_BYTES, HUGE_BYTES = 2**22, 2**26
"""NumPy requests huge pages for arrays of at least ADVISED_BYTES.

If all lines together have less than HUGE_BYTES, the cache uses small pages instead.
"""


@handed
class RowCache(NamedTuple):
    """lines (L, width); width is at least the number of slots in use. line_of (cap,) int64: line of a slot, or NONE.

    slot_of (L,) int64: slot of a line, or NONE. filled (L,) int64: number of values of each line. recent (L,) uint8: 1
    if the line was requested again recently. free (L,) int64: the free lines; the last one is used next. counters (6,)
    int64: the hand, rows found, rows computed, kernel values computed, free lines, and REACHED. REACHED is how far into
    the memory numbers were written before the lines were last cut or cleared. spread (dim,): scratch of `kernel_row`.
    """

    lines: Array
    line_of: Array
    slot_of: Array
    filled: Array
    recent: Array
    free: Array
    counters: Array
    spread: Array


def new_cache(
    points: Points, dim: int, bytes_max: int, former: RowCache | None = None, width: int | None = None
) -> RowCache:
    """Return a cache of at most bytes_max for the slots of these points. It continues the counts of a `former` cache.

    width: number of slots per line; None for all. The new cache reuses the former cache's memory if that is large
    enough, or nearly as large as allowed. The reason is that a fresh page costs as much as computing the values for it.
    """
    cap = points.start.shape[0]
    width = width or cap
    dtype = points.values.dtype
    lines = max(LINES_MIN, min(cap, bytes_max // (width * dtype.itemsize)))
    counts = np.zeros(6, np.int64) if former is None else former.counters
    if former is not None:
        note_reached(former)
    if former is not None and former.lines.size * NEARLY >= bytes_max // dtype.itemsize * (NEARLY - 1):
        lines = max(LINES_MIN, min(lines, former.lines.size // width))
    if former is not None and former.lines.size >= lines * width:
        memory = former.lines.reshape(-1)[: lines * width]
    else:
        memory = _memory(lines * width, dtype)
        counts[REACHED] = 0
    return _cut(
        memory.reshape(lines, width), cap, counts, np.zeros(dim if points.columns.shape[0] == 0 else 1, dtype)
    )  # fmt: skip


def _cut(lines: Array, cap: int, counts: Array, spread: Array) -> RowCache:
    """Return a cache of these lines for `cap` slots. All lines are free, and the counts continue."""
    count = lines.shape[0]
    cache = RowCache(
        lines,
        np.full(cap, NONE, np.int64),
        np.full(count, NONE, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.uint8),
        np.zeros(count, np.int64),
        counts,
        spread,
    )
    _list_free(cache)
    return cache


def _list_free(cache: RowCache) -> None:
    """Rebuild the list of free lines. The first free line is used next."""
    free = np.flatnonzero(cache.slot_of == NONE)[::-1]
    cache.free[: free.size] = free
    cache.counters[HAND], cache.counters[FREE] = 0, free.size


def _memory(count: int, dtype: np.dtype[Any]) -> Array:
    """Return memory for `count` numbers. Pages that are never used are never requested from the system.

    The system fills pages with zeros before it provides them. A cache that grows whenever the points double never uses
    most of its memory. With huge pages, the system would fill all of it.
    """
    size = count * dtype.itemsize
    if not ADVISED_BYTES <= size < HUGE_BYTES or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return aligned_empty((count,), dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without huge pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype)


@in_place
def _carry_line(old, new, slots, n, back):
    """Do new[k] = old[slots[k]] for k < n.

    They may overlap: new begins `back` numbers after old, or (negative) before it.
    """
    first = 0
    while first < n and slots[first] - first < back:
        first += 1
    for k in range(first, n):
        new[k] = old[slots[k]]
    for k in range(first - 1, -1, -1):
        new[k] = old[slots[k]]


@in_place
def _move_line(old, new, n, back):
    """Do new[k] = old[k] for k < n, with the same overlap. This is `_carry_line` when all slots stay."""
    if back > 0:
        for end in range(n, 0, -MOVED):
            begin = max(end - MOVED, 0)
            _move_part(old[begin:end], new[begin:end])
    else:
        for begin in range(0, n, MOVED):
            end = min(begin + MOVED, n)
            _move_part(old[begin:end], new[begin:end])


@compiled
def _move_part(old, new):
    held = np.empty(MOVED, old.dtype)
    for k in range(old.shape[0]):
        held[k] = old[k]
    for k in range(old.shape[0]):
        new[k] = held[k]


@in_place
def _carry_lines(source, target, filled, slots, begin, end):
    """Copy to target[i] the filled values of source[i] at `slots`, ascending; update `filled`.

    source and target may be the same memory, cut into longer or shorter lines. If the lines get longer, the last line
    is moved first. Within a line, values that move towards the front are moved first, starting at the front; then
    values that move back, starting at the back. The call moves lines begin..end. All lines after them must have been
    moved already or, if lines get shorter, all lines before them.
    """
    longer = target.shape[1] - source.shape[1]
    stay = slots.shape[0] > 0 and slots[slots.shape[0] - 1] == slots.shape[0] - 1
    for p in range(end - begin):
        i = end - 1 - p if longer >= 0 else begin + p
        n = count_below(slots, slots.shape[0], filled[i])
        if stay:
            _move_line(source[i], target[i], n, i * longer)
        else:
            _carry_line(source[i], target[i], slots, n, i * longer)
        filled[i] = n


def carried(
    cache: RowCache, points: Points, dim: int, bytes_max: int, slots: Array, width: int | None = None
) -> RowCache:
    """Return the cache after the points of `slots`, ascending, became all points. It keeps their rows.

    width: as in `new_cache`.
    """
    new = new_cache(points, dim, bytes_max, cache, width)
    kept = min(cache.filled.size, new.filled.size)
    place = np.full(cache.line_of.size, NONE, np.int64)
    place[slots] = np.arange(slots.size)
    owner = np.where(cache.slot_of[:kept] == NONE, NONE, place[cache.slot_of[:kept]])
    filled = np.where(owner == NONE, 0, cache.filled[:kept])
    at_once = turns.portion(2 * slots.size)
    parts = [(first, min(first + at_once, kept)) for first in range(0, kept, at_once)]
    for first, end in parts if new.lines.shape[1] < cache.lines.shape[1] else reversed(parts):
        _carry_lines(cache.lines, new.lines, filled, slots, first, end)
        turns.rest()
    held = np.flatnonzero(owner != NONE)
    new.line_of[owner[held]] = held
    new.slot_of[:kept], new.filled[:kept] = owner, filled
    new.recent[held] = cache.recent[held]
    _list_free(new)
    return new


def recut(cache: RowCache, points: Points) -> RowCache:
    """Return the same memory as lines for other points. `clear` the first cache before using it again."""
    note_reached(cache)
    cap = points.start.shape[0]
    lines = min(max(cap, LINES_MIN), cache.lines.size // cap)
    return _cut(cache.lines.reshape(-1)[: lines * cap].reshape(lines, cap), cap, cache.counters, cache.spread)


def clear(cache: RowCache) -> None:
    """Discard all lines."""
    note_reached(cache)
    cache.line_of[:] = NONE
    cache.slot_of[:] = NONE
    cache.filled[:] = 0
    cache.recent[:] = 0
    _list_free(cache)


def note_reached(cache: RowCache) -> None:
    """Record how far the memory has been written, before the lines that show it are discarded."""
    cache.counters[REACHED] = _reached(cache)


def touched_bytes(cache: RowCache) -> int:
    """Return the memory, in bytes, of lines that contain or contained rows.

    The system provides pages on the first write.
    """
    return _reached(cache) * cache.lines.itemsize


def _reached(cache: RowCache) -> int:
    written = np.flatnonzero(cache.filled)
    lines = int(written[-1]) + 1 if written.size else 0
    return max(int(cache.counters[REACHED]), lines * int(cache.lines.shape[1]))


def renewed(cache: RowCache) -> RowCache:
    """Return a cache with fresh memory, and so release the old memory, if the cache contains no row; else the cache."""
    lines, width = cache.lines.shape
    if cache.counters[FREE] < lines:
        return cache
    cache.counters[REACHED] = 0
    memory = _memory(lines * width, cache.lines.dtype)
    return _cut(memory.reshape(lines, width), cache.line_of.size, cache.counters, cache.spread)


@in_place
def _take_line(cache, keep):
    """Return a free line or a line to overwrite, but never the line of slot `keep`."""
    if cache.counters[FREE] > 0:
        cache.counters[FREE] -= 1
        return cache.free[cache.counters[FREE]]
    hand = cache.counters[HAND]
    while True:
        line = hand
        hand = hand + 1 if hand + 1 < cache.slot_of.shape[0] else 0
        owner = cache.slot_of[line]
        if cache.recent[line] == 0 and owner != keep:
            cache.line_of[owner] = NONE
            break
        cache.recent[line] = 0
    cache.counters[HAND] = hand
    return line


@in_place
def _new_line(cache, slot, keep):
    """Assign a line to a slot that has none."""
    line = _take_line(cache, keep)
    cache.slot_of[line] = slot
    cache.line_of[slot] = line
    cache.filled[line] = 0
    cache.recent[line] = 0
    cache.counters[MISSES] += 1
    return line


@in_place
def begin_line(cache, slot, row, n):
    """Assign a line to a slot that has none, and fill it with the first n values of its row."""
    line = _new_line(cache, slot, NONE)
    target = cache.lines[line]
    for s in range(n):
        target[s] = row[s]
    cache.filled[line] = n


@in_place
def cached_line(kernel, points, cache, slot, keep):
    """Return the line with the kernel row of `slot` over all n points. The row of slot `keep` stays valid."""
    n = points.used[USED]
    line = cache.line_of[slot]
    if line == NONE:
        line = _new_line(cache, slot, keep)
    else:
        cache.counters[HITS] += 1
        cache.recent[line] = 1
    row = cache.lines[line]
    if cache.filled[line] < n:
        cache.counters[VALUES] += n - cache.filled[line]
        point_row(kernel, points, slot, points, cache.filled[line], n, cache.spread, row)
        cache.filled[line] = n
    return line


@compiled
def cached_row(kernel, points, cache, slot, keep):
    """Return the kernel row (n,) of `slot` with all n points. Code compiled in place uses `cached_line` instead."""
    return cache.lines[cached_line(kernel, points, cache, slot, keep), : points.used[USED]]


@in_place
def drop_row(cache, slot):
    """Free the line of a slot whose point was removed."""
    line = cache.line_of[slot]
    if line != NONE:
        cache.line_of[slot] = NONE
        cache.slot_of[line] = NONE
        cache.free[cache.counters[FREE]] = line
        cache.counters[FREE] += 1


@in_place
def forget_slot(cache, slot):
    """Free the line of the newest slot, whose point was removed again; shorten the other lines to the slots before."""
    drop_row(cache, slot)  # the next row reuses this line, whose memory is still cached
    for line in range(cache.filled.shape[0]):
        cache.filled[line] = min(cache.filled[line], slot)
