"""The row cache: the rows it keeps when points move, and the memory it takes."""

import mmap
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core import points as pts
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rowcache import MISSES, begin_line, cached_row, carried, drop_row, forget_slot, new_cache
from hinged.solvers.core.rows import rows_from_dense

KERNEL = make_kernel("rbf", 1.0)
DIM = 3
PAGE_KIB = mmap.PAGESIZE // 1024


def points_of(n, cap):
    rows = rows_from_dense(np.random.default_rng(n).random((n, DIM)), KERNEL, DIM, np.float32)
    return pts.compacted(pts.points_from_rows(rows, DIM), np.arange(n), DIM, cap, n * DIM)


@settings(deadline=None)
@given(st.data())
def test_rows_carried_along_equal_rows_computed_again(data):
    """Also where longer or shorter lines go into the memory of the former cache, whatever the two lengths are."""
    n = data.draw(st.integers(2, 40))
    cap = data.draw(st.integers(n, 60))
    longer = data.draw(st.integers(cap, 130))
    lines = data.draw(st.integers(8, 40))
    points, asked = points_of(n, cap), data.draw(st.lists(st.integers(0, n - 1), max_size=60))
    cache = new_cache(points, DIM, 4 * cap * lines)
    for slot in asked:
        cached_row(KERNEL, points, cache, slot, NONE)
    slots = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) if cap == longer else np.ones(n))
    width = data.draw(st.integers(max(slots.size, 1), longer))
    moved = pts.compacted(points, slots, DIM, longer, n * DIM)
    kept = carried(cache, moved, DIM, 4 * cap * lines, slots, width)
    held = np.flatnonzero(kept.line_of != NONE)
    assert set(slots[held]) == set(slots[cache.line_of[slots] != NONE][: held.size]) or kept.lines.shape[0] < lines
    for slot in held:
        row, anew = kept.lines[kept.line_of[slot]], new_cache(moved, DIM, 2**20)
        filled = kept.filled[kept.line_of[slot]]
        np.testing.assert_array_equal(row[:filled], cached_row(KERNEL, moved, anew, slot, NONE)[:filled])


def test_no_row_is_lost_while_a_line_is_free():
    """Also where rows that went have left their lines to other rows."""
    points = points_of(40, 40)
    cache = new_cache(points, DIM, 40 * 40 * 4)
    for slot in range(40):
        cached_row(KERNEL, points, cache, slot, NONE)
    random, asked = np.random.default_rng(0), set(range(40))
    for _ in range(300):
        slot = int(random.integers(40))
        if slot in asked and random.random() < 0.5:
            drop_row(cache, slot)
            asked.discard(slot)
        else:
            cached_row(KERNEL, points, cache, slot, NONE)
            asked.add(slot)
        assert set(np.flatnonzero(cache.line_of != NONE)) == asked


def test_a_row_that_nobody_asked_for_again_goes_first():
    points = points_of(30, 30)
    cache = new_cache(points, DIM, 10 * 30 * 4)
    assert cache.lines.shape[0] == 10
    for slot in range(10):
        cached_row(KERNEL, points, cache, slot, NONE)
    for slot in range(0, 10, 2):
        cached_row(KERNEL, points, cache, slot, NONE)
    for slot in range(10, 15):
        cached_row(KERNEL, points, cache, slot, NONE)
    assert set(np.flatnonzero(cache.line_of != NONE)) == {0, 2, 4, 6, 8, 10, 11, 12, 13, 14}


def test_a_line_begun_with_known_values_is_brought_up_to_date():
    points = points_of(20, 20)
    cache, other = (new_cache(points, DIM, 2**20) for _ in range(2))
    row = cached_row(KERNEL, points, other, 7, NONE)
    begin_line(cache, 7, row, 12)
    assert cache.filled[cache.line_of[7]] == 12
    assert cache.counters[MISSES] == 1
    np.testing.assert_array_equal(cached_row(KERNEL, points, cache, 7, NONE), row)


def test_the_line_of_a_point_that_was_taken_back_is_the_next_to_be_used():
    points = points_of(20, 20)
    cache = new_cache(points, DIM, 2**20)
    for slot in range(20):
        cached_row(KERNEL, points, cache, slot, NONE)
    line = cache.line_of[19]
    drop_row(cache, 3)
    forget_slot(cache, 19)
    cached_row(KERNEL, points, cache, 19, NONE)
    assert cache.line_of[19] == line


def touched_kib(array):
    """Memory that the system has given for the mapping in which the middle of an array lies."""
    middle = array.__array_interface__["data"][0] + array.nbytes // 2
    for part in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
        first, last = (int(at, 16) for at in re.match(r"([0-9a-f]+)-([0-9a-f]+)", part).groups())
        if first <= middle < last:
            return int(re.search(r"Rss:\s+(\d+)", part)[1])
    raise AssertionError("nowhere")


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not tell")
def test_lines_take_memory_a_small_page_at_a_time():
    points = points_of(2, 2_000)
    cache = new_cache(points, DIM, 2**25)
    assert cache.lines.nbytes == 2_000 * 2_000 * 4
    cache.lines[::200, 0] = 1.0
    assert touched_kib(cache.lines) <= 10 * 2 * PAGE_KIB
