"""The largest eigenvalues of a symmetric matrix with their eigenvectors, with the same bits on every processor.

LAPACK uses a BLAS for its sums, and each kind of processor has a different BLAS. Here everything is plain arithmetic in
a fixed order: Householder's reduction to a tridiagonal matrix T (Martin, Reinsch and Wilkinson, Numerische Mathematik
11, 1968), and the QL method for its eigenvalues (Bowdler, Martin, Reinsch and Wilkinson, ibid.), as in EISPACK's tred2
and tql2. The rotations of QL are recorded. Afterwards they are applied, last first, to the unit vectors of only those
eigenvalues that are needed: for NOGD, a fifth of all.

    K = Q T Q',  Q = H_(n-1) ... H_1,  H_i = I - factor_i v_i v_i'
    T = G diag(values) G',  G the product of the rotations

A       (n, n) float64  K's lower triangle; afterwards row i holds v_i in its first i entries.
factor  (n,) float64    factor of each reflection.
d, e    (n,) float64    diagonal and subdiagonal of T: e_i couples i and i + 1.
turns   (m, 2) float64  cosine and sine of each rotation, of coordinates at[m] and at[m] + 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.jit.compiled import compiled

Array = np.ndarray[Any, Any]

EPSILON = 2.0**-52
NOTHING = 1e-140  # relative to the largest entry: a smaller number becomes 0, because its square is not precise
TRIES_MAX = 64  # maximum number of QL steps per eigenvalue; one or two are enough
STRIP = 64  # number of eigenvectors rotated together, which stay in the second-level cache


@compiled
def tridiagonalise(A, factor, d, e):
    """Reduce A to T = Q' A Q in place, from the last row on."""
    n = A.shape[0]
    p = np.empty(n)
    factor[0], e[n - 1] = 0.0, 0.0
    for i in range(n - 1, 0, -1):
        v, w = A[i, :i], p[:i]
        last = v[i - 1]
        rest = dot(v[: i - 1], v[: i - 1])
        factor[i], e[i - 1] = 0.0, last
        if rest < NOTHING * NOTHING:
            continue
        length = math.sqrt(last * last + rest)
        e[i - 1] = -length if last > 0.0 else length
        v[i - 1] = last - e[i - 1]
        factor[i] = 1.0 / (length * (length + abs(last)))
        for j in range(i):  # w = A v, by the lower triangle
            row = A[j, :j]
            w[j] = dot(row, v[:j]) + A[j, j] * v[j]
            for k in range(j):
                w[k] += v[j] * row[k]
        for j in range(i):
            w[j] *= factor[i]
        half = 0.5 * factor[i] * dot(w, v)
        for j in range(i):
            w[j] -= half * v[j]
        for j in range(i):  # A -= v w' + w v'
            row = A[j, : j + 1]
            v_j, w_j = v[j], w[j]
            for k in range(j + 1):
                row[k] -= v_j * w[k] + w_j * v[k]
    for i in range(n):
        d[i] = A[i, i]


@compiled
def diagonalise(d, e):
    """Replace d by the eigenvalues of T, in the order of QL; return (turns, at), the rotations."""
    n = d.shape[0]
    turns, at, m = np.empty((4 * n + 16, 2)), np.empty(4 * n + 16, np.int64), 0
    shift, size = 0.0, 0.0
    for l in range(n):
        size = max(size, abs(d[l]) + abs(e[l]))
        end = l
        while abs(e[end]) > EPSILON * size:  # e[n - 1] is 0
            end += 1
        for _ in range(TRIES_MAX):
            if not abs(e[l]) > EPSILON * size:
                break
            if m + end - l > at.shape[0]:
                more, more_at = np.empty((2 * (m + end - l), 2)), np.empty(2 * (m + end - l), np.int64)
                more[:m], more_at[:m] = turns[:m], at[:m]
                turns, at = more, more_at
            g = d[l]
            p = (d[l + 1] - g) / (2.0 * e[l])
            r = math.sqrt(p * p + 1.0)
            r = -r if p < 0.0 else r
            d[l], d[l + 1] = e[l] / (p + r), e[l] * (p + r)
            next_d, next_e = d[l + 1], e[l + 1]
            h = g - d[l]
            for i in range(l + 2, n):
                d[i] -= h
            shift += h
            p = d[end]
            c, c2, c3, s, s2 = 1.0, 1.0, 1.0, 0.0, 0.0
            for i in range(end - 1, l - 1, -1):
                c3, c2, s2 = c2, c, s
                g, h = c * e[i], c * p
                r = math.sqrt(p * p + e[i] * e[i])
                e[i + 1] = s * r
                s, c = (e[i] / r, p / r) if r > NOTHING else (0.0, 1.0)
                p = c * d[i] - s * g
                d[i + 1] = h + s * (c * g + s * d[i])
                turns[m, 0], turns[m, 1], at[m] = c, s, i
                m += 1
            p = -s * s2 * c3 * next_e * e[l] / next_d
            e[l], d[l] = s * p, c * p
        d[l] += shift
        e[l] = 0.0
    return turns[:m], at[:m]


@compiled
def turn_back(A, factor, turns, at, X):
    """Do X (n, r) <- Q G X, in strips of columns."""
    n = X.shape[0]
    sums = np.empty(STRIP)
    strip = np.empty((n, STRIP))
    for b in range(0, X.shape[1], STRIP):
        width = min(STRIP, X.shape[1] - b)
        for i in range(n):
            for k in range(STRIP):
                strip[i, k] = X[i, b + k] if k < width else 0.0
        for m in range(at.shape[0] - 1, -1, -1):
            c, s = turns[m, 0], turns[m, 1]
            upper, lower = strip[at[m]], strip[at[m] + 1]
            for k in range(STRIP):
                x, y = upper[k], lower[k]
                u, v = c * x + s * y, c * y - s * x
                # Far from an eigenvector's large entries, entries fall below the normal range, and arithmetic becomes
                # slow.
                upper[k] = u if abs(u) > NOTHING else 0.0
                lower[k] = v if abs(v) > NOTHING else 0.0
        for i in range(1, n):
            if factor[i] == 0.0:
                continue
            for k in range(STRIP):
                sums[k] = 0.0
            for j in range(i):
                row, v = strip[j], A[i, j]
                for k in range(STRIP):
                    sums[k] += v * row[k]
            for j in range(i):
                row, v = strip[j], factor[i] * A[i, j]
                for k in range(STRIP):
                    row[k] -= v * sums[k]
        for i in range(n):
            for k in range(width):
                X[i, b + k] = strip[i, k]


def largest_eigenvectors(K: Array, count: int) -> tuple[Array, Array]:
    """Return (values, vectors) of the `count` largest eigenvalues of a symmetric K (n, n), the largest value first.

    values (count,), vectors (n, count). Equal values may be in any order. The error of a value is a few roundings of
    the largest |value|, and vectors are orthogonal to the same precision.
    """
    n = K.shape[0]
    scale = float(np.abs(K).max(initial=0.0))
    if scale == 0.0:
        return np.zeros(count), np.eye(n, count)
    A, factor, d, e = K / scale, np.empty(n), np.empty(n), np.empty(n)
    tridiagonalise(A, factor, d, e)
    turns, at = diagonalise(d, e)
    main = np.argsort(-d, kind="stable")[:count]
    X = np.zeros((n, main.size))
    X[main, np.arange(main.size)] = 1.0
    turn_back(A, factor, turns, at, X)
    return d[main] * scale, X
