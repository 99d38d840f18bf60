"""A cache of kernel rows, k(x_slot, x_s) for s = 0..filled, over the points of one store.

Points only ever get appended, so a line stays true for as far as it was filled, and is brought up to date by computing
what has come since. Where no line is free one is evicted by the clock rule: a hand goes round and takes the first line
that was not asked for again since it was filled or the hand last came by; no step scans all lines.

What the cache holds never shows in a result: a kernel value has the same bits however it is come by.
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
MOVED = 1024  # numbers of a line that are moved at once
NEARLY = 8  # all but one of so many parts of the memory that a cache may take are as good as all

ADVISED_BYTES, HUGE_BYTES = 2**22, 2**26
"""NumPy asks for huge pages from the first on; lines that take less than the second get small ones."""


@handed
class RowCache(NamedTuple):
    """lines (L, width), of which all slots in use take no more than width; line_of (cap,) int64 or NONE.

    slot_of (L,) int64 or NONE; filled (L,) int64; recent (L,) uint8: whether it was asked for again lately.
    free (L,) int64: the free lines, the next one last.
    counters (6,) int64: the hand, rows found, rows computed anew, kernel values computed, free lines, and how many
    numbers of the memory, from the first on, were written before lines were last cut or cleared.
    spread (dim,): scratch of `kernel_row`.
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
    """A cache of at most bytes_max for these points' slots; it carries on the counts of a `former` one.

    width: slots that a line reaches to; None for all. It takes over the former one's memory where that is enough, or
    nearly all that may be: a fresh page costs as much as computing what goes there.
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
    """A cache of these lines for so many slots, all of them free; it carries on the counts."""
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
    """Make the list of free lines anew: the first of them is the next one."""
    free = np.flatnonzero(cache.slot_of == NONE)[::-1]
    cache.free[: free.size] = free
    cache.counters[HAND], cache.counters[FREE] = 0, free.size


def _memory(count: int, dtype: np.dtype[Any]) -> Array:
    """(count,) numbers of which none that is never touched is ever taken.

    The system fills pages with zeros before it hands them out. Of a cache that grows with each doubling of the points
    most is never used, and with huge pages all of that would be filled.
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
    """new[k] = old[slots[k]] for k < n; the two may overlap, new beginning `back` numbers behind old, or before it."""
    first = 0
    while first < n and slots[first] - first < back:
        first += 1
    for k in range(first, n):
        new[k] = old[slots[k]]
    for k in range(first - 1, -1, -1):
        new[k] = old[slots[k]]


@in_place
def _move_line(old, new, n, back):
    """new[k] = old[k] for k < n, with the same overlap; `_carry_line` where all slots stay."""
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
    """target[i] = the values of source[i] at `slots`, ascending, as far as they are filled; `filled` follows.

    The two may be the same memory, in longer or shorter lines. Of longer ones the last line goes first, and in it those
    values that move to the front, from the first on, then those that move back, from the last. Lines begin..end; all
    behind them have been moved, or all before them of shorter ones.
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
    """The cache once the points of `slots`, ascending, have become all points: it keeps their rows.

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
    """The same memory as lines for other points. Whoever uses the first again must `clear` it before."""
    note_reached(cache)
    cap = points.start.shape[0]
    lines = min(max(cap, LINES_MIN), cache.lines.size // cap)
    return _cut(cache.lines.reshape(-1)[: lines * cap].reshape(lines, cap), cap, cache.counters, cache.spread)


def clear(cache: RowCache) -> None:
    """Forget all lines."""
    note_reached(cache)
    cache.line_of[:] = NONE
    cache.slot_of[:] = NONE
    cache.filled[:] = 0
    cache.recent[:] = 0
    _list_free(cache)


def note_reached(cache: RowCache) -> None:
    """Keep in mind how far the memory is written, before lines that say so are forgotten."""
    cache.counters[REACHED] = _reached(cache)


def touched_bytes(cache: RowCache) -> int:
    """Memory of lines that hold rows, and of those that did: what was written once, the system has given pages for."""
    return _reached(cache) * cache.lines.itemsize


def _reached(cache: RowCache) -> int:
    written = np.flatnonzero(cache.filled)
    lines = int(written[-1]) + 1 if written.size else 0
    return max(int(cache.counters[REACHED]), lines * int(cache.lines.shape[1]))


def renewed(cache: RowCache) -> RowCache:
    """An empty cache in the place of one that holds no row, whose memory goes back to the system; else itself."""
    lines, width = cache.lines.shape
    if cache.counters[FREE] < lines:
        return cache
    cache.counters[REACHED] = 0
    memory = _memory(lines * width, cache.lines.dtype)
    return _cut(memory.reshape(lines, width), cache.line_of.size, cache.counters, cache.spread)


@in_place
def _take_line(cache, keep):
    """A free line, or one to overwrite, but not that of slot `keep`."""
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
    """A line for a slot that has none."""
    line = _take_line(cache, keep)
    cache.slot_of[line] = slot
    cache.line_of[slot] = line
    cache.filled[line] = 0
    cache.recent[line] = 0
    cache.counters[MISSES] += 1
    return line


@in_place
def begin_line(cache, slot, row, n):
    """Give a slot that has no line one that begins with n values of its row."""
    line = _new_line(cache, slot, NONE)
    target = cache.lines[line]
    for s in range(n):
        target[s] = row[s]
    cache.filled[line] = n


@in_place
def cached_line(kernel, points, cache, slot, keep):
    """The line that holds the kernel row of `slot` with all n points. The row of slot `keep` stays valid beside it."""
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
    """The kernel row (n,) of `slot` with all n points. What works in place takes the line."""
    return cache.lines[cached_line(kernel, points, cache, slot, keep), : points.used[USED]]


@in_place
def drop_row(cache, slot):
    """Free the line of a slot whose point has gone."""
    line = cache.line_of[slot]
    if line != NONE:
        cache.line_of[slot] = NONE
        cache.slot_of[line] = NONE
        cache.free[cache.counters[FREE]] = line
        cache.counters[FREE] += 1


@in_place
def forget_slot(cache, slot):
    """Free the line of the newest slot and cut all others back before it: its point was taken back."""
    drop_row(cache, slot)  # the next row goes there, where the memory is still warm
    for line in range(cache.filled.shape[0]):
        cache.filled[line] = min(cache.filled[line], slot)
