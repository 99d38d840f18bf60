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

A path may be long. So `follow` goes a part of the way at a call, and stops anywhere: what is under way stands in `Way`.
Neither where it stops nor the room that R has shows in a result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.compiled import compiled
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.lanes import dot
from hinged.solvers.core.rowcache import VALUES, cached_row

Array = np.ndarray[Any, Any]

LOW, FREE, HIGH = -1, 0, 1
UNDER_WAY, CROWDED, DONE, STUCK, STILL = range(5)
DEPENDENT = 1e-10  # of the terms that it is made of: less curvature than that beside the margin set is none
MARGIN_MIN = 32
BLOCK = 1024
RADIUS = 0.8  # of the points that are near at first; half the margin is 1 wide
COPIED_LEAST = 1 << 18  # entries of the margin set's rows: fewer stay in the processor's cache anyway
COPIED_MOST = 1 << 22  # entries of a copy: 32 MiB
RATE_LEAST = 1e-12  # changes of r below it, of the terms that they are made of, are rounding
ON_BOUND = 1e-10, 1e-13  # of the sum of |alpha|, and of the length of the terms of w: coefficients that are off their
R_ROUNDING = 1e-8  # bound by less may be so by rounding; by the first if that changes no r by more than this
TOGETHER = 64  # rows of the margin set that are fetched and subtracted between two looks at the work done
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


SETTING_OUT, LOOKING, AIMING, PULLING, STEPPING, ADMITTING, DRIVING, CATCHING_UP, ENDED = range(9)  # stages
STAGE, THEN, NEXT, CODE, EVENT, WENT = range(6)  # places in Way.at
TAU, DEMAND, GONE, DB, SCALE, DQ_MOST, SELF_MOST, RADIUS_NOW = range(8)  # places in Way.size
L0, U0, LOWER, UPPER, DQ, RATES, DRIVE, DG, OWED = range(9)  # lines of Way.lines


class Way(NamedTuple):
    """A path that is under way.

    lines (9, n): the bounds at its beginning and end, the change of q, rates of points on moving bounds, the sum of
    these times their kernel rows, rates of g, and by how much coefficients have moved that g of far points lacks.
    dalpha (cap,): rates of the margin set. live (n,) uint8.
    at (6,) int64: the stage, the one behind it, how far it has come, how the path ended, the point that is the event,
    events so far. size (8,): how much of the way is gone, what the moving bounds demand,
    how much r may have changed, rates of b and their size, the largest change of q and k(x, x), the radius of `Near`.
    """

    lines: Array
    dalpha: Array
    live: Array
    at: Array
    size: Array


def new_way(lower: Array, upper: Array, goals: tuple[Array, Array], dq: Array | None, live: Array, cap: int) -> Way:
    """A path from these bounds (n,) to those of `goals`, on which q changes by dq; cap: room of the margin set."""
    lines = np.zeros((9, lower.size))
    lines[L0], lines[U0] = lower, upper
    lines[LOWER], lines[UPPER] = goals
    if dq is not None:
        lines[DQ] = dq
    size = np.zeros(8)
    size[RADIUS_NOW] = RADIUS
    return Way(lines, np.zeros(cap), live, np.zeros(6, np.int64), size)


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
def subtract_rows(kernel, points, cache, slots, factors, target):
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
def _fetch_near(kernel, points, cache, margin, near, begin, end):
    """Copy the entries of the members begin..end that are not held yet."""
    new = begin + np.flatnonzero(near.row_of[begin:end] != margin.members[begin:end])
    slots, k = margin.members[new], near.slots.shape[0]
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


@compiled
def _subtract_near(near, dalpha, dg):
    """dg (n,) -= K dalpha at the near points, whose entries of all members are held."""
    k = near.slots.shape[0]
    change = np.zeros(k)
    _subtract_lines(near.rows, np.arange(dalpha.shape[0]), dalpha, change)
    for a in range(k):
        dg[near.slots[a]] += change[a]


@compiled
def _catch_up(kernel, points, cache, near, owed, g):
    """g of the points that are not near follows TOGETHER of the coefficients that have changed by `owed` (n,)."""
    slots = np.flatnonzero(owed)[:TOGETHER]
    known = g[near.slots]
    subtract_rows(kernel, points, cache, slots, owed[slots], g)
    g[near.slots] = known
    owed[slots] = 0.0


@compiled
def join(margin, row, i):
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
    """Make slot i free, or where it depends on the margin set trade coefficients with it, rising where toward > 0.

    Returns whether that is all: not where a member met its bound first and left; then it is to be tried again.
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
        return True
    alpha[i] = min(max(alpha[i] + step, lower[i]), upper[i])
    s = margin.members[stopped]
    rate = -v[stopped] if toward > 0 else v[stopped]
    alpha[s] = upper[s] if rate > 0 else lower[s]
    _part(margin, stopped, HIGH if rate > 0 else LOW)
    return False


@compiled
def _set_out(kernel, points, cache, margin, way, g, b, width, work_max):
    """Which points move with their bounds, from slot at[NEXT] on; false where work_max is reached before the end."""
    dl, du = way.lines[LOWER] - way.lines[L0], way.lines[UPPER] - way.lines[U0]
    at, size = way.at, way.size
    begun, done = cache.counters[VALUES], 0
    for s in range(at[NEXT], g.shape[0]):
        if done + width * (cache.counters[VALUES] - begun) > work_max:
            at[NEXT] = s
            return False
        if way.live[s] == 0:
            continue
        size[DQ_MOST] = max(size[DQ_MOST], abs(way.lines[DQ, s]))
        size[SELF_MOST] = max(size[SELF_MOST], points.selves[s])
        if margin.side[s] == FREE:
            if dl[s] != 0.0 or du[s] != 0.0:
                at[CODE] = UNDER_WAY
            continue
        if way.lines[L0, s] == way.lines[U0, s]:  # a box that is a point: which bound it stands on is r's choice
            margin.side[s] = HIGH if g[s] - b[0] > 0.0 else LOW
        rate = dl[s] if margin.side[s] == LOW else du[s]
        if rate != 0.0:
            at[CODE] = UNDER_WAY
            size[DEMAND] -= _drive(kernel, points, cache, s, rate, way.lines[RATES], way.lines[DRIVE])
            done += g.shape[0]
    return True


@compiled
def _first_to_move(margin, way, g, b, lower, upper, demand):
    """The point that is the first to be free when b moves, as nobody can take up what the bounds demand, or NONE."""
    first, least = NONE, np.inf
    for s in range(g.shape[0]):
        grows = way.lines[UPPER, s] - way.lines[U0, s] > way.lines[LOWER, s] - way.lines[L0, s]
        may_move = upper[s] > lower[s] or grows
        if way.live[s] != 0 and may_move and margin.side[s] == (LOW if demand > 0.0 else HIGH):
            r = abs(g[s] - b[0])
            if r < least:
                first, least = s, r
    return first


@compiled
def _aim(points, margin, way):
    """Rates of b and the margin set; of g without what the margin set does to it, which PULLING takes away."""
    m, dg, size = margin.counts[M], way.lines[DG], way.size
    scale, db = 0.0, 0.0
    for t in range(dg.shape[0]):
        dg[t] = way.lines[DQ, t] - way.lines[DRIVE, t]
        if way.live[t] != 0:  # what a hole says is of a point that no state holds
            scale = max(scale, abs(dg[t]))
    if m > 0:
        wanted = np.empty(m + 1)
        wanted[0] = size[DEMAND]
        for q in range(m):
            wanted[q + 1] = dg[margin.members[q]]
        db = dot(margin.R[0, : m + 1], wanted)
        for p in range(m):
            way.dalpha[p] = dot(margin.R[p + 1, : m + 1], wanted)
            scale += abs(way.dalpha[p]) * points.selves[margin.members[p]]
    size[DB], size[SCALE] = db, scale


@compiled
def _next_event(margin, near, way, alpha, g, b, lower, upper):
    """(step, slot, side): how far it is to the next event, whose it is (NONE at the end of the way), where it goes."""
    m, dalpha, dg, db = margin.counts[M], way.dalpha, way.lines[DG], way.size[DB]
    l0, u0 = way.lines[L0], way.lines[U0]
    noise = RATE_LEAST * (way.size[SCALE] + abs(db))
    step, event, to_side, fastest = 1.0 - way.size[TAU], NONE, FREE, 0.0
    for p in range(m):
        s = margin.members[p]
        up_rate = dalpha[p] - (way.lines[UPPER, s] - u0[s])
        down_rate = dalpha[p] - (way.lines[LOWER, s] - l0[s])
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
        if margin.side[s] == FREE or (l0[s] == u0[s] and way.lines[LOWER, s] - l0[s] == way.lines[UPPER, s] - u0[s]):
            continue
        rate = dg[s] - db
        if (margin.side[s] == LOW and rate > noise) or (margin.side[s] == HIGH and rate < -noise):
            t = max(0.0, (b[0] - g[s]) / rate)
            if t < step:
                step, event, to_side = t, s, FREE
    return step, event, to_side


@compiled
def _reach(margin, way, step):
    """The most by which the r of any point changes in this step.

    w changes at a rate whose square is that of all coefficients times K times itself, and <w, phi(x)> no faster than
    that times |phi(x)| (Cauchy and Schwarz).
    """
    rates, drive, dq, dg = way.lines[RATES], way.lines[DRIVE], way.lines[DQ], way.lines[DG]
    square = dot(rates, drive)
    terms = abs(square)
    for p in range(margin.counts[M]):
        s = margin.members[p]
        term = way.dalpha[p] * (drive[s] + dq[s] - dg[s])
        square += term
        terms += abs(term)
    square = max(square, 0.0) + RATE_LEAST * terms
    return step * (np.sqrt(square * way.size[SELF_MOST]) + abs(way.size[DB]) + way.size[DQ_MOST])


@compiled
def _advance(margin, way, alpha, g, b, lower, upper, step, done):
    """Go so far along the present rates, or with `done` to the end of the way."""
    way.size[TAU] += step
    tau = way.size[TAU]
    add(g, step, way.lines[DG])
    b[0] += step * way.size[DB]
    for p in range(margin.counts[M]):
        alpha[margin.members[p]] += step * way.dalpha[p]
    l0, u0, goal_lower, goal_upper = way.lines[L0], way.lines[U0], way.lines[LOWER], way.lines[UPPER]
    for s in range(g.shape[0]):
        lower[s] = goal_lower[s] if done else l0[s] + tau * (goal_lower[s] - l0[s])
        upper[s] = goal_upper[s] if done else u0[s] + tau * (goal_upper[s] - u0[s])
        if way.live[s] != 0:
            if margin.side[s] == FREE:
                alpha[s] = min(max(alpha[s], lower[s]), upper[s])
            else:
                alpha[s] = lower[s] if margin.side[s] == LOW else upper[s]


@compiled
def follow(kernel, points, cache, margin, near, way, alpha, g, b, lower, upper, events_max, width, work_max):
    """Go on along a path, where it stopped before, for about work_max; returns how it stands, and what is near.

    b: (1,) view of the bias; bounds stand where they are then. width: work of a kernel value. UNDER_WAY: there is more
    to come. CROWDED: the margin set needs a larger R. DONE; STUCK; or STILL: no bound that holds a point moves, nor
    does q, so nothing has changed (a new point with room on the other side of its bound).
    """
    n, at, size = g.shape[0], way.at, way.size
    dg, owed = way.lines[DG], way.lines[OWED]
    begun, done = cache.counters[VALUES], 0
    while at[STAGE] != ENDED:
        if done + width * (cache.counters[VALUES] - begun) > work_max:
            return UNDER_WAY, near
        m = margin.counts[M]
        if at[STAGE] == SETTING_OUT:
            if at[NEXT] == 0:
                at[CODE] = STILL
            if not _set_out(kernel, points, cache, margin, way, g, b, width, work_max):
                return UNDER_WAY, near
            if at[CODE] == STILL and size[DQ_MOST] == 0.0:
                return STILL, near
            at[CODE], at[STAGE] = STUCK, LOOKING
            done += n
        elif at[STAGE] == LOOKING:
            near, size[GONE] = _near(margin, g, b, way.live, size[RADIUS_NOW]), 0.0
            at[STAGE] = AIMING
            done += n
        elif at[STAGE] == AIMING:
            if at[WENT] >= events_max:
                at[STAGE], at[THEN] = CATCHING_UP, ENDED
                continue
            if m == margin.members.shape[0]:
                return CROWDED, near
            if m == 0 and size[DEMAND] != 0.0:
                if owed.any():
                    at[STAGE], at[THEN] = CATCHING_UP, AIMING
                    continue
                first = _first_to_move(margin, way, g, b, lower, upper, size[DEMAND])
                if first == NONE:
                    at[STAGE], at[THEN] = CATCHING_UP, ENDED
                    continue
                margin.counts[EVENTS] += 1
                at[WENT] += 1
                b[0] = g[first]
                size[DEMAND] -= _drive(kernel, points, cache, first, 0.0, way.lines[RATES], way.lines[DRIVE])
                join(margin, cached_row(kernel, points, cache, first, NONE), first)
                size[RADIUS_NOW] = RADIUS
                at[STAGE] = LOOKING
                done += 3 * n
                continue
            _aim(points, margin, way)
            at[STAGE], at[NEXT] = PULLING, 0
            done += m * m + 3 * n
        elif at[STAGE] == PULLING:
            p, e = at[NEXT], min(at[NEXT] + TOGETHER, m)
            at[NEXT] = e
            if np.isfinite(near.radius):
                _fetch_near(kernel, points, cache, margin, near, p, e)
                done += (e - p) * near.slots.shape[0]
                if e == m and m > 0:
                    _subtract_near(near, way.dalpha[:m], dg)
            else:
                subtract_rows(kernel, points, cache, margin.members[p:e], way.dalpha[p:e], dg)
                done += (e - p) * n
            if e == m:
                at[STAGE] = STEPPING
        elif at[STAGE] == STEPPING:
            step, event, to_side = _next_event(margin, near, way, alpha, g, b, lower, upper)
            done += 8 * n
            if np.isfinite(near.radius):
                reach = _reach(margin, way, step)
                size[GONE] += reach
                if size[GONE] > near.radius:  # a point that is far might be met before: look again with others near
                    size[RADIUS_NOW] = max(RADIUS, 2.0 * reach)
                    at[WENT] += 1
                    at[STAGE], at[THEN] = CATCHING_UP, LOOKING
                    continue
                for p in range(m):
                    owed[margin.members[p]] += step * way.dalpha[p]
            margin.counts[EVENTS] += 1
            at[WENT] += 1
            _advance(margin, way, alpha, g, b, lower, upper, step, event == NONE)
            at[EVENT], at[STAGE] = event, AIMING
            if event == NONE:
                at[CODE], at[STAGE], at[THEN] = DONE, CATCHING_UP, ENDED
            elif to_side == FREE:
                at[NEXT] = margin.side[event]
                at[STAGE] = ADMITTING
            else:
                _part(margin, _place_of(margin, event), to_side)
                alpha[event] = lower[event] if to_side == LOW else upper[event]
                line = LOWER if to_side == LOW else UPPER
                rate = way.lines[line, event] - way.lines[line - LOWER, event]
                if rate != 0.0:
                    size[DEMAND] -= _drive(
                        kernel, points, cache, event, rate, way.lines[RATES], way.lines[DRIVE]
                    )  # fmt: skip
                done += m * m
        elif at[STAGE] == ADMITTING:
            toward = 1 if at[NEXT] == LOW else -1
            joined = admit(kernel, points, cache, margin, alpha, g, lower, upper, at[EVENT], toward)
            done += 2 * m * m + (0 if joined else m * n)
            if joined:
                at[STAGE] = DRIVING
        elif at[STAGE] == DRIVING:
            for s in near.slots:  # members may have gone to their bounds, too
                line = LOWER if margin.side[s] == LOW else UPPER
                rate = 0.0 if margin.side[s] == FREE else way.lines[line, s] - way.lines[line - LOWER, s]
                if rate != way.lines[RATES, s]:
                    size[DEMAND] -= _drive(kernel, points, cache, s, rate, way.lines[RATES], way.lines[DRIVE])
                    done += n
            at[STAGE] = AIMING
        else:  # CATCHING_UP
            done += TOGETHER * n
            _catch_up(kernel, points, cache, near, owed, g)
            if not owed.any():
                at[STAGE] = at[THEN]
    return at[CODE], near


@compiled
def _drive(kernel, points, cache, s, rate, rates, drive):
    """Point s moves at `rate` with its bound from here on. Returns by how much faster that is than before."""
    change = rate - rates[s]
    rates[s] = rate
    add(drive, change, cached_row(kernel, points, cache, s, NONE))
    return change


@compiled
def leave_bounds(kernel, points, cache, margin, alpha, g, lower, upper):
    """Members that are on a bound, or off it by rounding, leave the margin set; returns how many."""
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
            add(g, before - alpha[s], cached_row(kernel, points, cache, s, NONE))
        _part(margin, p, side)  # the last member takes its place
        gone += 1
    return gone


@compiled
def refine(margin, alpha, g, b, lower, upper, changes):
    """One Newton step of the margin set towards r = 0 and sum(alpha) = 0: takes away what rounding left.

    changes (m,) becomes how the coefficients change, which g has to follow. Returns whether all numbers are finite.
    """
    m = margin.counts[M]
    moves = 0.0
    left = np.empty(m + 1)
    left[0] = -alpha.sum()
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
