"""The place where a loop over examples paused within an example, and the work it had done until then."""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.solvers.core.counts import NONE, STEPS
from hinged.solvers.core.points import USED
from hinged.solvers.core.rowcache import VALUES
from hinged.solvers.dual import smo
from hinged.solvers.jit.compiled import in_place

Array = np.ndarray[Any, Any]

COLUMN, REPEATED, SLOT, FORMER = range(4)  # places in `at`, which records where a row of a batch was left


def not_begun() -> Array:
    """Return `at` (4,) for a row that has not begun.

    `at` contains: the column where the row was left (NONE: not begun), the number of REPROCESS repetitions in that
    column, the row's slot, and the number of steps before that column.
    """
    return np.array([NONE, 0, NONE, 0])


@in_place
def work_of(points, cache, machine, values, steps, value_work):
    """Return the work done since the counters showed `values` kernel values and `steps` steps."""
    n = points.used[USED] + 50
    return value_work * (cache.counters[VALUES] - values) + smo.STEP_WORK * n * (machine.counts[STEPS] - steps)
