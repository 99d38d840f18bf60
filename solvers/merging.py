"""Budget maintenance by merging two points into one, for the RBF kernel.

Wang, Crammer and Vucetic, JMLR 13, 2012, section 5.3; Qaadan, Schueler and Glasmachers, ICPRAM 2019, algorithm 1; the
table is that of Glasmachers and Qaadan, "Speeding up Budgeted Stochastic Gradient Descent SVM Training with
Precomputed Golden Section Search", LOD 2018.

The points x_min and x, of coefficients a and b (K,) over the columns, become z = h x_min + (1 - h) x, 0 <= h <= 1, of
the coefficients that fit best, a p + b q with p = k(x_min, z) = kappa^((1 - h)^2) and q = k(x, z) = kappa^(h^2), where
kappa = k(x_min, x). The weight degradation, summed over the columns, is

    |a phi(x_min) + b phi(x) - (a p + b q) phi(z)|^2 = |a|^2 + |b|^2 + 2 kappa a.b - |a p + b q|^2,

so h maximises |a p + b q|^2. (Algorithm 1 prints the two powers of kappa interchanged.) In one column that depends on
kappa and m = b / (a + b) alone; with |a| <= |b| the maximum lies in h <= 1/2 and is the only one there, while for
kappa < exp(-2) there may be a lower one above.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from solvers.compiled import compiled
from solvers.direction import NONE
from solvers.elementary import exp, log

Array = np.ndarray[Any, Any]

MERGING = ("table", "golden")
GRID = 256  # steps of the table in either direction
KAPPA_LEAST = 1e-30  # points further apart are merged as if they were this near
GOLDEN = 0.6180339887498949
GOLDEN_STEPS = 40  # 0.5 * GOLDEN^40 is 2e-9
BIFURCATION = 0.7991528017874561  # 2 (1 - 1 / e)^2: weight degradation of equal coefficients 1 at kappa = exp(-2)


@compiled
def fit(aa, bb, ab, log_kappa, h):
    """|a p + b q|^2 at h, from |a|^2, |b|^2 and a.b."""
    p = exp(log_kappa * (1.0 - h) * (1.0 - h))
    q = exp(log_kappa * h * h)
    return aa * p * p + 2.0 * ab * p * q + bb * q * q


@compiled
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


@compiled
def best_place(aa, bb, ab, log_kappa):
    """The h in 0..1 where `fit` is largest: the better one of the maxima in the two halves."""
    best, most = 0.0, -1.0
    for half in (0.0, 0.5):
        h = golden_section(aa, bb, ab, log_kappa, half, half + 0.5)
        found = fit(aa, bb, ab, log_kappa, h)
        if found > most:
            best, most = h, found
    return best


@compiled
def fill_table(table):
    """table[i, j] = h for m = 1/2 + i / 2 GRID and kappa = j / GRID."""
    steps = table.shape[0] - 1
    for i in range(steps + 1):
        m = 0.5 + 0.5 * i / steps
        for j in range(steps + 1):
            log_kappa = log(max(j / steps, KAPPA_LEAST))
            # Where both points are at one place any h will do; this is the limit.
            h = 1.0 - m
            if j < steps:
                h = golden_section((1.0 - m) ** 2, m * m, m * (1.0 - m), log_kappa, 0.0, 0.5)
            table[i, j] = h


@cache
def table_of(merging: str) -> Array:
    """The table for merging "table"; an empty one for "golden"."""
    if merging == "golden":
        return np.zeros((0, 0))
    table = np.empty((GRID + 1, GRID + 1))
    fill_table(table)
    return table


@compiled
def interpolated(table, m, kappa):
    """h by bilinear interpolation, for 1/2 <= m <= 1 and 0 <= kappa <= 1."""
    steps = table.shape[0] - 1
    u, v = (2.0 * m - 1.0) * steps, kappa * steps
    i, j = min(int(u), steps - 1), min(int(v), steps - 1)
    u, v = u - i, v - j
    lower = table[i, j] + v * (table[i, j + 1] - table[i, j])
    upper = table[i + 1, j] + v * (table[i + 1, j + 1] - table[i + 1, j])
    return lower + u * (upper - lower)


@compiled
def products(alpha, i, j):
    """(|a|^2, |b|^2, a.b) of the coefficients of points i and j."""
    aa, bb, ab = 0.0, 0.0, 0.0
    for c in range(alpha.shape[0]):
        a, b = alpha[c, i], alpha[c, j]
        aa += a * a
        bb += b * b
        ab += a * b
    return aa, bb, ab


@compiled
def place(table, aa, bb, ab, kappa, ranking):
    """(h, weight degradation) of a merge with |a| <= |b|.

    With a table and several columns, `ranking` takes the h of one column with coefficients |a| and |b|: close enough
    to choose the partner by, and never better than what the partner then gets.
    """
    log_kappa = log(max(kappa, KAPPA_LEAST))
    if table.shape[0] > 0 and (ranking or ab * ab >= (1.0 - 1e-9) * (aa * bb)):
        a, b = math.sqrt(aa), math.sqrt(bb)
        h = interpolated(table, b / (a + b), kappa)
    else:
        h = best_place(aa, bb, ab, log_kappa)
    return h, max(aa + bb + 2.0 * ab * kappa - fit(aa, bb, ab, log_kappa, h), 0.0)


@compiled
def may_merge(alpha, class_of, i, j):
    """Whether two points pull to the same side: one sign in one column, one class in several."""
    if j == i or class_of[j] == NONE:
        return False
    if alpha.shape[0] == 1:
        return alpha[0, i] * alpha[0, j] > 0.0
    return class_of[i] == class_of[j] and products(alpha, i, j)[2] > 0.0


@compiled
def find_partner(table, alpha, class_of, i, row, n):
    """The partner of point i whose merge degrades least, or NONE; row (n,) holds k(x_i, .).

    At a given kappa a merge degrades least if both coefficients are equal and parallel, by 2 |a|^2 (1 - sqrt(kappa))^2
    while kappa >= exp(-2). So from the best merge so far follows how near a better partner must be.
    """
    nearest, near = NONE, row.dtype.type(-1.0)
    for j in range(n):
        if row[j] > near and may_merge(alpha, class_of, i, j):
            nearest, near = j, row[j]
    best, least, enough = NONE, np.inf, 0.0
    # The nearest one first: few others are near enough then.
    for k in range(-1, n if nearest != NONE else -1):
        j = nearest if k < 0 else k
        if row[j] >= enough and k != nearest and may_merge(alpha, class_of, i, j):
            aa, bb, ab = products(alpha, i, j)
            degradation = place(table, aa, bb, ab, float(row[j]), True)[1]
            if degradation < least:
                best, least, enough = j, degradation, near_enough(aa, degradation)
    return best


@compiled
def near_enough(aa, degradation):
    """The kappa below which no merge of a point of |a|^2 degrades less than this."""
    if degradation >= BIFURCATION * aa:
        return 0.0
    root = 1.0 - math.sqrt(degradation / (2.0 * aa))
    return root * root * (1.0 - 1e-6)


@compiled
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
