"""The entry of rows as points without a coefficient, for solvers that then optimise over all points."""

from __future__ import annotations

import numpy as np

from hinged.solvers.core.points import USED, append_point, has_room
from hinged.solvers.dual.machine import HINGE, enter
from hinged.solvers.jit.compiled import compiled


@compiled
def enter_rows(points, machine, bounds, batch, f, begin, width):
    """Store the rows of a batch from `begin` on, with alpha = 0. Return the first row without room.

    f (m, K): decision values without the bias. width: number of slots that a line of the row cache covers.
    """
    indptr, indices, values, norms, selves, classes, keys, _ = batch
    stance = np.full(f.shape[1], HINGE, np.int8)
    for r in range(begin, classes.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        if points.used[USED] == width or not has_room(points, last - first):
            return r
        k = append_point(points, indices[first:last], values[first:last], norms[r], selves[r])
        enter(machine, k, classes[r], keys[r], bounds[classes[r]], f[r], stance)
    return classes.shape[0]
