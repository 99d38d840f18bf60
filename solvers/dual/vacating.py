"""Removal of points with a coefficient: gradients are updated, and with a bias other points take over the sum."""

from __future__ import annotations

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.points import USED
from hinged.solvers.core.rowcache import VALUES, cached_line, drop_row
from hinged.solvers.dual.direction import extremes, move_gradient
from hinged.solvers.dual.machine import leave, note_change
from hinged.solvers.jit.compiled import in_place

ROUNDING = 1e-12  # relative to the sum of |alpha|: no point needs to take over a smaller remainder


@in_place
def move_gradients(kernel, points, cache, machine, slots, by):
    """Do g += by * alpha_s * K_s in every column, for the kernel rows K_s of these slots, one slot after the other."""
    n = points.used[USED]
    for s in slots:
        row = cache.lines[cached_line(kernel, points, cache, s, NONE), :n]
        for c in range(machine.alpha.shape[0]):
            if machine.alpha[c, s] != 0.0:
                g, step = machine.g[c, :n], by * machine.alpha[c, s]
                for t in range(n):
                    g[t] += step * np.float64(row[t])


@in_place
def hand_over(kernel, points, cache, machine, c, left, value_work, work_max):
    """Bring sum(alpha) of column c back to 0 by moving the points that gain most from a move, or lose least.

    left (2,): the remainder to take over, and the sum of |alpha| before; NaN at the start. Return False if work_max is
    reached before the end. If all remaining points have the same sign, the only solution is 0.
    """
    n = points.used[USED]
    alpha, g, up, down = machine.alpha[c, :n], machine.g[c, :n], machine.up[c, :n], machine.down[c, :n]
    lower, upper = machine.lower[c, :n], machine.upper[c, :n]
    if np.isnan(left[0]):
        left[0], left[1], rising, falling = 0.0, 0.0, False, False
        for s in range(n):
            left[0] -= alpha[s]
            left[1] += abs(alpha[s])
            rising, falling = rising or upper[s] > 0.0, falling or lower[s] < 0.0
        if not (rising and falling):
            for s in range(n):
                if machine.class_of[s] != NONE:
                    before = alpha[s]
                    alpha[s], g[s] = 0.0, float(machine.sign[c, s])
                    note_change(machine, c, s, before)
                    up[s], down[s] = upper[s] > 0.0, lower[s] < 0.0
            return True
    i, j = extremes(g, up, down)
    begun, done = cache.counters[VALUES], 0
    while abs(left[0]) > ROUNDING * left[1]:
        if done + value_work * (cache.counters[VALUES] - begun) > work_max:
            return False
        t = i if left[0] > 0.0 else j
        if t == NONE:
            return True
        before = alpha[t]
        bound = upper[t] if left[0] > 0.0 else lower[t]
        part = bound - before
        if abs(part) > abs(left[0]):
            part, alpha[t] = left[0], before + left[0]
        else:
            alpha[t] = bound
        left[0] -= part
        up[t], down[t] = alpha[t] < upper[t], alpha[t] > lower[t]
        note_change(machine, c, t, before)
        row = cache.lines[cached_line(kernel, points, cache, t, NONE), :n]
        i, j = move_gradient(g, part, 0.0, row, row, up, down)
        done += 4 * n
    return True


@in_place
def vacate(kernel, points, cache, machine, slots, anew, held):
    """Turn slots into holes; add to held (K,) how many of them had a coefficient in each column.

    With `anew`, gradients are not updated.
    """
    for p in range(slots.shape[0]):
        s = slots[p]
        if machine.held[s] > 0 and not anew:
            move_gradients(kernel, points, cache, machine, slots[p : p + 1], 1.0)
        for c in range(machine.alpha.shape[0]):
            before = machine.alpha[c, s]
            if before != 0.0:
                machine.alpha[c, s] = 0.0
                note_change(machine, c, s, before)
                held[c] += 1
        leave(machine, s)
        drop_row(cache, s)
