"""Path following for one column: how the optimum moves while its problem changes.

The problem is max alpha.q - 1/2 alpha.K.alpha over sum(alpha) = total, lower <= alpha <= upper. q, total, lower and
upper move in a straight line from values whose optimum is known to the target values. With labels, total is always 0.
Between two events the optimum also moves in a straight line: the coefficients of the margin set (the free points) keep
r = g - b at zero, and all other coefficients stay at their bounds. An event is a free point that reaches a bound, or a
point at a bound whose r reaches zero.

Diehl and Cauwenberghs, IJCNN 2003, sections II to IV, have separate equations for each kind of change. Here, a new
point is a box that opens and an unlearned point is a box that closes. A change of C changes the size of the boxes, and
a change of the kernel changes q.

Few points are so near the margin that a path can reach them, so rates are computed for these points only (near.py).

A path may be long. So each call of `follow` does a part of the path and may stop anywhere; `PathState` stores the
progress. Neither the stopping places nor the spare room in R changes the result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.rowcache import VALUES, cached_line
from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.dual.margin import (
    EVENTS,
    FREE,
    HIGH,
    LOW,
    TOGETHER,
    M,
    add,
    admit,
    join,
    part,
    place_of,
    subtract_rows,
)
from hinged.solvers.dual.near import are_owed, catch_up, fetch_near, find_near, subtract_near
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

UNDER_WAY, CROWDED, DONE, STUCK, STILL = range(5)
RADIUS = 0.8  # initial limit of |r| up to which points are near; half the margin has width 1
RATE_LEAST = 1e-12  # smaller changes of r, relative to their terms, count as rounding errors

SETTING_OUT, LOOKING, AIMING, PULLING, STEPPING, ADMITTING, DRIVING, CATCHING_UP, ENDED = range(9)  # stages
STAGE, THEN, NEXT, CODE, EVENT, WENT = range(6)  # places in PathState.at
TAU, DEMAND, GONE, DB, SCALE, DQ_MOST, SELF_MOST, RADIUS_NOW = range(8)  # places in PathState.size
L0, U0, LOWER, UPPER, DQ, RATES, DRIVE, DG, OWED = range(9)  # lines of PathState.lines


@handed
class PathState(NamedTuple):
    """A path in progress.

    lines (9, n): the bounds at the start and at the end; the change of q; the rates of points on moving bounds; the sum
    of these rates times kernel rows; the rates of g; and the changes of coefficients for which g of the far points has
    not been updated. dalpha (cap,): rates of the margin set. live (n,) uint8. at (6,) int64: the stage; the next stage;
    the progress in the stage; how the path ended; the point of the event; the number of events so far. size (8,): the
    fraction of the path that is done; the rate at which the sum over the free points must change; the largest
    possible change of r; the rate of b; the size of the rates; the largest change of q; the largest k(x, x); the radius
    of `Near`.
    """

    lines: Array
    dalpha: Array
    live: Array
    at: Array
    size: Array


def new_path(
    lower: Array, upper: Array, goals: tuple[Array, Array], dq: Array | None, rise: float, live: Array, cap: int
) -> PathState:
    """Return a path from these bounds (n,) to `goals`, on which q changes by dq and sum(alpha) by `rise`.

    cap: the number of members for which the margin set has room.
    """
    lines = np.zeros((9, lower.size))
    lines[L0], lines[U0] = lower, upper
    lines[LOWER], lines[UPPER] = goals
    if dq is not None:
        lines[DQ] = dq
    size = np.zeros(8)
    size[DEMAND], size[RADIUS_NOW] = rise, RADIUS
    return PathState(lines, np.zeros(cap), live, np.zeros(6, np.int64), size)


@in_place
def _set_out(kernel, points, cache, margin, way, g, b, width, work_max):
    """Find the points that move with their bounds, from slot at[NEXT] on. Return False if work_max is reached first."""
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
        dl, du = way.lines[LOWER, s] - way.lines[L0, s], way.lines[UPPER, s] - way.lines[U0, s]
        if margin.side[s] == FREE:
            if dl != 0.0 or du != 0.0:
                at[CODE] = UNDER_WAY
            continue
        if way.lines[L0, s] == way.lines[U0, s]:  # the box is a point: the sign of r chooses the bound
            margin.side[s] = HIGH if g[s] - b[0] > 0.0 else LOW
        rate = dl if margin.side[s] == LOW else du
        if rate != 0.0:
            at[CODE] = UNDER_WAY
            size[DEMAND] -= _drive(kernel, points, cache, s, rate, way.lines[RATES], way.lines[DRIVE])
            done += g.shape[0]
    return True


@in_place
def _first_to_move(margin, way, g, b, lower, upper, demand):
    """Return the first point to become free when b moves, or NONE.

    Called if no free point can balance the moving bounds.
    """
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
    """Compute the rates of b, of the margin set, and of g.

    The stage PULLING then subtracts the margin set's part from g.
    """
    m, dg, size = margin.counts[M], way.lines[DG], way.size
    scale, db = 0.0, 0.0
    for t in range(dg.shape[0]):
        dg[t] = way.lines[DQ, t] - way.lines[DRIVE, t]
        if way.live[t] != 0:  # the numbers in a hole are not part of any state
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


@in_place
def _next_event(margin, near, way, alpha, g, b, lower, upper):
    """Return (step, slot, side): the distance to the next event, its slot and its new side.

    The slot is NONE at the end.
    """
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


@in_place
def _reach(margin, way, step):
    """Return an upper bound of the change of r of any point in this step.

    The square of the rate at which w changes is rates.K.rates, over all coefficients. <w, phi(x)> changes no faster
    than that rate times |phi(x)| (Cauchy and Schwarz).
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


@in_place
def _advance(margin, way, alpha, g, b, lower, upper, step, done):
    """Move by `step` along the current rates; with `done`, move to the end of the path."""
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


@in_place
def _drive(kernel, points, cache, s, rate, rates, drive):
    """Let point s move with its bound at `rate` from now on. Return the change of its rate."""
    change = rate - rates[s]
    rates[s] = rate
    add(drive, change, cache.lines[cached_line(kernel, points, cache, s, NONE)])
    return change


@in_place
def _free_one(kernel, points, cache, margin, way, g, b, lower, upper, owed):
    """With an empty margin set, move b until a first point is free. That point then balances the moving bounds."""
    at, size = way.at, way.size
    if are_owed(owed):
        at[STAGE], at[THEN] = CATCHING_UP, AIMING
        return 0
    first = _first_to_move(margin, way, g, b, lower, upper, size[DEMAND])
    if first == NONE:
        at[STAGE], at[THEN] = CATCHING_UP, ENDED
        return 0
    margin.counts[EVENTS] += 1
    at[WENT] += 1
    b[0] = g[first]
    size[DEMAND] -= _drive(kernel, points, cache, first, 0.0, way.lines[RATES], way.lines[DRIVE])
    join(margin, cache.lines[cached_line(kernel, points, cache, first, NONE)], first)
    size[RADIUS_NOW] = RADIUS
    at[STAGE] = LOOKING
    return 3 * g.shape[0]


@in_place
def _pull(kernel, points, cache, margin, near, way, dg):
    """Add the part of some more members to the rates of g; after the last member, set the stage STEPPING.

    Return the work done.
    """
    at, m = way.at, margin.counts[M]
    p, e = at[NEXT], min(at[NEXT] + TOGETHER, m)
    at[NEXT] = e
    if e == m:
        at[STAGE] = STEPPING
    if np.isfinite(near.radius):
        fetch_near(kernel, points, cache, margin, near, p, e)
        if e == m and m > 0:
            subtract_near(near, way.dalpha[:m], dg)
        return (e - p) * near.slots.shape[0]
    subtract_rows(kernel, points, cache, margin.members[p:e], way.dalpha[p:e], dg)
    return (e - p) * dg.shape[0]


@in_place
def _step(kernel, points, cache, margin, near, way, alpha, g, b, lower, upper, owed):
    """Move to the next event, and handle a point that reaches its bound.

    Return the work, without the work of the search.
    """
    m, at, size = margin.counts[M], way.at, way.size
    step, event, to_side = _next_event(margin, near, way, alpha, g, b, lower, upper)
    at[WENT] += 1
    if np.isfinite(near.radius):
        reach = _reach(margin, way, step)
        size[GONE] += reach
        if size[GONE] > near.radius:  # a far point might come first: search the near points again
            size[RADIUS_NOW] = max(RADIUS, 2.0 * reach)
            at[STAGE], at[THEN] = CATCHING_UP, LOOKING
            return 0
        for p in range(m):
            owed[margin.members[p]] += step * way.dalpha[p]
    margin.counts[EVENTS] += 1
    _advance(margin, way, alpha, g, b, lower, upper, step, event == NONE)
    at[EVENT], at[STAGE] = event, AIMING
    if event == NONE:
        at[CODE], at[STAGE], at[THEN] = DONE, CATCHING_UP, ENDED
        return 0
    if to_side == FREE:
        at[NEXT] = margin.side[event]
        at[STAGE] = ADMITTING
        return 0
    part(margin, place_of(margin, event), to_side)
    alpha[event] = lower[event] if to_side == LOW else upper[event]
    line = LOWER if to_side == LOW else UPPER
    rate = way.lines[line, event] - way.lines[line - LOWER, event]
    if rate != 0.0:
        size[DEMAND] -= _drive(kernel, points, cache, event, rate, way.lines[RATES], way.lines[DRIVE])
    return m * m


@in_place
def _drive_near(kernel, points, cache, margin, near, way):
    """Let near points, including members, move with the bounds that they are at now. Return how many rates changed."""
    moved = 0
    for s in near.slots:
        line = LOWER if margin.side[s] == LOW else UPPER
        rate = 0.0 if margin.side[s] == FREE else way.lines[line, s] - way.lines[line - LOWER, s]
        if rate != way.lines[RATES, s]:
            way.size[DEMAND] -= _drive(kernel, points, cache, s, rate, way.lines[RATES], way.lines[DRIVE])
            moved += 1
    return moved


@compiled
def follow(kernel, points, cache, margin, near, way, alpha, g, b, lower, upper, events_max, width, work_max):
    """Follow a path from where it stopped, for about work_max; return its status and the near points.

    b: (1,) view of the bias. On return, the bounds are the bounds at the point of the path that was reached. width:
    work of a kernel value. Statuses: UNDER_WAY: not finished yet. CROWDED: the margin set needs a larger R. DONE:
    finished. STUCK: the path cannot go on. STILL: nothing has changed, because neither q nor total moves, and no bound
    moves at which there is a point. For example, only the opposite bound of a new point moves.
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
            if at[CODE] == STILL and size[DQ_MOST] == 0.0 and size[DEMAND] == 0.0:
                return STILL, near
            at[CODE], at[STAGE] = STUCK, LOOKING
            done += n
        elif at[STAGE] == LOOKING:
            near, size[GONE] = find_near(margin, g, b, way.live, size[RADIUS_NOW]), 0.0
            at[STAGE] = AIMING
            done += n
        elif at[STAGE] == AIMING:
            if at[WENT] >= events_max:
                at[STAGE], at[THEN] = CATCHING_UP, ENDED
            elif m == margin.members.shape[0]:
                return CROWDED, near
            elif m == 0 and size[DEMAND] != 0.0:
                done += _free_one(kernel, points, cache, margin, way, g, b, lower, upper, owed)
            else:
                _aim(points, margin, way)
                at[STAGE], at[NEXT] = PULLING, 0
                done += m * m + 3 * n
        elif at[STAGE] == PULLING:
            done += _pull(kernel, points, cache, margin, near, way, dg)
        elif at[STAGE] == STEPPING:
            done += 8 * n + _step(kernel, points, cache, margin, near, way, alpha, g, b, lower, upper, owed)
        elif at[STAGE] == ADMITTING:
            toward = 1 if at[NEXT] == LOW else -1
            joined = admit(kernel, points, cache, margin, alpha, g, lower, upper, at[EVENT], toward)
            done += 2 * m * m + (0 if joined else m * n)
            if joined:
                at[STAGE] = DRIVING
        elif at[STAGE] == DRIVING:
            done += n * _drive_near(kernel, points, cache, margin, near, way)
            at[STAGE] = AIMING
        else:  # CATCHING_UP
            done += TOGETHER * n
            catch_up(kernel, points, cache, near, owed, g)
            if not are_owed(owed):
                at[STAGE] = at[THEN]
    return at[CODE], near
