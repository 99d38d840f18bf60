"""The margin set of a column: its free points, and the inverse of the matrix that couples them.

R is the inverse of the bordered matrix [[0, 1'], [1, K_SS]] and has shape (m + 1, m + 1). Its first row and column
belong to b. A point that depends on the margin set (for example a copy of a member) has no curvature of its own. Such a
point exchanges coefficients with the set until one of them reaches a bound (Diehl and Cauwenberghs, IJCNN 2003, section
II). The exchange changes no decision value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.rowcache import VALUES, cached_line, cached_row
from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

LOW, FREE, HIGH = -1, 0, 1
DEPENDENT = 1e-10  # relative to its terms: a smaller curvature of a point, given the margin set, counts as 0
MARGIN_MIN = 32
BLOCK = 1024
# A coefficient that differs from its bound by less than this may differ only because of rounding. The first limit is
# relative to the sum of |alpha|, the second to the length of the terms of w. The first limit applies only if setting
# these coefficients to their bounds changes no r by more than R_ROUNDING.
ON_BOUND = 1e-10, 1e-13
R_ROUNDING = 1e-8
ROUNDING = 1e-15  # precision of a gradient, relative to its terms
TOGETHER = 64  # number of rows of the margin set fetched and subtracted between two checks of the work
M, EVENTS = range(2)  # places in Margin.counts
REFINING, FOLLOWING, LEAVING, TIDY = range(4)  # stages of `tidy`


@handed
class Margin(NamedTuple):
    """members (cap,) int64: slots of the margin set in the order of R; R (cap + 1, cap + 1); side (n_slots,) int8.

    counts (2,) int64: size of the margin set, number of events so far.
    """

    members: Array
    R: Array
    side: Array
    counts: Array


def empty_margin(slots: int, cap: int = MARGIN_MIN) -> Margin:
    """Return a margin set without members, with room for `cap` members, over `slots` slots."""
    return Margin(
        np.full(cap, NONE, np.int64), np.zeros((cap + 1, cap + 1)), np.full(slots, LOW, np.int8), np.zeros(2, np.int64)
    )


@in_place
def add(target, factor, row):
    """Do target (n,) += factor row (n,). A separate function always becomes vector instructions."""
    for s in range(target.shape[0]):
        target[s] += factor * row[s]


@in_place
def subtract_lines(rows, lines, factors, target):
    """Do target (n,) -= sum over p of factors_p times rows[lines_p, :n], added in this order.

    It adds four rows at a time over a block of the target that stays in the first-level cache.
    """
    m, n = factors.shape[0], target.shape[0]
    for b in range(0, n, BLOCK):
        e = min(b + BLOCK, n)
        part = target[b:e]
        p = 0
        while p + 4 <= m:
            r0, r1 = rows[lines[p], b:e], rows[lines[p + 1], b:e]
            r2, r3 = rows[lines[p + 2], b:e], rows[lines[p + 3], b:e]
            f0, f1, f2, f3 = factors[p], factors[p + 1], factors[p + 2], factors[p + 3]
            for s in range(e - b):
                part[s] = (((part[s] - f0 * r0[s]) - f1 * r1[s]) - f2 * r2[s]) - f3 * r3[s]
            p += 4
        while p < m:
            add(part, -factors[p], rows[lines[p], b:e])
            p += 1


@compiled
def lines_of(kernel, points, cache, slots):
    """Return the cache lines with the kernel rows of slots (m,), or no lines if the cache is too small for all rows."""
    for s in slots:
        cached_line(kernel, points, cache, s, NONE)
    lines = np.empty(slots.shape[0], np.int64)
    for p in range(slots.shape[0]):
        lines[p] = cache.line_of[slots[p]]
        if lines[p] == NONE:
            return lines[:0]
    return lines


@compiled
def subtract_rows(kernel, points, cache, slots, factors, target):
    """Do target (n,) -= sum over p of factors_p times the kernel row of slots_p, added in this order."""
    lines = lines_of(kernel, points, cache, slots)
    subtract_lines(cache.lines, lines, factors[: lines.shape[0]], target)
    for p in range(lines.shape[0], slots.shape[0]):
        add(target, -factors[p], cached_row(kernel, points, cache, slots[p], NONE))


@compiled
def join(margin, row, i):
    """Add slot i to the margin set. If it depends on the set, change nothing and return False. row: k(x_i, .)."""
    m = margin.counts[M]
    R = margin.R
    z = np.zeros(m + 1)
    if m == 0:
        # [[0, 1], [1, k]] has the inverse [[-k, 1], [1, 0]].
        R[0, 0], R[0, 1], R[1, 0], R[1, 1] = -row[i], 1.0, 1.0, 0.0
    else:
        v = np.empty(m + 1)
        v[0] = 1.0
        for p in range(m):
            v[p + 1] = row[margin.members[p]]
        for p in range(m + 1):
            z[p] = dot(R[p, : m + 1], v)
        left, terms = row[i], abs(row[i])
        for p in range(m + 1):
            left -= v[p] * z[p]
            terms += abs(v[p] * z[p])
        if left <= DEPENDENT * terms:
            return False
        for p in range(m + 1):
            add(R[p, : m + 1], z[p] / left, z)
        for p in range(m + 1):
            R[p, m + 1] = R[m + 1, p] = -z[p] / left
        R[m + 1, m + 1] = 1.0 / left
    margin.members[m] = i
    margin.counts[M] = m + 1
    margin.side[i] = FREE
    return True


@compiled
def part(margin, p, side):
    """Remove the p-th member from the margin set."""
    m = margin.counts[M]
    R = margin.R
    margin.side[margin.members[p]] = side
    if m > 1:
        k = p + 1
        # A copy: the row of the member itself becomes zero on the way.
        row, pivot = R[k, : m + 1].copy(), R[k, k]
        for a in range(m + 1):
            add(R[a, : m + 1], -R[a, k] / pivot, row)
        # The last member takes the free place.
        for a in range(m + 1):
            R[k, a] = R[m, a]
        for a in range(m + 1):
            R[a, k] = R[a, m]
    margin.members[p] = margin.members[m - 1]
    margin.counts[M] = m - 1


@in_place
def place_of(margin, i):
    """Return the place of slot i among the members, or NONE."""
    for p in range(margin.counts[M]):
        if margin.members[p] == i:
            return p
    return NONE


@in_place
def leave_margin(margin, i):
    """Remove slot i, whose box has width 0, from the margin set."""
    part(margin, place_of(margin, i), LOW)


@compiled
def admit(kernel, points, cache, margin, alpha, g, lower, upper, i, toward):
    """Make slot i free. If it depends on the margin set, let it exchange coefficients with the set.

    alpha_i rises if toward > 0. Return False if a member reached its bound first and left the set; then call again.
    """
    row = cached_row(kernel, points, cache, i, NONE)
    if join(margin, row, i):
        return True
    m = margin.counts[M]
    v = np.empty(m)
    for p in range(m):
        total = margin.R[p + 1, 0]
        for q in range(m):
            total += margin.R[p + 1, q + 1] * row[margin.members[q]]
        v[p] = total
    room = upper[i] - alpha[i] if toward > 0 else alpha[i] - lower[i]
    stopped = NONE
    for p in range(m):
        s = margin.members[p]
        rate = -v[p] if toward > 0 else v[p]
        if abs(rate) > 1e-12:
            limit = (upper[s] - alpha[s]) / rate if rate > 0 else (lower[s] - alpha[s]) / rate
            if limit < room:
                room, stopped = max(limit, 0.0), p
    step = room if toward > 0 else -room
    # Decision values do not change. g changes only by rounding errors, and is updated for them.
    add(g, -step, row)
    for p in range(m):
        s = margin.members[p]
        alpha[s] = min(max(alpha[s] - step * v[p], lower[s]), upper[s])
        other = cached_row(kernel, points, cache, s, i)
        add(g, step * v[p], other)
    if stopped == NONE:
        alpha[i] = upper[i] if toward > 0 else lower[i]
        margin.side[i] = HIGH if toward > 0 else LOW
        return True
    alpha[i] = min(max(alpha[i] + step, lower[i]), upper[i])
    s = margin.members[stopped]
    rate = -v[stopped] if toward > 0 else v[stopped]
    alpha[s] = upper[s] if rate > 0 else lower[s]
    part(margin, stopped, HIGH if rate > 0 else LOW)
    return False


@compiled
def refine(margin, alpha, g, b, lower, upper, total, changes):
    """Do one Newton step of the margin set towards r = 0 and sum(alpha) = total, which removes rounding errors.

    changes (m,) receives the changes of the coefficients, for which the caller must update g. Return whether all
    numbers are finite.
    """
    m = margin.counts[M]
    moves = 0.0
    left = np.empty(m + 1)
    left[0] = -(alpha.sum() - total)
    for p in range(m):
        left[p + 1] = g[margin.members[p]] - b[0]
    for p in range(m):
        s = margin.members[p]
        move = dot(margin.R[p + 1, : m + 1], left)
        moves += move
        moved = min(max(alpha[s] + move, lower[s]), upper[s])
        changes[p], alpha[s] = moved - alpha[s], moved
    move = dot(margin.R[0, : m + 1], left)
    b[0] += move
    return np.isfinite(moves + move)


@in_place
def leave_bounds(kernel, points, cache, margin, alpha, g, lower, upper):
    """Remove members that are on a bound, up to rounding, from the margin set; return the number removed."""
    total, length, longest = 0.0, 0.0, 0.0
    for s in range(g.shape[0]):
        if alpha[s] != 0.0 or margin.side[s] == FREE:
            norm = np.sqrt(points.selves[s])
            total, length, longest = total + abs(alpha[s]), length + abs(alpha[s]) * norm, max(longest, norm)
    rounding = max(min(ON_BOUND[0] * length, R_ROUNDING / max(longest, 1e-300)), ON_BOUND[1] * length)
    gone, p = 0, 0
    while p < margin.counts[M]:
        s = margin.members[p]
        off = min(alpha[s] - lower[s], upper[s] - alpha[s])
        if off > 0.0 and not (off <= ON_BOUND[0] * total and off * np.sqrt(points.selves[s]) <= rounding):
            p += 1
            continue
        side = LOW if alpha[s] - lower[s] <= upper[s] - alpha[s] else HIGH
        before, alpha[s] = alpha[s], lower[s] if side == LOW else upper[s]
        if alpha[s] != before:
            add(g, before - alpha[s], cache.lines[cached_line(kernel, points, cache, s, NONE)])
        part(margin, p, side)  # the last member moves to place p
        gone += 1
    return gone


@compiled
def tidy(kernel, points, cache, margin, alpha, g, b, lower, upper, total, changes, at, width, work_max):
    """Remove the rounding errors of a path, for about work_max. Members that reach a bound by this leave the set.

    total: the sum that the coefficients must have. changes (cap,): changes of the coefficients. at (3,) int64: the
    stage; the next member for whose change g must be updated; and whether any number was not finite. width: work of a
    kernel value. Call again until the stage is TIDY.
    """
    begun, done = cache.counters[VALUES], 0
    while at[0] < TIDY and done + width * (cache.counters[VALUES] - begun) <= work_max:
        m = margin.counts[M]
        if at[0] == REFINING:
            at[2] = m > 0 and not refine(margin, alpha, g, b, lower, upper, total, changes)
            at[0], at[1] = FOLLOWING, 0
            done += m * m
        elif at[0] == FOLLOWING:
            e = min(at[1] + TOGETHER, m)
            subtract_rows(kernel, points, cache, margin.members[at[1] : e], changes[at[1] : e], g)
            done += (e - at[1]) * g.shape[0]
            at[0], at[1] = LEAVING if e == m else FOLLOWING, e
        else:
            gone = leave_bounds(kernel, points, cache, margin, alpha, g, lower, upper)
            at[0] = REFINING if gone > 0 and not at[2] else TIDY
            done += gone * m * m + g.shape[0]


@in_place
def is_loose(side, alpha, lower, upper):
    """Return whether a coefficient outside the margin set is off the bound of its side. No path can begin there."""
    for s in range(alpha.shape[0]):
        if side[s] != FREE and alpha[s] != (lower[s] if side[s] == LOW else upper[s]):
            return True
    return False


@in_place
def mark(class_of, alpha, lower, upper, up, down):
    """Set the masks of the coefficients that may rise or fall."""
    for s in range(alpha.shape[0]):
        live = class_of[s] != NONE
        up[s] = live and alpha[s] < upper[s]
        down[s] = live and alpha[s] > lower[s]


@compiled
def worst_violation(up, down, alpha, g, selves):
    """Return the largest violation of a pair, beyond the rounding of the gradients; 0 if a side is empty."""
    n = g.shape[0]
    sizes, norms = np.empty(n), np.empty(n)
    for s in range(n):
        sizes[s], norms[s] = abs(alpha[s]), np.sqrt(selves[s])
    rounding = ROUNDING * dot(sizes, norms)
    rising, falling, some_up, some_down = -np.inf, np.inf, False, False
    for s in range(n):
        if up[s] != 0:
            some_up = True
            value = g[s] - rounding * norms[s]
            if value > rising or np.isnan(value):  # a NaN stays
                rising = value
        if down[s] != 0:
            some_down = True
            value = g[s] + rounding * norms[s]
            if value < falling or np.isnan(value):
                falling = value
    return rising - falling if some_up and some_down else 0.0
