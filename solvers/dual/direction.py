"""Direction searches of the dual with a bias: move alpha along e_i - e_j (Bordes et al. 2005, section 3.1, eq. 8).

Maximises W(alpha) = alpha.y - 1/2 alpha.K.alpha subject to sum(alpha) = 0, lower <= alpha <= upper.

alpha        (n,) float64  signed dual coefficients.
g            (n,) float64  dW/dalpha_s = y_s - sum_r alpha_r K_rs.
lower, upper (n,) float64  the box.
up, down     (n,) uint8    1 if alpha may rise (alpha < upper), and if it may fall (alpha > lower); both are 0
                           for a hole. Loops read these masks instead of comparing bounds.

The pair with the largest violation is i = argmax g over up, j = argmin g over down. Ties go to the lowest slot.

g never contains NaN or a negative zero.
"""

from __future__ import annotations

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.simd.sweep import moved_extremes, part_extremes
from hinged.solvers.jit.compiled import compiled, in_place

BLOCK = 512
CURVATURE_LEAST = np.float32(1e-12)
NO_GAIN = np.float32(0.0)


@in_place
def _first_with(g, mask, begin, wanted):
    """Return the first slot of the block from `begin` on whose gradient is `wanted`. There must be such a slot."""
    end = min(begin + BLOCK, g.shape[0])
    part, some = g[begin:end], mask[begin:end]
    first = end - begin
    for s in range(end - begin):  # no early exit, so that the loop becomes vector instructions
        first = min(first, s if (part[s] == wanted) & (some[s] != 0) else BLOCK)
    return begin + first


@in_place
def _slots(g, up, down, largest, block_i, smallest, block_j):
    """Return (i, j): the slots of the extreme gradients, given the block of each; NONE for an empty side."""
    i = NONE if largest == -np.inf else _first_with(g, up, block_i, largest)
    j = NONE if smallest == np.inf else _first_with(g, down, block_j, smallest)
    return i, j


@in_place
def extremes(g, up, down):
    """Return (i, j): the slots of the largest g over up and of the smallest g over down; NONE for an empty side."""
    largest, smallest = -np.inf, np.inf
    block_i, block_j = 0, 0
    for b in range(0, g.shape[0], BLOCK):
        hi, lo = part_extremes(g, up, down, b, min(b + BLOCK, g.shape[0]))
        if hi > largest:
            largest, block_i = hi, b
        if lo < smallest:
            smallest, block_j = lo, b
    return _slots(g, up, down, largest, block_i, smallest, block_j)


@in_place
def move_gradient(g, move_i, move_j, row_i, row_j, up, down):
    """Do g -= move_i K_i + move_j K_j; return `extremes` of the new g."""
    largest, smallest = -np.inf, np.inf
    block_i, block_j = 0, 0
    for b in range(0, g.shape[0], BLOCK):
        hi, lo = moved_extremes(g, up, down, b, min(b + BLOCK, g.shape[0]), row_i, row_j, move_i, move_j)
        if hi > largest:
            largest, block_i = hi, b
        if lo < smallest:
            smallest, block_j = lo, b
    return _slots(g, up, down, largest, block_i, smallest, block_j)


@in_place
def direction_search(i, j, alpha, g, lower, upper, up, down, row_i, row_j):
    """Move alpha along e_i - e_j to the optimum or the box (eq. 8); update g, up, down.

    Return the new extremes (i, j). i must be in up, j in down, and g_i > g_j.
    """
    curvature = (np.float64(row_i[i]) + np.float64(row_j[j])) - 2.0 * np.float64(row_i[j])
    room_i = upper[i] - alpha[i]
    room_j = alpha[j] - lower[j]
    step = min(room_i, room_j)
    # Duplicate points have no curvature: W is linear there, and only the box ends the step.
    if curvature > 0.0:
        step = min(step, (g[i] - g[j]) / curvature)
    # A step that reaches the box sets the bound itself, so that "at a bound" and "zero" are exact.
    alpha[i] = upper[i] if step >= room_i else min(alpha[i] + step, upper[i])
    alpha[j] = lower[j] if step >= room_j else max(alpha[j] - step, lower[j])
    up[i], down[i] = alpha[i] < upper[i], alpha[i] > lower[i]
    up[j], down[j] = alpha[j] < upper[j], alpha[j] > lower[j]
    return move_gradient(g, step, -step, row_i, row_j, up, down)


@in_place
def _gains(g_i, k_ii, g, row_i, selves, down, gains):
    """Fill gains[s] = (g_i - g_s)^2 / curvature where s may fall and g_s < g_i; fill 0 elsewhere."""
    for s in range(g.shape[0]):
        difference = np.float32(g_i - g[s])
        difference = difference if (difference > NO_GAIN and down[s] != 0) else NO_GAIN
        curvature = (k_ii + np.float32(selves[s])) - np.float32(2.0) * np.float32(row_i[s])
        curvature = curvature if curvature > CURVATURE_LEAST else CURVATURE_LEAST
        gains[s] = difference * difference / curvature


@compiled
def second_order_partner(i, g, row_i, selves, down):
    """Return the slot j in down with the largest promised rise of W: argmax (g_i - g_j)^2 / (K_ii + K_jj - 2 K_ij).

    See Fan, Chen and Lin, JMLR 6, 2005. The computation uses float32, which affects only the choice of the pair. Return
    NONE if no g_j < g_i.
    """
    k_ii = np.float32(selves[i])
    gains = np.empty(BLOCK, np.float32)
    bits = gains.view(np.int32)  # gains are never negative, so their bits have the same order
    largest = np.int32(0)
    block_j = 0
    for b in range(0, g.shape[0], BLOCK):
        e = min(b + BLOCK, g.shape[0])
        _gains(g[i], k_ii, g[b:e], row_i[b:e], selves[b:e], down[b:e], gains)
        best = np.int32(0)
        for s in range(e - b):
            best = max(best, bits[s])
        if best > largest:
            largest, block_j = best, b
    if largest == 0:
        return NONE
    e = min(block_j + BLOCK, g.shape[0])
    _gains(g[i], k_ii, g[block_j:e], row_i[block_j:e], selves[block_j:e], down[block_j:e], gains)
    s = 0
    while bits[s] != largest:
        s += 1
    return block_j + s


@compiled
def second_order_partner_below(j, g, row_j, selves, up):
    """Return the slot i in up with the largest promised rise of W, for the pair (i, j). Return NONE if no g_i > g_j."""
    return second_order_partner(j, -g, row_j, selves, up)
