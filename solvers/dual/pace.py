"""Online iterations paced by the duality gap, as compiled code; gap.py describes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.counts import (
    DONE,
    LEARNED,
    LIVE,
    NEEDS_CLEANING,
    NEEDS_REMOVAL,
    NEEDS_REST,
    NEEDS_ROOM,
    NONE,
    STEPS,
)
from hinged.solvers.core.points import (
    USED,
    append_point,
    has_room,
    pop_point,
)
from hinged.solvers.core.rowcache import (
    VALUES,
    cached_line,
    drop_row,
    forget_slot,
)
from hinged.solvers.core.simd.lanes import lane_sums, nonzero
from hinged.solvers.dual.coordinate import box_gap, box_search, violation
from hinged.solvers.dual.listed import expansion_sum, expansion_work
from hinged.solvers.dual.machine import (
    ASIDE,
    HINGE,
    IDLE,
    RAMP,
    enter,
    find_key,
    leave,
    note_change,
    scan_column,
    slack_of,
)
from hinged.solvers.dual.pausing import COLUMN, FORMER, REPEATED, SLOT, work_of
from hinged.solvers.jit.compiled import in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

NO_RAMP, RAMP_LOSS, RAMP_FILTER = range(3)
LOSSES = {"hinge": NO_RAMP, "ramp": RAMP_LOSS, "filter": RAMP_FILTER}


@handed
class PaceParameters(NamedTuple):
    """The tol of finishing, the tau of the paper, the code of the loss, s, ramp_start, CLEAN's m, and CLEAN's period.

    tau equals tol except in a first epoch. s is the ramp's left end. ramp_start is the number of support vectors of a
    class before the ramp applies. full_at: number of points at which the least useful point is removed. steps_max:
    maximum number of steps of REPROCESS for one example, in a column.
    """

    tol: float
    tau: float
    loss: int
    ramp_s: float
    ramp_start: int
    idle_max: int
    clean_every: int
    full_at: int
    steps_max: int


@handed
class Pace(NamedTuple):
    """gap (K,), target (K,): duality gap and gap target of each column after its last step.

    sv_of (K, classes): number of support vectors of each class in each column. discarded (classes, 2): number of
    examples of each class that were left (z < s) and right (z > 1) of the ramp when they were learned, in the column of
    their class.
    """

    gap: Array
    target: Array
    sv_of: Array
    discarded: Array


def _primal_parts(alpha, g, sign, lower, upper):
    """Return (h, h squared, 1 if the point counts else 0) for one point."""
    held = nonzero(alpha)
    h = held * (upper - lower) * sign * g
    return h, h * h, held


_primal_sums = lane_sums(_primal_parts)


@in_place
def gap_target(alpha, g, sign, lower, upper):
    """Return the standard deviation of the primal (eq. 8): h = C y g over the support vectors, or 0."""
    total, squares, count = _primal_sums((alpha, g, sign, lower, upper))
    return np.sqrt(max(squares - total * total / count, 0.0)) if count > 0.0 else 0.0


@in_place
def take_stance(pace, parameters, own, again, f, stance):
    """Set the stance of an example of class `own` in each column; return False if all columns are to skip the example.

    With `again`, the example is not counted in `discarded` a second time.
    """
    columns = pace.sv_of.shape[0]
    wanted = False
    for c in range(columns):
        stance[c] = HINGE
        positive = own == (1 if columns == 1 else c)
        z = f[c] if positive else -f[c]
        outlier = z < parameters.ramp_s
        filtered = parameters.loss == RAMP_FILTER and (outlier or z > 1.0)
        if parameters.loss != NO_RAMP and (outlier or filtered):
            ups = pace.sv_of[c, 1 if columns == 1 else c]
            held = 0
            for u in range(pace.sv_of.shape[1]):
                held += pace.sv_of[c, u]
            least = min(pace.sv_of[c, own], ups, held - ups)
            if least >= parameters.ramp_start:
                stance[c] = ASIDE if filtered else RAMP
                if not again and (positive or columns == 1):
                    pace.discarded[own, 0 if outlier else 1] += 1
        wanted = wanted or stance[c] != ASIDE
    return wanted


@in_place
def move(kernel, points, cache, machine, pace, c, i, j):
    """Move slots i and j in column c, or a single slot if i = j; update extremes and gap."""
    n = points.used[USED]
    row_i = cache.lines[cached_line(kernel, points, cache, i, NONE), :n]
    row_j = cache.lines[cached_line(kernel, points, cache, j, i), :n]
    alpha, g = machine.alpha[c, :n], machine.g[c, :n]
    lower, upper = machine.lower[c, :n], machine.upper[c, :n]
    before_i, before_j = alpha[i], alpha[j]
    machine.best_i[c], machine.best_j[c] = box_search(
        i, j, alpha, g, lower, upper, machine.up[c, :n], machine.down[c, :n], row_i, row_j
    )
    note(machine, pace, c, i, before_i)
    if i != j:
        note(machine, pace, c, j, before_j)
    pace.gap[c] = box_gap(alpha, g, lower, upper)
    machine.counts[STEPS] += 1


@in_place
def note(machine, pace, c, s, before):
    """Update the idle list and the support vectors by class after alpha of slot s changed in column c."""
    note_change(machine, c, s, before)
    pace.sv_of[c, machine.class_of[s]] += np.int64(before == 0.0) - np.int64(machine.alpha[c, s] == 0.0)


@in_place
def learn_rows(
    kernel,
    points,
    cache,
    machine,
    pace,
    parameters,
    bounds,
    seen,
    batch,
    begin,
    at,
    value_work,
    work_max,
    f,
    stance,
    scores,
):
    """Do online iterations over the rows of a batch from `begin` on; return (rows done, why it stopped). See lasvm.py.

    f (K,) float64 and stance (K,) int8 are scratch.
    """
    indptr, indices, values, norms, selves, classes, keys, again = batch
    columns = machine.alpha.shape[0]
    values_before, steps, swept = cache.counters[VALUES], machine.counts[STEPS], 0
    for r in range(begin, classes.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        own = classes[r]
        n = points.used[USED]
        if at[COLUMN] == NONE:
            if swept + work_of(points, cache, machine, values_before, steps, value_work) > work_max:
                return r, NEEDS_REST
            if not has_room(points, last - first):
                return r, NEEDS_ROOM
            if machine.counts[LIVE] >= parameters.full_at:
                return r, NEEDS_REMOVAL
            swept += columns + n + expansion_work(machine, n)
            k = find_key(machine, n, keys[r]) if again else NONE
            if k == NONE:
                k = append_point(points, indices[first:last], values[first:last], norms[r], selves[r])
                row = cache.lines[cached_line(kernel, points, cache, k, NONE), :n]
                for c in range(columns):
                    f[c] = expansion_sum(machine, c, row)
                    scores[r, c] = f[c]
                if not again:
                    seen[own] += 1
                    machine.counts[LEARNED] += 1
                if not take_stance(pace, parameters, own, again, f, stance):
                    pop_point(points)
                    forget_slot(cache, k)
                    continue
                enter(machine, k, own, keys[r], bounds[own], f, stance)
            else:
                for c in range(columns):
                    scores[r, c] = machine.sign[c, k] - machine.g[c, k]
            at[COLUMN], at[REPEATED], at[SLOT] = 0, 0, k
        k, n = at[SLOT], points.used[USED]
        while at[COLUMN] < columns:
            c = at[COLUMN]
            g = machine.g[c, :n]
            enough = max(bounds[own], pace.target[c])
            if at[REPEATED] == 0:
                at[FORMER] = machine.counts[STEPS]
                rises = machine.up[c, k] != 0 and g[k] > parameters.tau
                falls = machine.down[c, k] != 0 and g[k] < -parameters.tau
                if rises or falls:
                    other = machine.best_j[c] if rises else machine.best_i[c]
                    move(kernel, points, cache, machine, pace, c, k, k if other == NONE else other)
            while at[REPEATED] < parameters.steps_max:
                i, j = machine.best_i[c], machine.best_j[c]
                machine.delta[c] = violation(g, i, j)
                if pace.gap[c] <= enough or machine.delta[c] <= parameters.tau:
                    break
                move(kernel, points, cache, machine, pace, c, j if i == NONE else i, i if j == NONE else j)
                at[REPEATED] += 1
                if work_of(points, cache, machine, values_before, steps, value_work) > work_max:
                    return r, NEEDS_REST
            if machine.counts[STEPS] > at[FORMER]:
                pace.target[c] = gap_target(
                    machine.alpha[c, :n], g, machine.sign[c, :n], machine.lower[c, :n], machine.upper[c, :n]
                )
            at[COLUMN], at[REPEATED] = c + 1, 0
            if at[COLUMN] < columns and (work_of(points, cache, machine, values_before, steps, value_work) > work_max):
                return r, NEEDS_REST
        at[COLUMN] = NONE
        if machine.counts[LEARNED] % parameters.clean_every == 0 and machine.counts[IDLE] > parameters.idle_max:
            return r + 1, NEEDS_CLEANING
    return classes.shape[0], DONE


@in_place
def leave_all(cache, machine, n, slots):
    """Turn idle slots into holes."""
    for s in slots:
        leave(machine, s)
        drop_row(cache, s)
    for c in range(machine.alpha.shape[0]):
        scan_column(machine, c, n)


@in_place
def idle_slacks(machine, slacks):
    """Fill slacks (idle,) with the slack of each point of the idle list, in the list's order."""
    for p in range(machine.counts[IDLE]):
        slacks[p] = slack_of(machine, machine.idle[p])
