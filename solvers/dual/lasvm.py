"""LASVM, an online kernel SVM (Bordes, Ertekin, Weston and Bottou, JMLR 6, 2005, section 3.2).

Maximises, in each column, W(alpha) = alpha.y - 1/2 alpha.K.alpha subject to sum(alpha) = 0 and the box
(0, C w_class) for y = +1, (-C w_class, 0) for y = -1. Arrays: machine.py; steps: direction.py.

Differences from the paper's listing:

- REPROCESS also removes blatant non-support vectors when it finds no violating pair. The paper's REPROCESS ends before
  that step, so on a stream that the machine predicts well, S would grow by every example.
- Points whose gradient equals an extreme stay, up to seed_max points. The paper removes them. With that rule, a stream
  that begins with the same point under both labels would never be learned.
- While all examples belong to one class there is no pair to search, so nothing would ever be removed. In this phase S
  is a uniform sample of at most seed_max examples (reservoir sampling), and the decision is that class.
- A point without a coefficient stays while there is room for it (idle_max), and REPROCESS is repeated until delta <=
  delta_max. With a large C, one REPROCESS per example leaves the machine far from its optimum. A point that is removed
  at that time is lost for ever. When there is no room, the idle points farthest beyond the extremes are removed.
- In the first epoch, tau is delta_min. With many columns, an example moves most columns only a little, and a small step
  costs as much as a useful step. Further epochs and finishing use tol. The paper's algorithm has delta_max None,
  delta_min 0 and idle_max 0.
- Finishing runs second-order SMO with shrinking instead of first-order REPROCESS steps. It reaches the same optimum in
  half the steps (smo.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Lt

from hinged.solvers.core import turns
from hinged.solvers.core.ahead import (
    BEGIN,
    END,
    FILLED,
    Ahead,
    are_worth,
    cut_back,
    is_ahead,
    look_ahead,
    nothing_ahead,
)
from hinged.solvers.core.counts import (
    DONE,
    HOLES_MIN,
    HOLES_PART,
    LEARNED,
    LIVE,
    NEEDS_COMPACTION,
    NEEDS_REMOVAL,
    NEEDS_REST,
    NEEDS_ROOM,
    NONE,
    STEPS,
)
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.parameters import Since, Unserved
from hinged.solvers.core.points import (
    USED,
    append_point,
    has_room,
)
from hinged.solvers.core.random import random_below
from hinged.solvers.core.reports import Finish, FinishRound, WholeFinish, untold
from hinged.solvers.core.rowcache import (
    VALUES,
    begin_line,
    cached_line,
    drop_row,
)
from hinged.solvers.core.rows import LabelledRows, Rows
from hinged.solvers.dual.direction import direction_search, second_order_partner
from hinged.solvers.dual.dual import DualExpansion
from hinged.solvers.dual.listed import expansion_sum, expansion_work
from hinged.solvers.dual.machine import (
    HINGE,
    IDLE,
    enter,
    find_key,
    leave,
    note_change,
    scan_column,
    set_bias,
)
from hinged.solvers.dual.optimum import optimise_over
from hinged.solvers.dual.pausing import COLUMN, REPEATED, SLOT, not_begun, work_of
from hinged.solvers.dual.removal import remove_blatant
from hinged.solvers.jit.compiled import in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

DELTA_MIN = (
    0.5  # largest violation that learning leaves to finishing, with several columns; half the margin has width 1
)
REPROCESS_MAX = 1_000  # maximum number of REPROCESS repetitions for one example, however large delta still is


@handed
class LASVMParameters(NamedTuple):
    """Parameters of LASVM. tau is the tau of the paper; it equals tol, except in a first epoch.

    delta_max: infinite for one REPROCESS per example. idle_max: total number of points up to which idle points stay.
    full_at: number of points at which a point must be removed before the next example.
    """

    tol: float
    delta_max: float
    tau: float
    seed_max: int
    second_order: bool
    idle_max: int
    points_max: int
    full_at: int


@in_place
def violating(machine, c, i, j, tau):
    """Return whether (i, j) is a tau-violating pair. The caller ensures that i is in up and j in down."""
    return i != NONE and j != NONE and machine.g[c, i] - machine.g[c, j] > tau


@in_place
def search(kernel, points, cache, machine, c, i, j):
    """Do a direction search in column c along (i, j); leave the column's new extremes in best_i, best_j."""
    n = points.used[USED]
    row_i = cache.lines[cached_line(kernel, points, cache, i, NONE), :n]
    row_j = cache.lines[cached_line(kernel, points, cache, j, i), :n]
    alpha = machine.alpha[c, :n]
    before_i, before_j = alpha[i], alpha[j]
    machine.best_i[c], machine.best_j[c] = direction_search(
        i,
        j,
        alpha,
        machine.g[c, :n],
        machine.lower[c, :n],
        machine.upper[c, :n],
        machine.up[c, :n],
        machine.down[c, :n],
        row_i,
        row_j,
    )
    note_change(machine, c, i, before_i)
    note_change(machine, c, j, before_j)
    machine.counts[STEPS] += 1


@in_place
def partner(kernel, points, cache, machine, c, i, j):
    """Return the partner of i that promises the largest gain, or j if every gain is 0 in float32.

    Glasmachers and Igel, Second-Order SMO Improves SVM Online and Active Learning, Neural Computation 20, 2008.
    """
    n = points.used[USED]
    row_i = cache.lines[cached_line(kernel, points, cache, i, NONE), :n]
    best = second_order_partner(i, machine.g[c, :n], row_i, points.selves[:n], machine.down[c, :n])
    return best if best != NONE else j


@in_place
def process(kernel, points, cache, machine, c, k, tau):
    """Do PROCESS(k), steps 3 to 5: pair the new point with the extreme of the other side and search."""
    i, j = machine.best_i[c], machine.best_j[c]
    if machine.sign[c, k] > 0:
        i = k
    else:
        j = k
    if violating(machine, c, i, j, tau):
        search(kernel, points, cache, machine, c, i, j)


@in_place
def reprocess(kernel, points, cache, machine, c, parameters, at, values, steps, value_work, work_max):
    """Do REPROCESS, steps 1 to 3 and 5, until delta <= delta_max; return False if work_max is reached first."""
    while at[REPEATED] < REPROCESS_MAX:
        i, j = machine.best_i[c], machine.best_j[c]
        if violating(machine, c, i, j, parameters.tau):
            if parameters.second_order:
                j = partner(kernel, points, cache, machine, c, i, j)
            search(kernel, points, cache, machine, c, i, j)
            set_bias(machine, c)
        else:
            set_bias(machine, c)
            return True
        if machine.delta[c] <= parameters.delta_max:
            return True
        at[REPEATED] += 1
        if work_of(points, cache, machine, values, steps, value_work) > work_max:
            return False
    return True


@in_place
def keep_in_sample(points, machine, cache, seen, seed_max, random):
    """Return whether to keep the newest of `seen` examples, by reservoir sampling while only one class has been seen.

    If the sample is full, remove a uniformly drawn point.
    """
    if machine.counts[LIVE] < seed_max:
        return True
    if random_below(random, seen) >= seed_max:
        return False
    n = points.used[USED]
    s = random_below(random, n)
    while machine.class_of[s] == NONE:
        s = random_below(random, n)
    leave(machine, s)
    drop_row(cache, s)
    for c in range(machine.alpha.shape[0]):
        scan_column(machine, c, points.used[USED])
    return True


@in_place
def begin_row(kernel, points, cache, machine, parameters, bounds, seen, random, indices, values, norm, self_value,
    own, key, again, ahead, r, f, stance, scores):  # fmt: skip
    """Predict example r of a batch, which is not in S yet, and add it to S.

    Return False if only the example's class has been seen. Then the example only enters the sample.
    """
    columns, n = machine.alpha.shape[0], points.used[USED]
    if not again or seen[own] == 0:  # a further epoch may bring back a dropped class
        seen[own] += 1
    machine.counts[LEARNED] += not again
    only_class = True
    for c in range(seen.shape[0]):
        only_class = only_class and (seen[c] == 0 or c == own)
    if only_class:
        for c in range(columns):
            scores[c] = machine.b[c]
            f[c] = 0.0
        if keep_in_sample(points, machine, cache, seen[own], parameters.seed_max, random):
            k = append_point(points, indices, values, norm, self_value)
            enter(machine, k, own, key, bounds[own], f, stance)
        for c in range(columns):
            set_bias(machine, c)
        return False
    k = append_point(points, indices, values, norm, self_value)
    if is_ahead(ahead, r):
        begin_line(cache, k, ahead.rows[r - ahead.of[BEGIN]], ahead.of[FILLED])
    line = cached_line(kernel, points, cache, k, NONE)
    cache.recent[line] = 0  # until the row is requested again
    row = cache.lines[line, :n]
    for c in range(columns):
        f[c] = expansion_sum(machine, c, row)
        scores[c] = f[c] + machine.b[c]
    enter(machine, k, own, key, bounds[own], f, stance)
    return True


@in_place
def learn_rows(
    kernel,
    points,
    cache,
    machine,
    parameters,
    bounds,
    seen,
    random,
    batch,
    begin,
    at,
    ahead,
    value_work,
    work_max,
    f,
    stance,
    scores,
):
    """Do online iterations over the rows of a batch from `begin` on; return (rows done, why it stopped).

    classes (m,) int64, keys (m,) int64. again: whether rows may be in S already (a further epoch). bounds (classes,): C
    w_class. seen (classes,): number of examples of each class so far. scores (m, K): receives the decision values just
    before each row is learned. f (K,) float64 is scratch. stance (K,) int8 is always HINGE. ahead: rows computed ahead.

    It stops before a row for which there is no room (NEEDS_ROOM), after a row with too many holes (NEEDS_COMPACTION),
    and when work_max is reached (NEEDS_REST). It may stop for a rest within a row: then `at` records the place
    (pausing.py). value_work: work of a kernel value.
    """
    indptr, indices, values, norms, selves, classes, keys, again = batch
    columns = machine.alpha.shape[0]
    values_before, steps, swept = cache.counters[VALUES], machine.counts[STEPS], 0
    for r in range(begin, classes.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        own = classes[r]
        n = points.used[USED]
        if at[COLUMN] == NONE:
            if swept + work_of(points, cache, machine, values_before, steps, value_work) > work_max:
                return r, NEEDS_REST
            if n == cache.lines.shape[1] or not has_room(points, last - first):
                return r, NEEDS_ROOM
            if machine.counts[LIVE] >= parameters.full_at:
                return r, NEEDS_REMOVAL
            swept += columns + n + expansion_work(machine, n) + columns * machine.counts[IDLE]
            s = find_key(machine, n, keys[r]) if again else NONE
            if s != NONE:  # PROCESS step 1: k is in S already; its decision value follows from its gradient
                for c in range(columns):
                    scores[r, c] = machine.sign[c, s] - machine.g[c, s] + machine.b[c]
                at[COLUMN], at[REPEATED], at[SLOT] = 0, 0, NONE
            elif begin_row(
                kernel, points, cache, machine, parameters, bounds, seen, random, indices[first:last],
                values[first:last], norms[r], selves[r], own, keys[r], again, ahead, r, f, stance,
                scores[r],
            ):  # fmt: skip
                at[COLUMN], at[REPEATED], at[SLOT] = 0, 0, points.used[USED] - 1
        held = at[COLUMN] != NONE and at[SLOT] == NONE
        while at[COLUMN] != NONE and at[COLUMN] < columns:
            c = at[COLUMN]
            if at[REPEATED] == 0 and not held:
                process(kernel, points, cache, machine, c, at[SLOT], parameters.tau)
            if not reprocess(
                kernel, points, cache, machine, c, parameters, at, values_before, steps, value_work, work_max
            ):
                return r, NEEDS_REST
            at[COLUMN], at[REPEATED] = c + 1, 0
            if at[COLUMN] < columns and (work_of(points, cache, machine, values_before, steps, value_work) > work_max):
                return r, NEEDS_REST
        if at[COLUMN] != NONE:
            remove_blatant(points, cache, machine, at[SLOT], parameters)
            cut_back(ahead, points.used[USED])
            at[COLUMN] = NONE
        if held:
            continue
        holes = points.used[USED] - machine.counts[LIVE]
        if holes > HOLES_MIN and holes * HOLES_PART > machine.counts[LIVE]:
            return r + 1, NEEDS_COMPACTION
    return classes.shape[0], DONE


class LASVM(DualExpansion):
    """LASVM with one or more columns. Other parameters: `DualExpansion`.

    tol: the paper's tau, > 0. delta_max: repeat REPROCESS for each example until delta <= delta_max (section 3.5); None
    for one REPROCESS per example. delta_min: learning leaves violations up to the smaller of delta_min and delta_max to
    further epochs and to finishing (None: DELTA_MIN with several columns, 0 with one). seed_max: number of examples
    stored while only one class has been seen; also the number of points above which points whose gradient equals an
    extreme are removed. second_order: choose the partner in REPROCESS by the promised gain. idle_max: number of points
    up to which points without a coefficient stay; above it there is still room for idle_max / 8 of them. The paper's
    LASVM has delta_max None, delta_min 0 and idle_max 0.
    """

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        tol: Annotated[float, Gt(0), Lt(1e3), "violations that the finishing step ignores"] = 1e-3,
        delta_min: Annotated[
            float | None,
            Ge(0),
            Lt(1e3),
            Since(0.0),
            "largest violation left to finishing; null: 0.5 with three or more classes, else 0, as in the paper",
        ] = None,
        delta_max: Annotated[
            float | None,
            Gt(0),
            "repeat REPROCESS for each example until no violation exceeds delta_max; null: once, as in the paper",
        ] = 2.0,
        second_order: Annotated[bool, "choose REPROCESS's partner by the promised gain"] = False,
        idle_max: Annotated[
            int,
            Ge(0),
            Lt(2**31),
            Since(0),
            "total number of points up to which points without a coefficient stay; 0: none stay, as in the paper",
        ] = 2000,
        seed_max: Annotated[
            int, Ge(1), Lt(2**31), Unserved, "examples stored while only one class has been seen"
        ] = 1000,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        if delta_max is not None and not delta_max > tol:
            raise ValueError(f"delta_max must be > tol = {tol}, got {delta_max}")
        self._leave(delta_min)
        self.parameters = LASVMParameters(
            float(tol),
            np.inf if delta_max is None else float(delta_max),
            float(tol),
            int(seed_max),
            bool(second_order),
            int(idle_max),
            int(self.points_max),
            self.full_at,
        )
        self.ahead, self.nothing_ahead = nothing_ahead(self.dtype), nothing_ahead(self.dtype)

    fades = True
    widens_lines = True

    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Do online iterations over a batch (Solver.learn).

        With `again`, reprocess points that are already in S, to tol.
        """
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        scores = np.empty((len(rows), self.columns))
        bounds = self.bounds
        at = not_begun()
        done = 0
        batch = rows.labelled(classes, keys, again=again)
        parameters = self.parameters._replace(tau=self._tau(DELTA_MIN, self.parameters.delta_max, again=again))
        f, stance = np.zeros(self.columns), np.full(self.columns, HINGE, np.int8)
        looks = not again and (self.seen > 0).sum() > 1
        ahead, part, reason = self.nothing_ahead, batch, DONE
        while done < len(rows):
            if looks and reason != NEEDS_REST:  # the slots have changed, or all rows computed ahead are learned
                ahead, part = self._look_ahead(batch, done)
            done, reason = learn_rows(
                self.kernel, self.points, self.cache, self.machine, parameters, bounds, self.seen, self.random,
                part, done, at, ahead, self.value_work, turns.WORK_MAX, f, stance, scores,
            )  # fmt: skip
            turns.rest()
            self._provide(reason, batch, done)
        return scores

    def _look_ahead(self, batch: LabelledRows, done: int) -> tuple[Ahead, LabelledRows]:
        """Compute rows of the batch together if that is faster; return them and the part of the batch they cover."""
        if not are_worth(self.kernel, self.points, batch.norms.size - done):
            return self.nothing_ahead, batch
        self.ahead = look_ahead(self.ahead, self.kernel, self.points, batch, done, self.value_work)
        end = self.ahead.of[END]
        self.cache.counters[VALUES] += (end - done) * self.slots
        return self.ahead, batch._replace(classes=batch.classes[:end])

    def memory_bytes(self) -> int:
        """Return the memory of points, coefficients, cached rows and rows computed ahead, in bytes."""
        return super().memory_bytes() + self.ahead.rows.nbytes

    def finish(self) -> Finish:
        """Do the finishing step: optimise every column over all points until delta <= tol."""
        if (self.seen > 0).sum() < 2:  # with one class there is nothing to solve, and its sample must stay
            return Finish(0, converged=True)
        finish = self.optimise(self.parameters.tol)
        self._put_away(self.parameters)
        return finish

    @property
    def reads_whole(self) -> bool:
        """Whether no example has faded, so that `finish_over` reads its data set."""
        return not self.fading

    def finish_over(
        self,
        rows: Rows,
        classes: Array,
        keys: Array,
        weights: Array | None = None,
        told: Callable[[FinishRound], None] = untold,
    ) -> WholeFinish:
        """Do the finishing step over a whole data set (optimum.py). It is over the points if older examples have faded,
        or if points_max has no room for all examples that the optimum needs.
        """
        if self.fading or (self.seen > 0).sum() < 2:
            return WholeFinish(*self.finish(), missing=0)
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        without_idle = self.parameters._replace(idle_max=0)
        weights = np.ones(len(rows)) if weights is None else weights
        before = self.state() if self.live + len(rows) > self.points_max else {}
        found = optimise_over(self, rows, classes, keys, weights, lambda: self._put_away(without_idle), told)
        if before and not found.converged:
            self.load(before)
            return found._replace(steps=found.steps + self.finish().steps)
        self._put_away(self.parameters)
        return found

    def _put_away(self, parameters: LASVMParameters) -> None:
        """Remove the points for which there is no room (removal.py), and release the memory of the cache."""
        remove_blatant(self.points, self.cache, self.machine, NONE, parameters)
        self.compact()
        self._give_back()
