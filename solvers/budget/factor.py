"""Budget maintenance by projection: a point is removed, and its coefficients are projected onto the remaining points.

Wang, Crammer and Vucetic, JMLR 13, 2012, section 5.2. K = U'U is the kernel matrix of the points, in the order of their
slots, with a small ridge. The factor stored here is U (m, m) float64, upper triangular. Let u be the column of K^-1 of
the removed point. The projection of phi(x) onto the other points has the coefficients -u_s / u_x, and the squared
distance to it is 1 / u_x. This takes two triangular solves, O(m^2). Adding and deleting a point also cost O(m^2).
"""

from __future__ import annotations

import math

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.jit.compiled import compiled

RIDGES = {np.float32: 1e-5, np.float64: 1e-10}
"""Ridge for each precision of kernel values, relative to k(x, x): an upper bound of their summed rounding errors."""


@compiled
def factor_append(factor, m, row, class_of, n, self_value, ridge):
    """Append a point after the m points. row (n,): its kernel values with the slots before it."""
    column = np.empty(m + 1)
    k = 0
    for s in range(n):
        if class_of[s] != NONE:
            column[k] = row[s]
            k += 1
    rest = self_value * (1.0 + ridge)
    for r in range(m):
        upper = factor[r]
        v = column[r] / upper[r]
        column[r] = v
        rest -= v * v
        for s in range(r + 1, m):
            column[s] -= v * upper[s]
    # If the point depends on the other points, the remainder is a rounding error, not a distance.
    column[m] = math.sqrt(max(rest, ridge * self_value))
    for r in range(m + 1):
        factor[r, m] = column[r]


@compiled
def inverse_column(factor, m, r):
    """Return u (m,), column r of K^-1."""
    u = np.zeros(m)
    u[r] = 1.0
    for i in range(r, m):
        upper = factor[i]
        u[i] /= upper[i]
        for s in range(i + 1, m):
            u[s] -= u[i] * upper[s]
    for i in range(m - 1, -1, -1):
        upper = factor[i]
        total = u[i]
        for s in range(i + 1, m):
            total -= upper[s] * u[s]
        u[i] = total / upper[i]
    return u


@compiled
def factor_delete(factor, m, r):
    """Delete the point of rank r of m. Rotations move the part of its row after the diagonal into the rows below."""
    gone = factor[r, :m].copy()
    for i in range(r):
        upper = factor[i]
        for s in range(r, m - 1):
            upper[s] = upper[s + 1]
    for i in range(r + 1, m):
        source, target = factor[i], factor[i - 1]
        length = math.sqrt(source[i] * source[i] + gone[i] * gone[i])
        cosine, sine = source[i] / length, gone[i] / length
        target[i - 1] = length
        for s in range(i + 1, m):
            v, g = source[s], gone[s]
            target[s - 1] = cosine * v + sine * g
            gone[s] = cosine * g - sine * v
    for i in range(m):
        factor[i, m - 1] = 0.0
    for s in range(m):
        factor[m - 1, s] = 0.0


@compiled
def project(factor, machine, i, n):
    """Project the coefficients of slot i onto the other points among slots 0..n; return the weight degradation.

    The slot keeps its coefficients but is removed from the factor.
    """
    m, r = 0, 0
    for s in range(n):
        if machine.class_of[s] != NONE:
            if s == i:
                r = m
            m += 1
    u = inverse_column(factor, m, r)
    degradation = 0.0
    for c in range(machine.alpha.shape[0]):
        alpha, smooth = machine.alpha[c], machine.smooth[c]
        degradation += alpha[i] * alpha[i] / u[r]
        a, b = alpha[i] / u[r], smooth[i] / u[r]
        k = 0
        for s in range(n):
            if machine.class_of[s] != NONE:
                if s != i:
                    alpha[s] -= a * u[k]
                    smooth[s] -= b * u[k]
                k += 1
    factor_delete(factor, m, r)
    return degradation
