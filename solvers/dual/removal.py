"""The removal of points without a coefficient in LASVM: step 4 of REPROCESS, and the room for idle points.

Bordes, Ertekin, Weston and Bottou, JMLR 6, 2005, section 3.2; lasvm.py lists the differences.
"""

from __future__ import annotations

import numpy as np

from hinged.solvers.core.counts import LIVE, NONE
from hinged.solvers.core.points import USED, pop_point
from hinged.solvers.core.rowcache import drop_row, forget_slot
from hinged.solvers.dual.machine import IDLE, beyond_extremes, leave, scan_column
from hinged.solvers.jit.compiled import in_place

IDLE_EACH = 4  # number of idle points per support vector for which there is room
IDLE_PART = 8  # at least idle_max / IDLE_PART idle points have room, however many support vectors there are
MANY = 16  # if more idle points than this have no room, remove those beyond the mean distance instead of one by one


@in_place
def idle_room(machine, idle_max, points_max):
    """Return the number of idle points for which there is room.

    There is room for IDLE_EACH idle points per support vector, but for at most idle_max points in all. There is always
    room for idle_max / IDLE_PART idle points. But idle points never fill more than a quarter of the places without
    support vectors.
    """
    held = machine.counts[LIVE] - machine.counts[IDLE]
    return min(max(idle_max // IDLE_PART, min(IDLE_EACH * held, idle_max - held)), (points_max - held) // 4)


@in_place
def mean_beyond(machine):
    """Return the mean distance of idle points beyond the extremes. There must be idle points."""
    total = 0.0
    for p in range(machine.counts[IDLE]):
        total += max(0.0, beyond_extremes(machine, machine.idle[p], -np.inf))
    return total / machine.counts[IDLE]


@in_place
def remove_beyond(cache, machine, newest, bound, seed_max):
    """Remove idle points farther than `bound` beyond the extremes, except `newest`.

    Points exactly at `bound` are removed only if there are more than seed_max points. If one point has both labels and
    both copies are at the box, the gradients of all other points equal an extreme. If these points were removed, no
    later point would find a partner for a pair.
    """
    p = 0
    while p < machine.counts[IDLE]:
        s = machine.idle[p]
        far = beyond_extremes(machine, s, -np.inf)
        if far > bound or (far == bound and machine.counts[LIVE] > seed_max):
            leave(machine, s)  # this moves another point to place p
            if s != newest:
                drop_row(cache, s)
        else:
            p += 1


@in_place
def remove_farthest(cache, machine, newest, tau):
    """Remove the idle point farthest beyond the extremes if it is in no violating pair.

    Return whether a point was removed.
    """
    most, farthest = -tau, NONE
    for p in range(machine.counts[IDLE]):
        far = beyond_extremes(machine, machine.idle[p], most)
        if far > most:
            most, farthest = far, machine.idle[p]
    if farthest == NONE:
        return False
    leave(machine, farthest)
    if farthest != newest:
        drop_row(cache, farthest)
    return True


@in_place
def remove_blatant(points, cache, machine, newest, parameters):
    """Do step 4 of REPROCESS: remove points that can be in no violating pair. Undo the addition of `newest` completely.

    If idle points may stay, remove the farthest first, and only until there is room for the remaining points.
    """
    n = points.used[USED]
    if parameters.idle_max == 0:
        remove_beyond(cache, machine, newest, 0.0, parameters.seed_max)
    else:
        room, former = idle_room(machine, parameters.idle_max, parameters.points_max), -1
        while machine.counts[IDLE] > room + MANY and machine.counts[IDLE] != former:
            former = machine.counts[IDLE]
            remove_beyond(cache, machine, newest, mean_beyond(machine), parameters.seed_max)
        while machine.counts[IDLE] > room and remove_farthest(cache, machine, newest, parameters.tau):
            pass
    if newest != NONE and machine.class_of[newest] == NONE:
        pop_point(points)
        forget_slot(cache, newest)
        n -= 1
    # A removed point may have been an extreme in a column where everything is optimal already.
    for c in range(machine.alpha.shape[0]):
        i, j = machine.best_i[c], machine.best_j[c]
        if (i != NONE and machine.class_of[i] == NONE) or (j != NONE and machine.class_of[j] == NONE):
            scan_column(machine, c, n)
