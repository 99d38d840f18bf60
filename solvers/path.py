"""Path following for one column: how the optimum moves while its problem does.

The problem is max alpha.q - 1/2 alpha.K.alpha over sum(alpha) = 0, lower <= alpha <= upper, with q, lower and upper
going in a straight line from where the optimum is known to where it is wanted. Between two events the optimum moves in
a straight line, too: coefficients of the margin set (the free points) keep r = g - b at zero, all others stay on their
bounds. An event is a free point that meets a bound, or a point on a bound whose r reaches zero (Diehl and Cauwenberghs,
IJCNN 2003, sections II to IV: there each kind of change has its own equations; a new point is a box that opens, a point
unlearned one that closes, another C a box that grows, another kernel a change of q).

The margin set keeps R, the inverse of the bordered matrix [[0, 1'], [1, K_SS]]: R is (m + 1, m + 1), its first row and
column belong to b. A point that depends on the margin set (a copy, say) has no curvature of its own: it trades
coefficients with the set, which changes no decision value, until one of them meets a bound.

Few points are near enough to the margin to be met on a path, so rates are computed for these alone, from a copy of
their entries of the margin set's rows. The others' g catches up by one product before any of them can have come near.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from solvers.compiled import compiled
from solvers.direction import NONE
from solvers.machine import dot
from solvers.rowcache import cached_row

Array = np.ndarray[Any, Any]

LOW, FREE, HIGH = -1, 0, 1
DONE, CROWDED, STUCK, STILL = range(4)
DEPENDENT = 1e-10  # of the terms that it is made of: less curvature than that beside the margin set is none
MARGIN_MIN = 32
BLOCK = 1024
RADIUS = 0.8  # of the points that are near at first; half the margin is 1 wide
COPIED_LEAST = 1 << 18  # entries of the margin set's rows: fewer stay in the processor's cache anyway
COPIED_MOST = 1 << 22  # entries of a copy: 32 MiB
RATE_LEAST = 1e-12  # changes of r below it, of the terms that they are made of, are rounding
M, EVENTS = range(2)  # places in Margin.counts


class Margin(NamedTuple):
    """members (cap,) int64 slots of the margin set in the order of R; R (cap + 1, cap + 1); side (n_slots,) int8.

    counts (2,) int64: size of the margin set, events so far.
    """

    members: Array
    R: Array
    side: Array
    counts: Array


def empty_margin(slots: int, cap: int = MARGIN_MIN) -> Margin:
    """A margin set without members, with room for `cap`, over so many slots."""
    return Margin(
        np.full(cap, NONE, np.int64), np.zeros((cap + 1, cap + 1)), np.full(slots, LOW, np.int8), np.zeros(2, np.int64)
    )


@compiled
def add(target, factor, row):
    """target (n,) += factor row (n,): a function of its own, so that it becomes vector instructions everywhere."""
    for s in range(target.shape[0]):
        target[s] += factor * row[s]


@compiled
def _subtract_lines(rows, lines, factors, target):
    """target (n,) -= sum over p of factors_p times rows[lines_p, :n], added in this order.

    Four rows at a time over a block of the target that stays in the first-level cache.
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
def _lines_of(kernel, points, cache, slots):
    """The cache's lines that hold the kernel rows of slots (m,); none of them where it is too small for them all."""
    for s in slots:
        cached_row(kernel, points, cache, s, NONE)
    lines = cache.line_of[slots]
    return lines[:0] if (lines == NONE).any() else lines


@compiled
def _subtract_rows(kernel, points, cache, slots, factors, target):
    """target (n,) -= sum over p of factors_p times the kernel row of slots_p, added in this order."""
    lines = _lines_of(kernel, points, cache, slots)
    _subtract_lines(cache.lines, lines, factors[: lines.shape[0]], target)
    for p in range(lines.shape[0], slots.shape[0]):
        add(target, -factors[p], cached_row(kernel, points, cache, slots[p], NONE))


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


@compiled
def _near(margin, g, b, live, radius):
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
def _subtract_near(kernel, points, cache, margin, near, dalpha, dg):
    """dg (n,) -= K dalpha at the near points."""
    m, k = dalpha.shape[0], near.slots.shape[0]
    new = np.flatnonzero(near.row_of[:m] != margin.members[:m])
    slots = margin.members[new]
    near.row_of[new] = slots
    rows, lines = cache.lines, _lines_of(kernel, points, cache, slots)
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
    change = np.zeros(k)
    _subtract_lines(near.rows, np.arange(m), dalpha, change)
    for a in range(k):
        dg[near.slots[a]] += change[a]


@compiled
def _catch_up(kernel, points, cache, near, owed, g):
    """g of the points that are not near follows the coefficients, which have changed by `owed` (n,) meanwhile."""
    slots = np.flatnonzero(owed)
    known = g[near.slots]
    _subtract_rows(kernel, points, cache, slots, owed[slots], g)
    g[near.slots] = known
    owed[slots] = 0.0


@compiled
def _join(margin, row, i):
    """Add slot i to the margin set; false if it depends on it (nothing changes then). row: k(x_i, .)."""
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
def _part(margin, p, side):
    """Take the p-th member out of the margin set."""
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


@compiled
def _place_of(margin, i):
    for p in range(margin.counts[M]):
        if margin.members[p] == i:
            return p
    return NONE


@compiled
def leave_margin(margin, i):
    """Take slot i, whose box is a point, out of the margin set."""
    _part(margin, _place_of(margin, i), LOW)


@compiled
def admit(kernel, points, cache, margin, alpha, g, lower, upper, i, toward):
    """Make slot i free. While it depends on the margin set it trades coefficients with it, rising where toward > 0.

    Returns the slot that stays on, or goes to, its bound last, or NONE if i could join at once.
    """
    for _ in range(margin.counts[M] + 1):
        row = cached_row(kernel, points, cache, i, NONE)
        if _join(margin, row, i):
            return NONE
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
        # Decision values stay; g is moved by what rounding leaves, so that it stays true.
        add(g, -step, row)
        for p in range(m):
            s = margin.members[p]
            alpha[s] = min(max(alpha[s] - step * v[p], lower[s]), upper[s])
            other = cached_row(kernel, points, cache, s, i)
            add(g, step * v[p], other)
        if stopped == NONE:
            alpha[i] = upper[i] if toward > 0 else lower[i]
            margin.side[i] = HIGH if toward > 0 else LOW
            return i
        alpha[i] = min(max(alpha[i] + step, lower[i]), upper[i])
        s = margin.members[stopped]
        rate = -v[stopped] if toward > 0 else v[stopped]
        alpha[s] = upper[s] if rate > 0 else lower[s]
        _part(margin, stopped, HIGH if rate > 0 else LOW)
    return i


@compiled
def follow(kernel, points, cache, margin, alpha, g, b, lower, upper, live, dq, goal_lower, goal_upper, events_max):
    """Follow the optimum while q changes by dq (n,) and the bounds go to their goals (n,).

    b: (1,) view of the bias. live (n,) uint8. Returns DONE, STILL (no bound that holds a point moves, nor does q, so
    nothing has changed: a new point with room on the other side of its bound), CROWDED (the margin set needs a larger
    R) or STUCK, and the part of the way that was gone; bounds stand where they are then.
    """
    n = g.shape[0]
    l0, u0 = lower.copy(), upper.copy()
    dl, du = goal_lower - l0, goal_upper - u0
    rates, drive = np.zeros(n), np.zeros(n)  # of points on moving bounds; the sum of these times their kernel rows
    demand = 0.0
    moves = False
    dq_most = self_most = 0.0
    for s in range(n):
        dq_most = max(dq_most, abs(dq[s]))
        if live[s] == 0:
            continue
        self_most = max(self_most, points.selves[s])
        if margin.side[s] == FREE:
            moves = moves or dl[s] != 0.0 or du[s] != 0.0
            continue
        if l0[s] == u0[s]:  # a box that is a point: which bound it stands on is r's choice
            margin.side[s] = HIGH if g[s] - b[0] > 0.0 else LOW
        rate = dl[s] if margin.side[s] == LOW else du[s]
        if rate != 0.0:
            moves = True
            demand -= _drive(kernel, points, cache, s, rate, rates, drive)
    if not moves and dq_most == 0.0:
        return STILL, 1.0
    dg, owed = np.zeros(n), np.zeros(n)
    near, gone = _near(margin, g, b, live, RADIUS), 0.0
    code, tau = STUCK, 0.0
    for _ in range(events_max):
        m = margin.counts[M]
        if m == margin.members.shape[0]:
            code = CROWDED
            break
        db = 0.0
        if m == 0 and demand != 0.0:
            # Nobody can take up what the bounds demand: b moves until the first point that may move is free.
            _catch_up(kernel, points, cache, near, owed, g)
            first, least = NONE, np.inf
            for s in range(n):
                may_move = upper[s] > lower[s] or du[s] > dl[s]
                if live[s] != 0 and may_move and margin.side[s] == (LOW if demand > 0.0 else HIGH):
                    r = abs(g[s] - b[0])
                    if r < least:
                        first, least = s, r
            if first == NONE:
                break
            margin.counts[EVENTS] += 1
            b[0] = g[first]
            demand -= _drive(kernel, points, cache, first, 0.0, rates, drive)
            _join(margin, cached_row(kernel, points, cache, first, NONE), first)
            near, gone = _near(margin, g, b, live, RADIUS), 0.0
            continue
        scale = 0.0
        for t in range(n):
            dg[t] = dq[t] - drive[t]
            scale = max(scale, abs(dg[t]))
        dalpha = np.zeros(m)
        if m > 0:
            wanted = np.empty(m + 1)
            wanted[0] = demand
            for q in range(m):
                wanted[q + 1] = dg[margin.members[q]]
            db = dot(margin.R[0, : m + 1], wanted)
            for p in range(m):
                dalpha[p] = dot(margin.R[p + 1, : m + 1], wanted)
                scale += abs(dalpha[p]) * points.selves[margin.members[p]]
            if np.isfinite(near.radius):
                _subtract_near(kernel, points, cache, margin, near, dalpha, dg)
            else:
                _subtract_rows(kernel, points, cache, margin.members[:m], dalpha, dg)
        noise = RATE_LEAST * (scale + abs(db))
        step, event, to_side, fastest = 1.0 - tau, NONE, FREE, 0.0
        for p in range(m):
            s = margin.members[p]
            up_rate, down_rate = dalpha[p] - du[s], dalpha[p] - dl[s]
            quiet = 1e-12 * abs(dalpha[p])
            if up_rate > quiet:
                t = max(0.0, (upper[s] - alpha[s]) / up_rate)
                if t < step or (t == step and event != NONE and up_rate > fastest):
                    step, event, to_side, fastest = t, s, HIGH, up_rate
            if down_rate < -quiet:
                t = max(0.0, (lower[s] - alpha[s]) / down_rate)
                if t < step or (t == step and event != NONE and -down_rate > fastest):
                    step, event, to_side, fastest = t, s, LOW, -down_rate
        for s in near.slots:
            if margin.side[s] == FREE or (l0[s] == u0[s] and dl[s] == du[s]):
                continue
            rate = dg[s] - db
            if (margin.side[s] == LOW and rate > noise) or (margin.side[s] == HIGH and rate < -noise):
                t = max(0.0, (b[0] - g[s]) / rate)
                if t < step:
                    step, event, to_side = t, s, FREE
        if np.isfinite(near.radius):
            # w changes at a rate whose square is that of all coefficients times K times itself, and <w, phi(x)> no
            # faster than that times |phi(x)| (Cauchy and Schwarz); so no r changes by more than `reach` in this step.
            square = dot(rates, drive)
            terms = abs(square)
            for p in range(m):
                s = margin.members[p]
                term = dalpha[p] * (drive[s] + dq[s] - dg[s])
                square += term
                terms += abs(term)
            square = max(square, 0.0) + RATE_LEAST * terms
            reach = step * (np.sqrt(square * self_most) + abs(db) + dq_most)
            gone += reach
            if gone > near.radius:  # a point that is far might be met before: look again with other points near
                _catch_up(kernel, points, cache, near, owed, g)
                near, gone = _near(margin, g, b, live, max(RADIUS, 2.0 * reach)), 0.0
                continue
            for p in range(m):
                owed[margin.members[p]] += step * dalpha[p]
        margin.counts[EVENTS] += 1
        tau += step
        add(g, step, dg)
        b[0] += step * db
        for p in range(m):
            alpha[margin.members[p]] += step * dalpha[p]
        done = event == NONE
        for s in range(n):
            lower[s] = goal_lower[s] if done else l0[s] + tau * dl[s]
            upper[s] = goal_upper[s] if done else u0[s] + tau * du[s]
            if live[s] != 0:
                if margin.side[s] == FREE:
                    alpha[s] = min(max(alpha[s], lower[s]), upper[s])
                else:
                    alpha[s] = lower[s] if margin.side[s] == LOW else upper[s]
        if done:
            code, tau = DONE, 1.0
            break
        if to_side == FREE:
            was = margin.side[event]
            admit(kernel, points, cache, margin, alpha, g, lower, upper, event, 1 if was == LOW else -1)
            for s in near.slots:  # members may have gone to their bounds, too
                rate = 0.0 if margin.side[s] == FREE else (dl[s] if margin.side[s] == LOW else du[s])
                if rate != rates[s]:
                    demand -= _drive(kernel, points, cache, s, rate, rates, drive)
        else:
            _part(margin, _place_of(margin, event), to_side)
            alpha[event] = lower[event] if to_side == LOW else upper[event]
            rate = dl[event] if to_side == LOW else du[event]
            if rate != 0.0:
                demand -= _drive(kernel, points, cache, event, rate, rates, drive)
    _catch_up(kernel, points, cache, near, owed, g)
    return code, tau


@compiled
def _drive(kernel, points, cache, s, rate, rates, drive):
    """Point s moves at `rate` with its bound from here on. Returns by how much faster that is than before."""
    change = rate - rates[s]
    rates[s] = rate
    add(drive, change, cached_row(kernel, points, cache, s, NONE))
    return change


@compiled
def refine(kernel, points, cache, margin, alpha, g, b, lower, upper):
    """One Newton step of the margin set towards r = 0 and sum(alpha) = 0: takes away what rounding left."""
    m = margin.counts[M]
    if m == 0:
        return
    left = np.empty(m + 1)
    left[0] = -alpha.sum()
    for p in range(m):
        left[p + 1] = g[margin.members[p]] - b[0]
    changes = np.empty(m)
    for p in range(m):
        s = margin.members[p]
        moved = min(max(alpha[s] + dot(margin.R[p + 1, : m + 1], left), lower[s]), upper[s])
        changes[p], alpha[s] = moved - alpha[s], moved
    b[0] += dot(margin.R[0, : m + 1], left)
    _subtract_rows(kernel, points, cache, margin.members[:m], changes, g)
