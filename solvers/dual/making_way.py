"""Which points make way where a solver holds as many as it may.

By |alpha| alone the newest would go, whose coefficients are small yet, and the outliers at C would soon be all that is
held. So there go

1. points without a coefficient, the farthest from getting one first;
2. outliers, y f(x) < -1/2, the farthest on the wrong side first: where labels are noisy they are most of the points
   at C, each outweighed by its neighbours, and after a change what the old concept has left;
3. the oldest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.dual.machine import Machine

Array = np.ndarray[Any, Any]

PART = 32  # a point of so many goes at once: re-optimising the rest costs as much for one as for many
OUTLIER_LOSS = 1.5  # hinge loss of an outlier
IDLE_RANK, OUTLIER_RANK, OTHER_RANK = range(3)


def first_to_go(machine: Machine, n: int, count: int) -> Array:
    """The slots of so many points that make way first, ascending."""
    live = np.flatnonzero(machine.class_of[:n] != NONE)
    loss = np.full(live.size, -np.inf)  # where it is largest of all columns: 1 - y f
    for c in range(machine.alpha.shape[0]):
        loss = np.maximum(loss, machine.sign[c, live] * (machine.g[c, live] - machine.b[c]))
    idle = machine.held[live] == 0
    outlier = ~idle & (loss > OUTLIER_LOSS)
    rank = np.where(idle, IDLE_RANK, np.where(outlier, OUTLIER_RANK, OTHER_RANK))
    within = np.where(idle, loss, np.where(outlier, -loss, 0.0))
    chosen: Array = np.sort(live[np.lexsort((live, within, rank))[:count]])
    return chosen
