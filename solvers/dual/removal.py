"""Which points without a coefficient LASVM gives up: step 4 of its REPROCESS, and how many of them find room.

Bordes, Ertekin, Weston and Bottou, JMLR 6, 2005, section 3.2; lasvm.py says where this differs.
"""

from __future__ import annotations

import numpy as np

from hinged.solvers.core.counts import LIVE, NONE
from hinged.solvers.core.points import USED, pop_point
from hinged.solvers.core.rowcache import drop_row, forget_slot
from hinged.solvers.dual.machine import IDLE, beyond_extremes, leave, scan_column
from hinged.solvers.jit.compiled import in_place

IDLE_EACH = 4  # idle points for which there is room, a support vector
IDLE_PART = 8  # of idle_max, the part for which there is room whatever the support vectors take
MANY = 16  # points without room, above which they leave by the mean, and not one by one


@in_place
def idle_room(machine, idle_max, points_max):
    """How many idle points there is room for.

    IDLE_EACH of them a support vector, but no more than idle_max points in all; an IDLE_PART of idle_max whatever the
    support vectors take, but no more than a quarter of what these leave of points_max.
    """
    held = machine.counts[LIVE] - machine.counts[IDLE]
    return min(max(idle_max // IDLE_PART, min(IDLE_EACH * held, idle_max - held)), (points_max - held) // 4)


@in_place
def mean_beyond(machine):
    """How far idle points lie beyond the extremes in the mean. There must be some."""
    total = 0.0
    for p in range(machine.counts[IDLE]):
        total += max(0.0, beyond_extremes(machine, machine.idle[p], -np.inf))
    return total / machine.counts[IDLE]


@in_place
def remove_beyond(cache, machine, newest, bound, seed_max):
    """Drop idle points farther than `bound` beyond the extremes; the row of `newest` stays.

    Points just as far go only where more than seed_max points are held: with two labels of one point at the box all
    others are level with it, and if those left, none would ever meet another to pair with.
    """
    p = 0
    while p < machine.counts[IDLE]:
        s = machine.idle[p]
        far = beyond_extremes(machine, s, -np.inf)
        if far > bound or (far == bound and machine.counts[LIVE] > seed_max):
            leave(machine, s)  # moves another point to place p
            if s != newest:
                drop_row(cache, s)
        else:
            p += 1


@in_place
def remove_farthest(cache, machine, newest, tau):
    """Drop the idle point farthest beyond the extremes, if it is in no violating pair; whether there was one."""
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
    """REPROCESS, step 4: drop points that can be in no violating pair; take `newest` back without a trace.

    Where idle points are kept, only until the others find room, the farthest first.
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
    # A point that left may have been an extreme, where all is optimal already.
    for c in range(machine.alpha.shape[0]):
        i, j = machine.best_i[c], machine.best_j[c]
        if (i != NONE and machine.class_of[i] == NONE) or (j != NONE and machine.class_of[j] == NONE):
            scan_column(machine, c, n)
