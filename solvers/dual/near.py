"""The points that a path may reach soon, and the kernel rows of the margin set at these points.

Few points are so near the margin that a path can reach them. So rates are computed for these points only, from a copy
of the entries of the margin set's rows. The gradients g of the far points are updated by one product before any far
point can have come near.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.rowcache import cached_line
from hinged.solvers.dual.margin import (
    FREE,
    TOGETHER,
    M,
    lines_of,
    subtract_lines,
    subtract_rows,
)
from hinged.solvers.jit.compiled import compiled, in_place

Array = np.ndarray[Any, Any]

COPIED_LEAST = 1 << 18  # entries of the margin set's rows; smaller rows need no copy to stay in the processor's cache
COPIED_MOST = 1 << 22  # maximum number of entries of a copy: 32 MiB


class Near(NamedTuple):
    """The points that a path may reach soon. All other points have |r| > radius, and their g is updated later.

    slots (k,) int64, ascending; they include the margin set. rows (cap, k): entries of the members' kernel rows at
    these slots, in the order of the members. row_of (cap,) int64: the member that each row belongs to. If no point is
    far, radius is infinite and the rows are read from the cache.
    """

    radius: float
    slots: Array
    rows: Array
    row_of: Array


def nothing_near() -> Near:
    """Return the near points of a path before its first search: none."""
    return Near(np.inf, np.empty(0, np.int64), np.empty((0, 0)), np.empty(0, np.int64))


def enlarged(near: Near, cap: int) -> Near:
    """Return the near points with room for `cap` rows."""
    held = near.row_of.size
    if not held:
        return near
    rows, row_of = np.empty((cap, near.slots.size)), np.full(cap, NONE, np.int64)
    rows[:held], row_of[:held] = near.rows, near.row_of
    return near._replace(rows=rows, row_of=row_of)


@compiled
def find_near(margin, g, b, live, radius):
    """Return the points with |r| <= radius, or all points if a copy of the near entries would save no time.

    A copy saves no time if most points are near, or if the rows are few. The decision must depend only on sizes that a
    state contains, never on sizes of the cache, because the bits of g depend on it.
    """
    n, m = g.shape[0], margin.counts[M]
    slots = np.empty(n, np.int64)
    k = 0
    for s in range(n):
        if live[s] != 0 and (margin.side[s] == FREE or abs(g[s] - b[0]) <= radius):
            slots[k] = s
            k += 1
    cap = margin.members.shape[0]
    if m * n < COPIED_LEAST or 2 * k > n or m * k > COPIED_MOST:
        radius, k, cap = np.inf, 0, 0
        for s in range(n):
            if live[s] != 0:
                slots[k] = s
                k += 1
    row_of = np.empty(cap, np.int64)
    for p in range(cap):
        row_of[p] = NONE
    return Near(radius, slots[:k].copy(), np.empty((cap, k if cap > 0 else 0)), row_of)


@compiled
def fetch_near(kernel, points, cache, margin, near, begin, end):
    """Copy the entries of members begin..end that have not been copied yet."""
    new, slots, one, m = np.empty(end - begin, np.int64), np.empty(end - begin, np.int64), np.empty(1, np.int64), 0
    for p in range(begin, end):
        s = margin.members[p]
        if near.row_of[p] != s:
            near.row_of[p], new[m], slots[m] = s, p, s
            m += 1
    slots = slots[:m]
    lines = lines_of(kernel, points, cache, slots)
    _copy(cache.lines, lines, near, new)
    for p in range(lines.shape[0], m):
        one[0] = cached_line(kernel, points, cache, slots[p], NONE)
        _copy(cache.lines, one, near, new[p:])


@in_place
def _copy(rows, lines, near, members):
    """Copy the entries of these cache lines to the rows of `members`. `members` is at least as long as `lines`."""
    p, k = 0, near.slots.shape[0]
    while p + 4 <= lines.shape[0]:  # four at a time, so that the processor waits for their cache misses together
        r0, r1, r2, r3 = rows[lines[p]], rows[lines[p + 1]], rows[lines[p + 2]], rows[lines[p + 3]]
        t0, t1 = near.rows[members[p]], near.rows[members[p + 1]]
        t2, t3 = near.rows[members[p + 2]], near.rows[members[p + 3]]
        for a in range(k):
            s = near.slots[a]
            t0[a] = r0[s]
            t1[a] = r1[s]
            t2[a] = r2[s]
            t3[a] = r3[s]
        p += 4
    while p < lines.shape[0]:
        row, target = rows[lines[p]], near.rows[members[p]]
        for a in range(k):
            target[a] = row[near.slots[a]]
        p += 1


@compiled
def subtract_near(near, dalpha, dg):
    """Do dg (n,) -= K dalpha at the near points. The entries of all members must have been copied."""
    k, m = near.slots.shape[0], dalpha.shape[0]
    change, lines = np.zeros(k), np.empty(m, np.int64)
    for p in range(m):
        lines[p] = p
    subtract_lines(near.rows, lines, dalpha, change)
    for a in range(k):
        dg[near.slots[a]] += change[a]


@compiled
def catch_up(kernel, points, cache, near, owed, g):
    """Update g of the far points for at most TOGETHER of the coefficients that have changed by `owed` (n,)."""
    slots, changes, m, k = np.empty(TOGETHER, np.int64), np.empty(TOGETHER), 0, near.slots.shape[0]
    for s in range(owed.shape[0]):
        if owed[s] != 0.0 and m < TOGETHER:
            slots[m], changes[m], owed[s] = s, owed[s], 0.0
            m += 1
    known = np.empty(k)
    for a in range(k):
        known[a] = g[near.slots[a]]
    subtract_rows(kernel, points, cache, slots[:m], changes[:m], g)
    for a in range(k):
        g[near.slots[a]] = known[a]


@in_place
def are_owed(owed):
    """Return whether g of the far points must still be updated."""
    for s in range(owed.shape[0]):
        if owed[s] != 0.0:
            return True
    return False
