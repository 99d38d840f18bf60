"""The points that a path may meet soon, and the margin set's rows at these.

Few points are near enough to the margin to be met on a path, so rates are computed for these alone, from a copy of
their entries of the margin set's rows. The others' g catches up by one product before any of them can have come near.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.compiled import compiled
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.rowcache import cached_row
from hinged.solvers.dual.margin import (
    FREE,
    TOGETHER,
    M,
    lines_of,
    subtract_lines,
    subtract_rows,
)

Array = np.ndarray[Any, Any]

COPIED_LEAST = 1 << 18  # entries of the margin set's rows: fewer stay in the processor's cache anyway
COPIED_MOST = 1 << 22  # entries of a copy: 32 MiB


class Near(NamedTuple):
    """Points that a path may meet soon; all others have |r| > radius, and wait for the rates of their g.

    slots (k,) int64 ascending, the margin set among them; rows (cap, k): entries of the members' kernel rows at these
    slots, in the order of the members; row_of (cap,) int64: the member whose row it is. Where no point is far, radius
    is infinite, and the rows are the cache's.
    """

    radius: float
    slots: Array
    rows: Array
    row_of: Array


def nothing_near() -> Near:
    """What a path knows of near points before it looks."""
    return Near(np.inf, np.empty(0, np.int64), np.empty((0, 0)), np.empty(0, np.int64))


def enlarged(near: Near, cap: int) -> Near:
    """The same with room for `cap` rows."""
    held = near.row_of.size
    if not held:
        return near
    rows, row_of = np.empty((cap, near.slots.size)), np.full(cap, NONE, np.int64)
    rows[:held], row_of[:held] = near.rows, near.row_of
    return near._replace(rows=rows, row_of=row_of)


@compiled
def find_near(margin, g, b, live, radius):
    """The points with |r| <= radius; all points where so many are near, or rows so few, that a copy is no gain.

    That is decided by sizes which a state keeps, not by those of the cache: bits of g depend on it.
    """
    n, m = g.shape[0], margin.counts[M]
    slots = np.empty(n, np.int64)
    k = 0
    for s in range(n):
        if live[s] != 0 and (margin.side[s] == FREE or abs(g[s] - b[0]) <= radius):
            slots[k] = s
            k += 1
    if m * n < COPIED_LEAST or 2 * k > n or m * k > COPIED_MOST:
        return Near(np.inf, np.flatnonzero(live), np.empty((0, 0)), np.empty(0, np.int64))
    cap = margin.members.shape[0]
    return Near(radius, slots[:k].copy(), np.empty((cap, k)), np.full(cap, NONE, np.int64))


@compiled
def fetch_near(kernel, points, cache, margin, near, begin, end):
    """Copy the entries of the members begin..end that are not held yet."""
    new = begin + np.flatnonzero(near.row_of[begin:end] != margin.members[begin:end])
    slots, k = margin.members[new], near.slots.shape[0]
    near.row_of[new] = slots
    rows, lines = cache.lines, lines_of(kernel, points, cache, slots)
    p = 0
    while p + 4 <= lines.shape[0]:  # four at a time: their misses of the processor's cache are waited for together
        r0, r1, r2, r3 = rows[lines[p]], rows[lines[p + 1]], rows[lines[p + 2]], rows[lines[p + 3]]
        t0, t1, t2, t3 = near.rows[new[p]], near.rows[new[p + 1]], near.rows[new[p + 2]], near.rows[new[p + 3]]
        for a in range(k):
            s = near.slots[a]
            t0[a], t1[a], t2[a], t3[a] = r0[s], r1[s], r2[s], r3[s]
        p += 4
    while p < slots.shape[0]:
        row, t0 = cached_row(kernel, points, cache, slots[p], NONE), near.rows[new[p]]
        for a in range(k):
            t0[a] = row[near.slots[a]]
        p += 1


@compiled
def subtract_near(near, dalpha, dg):
    """dg (n,) -= K dalpha at the near points, whose entries of all members are held."""
    k = near.slots.shape[0]
    change = np.zeros(k)
    subtract_lines(near.rows, np.arange(dalpha.shape[0]), dalpha, change)
    for a in range(k):
        dg[near.slots[a]] += change[a]


@compiled
def catch_up(kernel, points, cache, near, owed, g):
    """g of the points that are not near follows TOGETHER of the coefficients that have changed by `owed` (n,)."""
    slots = np.flatnonzero(owed)[:TOGETHER]
    known = g[near.slots]
    subtract_rows(kernel, points, cache, slots, owed[slots], g)
    g[near.slots] = known
    owed[slots] = 0.0
