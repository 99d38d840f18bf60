"""The visits of BSCA and BSGD, as compiled code; budget.py describes the solvers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.budget.factor import factor_append
from hinged.solvers.budget.maintenance import (
    PROJECT,
    VISITED,
    make_way,
    merged_key,
)
from hinged.solvers.budget.memory import keep_row, place_of, take_place
from hinged.solvers.core.coefficients import VALUES, enter, sign_of
from hinged.solvers.core.counts import (
    DONE,
    HOLES_PART,
    LEARNED,
    LIVE,
    NEEDS_COMPACTION,
    NEEDS_PLACES,
    NEEDS_REST,
    NEEDS_ROOM,
    NEEDS_ROW_ROOM,
    NONE,
    STEPS,
)
from hinged.solvers.core.kernels import (
    kernel_row,
    point_row,
)
from hinged.solvers.core.points import (
    POOL_USED,
    USED,
    append_point,
    has_room,
)
from hinged.solvers.core.random import random_below
from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.jit.compiled import in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

HOLES_MIN = 16

VISIT_WORK = 8  # work of a visit per coefficient, besides kernel values
BUDGET_MAX = 100_000
PROJECTED_MAX = 5_000  # largest budget with projection, whose factor needs 200 MB
ETA = 3.0
FACTOR_TOL = 1e-2  # tolerance of the factor in `examine`, relative to k(x, x): above ridge and rounding errors
RESETTLE_STEPS = 5  # steps of BSCA per dropped point; more steps would overfit the points, which are the hard examples


@handed
class BudgetParameters(NamedTuple):
    """The constructor parameters that compiled code needs; 0 represents None.

    rate: 1 / lambda of BSGD, 0 for BSCA. window: number of examples in the average. step_*: bound of a step, in units
    of 1 / K_ii. recent: number of rows stored for extra_steps.
    """

    budget: int
    dim: int
    ridge: float
    rate: float
    window: float
    step_max: float
    step_decay: float
    step_least: float
    extra_steps: int
    recent: int


@in_place
def twin_of(points, machine, own, self_value, row, n):
    """Return the point of class `own` that equals the example with this kernel row (n,), or NONE."""
    near = False
    for s in range(n):
        near |= row[s] >= self_value  # rarely true; a branch would prevent vector instructions
    for s in range(n if near else 0):
        if row[s] >= self_value and machine.class_of[s] == own and points.selves[s] == self_value:
            return s
    return NONE


@in_place
def ascent_step(y, f, old, bound, self_value, t, parameters):
    """Return the change of alpha_i of BSCA (algorithm 2), with the bound on its length."""
    step = 1.0 - y * f
    if parameters.step_max > 0.0:
        longest = max(parameters.step_max / np.sqrt(1.0 + t / parameters.step_decay), parameters.step_least)
        step = min(max(step, -longest), longest)
    return y * min(max(y * old + step / self_value, 0.0), bound) - old


@in_place
def visit(kernel, points, machine, memory, upkeep, parameters, bound, own, key, indices, values, norm, self_value,
    spread, row, f):  # fmt: skip
    """Make a step on one example in every column, with budget maintenance.

    row (n,): the example's kernel row. f (K,) = alpha.row.

    f receives the change of the example's coefficients. An example with k(x, x) = 0 cannot change anything.
    """
    columns, n, t = machine.alpha.shape[0], points.used[USED], upkeep.counts[VISITED]
    ascending = parameters.rate == 0.0
    at = place_of(memory, key) if ascending else NONE
    moves = False
    for c in range(columns):
        y = sign_of(own, c, columns)
        if ascending:
            old = memory.alpha[c, at] if at != NONE else 0.0
            f[c] = ascent_step(y, f[c], old, bound, float(self_value), t, parameters) if self_value > 0 else 0.0
        else:
            alpha, shrink = machine.alpha[c, :n], 1.0 - 1.0 / t
            for s in range(n):
                alpha[s] *= shrink
            f[c] = y * bound * parameters.rate / t if y * f[c] < 1.0 and self_value > 0 else 0.0
        moves = moves or f[c] != 0.0
    if not moves:
        return
    machine.counts[STEPS] += 1
    if ascending:
        at = take_place(memory, key) if at == NONE else at
        for c in range(columns):
            memory.alpha[c, at] += f[c]
    s, known = twin_of(points, machine, own, self_value, row, n), NONE
    if s == NONE:
        if upkeep.maintenance == PROJECT:
            factor_append(
                upkeep.factor, machine.counts[LIVE], row, machine.class_of, n, float(self_value), parameters.ridge
            )
        s = append_point(points, indices, values, norm, self_value)
        enter(machine, s, own, key)
        known, row[s] = s, self_value
    elif machine.key[s] != key:
        machine.key[s] = merged_key(machine.key[s], key)
    for c in range(columns):
        machine.alpha[c, s] += f[c]
    while machine.counts[LIVE] > parameters.budget:
        make_way(kernel, points, machine, upkeep, known, spread, row)
        known = NONE


@in_place
def average(machine, n, t, window):
    """Do smooth <- smooth + rho (alpha - smooth)."""
    rho = max((ETA + 1.0) / (t + ETA), 1.0 / window)
    for c in range(machine.alpha.shape[0]):
        alpha, smooth = machine.alpha[c, :n], machine.smooth[c, :n]
        for s in range(n):
            smooth[s] += rho * (alpha[s] - smooth[s])


@in_place
def make_good(kernel, points, machine, memory, upkeep, parameters, bounds, random, spread, row, steps):
    """Make `steps` further steps of BSCA on uniformly drawn points. There must be a point."""
    columns, n, t = machine.alpha.shape[0], points.used[USED], upkeep.counts[VISITED]
    for _ in range(steps):
        s = random_below(random, n)
        while machine.class_of[s] == NONE:
            s = random_below(random, n)
        own, key = machine.class_of[s], machine.key[s]
        at = place_of(memory, key if key >= 0 else -2 - key)
        if at == NONE:
            continue
        point_row(kernel, points, s, points, 0, n, spread, row)
        machine.counts[VALUES] += n
        for c in range(columns):
            y, f = sign_of(own, c, columns), dot(machine.alpha[c, :n], row[:n])
            change = ascent_step(y, f, memory.alpha[c, at], bounds[own], float(points.selves[s]), t, parameters)
            memory.alpha[c, at] += change
            machine.alpha[c, s] += change


@in_place
def too_many_holes(points, machine, parameters):
    """Return whether there are so many holes that the points should be compacted."""
    return points.used[USED] - machine.counts[LIVE] > HOLES_MIN + parameters.budget // HOLES_PART


@in_place
def longest_row(points, memory):
    """Return the largest number of non-zeros of a stored row."""
    longest = 0
    for s in range(points.used[USED]):
        longest = max(longest, points.length[s])
    for s in range(memory.rows.used[USED]):
        longest = max(longest, memory.rows.length[s])
    return longest


@in_place
def learn_rows(kernel, points, machine, memory, upkeep, parameters, bounds, places_max, seen, random, spread,
    batch, begin, visits, value_work, work_max, f, row,
    scores):  # fmt: skip
    """Visit the rows of a batch from `begin` on, with extra steps; return (rows done, visits done, why it stopped).

    Each row is followed by extra_steps recent rows. classes (m,) int64, keys (m,) int64. bounds (classes,): C w_class,
    or w_class for BSGD. visits: number of visits of row `begin` already done. scores (m, K) receives the decision
    values just before each row is learned. The function stops before a visit for which there is no room, when there are
    too many holes, and when work_max is reached. value_work: work of a kernel value. f (K,) float64 and row (cap,) are
    scratch.
    """
    indptr, indices, values, norms, selves, classes, keys, again = batch
    columns = machine.alpha.shape[0]
    stored = memory.rows
    longest = longest_row(points, memory)
    begun, work = machine.counts[VALUES], 0
    for r in range(begin, classes.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        longest = max(longest, last - first)
        for v in range(visits if r == begin else 0, 1 + parameters.extra_steps):
            n = points.used[USED]
            if work + value_work * (machine.counts[VALUES] - begun) > work_max:
                return r, v, NEEDS_REST
            # There must be room for a new row and for a row merged from two.
            needed = longest + min(2 * longest, parameters.dim)
            if n + 2 > points.start.shape[0] or points.used[POOL_USED] + needed > points.indices.shape[0]:
                return r, v, NEEDS_ROOM
            if v > 0 and too_many_holes(points, machine, parameters):
                return r, v, NEEDS_COMPACTION
            if v == 0:
                if not again and machine.counts[LEARNED] >= memory.key.shape[0] < places_max:
                    return r, v, NEEDS_PLACES
                if parameters.extra_steps > 0 and not has_room(stored, last - first):
                    return r, v, NEEDS_ROW_ROOM
                own, key, norm, self_value = classes[r], keys[r], norms[r], selves[r]
                features, entries = indices[first:last], values[first:last]
                if not again:
                    seen[own] += 1
                    machine.counts[LEARNED] += 1
                upkeep.counts[VISITED] += 1
            else:
                s = stored.used[USED] - 1 - random_below(random, min(stored.used[USED], parameters.recent))
                own, key, norm, self_value = (
                    np.int64(memory.class_of[s]),
                    memory.number[s],
                    stored.norm[s],
                    stored.selves[s],
                )
                a, b = stored.start[s], stored.start[s] + stored.length[s]
                features, entries = stored.indices[a:b], stored.values[a:b]
            kernel_row(kernel, features, entries, norm, points, 0, n, spread, row)
            machine.counts[VALUES] += n
            work += VISIT_WORK * columns * n + (n * n if upkeep.maintenance == PROJECT else 0)
            for c in range(columns):
                f[c] = dot(machine.alpha[c, :n], row[:n])
                if v == 0:
                    scores[r, c] = dot(machine.smooth[c, :n], row[:n]) if parameters.window > 0.0 else f[c]
            visit(kernel, points, machine, memory, upkeep, parameters, bounds[own], own, key,
                features, entries, norm, self_value, spread, row, f)  # fmt: skip
            longest = max(longest, points.length[points.used[USED] - 1])
            if v == 0 and parameters.extra_steps > 0:
                keep_row(memory, own, key, features, entries, norm, self_value)
        if parameters.window > 0.0:
            average(machine, points.used[USED], upkeep.counts[VISITED], parameters.window)
        if too_many_holes(points, machine, parameters):
            return r + 1, 0, NEEDS_COMPACTION
    return classes.shape[0], 0, DONE
