"""The row cache: what it keeps when points move, and the memory that it takes."""

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
from hinged.solvers.core.rowcache import cached_row, carried, new_cache
from hinged.solvers.core.rows import rows_from_dense

KERNEL = make_kernel("rbf", 1.0)
DIM = 3
PAGE_KIB = mmap.PAGESIZE // 1024


def points_of(n, cap):
    rows = rows_from_dense(np.random.default_rng(n).random((n, DIM)), KERNEL, DIM, np.float32)
    return pts.compacted(pts.points_from_rows(rows, DIM), np.arange(n), DIM, cap, n * DIM)


@settings(deadline=None)
@given(st.data())
def test_rows_that_are_carried_along_are_those_that_would_be_computed(data):
    """Also where longer lines go into the memory of the former ones, whatever the two lengths are."""
    n = data.draw(st.integers(2, 40))
    cap = data.draw(st.integers(n, 60))
    longer = data.draw(st.integers(cap, 130))
    lines = data.draw(st.integers(8, 40))
    points, asked = points_of(n, cap), data.draw(st.lists(st.integers(0, n - 1), max_size=60))
    cache = new_cache(points, DIM, 4 * cap * lines)
    for slot in asked:
        cached_row(KERNEL, points, cache, slot, NONE)
    slots = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) if cap == longer else np.ones(n))
    moved = pts.compacted(points, slots, DIM, longer, n * DIM)
    kept = carried(cache, moved, DIM, 4 * cap * lines, slots)
    held = np.flatnonzero(kept.line_of != NONE)
    assert set(slots[held]) == set(slots[cache.line_of[slots] != NONE][: held.size]) or kept.lines.shape[0] < lines
    for slot in held:
        row, anew = kept.lines[kept.line_of[slot]], new_cache(moved, DIM, 2**20)
        filled = kept.filled[kept.line_of[slot]]
        np.testing.assert_array_equal(row[:filled], cached_row(KERNEL, moved, anew, slot, NONE)[:filled])


def touched_kib(array):
    """Memory that the system has given for an array so far: for the mapping in which its middle lies."""
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
