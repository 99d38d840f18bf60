"""The time steps of an averaged tracking SVM, as compiled code; tracking.py describes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.counts import (
    DONE,
    HOLES_MIN,
    HOLES_PART,
    LEARNED,
    LIVE,
    NEEDS_COMPACTION,
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
from hinged.solvers.core.random import random_below
from hinged.solvers.core.rowcache import (
    VALUES,
    cached_line,
    drop_row,
    forget_slot,
)
from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.dual.machine import IDLE, enter, find_key, leave, note_change
from hinged.solvers.dual.pausing import work_of
from hinged.solvers.jit.compiled import in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

ALGORITHMS = (1, 2, "cached", "batch")
K_MAX = 10_000
DRAW_WORK = 4  # work of drawing a point, beside the work for each column
BEFORE = 1_000  # most updates before the averaged updates of an example


@handed
class TrackingParameters(NamedTuple):
    """updates: K, 0 in the batch counterpart; process: update the new example first; expansion_only: hold only support
    vectors.

    tol: of finishing. points_max: number of points above which the least useful makes way. draws: points drawn for an
    update. delta_max: violation down to which updates precede the averaged updates; infinite for no such updates.
    """

    tol: float
    updates: int
    process: bool
    expansion_only: bool
    points_max: int
    draws: int
    delta_max: float


@in_place
def optimum(g, alpha, lower, upper, curvature):
    """Where W is largest along one coordinate within the box (eq. 3, divided by K_ii); a bound without curvature."""
    if g == 0.0:
        return alpha
    return min(max(alpha + g / curvature, lower), upper)


@in_place
def subtract_row(g, step, row):
    """g -= step K_s, for the kernel row K_s (n,) of a point whose coefficient moved by `step`."""
    for s in range(g.shape[0]):
        g[s] -= step * np.float64(row[s])


@in_place
def move_to(kernel, points, cache, machine, c, s, target):
    """Set alpha of slot s in column c to `target`, and update all gradients."""
    n = points.used[USED]
    before = machine.alpha[c, s]
    machine.alpha[c, s] = target
    machine.up[c, s], machine.down[c, s] = target < machine.upper[c, s], target > machine.lower[c, s]
    note_change(machine, c, s, before)
    row = cache.lines[cached_line(kernel, points, cache, s, NONE), :n]
    subtract_row(machine.g[c, :n], target - before, row)
    machine.counts[STEPS] += 1


@in_place
def update(kernel, points, cache, machine, smooth, expansion_only, s, part):
    """Update slot s in every column (lines 4 and 7); `part` of each step goes into the average.

    With expansion_only a coefficient of 0 stays (section 5.2, shortcut ii). Returns whether anything moved.
    """
    moved = False
    for c in range(machine.alpha.shape[0]):
        alpha, lower, upper = machine.alpha[c, s], machine.lower[c, s], machine.upper[c, s]
        if expansion_only and alpha == 0.0:
            continue
        target = optimum(machine.g[c, s], alpha, lower, upper, np.float64(points.selves[s]))
        if target != alpha:
            move_to(kernel, points, cache, machine, c, s, target)
            smooth[c, s] = min(max(smooth[c, s] + part * (target - alpha), lower), upper)
            moved = True
    return moved


@in_place
def draw(points, machine, random):
    """A uniformly drawn point. There must be a point."""
    n = points.used[USED]
    s = random_below(random, n)
    while machine.class_of[s] == NONE:
        s = random_below(random, n)
    return s


@in_place
def gain(points, machine, expansion_only, s):
    """How much an update of slot s adds to W, summed over the columns."""
    total = 0.0
    for c in range(machine.alpha.shape[0]):
        alpha, g, curvature = machine.alpha[c, s], machine.g[c, s], np.float64(points.selves[s])
        if not (expansion_only and alpha == 0.0):
            step = optimum(g, alpha, machine.lower[c, s], machine.upper[c, s], curvature) - alpha
            total += step * (g - 0.5 * curvature * step)
    return total


@in_place
def draw_best(points, machine, random, parameters):
    """Draw parameters.draws points and return the point whose update gains most. There must be a point."""
    best = draw(points, machine, random)
    if parameters.draws > 1:
        most = gain(points, machine, parameters.expansion_only, best)
        for _ in range(parameters.draws - 1):
            s = draw(points, machine, random)
            promised = gain(points, machine, parameters.expansion_only, s)
            if promised > most:
                best, most = s, promised
    return best


@in_place
def violates(machine, parameters, s):
    """Whether slot s violates by more than delta_max in a column where it may be updated."""
    for c in range(machine.alpha.shape[0]):
        g = machine.g[c, s]
        if not (parameters.expansion_only and machine.alpha[c, s] == 0.0) and (
            (machine.up[c, s] != 0 and g > parameters.delta_max)
            or (machine.down[c, s] != 0 and -g > parameters.delta_max)
        ):
            return True
    return False


@in_place
def drop_idle(cache, machine):
    """Drop the points without a coefficient."""
    while machine.counts[IDLE] > 0:
        s = machine.idle[machine.counts[IDLE] - 1]
        leave(machine, s)
        drop_row(cache, s)


@in_place
def least_useful(points, machine, n):
    """The point with the least sum over columns of |alpha| / (1 + loss)^2, alpha being the value after its next update.

    By |alpha| alone the outliers at C would outlast all other points, and soon nothing else would be held. Where the
    sum is 0, the point furthest from having a loss goes first.
    """
    least, worst = np.inf, NONE
    for s in range(n):
        if machine.class_of[s] == NONE:
            continue
        usefulness, loss = 0.0, -np.inf
        for c in range(machine.alpha.shape[0]):
            g, curvature = machine.g[c, s], np.float64(points.selves[s])
            target = optimum(g, machine.alpha[c, s], machine.lower[c, s], machine.upper[c, s], curvature)
            own = machine.sign[c, s] * g
            usefulness += abs(target) / (1.0 + max(own, 0.0)) ** 2
            loss = max(loss, own)
        if usefulness == 0.0:
            usefulness = loss
        if usefulness < least:
            least, worst = usefulness, s
    return worst


@in_place
def remove(kernel, points, cache, machine, smooth, s):
    """Take slot s out of the problem: set its coefficients to 0 in every column."""
    for c in range(machine.alpha.shape[0]):
        smooth[c, s] = 0.0
        if machine.alpha[c, s] != 0.0:
            move_to(kernel, points, cache, machine, c, s, 0.0)
    leave(machine, s)
    drop_row(cache, s)


@in_place
def averaged_slots(machine, smooth, n, touched):
    """List in `touched` the slots whose averaged coefficient differs from the coefficient; return how many."""
    count = 0
    for s in range(n):
        differs = False
        for c in range(smooth.shape[0]):
            differs = differs or smooth[c, s] != machine.alpha[c, s]
        if differs:
            touched[count] = s
            count += 1
    return count


def touched_max(cap: int, parameters: TrackingParameters) -> int:
    """The most slots that `learn_rows` may list as touched, given the room for `cap` slots."""
    return cap + BEFORE + parameters.updates + 1


@in_place
def learn_rows(
    kernel,
    points,
    cache,
    machine,
    smooth,
    parameters,
    bounds,
    seen,
    random,
    batch,
    begin,
    drawn,
    value_work,
    work_max,
    f,
    stance,
    touched,
    scores,
):
    """Time steps over rows begin.. of a batch; returns (rows done, why it stopped), as in lasvm.py.

    smooth (columns, cap). classes (m,) int64, keys (m,) int64; `again` means that rows may be held already (a further
    epoch). bounds (classes,): C w_class. seen (classes,): examples of each class so far. scores (m, columns) receives
    the averaged decision values just before each row is learned. drawn (1,): updates already made of row `begin`, NONE
    if it is not begun; averaged updates count from BEFORE on. On return it holds the same of the row where it stopped.
    f (columns,) and touched (`touched_max`,) are scratch; stance (columns,) int8 is HINGE throughout. value_work,
    work_max: as in lasvm.py.
    """
    indptr, indices, values, norms, selves, classes, keys, again = batch
    columns, updates, expansion_only = machine.alpha.shape[0], parameters.updates, parameters.expansion_only
    draws_work = parameters.draws * (columns + DRAW_WORK) if parameters.draws > 1 else 0
    averaged = averaged_slots(machine, smooth, points.used[USED], touched)
    values_before, steps, swept = cache.counters[VALUES], machine.counts[STEPS], 0
    for r in range(begin, classes.shape[0]):
        if drawn[0] == NONE:
            if swept + work_of(points, cache, machine, values_before, steps, value_work) > work_max:
                return r, NEEDS_REST
            swept += (2 * columns + 1) * points.used[USED]
            first, last = indptr[r], indptr[r + 1]
            if not has_room(points, last - first):
                return r, NEEDS_ROOM
            n = points.used[USED]
            k = find_key(machine, n, keys[r]) if again else NONE
            held = k != NONE
            if not held:
                k = append_point(points, indices[first:last], values[first:last], norms[r], selves[r])
            for c in range(columns):
                f[c] = 0.0
                scores[r, c] = 0.0
            if averaged > 0 or machine.counts[IDLE] < machine.counts[LIVE]:  # else w = 0
                row = cache.lines[cached_line(kernel, points, cache, k, NONE), :n]
                for c in range(columns):
                    f[c] = dot(machine.alpha[c, :n], row)
                    scores[r, c] = dot(smooth[c, :n], row)
            # A new time step begins: reset the average of the last.
            for p in range(averaged):
                for c in range(columns):
                    smooth[c, touched[p]] = machine.alpha[c, touched[p]]
            averaged = 0
            if expansion_only:
                drop_idle(cache, machine)
            if not again:
                seen[classes[r]] += 1
                machine.counts[LEARNED] += 1
            if not held:
                if selves[r] == 0:
                    pop_point(points)
                    forget_slot(cache, k)
                    continue
                enter(machine, k, classes[r], keys[r], bounds[classes[r]], f, stance)
                for c in range(columns):
                    smooth[c, k] = 0.0
                    machine.best_i[c] = NONE
                    machine.best_j[c] = NONE
                while machine.counts[LIVE] > parameters.points_max:
                    remove(kernel, points, cache, machine, smooth, least_useful(points, machine, k))
            if parameters.process and update(kernel, points, cache, machine, smooth, False, k, 1.0):
                touched[averaged] = k
                averaged += 1
            if expansion_only and not held and machine.held[k] == 0:
                leave(machine, k)
                pop_point(points)
                forget_slot(cache, k)
            drawn[0] = 0
        if parameters.delta_max == np.inf:
            drawn[0] = max(drawn[0], BEFORE)
        while drawn[0] < BEFORE and machine.counts[LIVE] > 0:
            s = draw_best(points, machine, random, parameters)
            swept += draws_work
            if not violates(machine, parameters, s):
                break
            drawn[0] += 1
            if update(kernel, points, cache, machine, smooth, expansion_only, s, 1.0):
                touched[averaged] = s
                averaged += 1
            if swept + work_of(points, cache, machine, values_before, steps, value_work) > work_max:
                return r, NEEDS_REST
        drawn[0] = max(drawn[0], BEFORE)
        while drawn[0] < BEFORE + (updates if machine.counts[LIVE] > 0 else 0):
            s, u = draw_best(points, machine, random, parameters), drawn[0] - BEFORE
            swept += draws_work
            drawn[0] += 1
            # Of the K iterates of this time step, the K - u iterates from u on hold the step of update u.
            if update(kernel, points, cache, machine, smooth, expansion_only, s, (updates - u) / updates):
                touched[averaged] = s
                averaged += 1
            if swept + work_of(points, cache, machine, values_before, steps, value_work) > work_max:
                return r, NEEDS_REST
        drawn[0] = NONE
        holes = points.used[USED] - machine.counts[LIVE]
        if holes > HOLES_MIN and holes * HOLES_PART > machine.counts[LIVE]:
            return r + 1, NEEDS_COMPACTION
    return classes.shape[0], DONE


@in_place
def random_updates(kernel, points, cache, machine, smooth, random, updates, value_work, work_max):
    """Make `updates` updates of points drawn at random, not averaged: the batch counterpart (section 6).

    Returns how many were made before work_max was reached.
    """
    values_before, steps = cache.counters[VALUES], machine.counts[STEPS]
    for u in range(updates):
        if work_of(points, cache, machine, values_before, steps, value_work) > work_max:
            return u
        update(kernel, points, cache, machine, smooth, False, draw(points, machine, random), 1.0)
    return updates


@in_place
def subtract_steps(kernel, points, cache, slots, steps, g):
    """Update g (n,) of a column after the coefficients of these slots moved by `steps`."""
    for p in range(slots.shape[0]):
        row = cache.lines[cached_line(kernel, points, cache, slots[p], NONE), : g.shape[0]]
        subtract_row(g, steps[p], row)
