"""Several columns of coefficients for one shared set of points.

With two classes there is one column (the second class is +1). With three or more there is one column per class,
one-versus-rest. An example's kernel row is computed only once for all columns. A point is removed when its coefficient
is 0 in every column.

cap = slots of the point store; K = number of columns.

alpha, g, lower, upper  (K, cap) float64   as in direction.py, per column.
up, down                (K, cap) uint8
sign                    (K, cap) int8      y of the point in the column.
class_of                (cap,) int32       class of the point, NONE for a hole.
key                     (cap,) int64       number of the example, which identifies it in a later epoch.
held                    (cap,) int32       number of columns in which alpha is not 0.
idle, idle_at           (cap,) int64       list of the points with held = 0; place of each point in it, or NONE.
nearest                 (cap,) int64       column in which an idle point was last nearest to the extremes.
listed                  (K,) int64         number of non-zero coefficients of the column; NONE if its list is too short.
listed_slots            (K, room) int32    their slots, ascending (room = cap / LISTED_PART, 0 for a single column).
listed_values           (K, room) float64  the coefficients: alpha without its zeros, for sums (terms.py).
lanes                   (LANES,) float64   scratch of these sums.
best_i, best_j          (K,) int64         extremes of each column (or NONE).
b, delta                (K,) float64       bias and violation after the last REPROCESS.
counts                  (4,) int64         live points, steps, examples learned, length of the idle list.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.counts import LIVE, NONE
from hinged.solvers.core.memory import aligned_empty, aligned_zeros, whole
from hinged.solvers.core.simd.lanes import LANES
from hinged.solvers.dual.direction import extremes
from hinged.solvers.dual.listed import LISTED_PART, list_coefficient, list_coefficients_anew
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

IDLE = 3  # place in `counts` of the idle list's length, after the places that all solvers share (counts.py)

MOVED = 1 << 16  # number of entries moved at once: their temporary copy, half a megabyte, is put into reused memory

HINGE, RAMP, ASIDE = range(3)
"""Stance of an example in a column, which selects its box:

HINGE, the box of y; RAMP, the box of an outlier of the ramp loss (Ertekin et al. 2011, eq. 17 with beta = C: (-C, 0)
for y = +1 and (0, C) for y = -1); ASIDE, a box that contains only 0.
"""


@handed
class Machine(NamedTuple):
    """The arrays in the form that compiled code uses; see the module's docstring."""

    alpha: Array
    g: Array
    lower: Array
    upper: Array
    up: Array
    down: Array
    sign: Array
    class_of: Array
    key: Array
    held: Array
    idle: Array
    idle_at: Array
    nearest: Array
    listed: Array
    listed_slots: Array
    listed_values: Array
    lanes: Array
    best_i: Array
    best_j: Array
    b: Array
    delta: Array
    counts: Array


BY_COLUMN = ("alpha", "g", "lower", "upper", "up", "down", "sign")
LISTS = ("listed_slots", "listed_values")
OF_COLUMN = ("listed", "best_i", "best_j", "b", "delta")
BY_SLOT = ("class_of", "key", "held", "idle", "idle_at", "nearest")


def empty_machine(columns: int, cap: int, rows: int = 0) -> Machine:
    """Return a machine without points. rows: number of columns to reserve room for, if larger than `columns`."""
    f, room = (max(rows, columns), cap), cap // LISTED_PART if columns > 1 else 0
    return Machine(
        alpha=aligned_zeros(f)[:columns],
        g=aligned_zeros(f)[:columns],
        lower=aligned_zeros(f)[:columns],
        upper=aligned_zeros(f)[:columns],
        up=aligned_zeros(f, np.uint8)[:columns],
        down=aligned_zeros(f, np.uint8)[:columns],
        sign=aligned_zeros(f, np.int8)[:columns],
        class_of=np.full(cap, NONE, np.int32),
        key=np.full(cap, NONE, np.int64),
        held=np.zeros(cap, np.int32),
        idle=np.zeros(cap, np.int64),
        idle_at=np.full(cap, NONE, np.int64),
        nearest=np.zeros(cap, np.int64),
        listed=np.zeros(columns, np.int64),
        listed_slots=aligned_empty((f[0], room), np.int32)[:columns],
        listed_values=aligned_empty((f[0], room))[:columns],
        lanes=np.zeros(LANES),
        best_i=np.full(columns, NONE, np.int64),
        best_j=np.full(columns, NONE, np.int64),
        b=np.zeros(columns),
        delta=np.zeros(columns),
        counts=np.zeros(4, np.int64),
    )


@in_place
def enter(machine, s, example_class, key, bound, f, stance):
    """Add slot s to every column: alpha = 0, g = y - f, and the box of its stance (K,).

    f (K,) is sum_r alpha_r K_rs, without the bias.
    """
    columns = machine.alpha.shape[0]
    machine.class_of[s] = example_class
    machine.key[s] = key
    machine.held[s] = 0
    machine.nearest[s] = example_class if columns > 1 else 0
    for c in range(columns):
        positive = example_class == (1 if columns == 1 else c)
        machine.alpha[c, s] = 0.0
        machine.sign[c, s] = 1 if positive else -1
        rises = stance[c] != ASIDE and positive == (stance[c] == HINGE)
        falls = stance[c] != ASIDE and positive != (stance[c] == HINGE)
        machine.lower[c, s] = -bound if falls else 0.0
        machine.upper[c, s] = bound if rises else 0.0
        machine.up[c, s] = rises
        machine.down[c, s] = falls
        g = (1.0 if positive else -1.0) - f[c]
        machine.g[c, s] = g
        # The new slot is the highest, so it wins no tie.
        if rises and (machine.best_i[c] == NONE or g > machine.g[c, machine.best_i[c]]):
            machine.best_i[c] = s
        if falls and (machine.best_j[c] == NONE or g < machine.g[c, machine.best_j[c]]):
            machine.best_j[c] = s
    machine.counts[LIVE] += 1
    _list_idle(machine, s)


@in_place
def _list_idle(machine, s):
    machine.idle_at[s] = machine.counts[IDLE]
    machine.idle[machine.counts[IDLE]] = s
    machine.counts[IDLE] += 1


@in_place
def _unlist_idle(machine, s):
    last = machine.counts[IDLE] - 1
    moved = machine.idle[last]
    machine.idle[machine.idle_at[s]] = moved
    machine.idle_at[moved] = machine.idle_at[s]
    machine.idle_at[s] = NONE
    machine.counts[IDLE] = last


@in_place
def note_change(machine, c, s, before):
    """Update `held`, the idle list and the listed coefficients after alpha of slot s changed in column c."""
    now = machine.alpha[c, s]
    if before == 0.0 and now != 0.0:
        if machine.held[s] == 0:
            _unlist_idle(machine, s)
        machine.held[s] += 1
    elif before != 0.0 and now == 0.0:
        machine.held[s] -= 1
        if machine.held[s] == 0:
            _list_idle(machine, s)
    if machine.listed[c] != NONE:
        list_coefficient(machine, c, s, now)


@in_place
def list_anew(machine, n):
    """Rebuild `held`, the idle list (in the order of the slots) and the listed coefficients from alpha."""
    machine.counts[IDLE] = 0
    for s in range(machine.idle_at.shape[0]):
        machine.idle_at[s] = NONE
    for s in range(n):
        machine.held[s] = 0
    for c in range(machine.alpha.shape[0]):
        alpha = machine.alpha[c]
        for s in range(n):
            machine.held[s] += alpha[s] != 0.0
    for s in range(n):
        if machine.class_of[s] != NONE and machine.held[s] == 0:
            _list_idle(machine, s)
    list_coefficients_anew(machine, n)


@in_place
def leave(machine, s):
    """Turn slot s, whose alpha is 0 in every column, into a hole."""
    for c in range(machine.alpha.shape[0]):
        machine.up[c, s] = 0
        machine.down[c, s] = 0
        machine.lower[c, s] = 0.0  # so that sums over all slots can ignore holes
        machine.upper[c, s] = 0.0
    machine.class_of[s] = NONE
    machine.key[s] = NONE
    _unlist_idle(machine, s)
    machine.counts[LIVE] -= 1


@in_place
def find_key(machine, n, key):
    """Return the slot of the point with this key, or NONE."""
    for s in range(n):
        if machine.key[s] == key and machine.class_of[s] != NONE:
            return s
    return NONE


@in_place
def scan_column(machine, c, n):
    """Find the extremes of column c again."""
    i, j = extremes(machine.g[c, :n], machine.up[c, :n], machine.down[c, :n])
    machine.best_i[c], machine.best_j[c] = i, j


@in_place
def set_bias(machine, c):
    """Set b and delta of column c from its extremes (Bordes et al. 2005, eq. 10).

    If one side is empty, the column has seen only one sign: then b is that sign (+1 or -1), and delta is 0.
    """
    i, j = machine.best_i[c], machine.best_j[c]
    if i != NONE and j != NONE:
        machine.b[c] = (machine.g[c, i] + machine.g[c, j]) / 2.0
        machine.delta[c] = machine.g[c, i] - machine.g[c, j]
    else:
        machine.b[c] = machine.g[c, i] if i != NONE else (machine.g[c, j] if j != NONE else 0.0)
        machine.delta[c] = 0.0


@in_place
def beyond_extremes(machine, s, enough):
    """Return how far idle slot s lies beyond the extremes, in the column where it is nearest to them.

    The distance is positive for a point that is in no violating pair, and 0 for a point whose gradient equals an
    extreme. A column with an empty side gives no distance. If no column gives a distance, the function returns -inf.

    If the distance is at most `enough`, the function may return any number from the distance to `enough`. The search
    starts with the column that was nearest last time (for a new point, the column of its class). It ends as soon as the
    distance in a column is at most `enough`.
    """
    least, judged = np.inf, False
    columns = machine.alpha.shape[0]
    first = machine.nearest[s]
    for p in range(columns):
        c = p if p > first else first if p == 0 else p - 1
        i, j = machine.best_i[c], machine.best_j[c]
        if i == NONE or j == NONE:
            continue
        judged = True
        far = machine.g[c, j] - machine.g[c, s] if machine.sign[c, s] > 0 else machine.g[c, s] - machine.g[c, i]
        if far < least:
            least, machine.nearest[s] = far, c
        if least <= enough:
            return least
    return least if judged else -np.inf


@in_place
def slack_of(machine, s):
    """Return how far idle slot s is from becoming a support vector in any column.

    The distance in a column is -g at the lower bound and g at the upper bound.
    """
    least = np.inf
    for c in range(machine.alpha.shape[0]):
        if machine.up[c, s] != 0:
            least = min(least, -machine.g[c, s])
        if machine.down[c, s] != 0:
            least = min(least, machine.g[c, s])
    return least


@compiled
def working_set_gap(machine, n):
    """Return the duality gap of the working set, summed over columns: sum_s max over the box of (a - alpha_s)(g_s - b).

    It is never negative (Ertekin et al. 2011, eq. 9 corrected, with the bias of each column).
    """
    total = 0.0
    for c in range(machine.alpha.shape[0]):
        b = machine.b[c]
        for s in range(n):
            if machine.class_of[s] != NONE:
                slack = machine.g[c, s] - b
                rise = (machine.upper[c, s] - machine.alpha[c, s]) * slack
                fall = (machine.lower[c, s] - machine.alpha[c, s]) * slack
                total += max(rise, fall)
    return total


@compiled
def dual_objective(machine, n):
    """Return W(alpha) = alpha.y - 1/2 alpha.K.alpha, summed over columns.

    As g = y - K alpha, W is 1/2 alpha.(y + g).
    """
    total = 0.0
    for c in range(machine.alpha.shape[0]):
        for s in range(n):
            total += machine.alpha[c, s] * (machine.sign[c, s] + machine.g[c, s])
    return total / 2.0


def resized(machine: Machine, slots: Array, cap: int) -> Machine:
    """Return the live slots of `slots`, ascending, in arrays of `cap` slots; reuse the arrays if the size stays."""
    columns, n, former = machine.alpha.shape[0], slots.size, machine.class_of.size
    place = np.full(former, NONE, np.int64)
    place[slots] = np.arange(n)
    new = machine if cap == former else empty_machine(columns, cap, whole(machine.alpha).shape[0])
    for name in BY_COLUMN:
        _move_slots(getattr(machine, name), slots, getattr(new, name))
    for name in ("class_of", "key", "held", "nearest"):
        getattr(new, name)[:n] = getattr(machine, name)[slots]
    # The order of the idle list determines the order in which points are removed, so the list keeps its order.
    idle = machine.idle[: machine.counts[IDLE]]
    new.idle[: idle.size] = place[idle]
    if new is machine:
        _empty_slots(machine, n)
    new.idle_at[new.idle[: idle.size]] = np.arange(idle.size)
    new.b[:], new.delta[:], new.counts[:] = machine.b, machine.delta, machine.counts
    for name in ("best_i", "best_j"):
        old = getattr(machine, name)
        getattr(new, name)[:] = np.where(old == NONE, NONE, place[old])
    list_coefficients_anew(new, n)
    return new


def _move_slots(source: Array, slots: Array, target: Array) -> None:
    """Copy `source` (K, cap) at `slots` (n,) to target (K, at least n). Both may be the same array."""
    at_once = max(1, MOVED // max(slots.size, 1))
    for c in range(0, len(source), at_once):
        target[c : c + at_once, : slots.size] = source[c : c + at_once, slots]


def _empty_slots(machine: Machine, n: int) -> None:
    """Clear the slots from n on, and their places in the idle list."""
    machine.class_of[n:], machine.key[n:], machine.held[n:], machine.nearest[n:] = NONE, NONE, 0, 0
    machine.idle_at[:] = NONE
    for name in BY_COLUMN:
        getattr(machine, name)[:, n:] = 0


def widths(machine: Machine, n: int) -> Array:
    """Return (n,) the width of each point's box, in the column where it is widest."""
    return widths_at(machine, slice(n))


def widths_at(machine: Machine, slots: Array | slice) -> Array:
    """Return the width of each box of some slots, in the column where it is widest."""
    found: Array = np.maximum(machine.upper[:, slots], -machine.lower[:, slots]).max(axis=0, initial=0.0)
    return found


@in_place
def set_masks(machine, n):
    """Set the masks of coefficients that may rise or fall, from the coefficients."""
    for c in range(machine.alpha.shape[0]):
        for s in range(n):
            live = machine.class_of[s] != NONE
            machine.up[c, s] = live and machine.alpha[c, s] < machine.upper[c, s]
            machine.down[c, s] = live and machine.alpha[c, s] > machine.lower[c, s]


@in_place
def shrink(machine, n, factor):
    """Multiply coefficients and boxes by a factor, and update gradients: g = y - K alpha becomes y - factor (y - g)."""
    for c in range(machine.alpha.shape[0]):
        for s in range(n):
            machine.alpha[c, s] *= factor
            machine.lower[c, s] *= factor
            machine.upper[c, s] *= factor
            machine.g[c, s] = machine.g[c, s] * factor + (1.0 - factor) * np.float64(machine.sign[c, s])
    set_masks(machine, n)


def _with_rows(array: Array, rows: int) -> Array:
    """Return an array (K, width) extended to `rows` rows by rows of zeros, without a copy if there is room.

    The array is the beginning of a larger array. Rows that have not been used yet take no memory.
    """
    room = whole(array)
    if room.shape[0] < rows:
        room = aligned_zeros((2 * rows, array.shape[1]), array.dtype)
        room[: array.shape[0]] = array
    return room[:rows]


def _box_widths(machine: Machine, n: int, bounds: Array) -> Array:
    """Return (n,) the width of each point's box in its class's column, else the widest, else its class's bound."""
    found, live = np.zeros(n), np.flatnonzero(machine.class_of[:n] != NONE)
    own = machine.class_of[live]
    found[live] = np.maximum(machine.upper[own, live], -machine.lower[own, live])
    without = live[found[live] == 0.0]
    found[without] = widths_at(machine, without)
    without = without[found[without] == 0.0]
    found[without] = bounds[machine.class_of[without]]
    return found


def _of_two_columns(machine: Machine) -> Machine:
    """Return a machine with one column for each of two classes.

    The second class keeps its column. The first class gets the negation of that column.
    """
    new = empty_machine(2, machine.class_of.size)
    for name in BY_SLOT:
        getattr(new, name)[:] = getattr(machine, name)
    new.held[:] *= 2
    new.counts[:] = machine.counts
    for name in ("alpha", "g", "b"):
        getattr(new, name)[0] = 0.0 - getattr(machine, name)[0]
    new.lower[0], new.upper[0] = 0.0 - machine.upper[0], 0.0 - machine.lower[0]
    new.up[0], new.down[0], new.sign[0] = machine.down[0], machine.up[0], -machine.sign[0]
    new.delta[0] = machine.delta[0]
    for name in (*BY_COLUMN, "b", "delta"):
        getattr(new, name)[1] = getattr(machine, name)[0]
    return new


def with_more_classes(machine: Machine, classes: int, n: int, bounds: Array) -> Machine:
    """Return the machine for `classes` >= 3 classes. It may share arrays with the former machine.

    With one column before (two classes), the second class keeps the column and the first gets its negation. Every new
    column starts at alpha = 0, and all points in it are negatives.
    """
    if machine.alpha.shape[0] == 1:
        machine = _of_two_columns(machine)
        for c in range(2):
            scan_column(machine, c, n)
        list_coefficients_anew(machine, n)
    old = machine.alpha.shape[0]
    rows = {name: _with_rows(getattr(machine, name), classes) for name in (*BY_COLUMN, *LISTS)}
    ends = {}
    for name in OF_COLUMN:
        former = getattr(machine, name)
        ends[name] = np.append(former, np.zeros(classes - old, former.dtype))
    machine = machine._replace(**rows, **ends)
    live, width = machine.class_of[:n] != NONE, _box_widths(machine, n, bounds)
    for c in range(old, classes):
        machine.g[c, :n] = np.where(live, -1.0, 0.0)
        machine.sign[c, :n] = np.where(live, -1, 0)
        machine.lower[c, :n] = np.where(live, -width, 0.0)
        machine.down[c, :n] = live
        scan_column(machine, c, n)
        set_bias(machine, c)
    return machine


def bytes_of(machine: Machine) -> int:
    """Return the memory of the arrays, in bytes."""
    return int(sum(a.nbytes for a in machine))
