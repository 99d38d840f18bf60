"""Learning by an `UpdateRule` with a kernel expansion, as compiled code; online.py describes it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.coefficients import VALUES, enter, first_least, leave, sign_of
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
from hinged.solvers.core.kernels import (
    kernel_row,
    point_row,
)
from hinged.solvers.core.points import USED, Points, append_point, has_room
from hinged.solvers.core.random import random_below
from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.dual.machine import find_key
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

SMALLEST, REDUNDANT, RANDOM, RESCALING, FORGETTING, PROJECTING = range(6)
ETA_MAX = 1e6
SWEPT = 3  # work per coefficient for each example
MISTAKES_EARN = 15.0 / 32.0  # the part of a mistake's progress that the Forgetron may spend on removals


@handed
class UpdateRule(NamedTuple):
    """The parameters and the removal rule in which these algorithms differ.

    margin: an example with y f(x) <= margin changes its column. eta: the change, to be multiplied by y and the class
    weight. aggressive: the change is the passive-aggressive step instead. keep: 1 - eta lambda, the factor that each
    example applies to every coefficient. averages: predictions use the average over all examples. removal: the rule
    that selects the point to remove.
    """

    margin: float = 0.0
    eta: float = 1.0
    keep: float = 1.0
    aggressive: bool = False
    averages: bool = False
    removal: int = SMALLEST


@in_place
def step_of(rule, y, f, weight, bound, self_value):
    """Return how much an example adds to its coefficient in a column in which its value is f."""
    if self_value <= 0.0 or not y * f <= rule.margin:
        return 0.0
    if rule.aggressive:
        return y * min(bound, (rule.margin - y * f) / self_value)
    return y * rule.eta * weight


@in_place
def add_to_margins(machine, n, c, factor, row):
    """Add factor k(x, .) to the values f of the points that BudgetPerceptron stores."""
    for i in range(n):
        if machine.class_of[i] != NONE:
            machine.smooth[c, i] += factor * row[i]


@in_place
def forget(machine, tally, s, n, row, self_value):
    """Shrink all columns before slot s is removed, only so far that Q stays within the bound set by the mistakes.

    phi is the largest in (0, 1] with Q + sum_c Psi_c <= 15/32 M.
    Here Psi = (sigma phi)^2 k + 2 sigma phi (1 - phi mu), sigma = |alpha_s| and mu = y_s f(x_s).

    row = k(x_s, .) and self_value are in units of the largest k(x, x), because the paper assumes k(x, x) <= 1. Q and M
    are summed over the columns, which shrink by the same factor.
    """
    a, b, balance = 0.0, 0.0, 0.0
    for c in range(machine.alpha.shape[0]):
        alpha = machine.alpha[c, s]
        a += alpha * alpha * self_value - 2.0 * alpha * dot(machine.alpha[c, :n], row[:n])
        b += 2.0 * abs(alpha)
        balance += tally[c, 1] - MISTAKES_EARN * tally[c, 0]
    balance = min(balance, 0.0)
    phi = 1.0
    if a + b + balance > 0.0:
        phi = -2.0 * balance / (b + np.sqrt(b * b - 4.0 * a * balance))
    for c in range(machine.alpha.shape[0]):
        for i in range(n):
            machine.alpha[c, i] *= phi
        alpha = machine.alpha[c, s]
        mu_sigma = alpha * dot(machine.alpha[c, :n], row[:n])
        tally[c, 1] += alpha * alpha * self_value + 2.0 * abs(alpha) - 2.0 * mu_sigma


@compiled
def weakest(points, machine, newest, removal, row):
    """Return the point with the smallest loss, summed over the columns, except the newest; of equal points the oldest.

    The loss depends on `removal`. SMALLEST: |alpha k(x, .)|^2. PROJECTING (BPA-S): the same after projection on the
    newest point, whose kernel row is `row`. FORGETTING: no loss; the oldest point is returned.
    """
    losses = np.full(newest, np.inf)
    for i in range(newest):
        if machine.class_of[i] == NONE:
            continue
        if removal == FORGETTING:
            return i
        loss = 0.0
        for c in range(machine.alpha.shape[0]):
            loss += machine.alpha[c, i] * machine.alpha[c, i]
        rest = np.float64(points.selves[i])
        if removal == PROJECTING:
            rest -= np.float64(row[i]) * np.float64(row[i]) / np.float64(points.selves[newest])
        losses[i] = loss * rest
    return first_least(losses, newest, 0.0)


@compiled
def most_redundant(points, machine, n):
    """Return the point with the largest margin without its own term: argmax y_i (f(x_i) - alpha_i k(x_i, x_i)).

    A point's margin is its smallest over the columns that use it. Of equal points the oldest is returned: f is a sum of
    terms that were added and removed, so copies of an example differ by rounding.
    """
    lacking, scale = np.full(n, np.inf), 0.0
    for i in range(n):
        if machine.class_of[i] == NONE:
            continue
        margin = np.inf
        for c in range(machine.alpha.shape[0]):
            alpha = machine.alpha[c, i]
            if alpha != 0.0:
                own = alpha * points.selves[i]
                rest = machine.smooth[c, i] - own
                margin = min(margin, rest if alpha > 0.0 else -rest)
                scale = max(scale, abs(own))
        lacking[i] = -margin
    return first_least(lacking, n, scale)


@in_place
def leave_margins(kernel, points, machine, slots, spread, row):
    """Subtract the terms of these slots from the margins that BudgetPerceptron stores."""
    n = points.used[USED]
    for s in slots:
        point_row(kernel, points, s, points, 0, n, spread, row)
        machine.counts[VALUES] += n
        for c in range(machine.alpha.shape[0]):
            add_to_margins(machine, n, c, -machine.alpha[c, s], row)


@in_place
def drawn(machine, random):
    """Return a uniformly drawn point other than the newest."""
    left = random_below(random, machine.counts[LIVE] - 1)
    s = 0
    while machine.class_of[s] == NONE or left > 0:
        left -= machine.class_of[s] != NONE
        s += 1
    return s


@in_place
def make_way(kernel, points, machine, tally, rule, bounds, random, spread, row):
    """Remove a point for the newest, whose kernel row with the other points is `row` (overwritten)."""
    n = points.used[USED]
    newest = n - 1
    if rule.removal == REDUNDANT:
        s = most_redundant(points, machine, n)
    elif rule.removal in (RANDOM, RESCALING):
        s = drawn(machine, random)
    else:
        s = weakest(points, machine, newest, rule.removal, row)
    if rule.removal == PROJECTING:
        onto = np.float64(row[s]) / np.float64(points.selves[newest])
        for c in range(machine.alpha.shape[0]):
            machine.alpha[c, newest] += machine.alpha[c, s] * onto
    elif rule.removal == RESCALING:
        # The remaining coefficients compensate, on average, for what a uniform draw removes.
        held = machine.counts[LIVE] - 1
        for c in range(machine.alpha.shape[0]):
            for i in range(newest):
                bound = bounds[machine.class_of[i]] if machine.class_of[i] != NONE else 0.0
                scaled = machine.alpha[c, i] * held / (held - 1.0)
                machine.alpha[c, i] = max(-bound, min(bound, scaled))
    elif rule.removal in (REDUNDANT, FORGETTING):
        point_row(kernel, points, s, points, 0, n, spread, row)
        machine.counts[VALUES] += n
        if rule.removal == FORGETTING:
            largest = 0.0
            for i in range(n):
                if machine.class_of[i] != NONE:
                    largest = max(largest, np.float64(points.selves[i]))
            for i in range(n):
                row[i] /= largest
            forget(machine, tally, s, n, row, row[s])
        else:
            for c in range(machine.alpha.shape[0]):
                add_to_margins(machine, n, c, -machine.alpha[c, s], row)
    leave(machine, s)


def scratch_of(points: Points, columns: int, rule: UpdateRule) -> tuple[Array, Array, Array, Array]:
    """Return the scratch arrays of `learn_rows`: row, mean, f, step."""
    row = np.empty(points.start.size, points.values.dtype)
    return row, np.empty(row.size if rule.averages else 0), np.zeros(columns), np.zeros(columns)


@in_place
def learn_rows(
    kernel,
    points,
    machine,
    tally,
    rule,
    weights,
    bounds,
    seen,
    random,
    full_at,
    batch,
    begin,
    spread,
    value_work,
    work_max,
    row,
    mean,
    f,
    step,
    scores,
):
    """Learn the rows of a batch from `begin` on; return (rows done, why it stopped). Arguments: as in dual/lasvm.py.

    weights (classes,); bounds (classes,): C times the weights. full_at: maximum number of points. scores (m, K)
    receives the predictions just before each row. An example that is already a point (`again`) changes its own
    coefficient. The function stops before a row with NEEDS_REST when work_max is reached. value_work: work of a kernel
    value. Scratch (`scratch_of`): row (cap,), f and step (K,), and mean (cap,) if the rule averages.
    """
    indptr, indices, values, norms, selves, classes, keys, again = batch
    columns = machine.alpha.shape[0]
    begun, swept = machine.counts[VALUES], 0
    for r in range(begin, classes.shape[0]):
        if swept + value_work * (machine.counts[VALUES] - begun) > work_max:
            return r, NEEDS_REST
        first, last = indptr[r], indptr[r + 1]
        if not has_room(points, last - first):
            return r, NEEDS_ROOM
        own, n = classes[r], points.used[USED]
        s = NONE
        if again:
            s = find_key(machine, n, keys[r])
        else:
            seen[own] += 1
            machine.counts[LEARNED] += 1
        kernel_row(kernel, indices[first:last], values[first:last], norms[r], points, 0, n, spread, row)
        machine.counts[VALUES] += n
        swept += SWEPT * columns * n
        taken = 0
        for c in range(columns):
            alpha = machine.alpha[c, :n]
            f[c] = dot(alpha, row[:n])
            scores[r, c] = f[c]
            if rule.averages and tally[c, 0] > 0.0:
                for i in range(n):
                    mean[i] = alpha[i] - machine.smooth[c, i] / tally[c, 0]
                scores[r, c] = dot(mean[:n], row[:n])
            step[c] = step_of(rule, sign_of(own, c, columns), f[c], weights[own], bounds[own], selves[r])
            taken += step[c] != 0.0
            if rule.keep != 1.0:
                for i in range(n):
                    alpha[i] *= rule.keep
        if taken > 0:
            enters = s == NONE
            if enters:
                s = append_point(points, indices[first:last], values[first:last], norms[r], selves[r])
                enter(machine, s, own, keys[r])
            machine.counts[STEPS] += taken
            for c in range(columns):
                machine.alpha[c, s] += step[c]
                if rule.averages:
                    machine.smooth[c, s] += step[c] * tally[c, 0]
                elif rule.removal == REDUNDANT:
                    add_to_margins(machine, n, c, step[c], row)
                    if enters:
                        machine.smooth[c, s] = f[c] + step[c] * selves[r]
                elif rule.removal == FORGETTING:
                    tally[c, 0] += step[c] != 0.0
                elif rule.removal == RESCALING:
                    machine.alpha[c, s] = max(-bounds[own], min(bounds[own], machine.alpha[c, s]))
            if machine.counts[LIVE] > full_at:
                make_way(kernel, points, machine, tally, rule, bounds, random, spread, row)
        if rule.averages:
            for c in range(columns):
                tally[c, 0] += 1.0
        holes = points.used[USED] - machine.counts[LIVE]
        if holes > HOLES_MIN and holes * HOLES_PART > machine.counts[LIVE]:
            return r + 1, NEEDS_COMPACTION
    return classes.shape[0], DONE
