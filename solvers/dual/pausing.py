"""Where a loop over examples stands when it rests within an example, and how much work it has done until then."""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.solvers.core.counts import NONE, STEPS
from hinged.solvers.core.points import USED
from hinged.solvers.core.rowcache import VALUES
from hinged.solvers.dual import smo
from hinged.solvers.jit.compiled import in_place

Array = np.ndarray[Any, Any]

COLUMN, REPEATED, SLOT, FORMER = range(4)  # places in `at`, which says where a row of a batch was left


def not_begun() -> Array:
    """`at` (4,) for a row that is not begun.

    The column where the row was left (NONE: not begun), how often REPROCESS has been repeated there, the row's slot,
    and the steps taken before the column.
    """
    return np.array([NONE, 0, NONE, 0])


@in_place
def work_of(points, cache, machine, values, steps, value_work):
    """Work done since there were `values` kernel values and `steps` steps."""
    n = points.used[USED] + 50
    return value_work * (cache.counters[VALUES] - values) + smo.STEP_WORK * n * (machine.counts[STEPS] - steps)
