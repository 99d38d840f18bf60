"""Budget maintenance by merging two points into one, for the RBF kernel.

Wang, Crammer and Vucetic, JMLR 13, 2012, section 5.3; Qaadan, Schueler and Glasmachers, ICPRAM 2019, algorithm 1; for
the table Glasmachers and Qaadan, "Speeding up Budgeted Stochastic Gradient Descent SVM Training with Precomputed Golden
Section Search", LOD 2018.

The points x_min and x, with coefficients a and b (K,) over the columns, become z = h x_min + (1 - h) x, 0 <= h <= 1.
The coefficients that fit best are a p + b q, where p = k(x_min, z) = kappa^((1 - h)^2), q = k(x, z) = kappa^(h^2) and
kappa = k(x_min, x). The weight degradation, summed over the columns, is

    |a phi(x_min) + b phi(x) - (a p + b q) phi(z)|^2 = |a|^2 + |b|^2 + 2 kappa a.b - |a p + b q|^2,

so h maximises |a p + b q|^2. (Algorithm 1 prints the two powers of kappa interchanged.) In one column this depends only
on kappa and m = b / (a + b). With |a| <= |b| the maximum lies in h <= 1/2 and is the only maximum there; for
kappa < exp(-2) there may be a lower maximum above. The table holds h, for merging, and the weight degradation in units
of |a|^2 (1 - kappa)^2, for choosing the partner: in these units it has one size everywhere.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.elementary import exp, expm1, log
from hinged.solvers.jit.compiled import in_place

Array = np.ndarray[Any, Any]

PLACE, DEGRADATION = range(2)  # entries of the table
GRID = 256  # steps of the table in either direction
KAPPA_LEAST = 1e-30  # points farther apart than this kernel value are merged as if they had it
BLOCK = 32  # points of a block that is skipped at once if none is near enough
LEAST_SHARE = 1e-4  # share of |a| in |a| + |b| that replaces 0 at m = 1, for the limit of the table's entries
NEAREST_KAPPA = 0.999  # replaces kappa = 1 in the same way
GOLDEN = 0.6180339887498949
GOLDEN_STEPS = 40  # 0.5 * GOLDEN^40 is 2e-9
BIFURCATION = 0.7991528017874561  # 2 (1 - 1 / e)^2: weight degradation of two coefficients of 1 at kappa = exp(-2)


@in_place
def fit(aa, bb, ab, log_kappa, h):
    """|a p + b q|^2 at h, from |a|^2, |b|^2 and a.b."""
    p = exp(log_kappa * (1.0 - h) * (1.0 - h))
    q = exp(log_kappa * h * h)
    return aa * p * p + 2.0 * ab * p * q + bb * q * q


@in_place
def golden_section(aa, bb, ab, log_kappa, low, high):
    """The h in low..high where `fit` is largest, if it has one maximum there."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = fit(aa, bb, ab, log_kappa, left), fit(aa, bb, ab, log_kappa, right)
    for _ in range(GOLDEN_STEPS):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = fit(aa, bb, ab, log_kappa, right)
        else:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = fit(aa, bb, ab, log_kappa, left)
    return 0.5 * (low + high)


@in_place
def best_place(aa, bb, ab, log_kappa):
    """The h in 0..1 where `fit` is largest: the better of the maxima in the two halves."""
    best, most = 0.0, -1.0
    for half in (0.0, 0.5):
        h = golden_section(aa, bb, ab, log_kappa, half, half + 0.5)
        found = fit(aa, bb, ab, log_kappa, h)
        if found > most:
            best, most = h, found
    return best


@in_place
def lost(a, b, log_kappa, h):
    """The weight degradation in one column, 0 < a <= b, without the cancellation of nearly equal squares."""
    p, q = 2.0 * log_kappa * (1.0 - h) * (1.0 - h), 2.0 * log_kappa * h * h
    both = -2.0 * log_kappa * h * (1.0 - h)
    return -a * a * expm1(p) - b * b * expm1(q) - 2.0 * a * b * exp(log_kappa) * expm1(both)


@in_place
def fill_table(table):
    """table[i, j] = (h, degradation / |a|^2 (1 - kappa)^2) for m = 1/2 + i / 2 GRID and kappa = j / GRID."""
    steps = table.shape[0] - 1
    for i in range(steps + 1):
        m = 0.5 + 0.5 * i / steps
        a = max(1.0 - m, LEAST_SHARE)
        for j in range(steps + 1):
            kappa = min(j / steps, NEAREST_KAPPA)
            log_kappa = log(max(kappa, KAPPA_LEAST))
            h = golden_section(a * a, (1.0 - a) * (1.0 - a), a * (1.0 - a), log_kappa, 0.0, 0.5)
            table[i, j, DEGRADATION] = lost(a, 1.0 - a, log_kappa, h) / (a * (1.0 - kappa)) ** 2
            # Where both points are at one place any h will do; this is the limit.
            if j == steps:
                h = 1.0 - m
            elif i == steps:
                h = 0.0
            table[i, j, PLACE] = h


@cache
def table_of(merging: str) -> Array:
    """The table for merging "table"; an empty table for "golden"."""
    if merging == "golden":
        return np.zeros((0, 0, 2))
    table = np.empty((GRID + 1, GRID + 1, 2))
    fill_table(table)
    return table


@in_place
def interpolated(table, what, m, kappa):
    """PLACE or DEGRADATION by bilinear interpolation, for 1/2 <= m <= 1 and 0 <= kappa <= 1."""
    steps = table.shape[0] - 1
    u, v = (2.0 * m - 1.0) * steps, kappa * steps
    i, j = min(int(u), steps - 1), min(int(v), steps - 1)
    u, v = u - i, v - j
    lower = table[i, j, what] + v * (table[i, j + 1, what] - table[i, j, what])
    upper = table[i + 1, j, what] + v * (table[i + 1, j + 1, what] - table[i + 1, j, what])
    return lower + u * (upper - lower)


@in_place
def products(alpha, i, j):
    """(|a|^2, |b|^2, a.b) of the coefficients of points i and j."""
    aa, bb, ab = 0.0, 0.0, 0.0
    for c in range(alpha.shape[0]):
        a, b = alpha[c, i], alpha[c, j]
        aa += a * a
        bb += b * b
        ab += a * b
    return aa, bb, ab


@in_place
def are_parallel(aa, bb, ab):
    """Whether the coefficients of two points differ only by a factor, as they always do in one column."""
    return ab * ab >= (1.0 - 1e-9) * (aa * bb)


@in_place
def place(table, aa, bb, ab, kappa):
    """(h, weight degradation) of a merge with |a| <= |b|."""
    log_kappa = log(max(kappa, KAPPA_LEAST))
    if table.shape[0] > 0 and are_parallel(aa, bb, ab):
        a, b = math.sqrt(aa), math.sqrt(bb)
        h = interpolated(table, PLACE, b / (a + b), kappa)
    else:
        h = best_place(aa, bb, ab, log_kappa)
    return h, max(aa + bb + 2.0 * ab * kappa - fit(aa, bb, ab, log_kappa, h), 0.0)


@in_place
def rank(table, aa, bb, ab, kappa):
    """The weight degradation of a merge with |a| <= |b|, near enough to choose the partner by.

    With a table and several columns, h is taken from one column with coefficients |a| and |b|. The result is then never
    better than the actual merge.
    """
    if table.shape[0] == 0:
        return place(table, aa, bb, ab, kappa)[1]
    a, b = math.sqrt(aa), math.sqrt(bb)
    m = b / (a + b)
    if are_parallel(aa, bb, ab):
        return interpolated(table, DEGRADATION, m, kappa) * aa * (1.0 - kappa) * (1.0 - kappa)
    h = interpolated(table, PLACE, m, kappa)
    return max(aa + bb + 2.0 * ab * kappa - fit(aa, bb, ab, log(max(kappa, KAPPA_LEAST)), h), 0.0)


@in_place
def may_merge(alpha, class_of, i, j):
    """Whether two points are of one class and their coefficients have one direction."""
    return j != i and class_of[i] == class_of[j] and products(alpha, i, j)[2] > 0.0


@in_place
def has_mate(alpha, class_of, i, n):
    """Whether point i may merge with one of 0..n; with several columns, whether it possibly may."""
    a, own, found = alpha[0, i], class_of[i], alpha.shape[0] > 1
    for j in range(n):
        found |= (class_of[j] == own) & (j != i) & (a * alpha[0, j] > 0.0)
    return found


@in_place
def find_partner(table, alpha, class_of, i, row, n, near):
    """The partner of point i whose merge degrades least, or NONE; row (n,): k(x_i, .), near (m,): points near it.

    At a given kappa, a merge degrades least if both coefficients are equal and parallel, by 2 |a|^2 (1 - sqrt(kappa))^2
    while kappa >= exp(-2). So the best merge so far determines how near a better partner must be.
    """
    kind = row.dtype.type
    first, best, least, enough = NONE, NONE, np.inf, kind(0.0)
    # Try a near point first: then few other points are near enough.
    for t in range(near.shape[0]):
        if first == NONE and may_merge(alpha, class_of, i, near[t]):
            first = near[t]
    if first == NONE and not has_mate(alpha, class_of, i, n):
        return NONE
    if first != NONE:
        aa, bb, ab = products(alpha, i, first)
        best, least = first, rank(table, aa, bb, ab, float(row[first]))
        enough = kind(near_enough(aa, least))
    for begin in range(0, n, BLOCK):
        end, found = min(begin + BLOCK, n), False
        block = row[begin:end]
        for k in range(end - begin):
            found |= block[k] >= enough  # hardly ever true; without a branch the loop becomes vector instructions
        for j in range(begin, end if found else begin):
            if row[j] >= enough and j != first and may_merge(alpha, class_of, i, j):
                aa, bb, ab = products(alpha, i, j)
                degradation = rank(table, aa, bb, ab, float(row[j]))
                if degradation < least:
                    best, least, enough = j, degradation, kind(near_enough(aa, degradation))
    return best


@in_place
def near_enough(aa, degradation):
    """The kappa below which no merge of a point of |a|^2 degrades less than this."""
    if degradation >= BIFURCATION * aa:
        return 0.0
    root = 1.0 - math.sqrt(degradation / (2.0 * aa))
    return root * root * (1.0 - 1e-6)


@in_place
def join(points, i, j, h, indices, values):
    """Write the row h x_i + (1 - h) x_j to indices, values (dim,) and return its number of non-zeros."""
    p, p_end = points.start[i], points.start[i] + points.length[i]
    q, q_end = points.start[j], points.start[j] + points.length[j]
    kind = points.values.dtype.type
    u, v = kind(h), kind(1.0 - h)
    n = 0
    while p < p_end or q < q_end:
        if q == q_end or (p < p_end and points.indices[p] < points.indices[q]):
            feature, value = points.indices[p], u * points.values[p]
            p += 1
        elif p == p_end or points.indices[q] < points.indices[p]:
            feature, value = points.indices[q], v * points.values[q]
            q += 1
        else:
            feature, value = points.indices[p], u * points.values[p] + v * points.values[q]
            p, q = p + 1, q + 1
        if value != 0:
            indices[n], values[n] = feature, value
            n += 1
    return n
