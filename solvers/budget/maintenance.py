"""Budget maintenance: remove one point at the least cost (Qaadan, Schueler and Glasmachers, ICPRAM 2019, algorithm 1).

The point with the smallest coefficients is removed. With "merge", it is merged with a partner of its class and sign
(merging.py). If there is no partner, it is projected onto the nearest point of its class. Its part of the average is
then projected onto the nearest points (remainder.py). With "project", it is projected onto all remaining points
(factor.py). With "remove", it is removed without a replacement. The weight degradation is the squared change of the
vector w of each column, summed over columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.budget.factor import project
from hinged.solvers.budget.merging import (
    KAPPA_LEAST,
    find_partner,
    join,
    place,
    products,
    table_of,
)
from hinged.solvers.budget.remainder import (
    FEW,
    hand_on,
    is_averaged,
    nearest_points,
)
from hinged.solvers.core.coefficients import (
    VALUES,
    enter,
    first_least,
    leave,
)
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.elementary import exp, log
from hinged.solvers.core.kernels import point_row
from hinged.solvers.core.points import POOL_USED, USED, append_point
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

MAINTENANCE = ("merge", "project", "remove")
MERGE, PROJECT, REMOVE = range(3)
VISITED, MAINTAINED = range(2)  # places in Upkeep.counts


@handed
class Upkeep(NamedTuple):
    """The data of budget maintenance, without the points.

    maintenance  MERGE, PROJECT or REMOVE.
    nearest      number of points that compensate for the average's loss in a merge (remainder.py).
    table        (GRID + 1, GRID + 1, 2) float64, or (0, 0, 2)  the table for merges (merging.py).
    factor       (B + 1, B + 1) float64, or (0, 0)         factor of the kernel matrix (factor.py).
    degradation  (1,) float64                              weight degradation, summed over all maintenance.
    counts       (2,) int64                                examples visited (t of the papers), points removed.
    """

    maintenance: int
    nearest: int
    table: Array
    factor: Array
    degradation: Array
    counts: Array


def empty_upkeep(budget: int, maintenance: str, merging: str, nearest: int) -> Upkeep:
    """Return the data for an expansion of `budget` points, which has no points yet."""
    side = budget + 1 if maintenance == "project" else 0
    return Upkeep(
        MAINTENANCE.index(maintenance),
        nearest,
        table_of(merging) if maintenance == "merge" else np.zeros((0, 0, 2)),
        np.zeros((side, side)),
        np.zeros(1),
        np.zeros(2, np.int64),
    )


@compiled
def smallest(points, machine, n, passed):
    """Return (slot, size) with the least |alpha|^2 k(x, x), of slots 0..n except `passed`; or (NONE, inf).

    |alpha|^2 is summed over the columns. Of equal sizes, the oldest point is selected: in BSGD all points that were
    never merged are equal up to rounding.
    """
    sizes = np.empty(n)
    for s in range(n):
        sizes[s] = machine.alpha[0, s] * machine.alpha[0, s]
    for c in range(1, machine.alpha.shape[0]):
        for s in range(n):
            sizes[s] += machine.alpha[c, s] * machine.alpha[c, s]
    for s in range(n):
        sizes[s] = np.inf if machine.class_of[s] == NONE else sizes[s] * points.selves[s]
    for s in passed:
        sizes[s] = np.inf
    i = first_least(sizes, n, 0.0)
    return i, sizes[i] if i != NONE else np.inf


@in_place
def merged_key(i, j):
    """Return the key of a merged point, from the keys of its parts: -2 - (the number of its newest example)."""
    return min(i if i < NONE else -2 - i, j if j < NONE else -2 - j)


@in_place
def merge(kernel, points, machine, upkeep, i, j, near, row, spread):
    """Replace points i and j by the single point that fits best; return the weight degradation. There must be room.

    row (n,): k(x_i, .). near (m,): the nearest points.
    """
    kappa = float(row[j])
    aa, bb, ab = products(machine.alpha, i, j)
    h, degradation = place(upkeep.table, aa, bb, ab, kappa)
    log_kappa = log(max(kappa, KAPPA_LEAST))
    p, q = exp(log_kappa * (1.0 - h) * (1.0 - h)), exp(log_kappa * h * h)
    first = points.used[POOL_USED]
    # The new row is written directly to its place in the pool.
    size = join(points, i, j, h, points.indices[first:], points.values[first:])
    indices, values = points.indices[first : first + size], points.values[first : first + size]
    norm = values.dtype.type(0.0)
    for v in values:
        norm += v * v
    z = append_point(points, indices, values, norm, points.selves[j])
    enter(machine, z, machine.class_of[j], merged_key(machine.key[i], machine.key[j]))
    for c in range(machine.alpha.shape[0]):
        machine.alpha[c, z] = machine.alpha[c, i] * p + machine.alpha[c, j] * q
        machine.smooth[c, z] = machine.smooth[c, i] * p + machine.smooth[c, j] * q
    if is_averaged(machine.smooth, i, j):
        hand_on(kernel, points, machine, i, j, z, near, upkeep.nearest, row, spread)
    leave(machine, i)
    leave(machine, j)
    return degradation


@in_place
def nearest_of_class(class_of, row, n, i, near):
    """Return the other point of i's class with the largest value in row (n,), or NONE. near (m,): the nearest."""
    for s in near:
        if class_of[s] == class_of[i]:
            return s
    best, most = NONE, row.dtype.type(-1.0)
    for s in range(n):
        if row[s] > most and class_of[s] == class_of[i] and s != i:
            best, most = s, row[s]
    return best


@in_place
def absorb(machine, i, j, kappa):
    """Project the coefficients of point i, which is to be removed, onto point j; return the weight degradation."""
    for c in range(machine.alpha.shape[0]):
        machine.alpha[c, j] += kappa * machine.alpha[c, i]
    machine.key[j] = merged_key(machine.key[i], machine.key[j])
    return products(machine.alpha, i, i)[0] * (1.0 - kappa * kappa)


@in_place
def go(kernel, points, machine, upkeep, i, near, row, spread):
    """Remove point i. Its part of the average is projected onto the nearest points."""
    if is_averaged(machine.smooth, i, NONE):
        hand_on(kernel, points, machine, i, NONE, NONE, near, upkeep.nearest, row, spread)
    leave(machine, i)


@compiled
def merge_smallest(kernel, points, machine, upkeep, i, n, known, spread, row):
    """Merge the smallest point i or, if i is the only point of its class, the next larger point.

    Returns the weight degradation.
    """
    near, alone, passed = np.empty(min(upkeep.nearest, FEW) + 1, np.int64), np.empty(n, np.int64), 0
    while i != NONE:
        if i != known:
            point_row(kernel, points, i, points, 0, n, spread, row)
            machine.counts[VALUES] += n
        m = nearest_points(machine.class_of, row, n, i, near)
        j = find_partner(upkeep.table, machine.alpha, machine.class_of, i, row, n, near[:m])
        if j != NONE:
            return merge(kernel, points, machine, upkeep, i, j, near[:m], row, spread)
        j = nearest_of_class(machine.class_of, row, n, i, near[:m])
        if j != NONE:
            # The coefficient of a point without a partner of its sign comes from a step back. If the point were merged,
            # it would pull against all other points of its class.
            degradation = absorb(machine, i, j, float(row[j]))
            go(kernel, points, machine, upkeep, i, near[:m], row, spread)
            return degradation
        alone[passed] = i
        passed += 1
        i = smallest(points, machine, n, alone[:passed])[0]
    degradation = products(machine.alpha, alone[0], alone[0])[0]
    leave(machine, alone[0])
    return degradation


@compiled
def make_way(kernel, points, machine, upkeep, known, spread, row):
    """Do budget maintenance (algorithm 1): remove one point, at the cost of some weight degradation.

    row (cap,) is scratch. On entry it contains the kernel row of slot `known`, if `known` is not NONE.
    """
    n = points.used[USED]
    i, size = smallest(points, machine, n, np.empty(0, np.int64))
    upkeep.counts[MAINTAINED] += 1
    if upkeep.maintenance == MERGE and size > 0.0:
        upkeep.degradation[0] += merge_smallest(kernel, points, machine, upkeep, i, n, known, spread, row)
        return
    if upkeep.maintenance == MERGE and is_averaged(machine.smooth, i, NONE):
        # A point that no longer matters to learning may still matter to predictions.
        if i != known:
            point_row(kernel, points, i, points, 0, n, spread, row)
            machine.counts[VALUES] += n
        near = np.empty(min(upkeep.nearest, FEW), np.int64)
        m = nearest_points(machine.class_of, row, n, i, near)
        hand_on(kernel, points, machine, i, NONE, NONE, near[:m], upkeep.nearest, row, spread)
    upkeep.degradation[0] += project(upkeep.factor, machine, i, n) if upkeep.maintenance == PROJECT else size
    leave(machine, i)
