"""Projects the average's loss in a merge onto the nearest points.

The place of a merged point z is chosen for the coefficients alpha, which the steps change (merging.py), and each merge
changes f a little. The next steps correct this error of alpha. The averaged coefficients, `smooth`, are not corrected
and would in time represent a different function than the average of f. So the loss of `smooth` in a merge of x_i and
x_j,

    r = s_i phi(x_i) + s_j phi(x_j) - s_z phi(z),      s_z = p s_i + q s_j,

is projected onto z and the points nearest to x_i: c minimises |r - sum_k c_k phi(x_k)|^2 + RIDGE |c|^2 in each column,
and smooth_k grows by c_k. r is orthogonal to phi(z). This applies to kernels with k(x, x) = 1.
"""

from __future__ import annotations

import math

import numpy as np

from hinged.solvers.core.coefficients import VALUES
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import inner_to_kernel
from hinged.solvers.core.points import USED
from hinged.solvers.core.simd.vectors import elementwise
from hinged.solvers.jit.compiled import compiled, in_place

NEAREST, SMALL_BUDGET = 19, 200
"""With budgets up to SMALL_BUDGET, NEAREST points besides the merged point compensate for the average's loss in a
merge.

With fewer points the average drifts if rows have more than two columns; with more points merges take longer. Larger
budgets use FEW points, because a merge then changes the average less.
"""

NEAREST_MAX = 200

FEW = 3  # up to this many nearest points are found exactly, in order
HALVINGS = 24  # bisection steps that find a limit; about the required number of points have a larger kernel value

WIDTH = 8  # rows of kernel values are rounded up to a multiple of this, so that they fill vectors
RIDGE = 1e-3  # prevents large opposite coefficients of nearly coinciding points


@in_place
def nearest_points(class_of, row, n, i, near):
    """Fill near (m,) with the slots of the largest values in row (n,), except slot i, in order; return how many."""
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
def count_above(class_of, row, n, i, j, least):
    """Return how many of the points 0..n, except i and j, have a kernel value in row (n,) above `least`."""
    count = 0
    for s in range(n):
        count += (row[s] > least) & (class_of[s] != NONE) & (s != i) & (s != j)
    return count


@in_place
def near_points(class_of, row, n, i, j, near):
    """Write the slots of 0..n, without i and j, with the largest values in row (n,) to near (m + 1,); return how many.

    They are the points above a value found by bisection, so that no branch depends on a single point. There are at most
    m points. There are at least 3 m / 4 points, unless fewer points exist or values are equal.
    """
    kind, most = row.dtype.type, near.shape[0] - 1
    low, high, least = 0.0, 1.0, kind(0.0)
    if count_above(class_of, row, n, i, j, least) > most:
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            count = count_above(class_of, row, n, i, j, kind(middle))
            if count > most:
                low = middle
            else:
                high = middle
                if 4 * count >= 3 * most:
                    break
        least = kind(high)
    m = 0
    for s in range(n):
        near[m] = s
        m += (row[s] > least) & (class_of[s] != NONE) & (s != i) & (s != j)
    return m


@in_place
def fill_tile(points, near, spread, tile, norms):
    """Write the points near (m,) to tile (features, > m) of zeros, feature-major, and write their norms.

    spread (dim,), zero before, receives the row of the tile for each feature, counted from 1.
    """
    count = 0
    for u in range(near.shape[0]):
        s = near[u]
        norms[u] = points.norm[s]
        for p in range(points.start[s], points.start[s] + points.length[s]):
            f = points.indices[p]
            number = int(spread[f])
            if number == 0:
                count += 1
                number = count
                spread[f] = number
            tile[number - 1, u] = points.values[p]


_more = elementwise(lambda sums, column, value: sums + column * value)
_times = elementwise(lambda row, number: row * number)
_less = elementwise(lambda target, first, a: target - first * a)
_less_twice = elementwise(lambda target, first, second, a, b: (target - first * a) - second * b)


@in_place
def tile_row(points, s, tile, norms, spread, inner, distances):
    """Compute the inner sums of point s with the points of a tile, in the order of `kernel_row`.

    `inner`, which must contain zeros, receives the sums. `distances` receives the squared distances without the sums.
    """
    size, norm = inner.shape[0], points.norm[s]
    for p in range(points.start[s], points.start[s] + points.length[s]):
        number = int(spread[points.indices[p]])
        if number > 0:
            _more((inner, tile[number - 1]), (points.values[p],), size)
    for u in range(size):
        distances[u] = norm + norms[u]


@in_place
def solve(A, b, m):
    """Do b[:, :m] <- A^-1 b of each column. A (m, m) is positive definite, and its upper triangle is overwritten.

    A = U'U is computed two rows at a time. The diagonal contains the reciprocals.
    """
    for k in range(0, m, 2):
        # Rounding errors of kernel values are far smaller than the ridge.
        A[k, k] = 1.0 / math.sqrt(max(A[k, k], 0.5 * RIDGE))
        _times((A[k, k + 1 : m],), (A[k, k],), m - k - 1)
        if k + 1 == m:
            break
        _less((A[k + 1, k + 1 : m], A[k, k + 1 : m]), (A[k, k + 1],), m - k - 1)
        A[k + 1, k + 1] = 1.0 / math.sqrt(max(A[k + 1, k + 1], 0.5 * RIDGE))
        _times((A[k + 1, k + 2 : m],), (A[k + 1, k + 1],), m - k - 2)
        for u in range(k + 2, m):
            _less_twice((A[u, u:m], A[k, u:m], A[k + 1, u:m]), (A[k, u], A[k + 1, u]), m - u)
    for c in range(b.shape[0]):
        part = b[c]
        for k in range(m):
            part[k] *= A[k, k]
            _less((part[k + 1 : m], A[k, k + 1 : m]), (part[k],), m - k - 1)
        for u in range(m - 1, -1, -1):
            rest = part[u]
            for k in range(u + 1, m):
                rest -= A[u, k] * part[k]
            part[u] = rest * A[u, u]


@in_place
def find_values(kernel, points, near, j, z, spread, tile, norms, values, distances):
    """Fill values (rows * width,): kernel values of near points (and of j and z, unless z = NONE) with near points."""
    m, width = near.shape[0], norms.shape[0]
    fill_tile(points, near, spread, tile, norms)
    for u in range(values.shape[0] // width):
        s, begin, end = near[u] if u < m else j if u == m else z, u * width, (u + 1) * width
        tile_row(points, s, tile, norms, spread, values[begin:end], distances[begin:end])
    inner_to_kernel(kernel, norms.dtype.type(0.0), distances, values)
    for s in near:
        for p in range(points.start[s], points.start[s] + points.length[s]):
            spread[points.indices[p]] = 0.0


@in_place
def hand_over(smooth, i, j, z, near, row, values, width, A, b):
    """Add c_k to smooth_k, computed from these kernel values. A (m + 1, m + 1) and b (K, m + 1) are scratch."""
    m, columns = near.shape[0], smooth.shape[0]
    of_j, of_z, size = m * width, (m + 1) * width, m if z == NONE else m + 1
    for u in range(m):
        target, source = A[u], values[u * width : (u + 1) * width]
        for v in range(u, m):
            target[v] = source[v]
        target[u] = 1.0 + RIDGE
        for c in range(columns):
            b[c, u] = smooth[c, i] * row[near[u]]
        if z != NONE:
            target[m] = values[of_z + u]
            for c in range(columns):
                b[c, u] += smooth[c, j] * values[of_j + u] - smooth[c, z] * values[of_z + u]
    A[m, m] = 1.0 + RIDGE
    for c in range(columns):
        b[c, m] = 0.0
    solve(A, b, size)
    for c in range(columns):
        for u in range(m):
            smooth[c, near[u]] += b[c, u]
        if z != NONE:
            smooth[c, z] += b[c, m]


@compiled
def hand_on(kernel, points, machine, i, j, z, near, most, row, spread):
    """Project the average's loss onto the `most` nearest points, when slots i and j are to be replaced by z.

    row (n,): k(x_i, .). near (at most FEW + 1,): the points nearest to x_i; it is overwritten. If `most` is at most
    FEW, the first `most` points of near, without j, are used. spread (dim,) of zeros is scratch. With j = z = NONE,
    only i is removed and no point replaces it.
    """
    m, features = 0, 0
    if most > FEW:
        n = points.used[USED] if z == NONE else z
        near = np.empty(most + 1, np.int64)
        m = near_points(machine.class_of, row, n, i, j, near)
    else:
        for u in range(near.shape[0]):
            if near[u] != j and m < most:
                near[m] = near[u]
                m += 1
    if m == 0:
        return
    near, width = near[:m], -(-m // WIDTH) * WIDTH
    for s in near:
        features += points.length[s]
    size, rows = min(features, spread.shape[0]) * width, m if z == NONE else m + 2
    scratch = np.zeros(size + width + 2 * rows * width, row.dtype)
    tile, norms = scratch[:size].reshape((-1, width)), scratch[size : size + width]
    values, distances = scratch[size + width : size + width + rows * width], scratch[size + width + rows * width :]
    find_values(kernel, points, near, j, z, spread, tile, norms, values, distances)
    machine.counts[VALUES] += m * (m - 1) // 2 + (2 * m if z != NONE else 0)
    hand_over(
        machine.smooth, i, j, z, near, row, values, width, np.empty((m + 1, m + 1)),
        np.empty((machine.smooth.shape[0], m + 1)),
    )  # fmt: skip


@in_place
def is_averaged(smooth, i, j):
    """Return whether point i, or point j if it is not NONE, has a part in the average."""
    has = False
    for c in range(smooth.shape[0]):
        has |= smooth[c, i] != 0.0 or (j != NONE and smooth[c, j] != 0.0)
    return has
