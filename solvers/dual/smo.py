"""The finishing steps: SMO with second-order selection and shrinking, and coordinate ascent without a bias.

Bordes et al. 2005, sections 3.1 (the algorithm) and 3.2 (shrinking); selection by Fan, Chen and Lin, JMLR 6, 2005.
Notation and sign conventions: direction.py.

Shrinking sets aside points at a bound that cannot be in a violating pair as long as the extremes do not change. The
active points are copied into contiguous memory for every loop. When the active set has converged, the gradients of the
points set aside are updated for all coefficients that have changed since.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import Kernel, point_row
from hinged.solvers.core.points import Points, subset
from hinged.solvers.core.reports import Finish
from hinged.solvers.core.rowcache import (
    VALUES,
    RowCache,
    cached_line,
    clear,
    note_reached,
    recut,
)
from hinged.solvers.dual.coordinate import box_search, violation
from hinged.solvers.dual.direction import direction_search, extremes, second_order_partner, second_order_partner_below
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

SHRINK_EVERY = 1000  # steps between two searches for points to set aside
SHRINK_BELOW = 0.9  # the active points are copied only if their number has fallen below this fraction
STEPS_MAX, STEPS_PER_POINT_MAX = 10_000_000, 100  # limits of the steps of a column; the larger counts, as in LIBSVM
STEP_WORK = 8  # work of a step per point, besides kernel values


@handed
class Box(NamedTuple):
    """The problem of one column over n points; arrays as in direction.py, all (n,)."""

    alpha: Array
    g: Array
    lower: Array
    upper: Array
    up: Array
    down: Array


@in_place
def _turn_over(cache, begun, steps, n, value_work, work_max):
    """Return whether these steps on n points, plus the kernel values since `begun`, are enough work for a call."""
    return steps * (n + 50) * STEP_WORK + value_work * (cache.counters[VALUES] - begun) > work_max


@in_place
def smo_steps(kernel, points, cache, box, tol, steps_max, value_work, work_max, even):
    """Do second-order SMO steps until g_i - g_j <= tol, for at most steps_max steps and about work_max of work.

    A step keeps i and looks for its best partner. With `even`, a step keeps the extreme in the lower slot, so that
    exchanging the two classes negates every result exactly.

    Return the number of steps, the extremes (i, j), and whether the work limit stopped the steps.
    """
    alpha, g, lower, upper, up, down = box
    n = g.shape[0]
    i, j = extremes(g, up, down)
    steps, begun = 0, cache.counters[VALUES]
    while steps < steps_max and i != NONE and j != NONE and g[i] - g[j] > tol:
        if _turn_over(cache, begun, steps, n, value_work, work_max):
            return steps, i, j, True
        if even and j < i:
            row_j = cache.lines[cached_line(kernel, points, cache, j, NONE), :n]
            i = second_order_partner_below(j, g, row_j, points.selves, up)
            if i == NONE:
                i = extremes(g, up, down)[0]
            row_i = cache.lines[cached_line(kernel, points, cache, i, j), :n]
        else:
            row_i = cache.lines[cached_line(kernel, points, cache, i, NONE), :n]
            j = second_order_partner(i, g, row_i, points.selves, down)
            if j == NONE:  # the violation is below the resolution of float32
                j = extremes(g, up, down)[1]
            row_j = cache.lines[cached_line(kernel, points, cache, j, i), :n]
        i, j = direction_search(i, j, alpha, g, lower, upper, up, down, row_i, row_j)
        steps += 1
    return steps, i, j, False


@in_place
def coordinate_steps(kernel, points, cache, box, tol, steps_max, value_work, work_max):
    """Do steps without a bias until no point violates by more than tol. For the rest see `smo_steps`."""
    alpha, g, lower, upper, up, down = box
    n = g.shape[0]
    i, j = extremes(g, up, down)
    steps, begun = 0, cache.counters[VALUES]
    while steps < steps_max and violation(g, i, j) > tol:
        if _turn_over(cache, begun, steps, n, value_work, work_max):
            return steps, i, j, True
        i, j = (j, j) if i == NONE else (i, i) if j == NONE else (i, j)
        row_i = cache.lines[cached_line(kernel, points, cache, i, NONE), :n]
        row_j = cache.lines[cached_line(kernel, points, cache, j, i), :n]
        i, j = box_search(i, j, alpha, g, lower, upper, up, down, row_i, row_j)
        steps += 1
    return steps, i, j, False


def advance(
    kernel: Kernel,
    points: Points,
    cache: RowCache,
    box: Box,
    tol: float,
    steps_max: int,
    *,
    biased: bool = True,
    even: bool = False,
    value_work: int,
) -> tuple[int, int, int]:
    """Take steps, with rests in between, until no violation exceeds tol or steps_max is reached. Return (steps, i, j).

    i, j: the extremes. even: as in `smo_steps`. value_work: work of a kernel value (turns.py).
    """
    steps, more = 0, True
    while more:
        given = kernel, points, cache, box, tol, steps_max - steps, value_work, turns.WORK_MAX
        # Steps without a bias are always even.
        done, i, j, more = smo_steps(*given, even) if biased else coordinate_steps(*given)
        steps += done
        turns.rest()
    return steps, i, j


@compiled
def _subtract_rows(kernel, sources, changes, points, targets, g, spread):
    """Do g (m,) of targets -= sum over sources of their change of alpha times their kernel row."""
    row = np.empty(g.shape[0], targets.values.dtype)
    for p in range(sources.shape[0]):
        point_row(kernel, points, sources[p], targets, 0, g.shape[0], spread, row)
        for t in range(g.shape[0]):
            g[t] -= changes[p] * np.float64(row[t])


def solve(
    kernel: Kernel,
    points: Points,
    cache: RowCache,
    box: Box,
    dim: int,
    tol: float,
    *,
    biased: bool = True,
    even: bool = False,
    shrink: bool = True,
    value_work: int,
) -> Finish:
    """Maximise W over the box, in place, until no violation exceeds tol or the limit of steps is reached.

    With a bias, sum(alpha) does not change; without a bias, the box is the only constraint. even, value_work: see
    `advance`.
    `points` must be exactly the n points of `box`. A shrunken problem uses the memory of `cache` for its own lines.
    Without `shrink`, the cached rows stay for the next column with the same points.
    """
    n = box.alpha.size
    steps_max = max(STEPS_MAX, STEPS_PER_POINT_MAX * n)
    steps = 0
    active = np.arange(n)
    part, part_points, part_cache = box, points, cache
    reference = (box.alpha.copy(), box.g.copy())  # the last state with true gradients of the points set aside
    made_good_once, gap = False, np.inf
    while steps < steps_max:
        most = min(SHRINK_EVERY, steps_max - steps)
        done, i, j = advance(
            kernel, part_points, part_cache, part, tol, most, biased=biased, even=even, value_work=value_work
        )  # fmt: skip
        steps += done
        gap = _violation(part, i, j, biased)
        shrunken = active.size < n
        # Near the end, check all points once more before working out the last digits (as LIBSVM does).
        if shrunken and (gap <= tol or (gap <= 10.0 * tol and not made_good_once)):
            made_good_once = True
            _write_back(box, part, active)
            _make_good(kernel, points, box, active, reference, dim, value_work)
            reference = (box.alpha.copy(), box.g.copy())
            active = np.arange(n)
            note_reached(part_cache)
            part, part_points, part_cache = box, points, cache
            clear(cache)
            i, j = extremes(box.g, box.up, box.down)
            gap = _violation(box, i, j, biased)
        if gap <= tol:
            break
        if not shrink:
            continue
        keep = _may_violate(part, part.g[i], part.g[j]) if biased else _may_violate(part, gap, -gap)
        if keep.sum() < SHRINK_BELOW * active.size:
            if active.size < n:
                _write_back(box, part, active)
            else:
                reference = (box.alpha.copy(), box.g.copy())
            active = active[keep]
            part = Box(*(a[active] for a in box))
            part_points = subset(points, active)
            note_reached(part_cache)
            part_cache = recut(cache, part_points)
    if active.size < n:
        _write_back(box, part, active)
        _make_good(kernel, points, box, active, reference, dim, value_work)
        note_reached(part_cache)
        clear(cache)
    return Finish(steps, bool(gap <= tol))


def _violation(part: Box, i: int, j: int, biased: bool) -> float:
    if not biased:
        return float(violation(part.g, i, j))
    return float(part.g[i] - part.g[j]) if i != NONE and j != NONE else 0.0


def _may_violate(part: Box, g_i: float, g_j: float) -> Array:
    """Return the points that can still be in a violating pair while the extremes are g_i and g_j.

    Without a bias, return the points that can still violate while gradients change by less than the current violation.
    """
    rises_only = (part.up != 0) & (part.down == 0)
    falls_only = (part.down != 0) & (part.up == 0)
    movable: Array = ~((rises_only & (part.g < g_j)) | (falls_only & (part.g > g_i)))
    return movable


def _write_back(box: Box, part: Box, active: Array) -> None:
    box.alpha[active], box.g[active] = part.alpha, part.g
    box.up[active], box.down[active] = part.up, part.down


def _make_good(
    kernel: Kernel,
    points: Points,
    box: Box,
    active: Array,
    reference: tuple[Array, Array],
    dim: int,
    value_work: int,
) -> None:
    """Update the gradients of the points set aside."""
    aside = np.ones(box.alpha.size, bool)
    aside[active] = False
    targets = np.flatnonzero(aside)
    changes = box.alpha - reference[0]
    sources = np.flatnonzero(changes)
    g = reference[1][targets]
    spread = np.zeros(dim, points.values.dtype)
    others, at_once = subset(points, targets), turns.portion(targets.size * value_work)
    for p in range(0, sources.size, at_once):
        some = sources[p : p + at_once]
        _subtract_rows(kernel, some, changes[some], points, others, g, spread)
        turns.rest()
    box.g[targets] = g
