"""What a merge takes from the average, handed on to the nearest points.

The place of a merged point z is chosen for the coefficients alpha that learn (merging.py), and each merge moves
it a little. For them the next steps make good; the averaged ones, `smooth`, would ride along and come to stand for
another function than the average of f. So what they lose in a merge of x_i and x_j,

    r = s_i phi(x_i) + s_j phi(x_j) - s_z phi(z),      s_z = p s_i + q s_j,

is projected onto z and the few points nearest to x_i: c minimises |r - sum_k c_k phi(x_k)|^2 + RIDGE |c|^2 in each
column, and smooth_k grows by c_k. r is orthogonal to phi(z). For kernels with k(x, x) = 1.
"""

from __future__ import annotations

import math

import numpy as np

from hinged.solvers.core.coefficients import VALUES
from hinged.solvers.core.compiled import compiled, in_place
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import inner_to_kernel

NEAREST = 3
RIDGE = 1e-3  # keeps points that nearly coincide from taking large coefficients against each other


@in_place
def nearest_points(class_of, row, n, i, near):
    """The slots of 0..n but i with the largest values in row (n,), largest first, to near (m,); how many."""
    count, enough = 0, row.dtype.type(-1.0)
    for s in range(n):
        if row[s] > enough and class_of[s] != NONE and s != i:
            count = min(count + 1, near.shape[0])
            at = count - 1
            while at > 0 and row[near[at - 1]] < row[s]:
                near[at] = near[at - 1]
                at -= 1
            near[at] = s
            if count == near.shape[0]:
                enough = row[near[count - 1]]
    return count


@in_place
def inner_sums(points, s, slots, m, spread, sums, norms, at):
    """To sums and norms, from `at` on: inner sum of point s with each of slots[:m], added as in `kernel_row`, and what
    their squared distance is without it. Returns where the next ones go.
    """
    first, last = points.start[s], points.start[s] + points.length[s]
    zero = sums.dtype.type(0.0)
    for p in range(first, last):
        spread[points.indices[p]] = points.values[p]
    for t in range(m):
        begin = points.start[slots[t]]
        total = zero
        for p in range(begin, begin + points.length[slots[t]]):
            total += spread[points.indices[p]] * points.values[p]
        sums[at + t] = total
        norms[at + t] = points.norm[s] + points.norm[slots[t]]
    for p in range(first, last):
        spread[points.indices[p]] = zero
    return at + m


@in_place
def solve(A, b, m):
    """b[:, :m] <- A^-1 b of each column; A (m, m) is positive definite, and its lower triangle overwritten."""
    for u in range(m):
        for v in range(u):
            rest = A[u, v]
            for k in range(v):
                rest -= A[u, k] * A[v, k]
            A[u, v] = rest * A[v, v]
        rest = A[u, u]
        for k in range(u):
            rest -= A[u, k] * A[u, k]
        # Rounding of kernel values is far below the ridge. The diagonal holds the reciprocals.
        A[u, u] = 1.0 / math.sqrt(max(rest, 0.5 * RIDGE))
    for c in range(b.shape[0]):
        for u in range(m):
            for k in range(u):
                b[c, u] -= A[u, k] * b[c, k]
            b[c, u] *= A[u, u]
        for u in range(m - 1, -1, -1):
            for k in range(u + 1, m):
                b[c, u] -= A[k, u] * b[c, k]
            b[c, u] *= A[u, u]


@compiled
def hand_on(kernel, points, machine, i, j, z, near, row, spread):
    """Give what the average loses to the nearest points, when slots i and j are about to leave for z.

    row (n,) holds k(x_i, .). near (NEAREST + 1 at most,) are the points nearest to x_i, of which the first but j serve;
    it is overwritten. spread (dim,) of zeros is scratch. With j = z = NONE, i leaves alone and nothing stands for it.
    """
    smooth, m = machine.smooth, 0
    for u in range(near.shape[0]):
        if near[u] != j and m < NEAREST:
            near[m] = near[u]
            m += 1
    columns = smooth.shape[0]
    # Kernel values: of each near point with those before it, of j with all, and of z with all.
    scratch, n = np.empty((2, m * (m + 3) // 2), row.dtype), 0
    values, norms = scratch[0], scratch[1]
    for u in range(1, m):
        n = inner_sums(points, near[u], near, u, spread, values, norms, n)
    if z != NONE:
        n = inner_sums(points, j, near, m, spread, values, norms, n)
        n = inner_sums(points, z, near, m, spread, values, norms, n)
    inner_to_kernel(kernel, row.dtype.type(0.0), norms[:n], values[:n])
    machine.counts[VALUES] += n
    A, b, n = np.empty((m + 1, m + 1)), np.zeros((columns, m + 1)), 0
    for u in range(m + 1):
        A[u, u] = 1.0 + RIDGE
    for u in range(1, m):
        for v in range(u):
            A[u, v] = values[n]
            n += 1
    for u in range(m):
        for c in range(columns):
            b[c, u] = smooth[c, i] * row[near[u]]
            if z != NONE:
                b[c, u] += smooth[c, j] * values[n + u] - smooth[c, z] * values[n + m + u]
        if z != NONE:
            A[m, u] = values[n + m + u]
    solve(A, b, m if z == NONE else m + 1)
    for c in range(columns):
        for u in range(m):
            smooth[c, near[u]] += b[c, u]
        if z != NONE:
            smooth[c, z] += b[c, m]


@in_place
def is_averaged(smooth, i, j):
    """Whether one of these points, i alone if j = NONE, has a part in the average."""
    has = False
    for c in range(smooth.shape[0]):
        has |= smooth[c, i] != 0.0 or (j != NONE and smooth[c, j] != 0.0)
    return has
