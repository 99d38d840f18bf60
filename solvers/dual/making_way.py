"""The order in which points make way when a solver holds as many as it may.

By |alpha| alone the newest points would go first, because their coefficients are still small, and soon only the
outliers at C would be held. So the order is

1. points without a coefficient, the farthest from getting a coefficient first;
2. outliers, y f(x) < -1/2, the farthest on the wrong side first. With noisy labels they are most of the points at C,
   each outweighed by its neighbours; after a change of the concept they are remains of the old concept;
3. the oldest points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.dual.machine import Machine

Array = np.ndarray[Any, Any]

PART = 32  # a PART-th of the points goes at once: re-optimising the rest costs as much for one point as for many
OUTLIER_LOSS = 1.5  # hinge loss above which a point is an outlier
IDLE_RANK, OUTLIER_RANK, OTHER_RANK = range(3)


def first_to_go(machine: Machine, n: int, count: int) -> Array:
    """The slots of the `count` points that make way first, ascending."""
    live = np.flatnonzero(machine.class_of[:n] != NONE)
    loss = np.full(live.size, -np.inf)  # 1 - y f, in the column where it is largest
    for c in range(machine.alpha.shape[0]):
        loss = np.maximum(loss, machine.sign[c, live] * (machine.g[c, live] - machine.b[c]))
    idle = machine.held[live] == 0
    outlier = ~idle & (loss > OUTLIER_LOSS)
    rank = np.where(idle, IDLE_RANK, np.where(outlier, OUTLIER_RANK, OTHER_RANK))
    within = np.where(idle, loss, np.where(outlier, -loss, 0.0))
    chosen: Array = np.sort(live[np.lexsort((live, within, rank))[:count]])
    return chosen
