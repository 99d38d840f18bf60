"""Steps of the dual without a bias: move one alpha, or move two alphas together to their common optimum.

In Ertekin et al. 2011, section 4.2, and in Tracking, a step moves only the largest violator. If all points are near
each other, one move shifts all gradients, and the next move must undo that. Steps that move a pair reach the same
optimum in a tenth of the steps (Steinwart, Hush and Scovel, JMLR 12, 2011). The pair consists of the point with the
largest gradient whose alpha may rise, and the point with the smallest gradient whose alpha may fall.

Maximises W(alpha) = alpha.y - 1/2 alpha.K.alpha with the box as the only constraint. Arrays as in direction.py. A point
violates if its gradient says that it should move and the box allows the move: g > 0 in up, g < 0 in down.
"""

from __future__ import annotations

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.simd.lanes import lane_sums, larger
from hinged.solvers.dual.direction import move_gradient
from hinged.solvers.jit.compiled import in_place


@in_place
def violation(g, i, j):
    """Return the largest violation, given the extremes i of up and j of down (or NONE); 0 at the optimum."""
    up = g[i] if i != NONE else 0.0
    down = -g[j] if j != NONE else 0.0
    return max(0.0, up, down)


@in_place
def _clipped(g, curvature, least, most):
    """Return the move within least..most that maximises g d - 1/2 curvature d^2."""
    if curvature > 0.0:
        return min(max(g / curvature, least), most)
    return most if g > 0.0 else (least if g < 0.0 else 0.0)


@in_place
def best_moves(g_i, g_j, k_ii, k_jj, k_ij, least_i, most_i, least_j, most_j):
    """Return the moves (d_i, d_j) within their boxes that maximise g.d - 1/2 d.K.d."""
    det = k_ii * k_jj - k_ij * k_ij
    if det > 0.0:
        d_i, d_j = (g_i * k_jj - g_j * k_ij) / det, (g_j * k_ii - g_i * k_ij) / det
        if least_i <= d_i <= most_i and least_j <= d_j <= most_j:
            return d_i, d_j
    best, best_i, best_j = -1.0, 0.0, 0.0
    for edge in range(4):
        if edge < 2:
            d_i = least_i if edge == 0 else most_i
            d_j = _clipped(g_j - k_ij * d_i, k_jj, least_j, most_j)
        else:
            d_j = least_j if edge == 2 else most_j
            d_i = _clipped(g_i - k_ij * d_j, k_ii, least_i, most_i)
        gain = g_i * d_i + g_j * d_j - 0.5 * (k_ii * d_i * d_i + k_jj * d_j * d_j) - k_ij * d_i * d_j
        if gain > best:
            best, best_i, best_j = gain, d_i, d_j
    return best_i, best_j


@in_place
def _shift(t, move, least, most, alpha, lower, upper, up, down):
    """Do alpha_t += move.

    A move that reaches the box sets the bound itself, so that "at a bound" and "zero" are exact.
    """
    if move >= most:
        alpha[t] = upper[t]
    elif move <= least:
        alpha[t] = lower[t]
    else:
        alpha[t] = min(max(alpha[t] + move, lower[t]), upper[t])
    up[t], down[t] = alpha[t] < upper[t], alpha[t] > lower[t]


@in_place
def box_search(i, j, alpha, g, lower, upper, up, down, row_i, row_j):
    """Move alpha_i and alpha_j to the optimum or the box; update g, up, down; return the new extremes (i, j).

    If i = j, one coordinate moves. If k(x, x) = 0, the point changes no decision value and moves to the edge of its
    box.
    """
    least_i, most_i = lower[i] - alpha[i], upper[i] - alpha[i]
    if i == j:
        move_i, move_j = _clipped(g[i], np.float64(row_i[i]), least_i, most_i), 0.0
    else:
        least_j, most_j = lower[j] - alpha[j], upper[j] - alpha[j]
        move_i, move_j = best_moves(
            g[i], g[j], np.float64(row_i[i]), np.float64(row_j[j]), np.float64(row_i[j]),
            least_i, most_i, least_j, most_j,
        )  # fmt: skip
        _shift(j, move_j, least_j, most_j, alpha, lower, upper, up, down)
    _shift(i, move_i, least_i, most_i, alpha, lower, upper, up, down)
    return move_gradient(g, move_i, move_j, row_i, row_j, up, down)


_gaps = lane_sums(lambda alpha, g, lower, upper: (larger((upper - alpha) * g, (lower - alpha) * g),))


@in_place
def box_gap(alpha, g, lower, upper):
    """Return the duality gap over all points: sum_s max((upper - alpha) g, (lower - alpha) g). It is never negative.

    This is eq. 9 of Ertekin et al. 2011 with its sign and labels corrected. It is also right for the boxes of ramp
    outliers, where it is the gap of the linearised problem.
    """
    return _gaps((alpha, g, lower, upper))[0]
