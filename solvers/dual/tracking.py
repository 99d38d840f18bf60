"""Averaged tracking SVMs (Usunier, Bordes and Bottou, AISTATS 2010): an approximate optimum after every example.

Maximises, in each column, W(alpha) = alpha.y - 1/2 alpha.K.alpha over the box (0, C w_class) for y = +1,
(-C w_class, 0) for y = -1. There is no bias, so no equality constraint: a step moves one coefficient. At each time
step a fixed number K of such updates is spent on points drawn at random, and what predicts is the mean of the K
iterates of that time step. Arrays: machine.py, with b = 0, delta = 0 and the extremes unused, and

smooth  (columns, cap) float64  the averaged coefficients; they differ from alpha in the points just updated only

Algorithm 1 draws from all examples seen; so all are points, and the gradient of each is kept (section 5.1): a draw
that has nothing to update, as most have, costs nothing. Computed at each draw, gradients would take twice the kernel
values on Adult with K = 10 and twenty times with K = 100, or, if no value were ever forgotten, half of them, but still
a sum over all support vectors a draw. Algorithm 2 updates the new example first, outside the average (PROCESS). The
cached variant (section 5.2) is Algorithm 2 over the kernel expansion alone. The batch counterpart (section 6) takes
all examples at once.

Where this differs from the paper's listing:

- |x_i| <= 1 is not assumed: steps divide by K_ii. An example with K_ii = 0 (a zero row under a linear kernel) cannot
  change w; it is counted, and nothing else.
- The cached variant draws from the points that it holds, so that all K draws serve. As printed it draws from all
  examples seen, and passes over those that it does not hold.
- A draw serves all columns, so that a kernel row is computed once.
- The batch counterpart, which makes many more updates at a time than K, predicts by its last iterate.
- At points_max the least useful point leaves, and the updates of the time steps to come make good for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.compiled import compiled
from hinged.solvers.core.counts import (
    DONE,
    HOLES_PART,
    LEARNED,
    LIVE,
    NEEDS_COMPACTION,
    NEEDS_REST,
    NEEDS_ROOM,
    NONE,
    STEPS,
)
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.lanes import dot
from hinged.solvers.core.points import (
    USED,
    append_point,
    has_room,
    pop_point,
)
from hinged.solvers.core.random import random_below
from hinged.solvers.core.rowcache import (
    VALUES,
    cached_row,
    drop_row,
    forget_slot,
)
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import (
    Certificate,
    Finish,
    State,
    StateReader,
    certificate_of,
    check_range,
)
from hinged.solvers.dual import machine as m
from hinged.solvers.dual.dual import DualExpansion, work_of
from hinged.solvers.dual.lasvm import HOLES_MIN
from hinged.solvers.dual.machine import HINGE, IDLE, Machine, enter, find_key, leave, note_change

Array = np.ndarray[Any, Any]

ALGORITHMS = (1, 2, "cached", "batch")
K_MAX = 10_000


class Parameters(NamedTuple):
    """updates: K, 0 in the batch counterpart; process: update the new example first; expansion_only: hold no others.

    tol: of finishing. points_max: points above which the least useful one makes way.
    """

    tol: float
    updates: int
    process: bool
    expansion_only: bool
    points_max: int


@compiled
def optimum(g, alpha, lower, upper, curvature):
    """Where W is largest along one coordinate, within the box (eq. 3, by K_ii). Without curvature that is a bound."""
    if g == 0.0:
        return alpha
    return min(max(alpha + g / curvature, lower), upper)


@compiled
def subtract_row(g, step, row):
    """g -= step K_s, for the kernel row K_s (n,) of a point whose coefficient moved by `step`."""
    for s in range(g.shape[0]):
        g[s] -= step * np.float64(row[s])


@compiled
def move_to(kernel, points, cache, machine, c, s, target):
    """Set alpha of slot s in column c to `target`, and all gradients right."""
    n = points.used[USED]
    before = machine.alpha[c, s]
    machine.alpha[c, s] = target
    machine.up[c, s], machine.down[c, s] = target < machine.upper[c, s], target > machine.lower[c, s]
    note_change(machine, s, before == 0.0, target == 0.0)
    subtract_row(machine.g[c, :n], target - before, cached_row(kernel, points, cache, s, NONE))
    machine.counts[STEPS] += 1


@compiled
def update(kernel, points, cache, machine, smooth, expansion_only, s, part):
    """Update slot s in every column (lines 4 and 7); `part` of each step goes into the average.

    With expansion_only a coefficient of 0 stays (section 5.2, shortcut ii). Returns whether anything moved.
    """
    moved = False
    for c in range(machine.alpha.shape[0]):
        alpha, lower, upper = machine.alpha[c, s], machine.lower[c, s], machine.upper[c, s]
        if expansion_only and alpha == 0.0:
            continue
        target = optimum(machine.g[c, s], alpha, lower, upper, np.float64(points.selves[s]))
        if target != alpha:
            move_to(kernel, points, cache, machine, c, s, target)
            smooth[c, s] = min(max(smooth[c, s] + part * (target - alpha), lower), upper)
            moved = True
    return moved


@compiled
def draw(points, machine, random):
    """A uniformly drawn point. There must be one."""
    n = points.used[USED]
    s = random_below(random, n)
    while machine.class_of[s] == NONE:
        s = random_below(random, n)
    return s


@compiled
def drop_idle(cache, machine):
    """Drop the points without a coefficient."""
    while machine.counts[IDLE] > 0:
        s = machine.idle[machine.counts[IDLE] - 1]
        leave(machine, s)
        drop_row(cache, s)


@compiled
def least_useful(points, machine, n):
    """The point with the least sum over columns of |alpha| / (1 + loss)^2, with alpha as its next update would have it.

    By |alpha| alone the outliers at C would outlast all others, and soon be all that is held. Where the sum is 0, the
    point furthest from having a loss goes first.
    """
    least, worst = np.inf, NONE
    for s in range(n):
        if machine.class_of[s] == NONE:
            continue
        usefulness, loss = 0.0, -np.inf
        for c in range(machine.alpha.shape[0]):
            g, curvature = machine.g[c, s], np.float64(points.selves[s])
            target = optimum(g, machine.alpha[c, s], machine.lower[c, s], machine.upper[c, s], curvature)
            own = machine.sign[c, s] * g
            usefulness += abs(target) / (1.0 + max(own, 0.0)) ** 2
            loss = max(loss, own)
        if usefulness == 0.0:
            usefulness = loss
        if usefulness < least:
            least, worst = usefulness, s
    return worst


@compiled
def remove(kernel, points, cache, machine, smooth, s):
    """Take slot s out of the problem: its coefficients to 0 in every column."""
    for c in range(machine.alpha.shape[0]):
        smooth[c, s] = 0.0
        if machine.alpha[c, s] != 0.0:
            move_to(kernel, points, cache, machine, c, s, 0.0)
    leave(machine, s)
    drop_row(cache, s)


@compiled
def averaged_slots(machine, smooth, n, touched):
    """List in `touched` the slots whose averaged coefficient differs from the coefficient; returns how many."""
    count = 0
    for s in range(n):
        differs = False
        for c in range(smooth.shape[0]):
            differs = differs or smooth[c, s] != machine.alpha[c, s]
        if differs:
            touched[count] = s
            count += 1
    return count


@compiled
def learn_rows(
    kernel,
    points,
    cache,
    machine,
    smooth,
    parameters,
    bounds,
    seen,
    random,
    batch,
    begin,
    drawn,
    value_work,
    work_max,
    scores,
):
    """Time steps over rows begin.. of a batch; returns (rows done, why it stopped), as lasvm.py does.

    smooth (columns, cap); classes (m,) int64, keys (m,) int64; `again` says that rows may be held already (a further
    epoch). bounds (classes,) is C w_class; seen (classes,) counts the examples of each class; scores (m, columns)
    receives the decision values, by the averaged output, from right before each row is learned. drawn (1,): updates
    made of row `begin` already, NONE where it is not begun; as are those of the row where it stops. value_work,
    work_max: as there.
    """
    indptr, indices, values, norms, selves, classes, keys, again = batch
    columns, updates, expansion_only = machine.alpha.shape[0], parameters.updates, parameters.expansion_only
    f = np.zeros(columns)
    stance = np.full(columns, HINGE, np.int8)
    touched = np.empty(smooth.shape[1] + updates + 1, np.int64)
    averaged = averaged_slots(machine, smooth, points.used[USED], touched)
    values_before, steps, swept = cache.counters[VALUES], machine.counts[STEPS], 0
    for r in range(begin, classes.shape[0]):
        if drawn[0] == NONE:
            if swept + work_of(points, cache, machine, values_before, steps, value_work) > work_max:
                return r, NEEDS_REST
            swept += (2 * columns + 1) * points.used[USED]
            first, last = indptr[r], indptr[r + 1]
            if not has_room(points, last - first):
                return r, NEEDS_ROOM
            n = points.used[USED]
            k = find_key(machine, n, keys[r]) if again else NONE
            held = k != NONE
            if not held:
                k = append_point(points, indices[first:last], values[first:last], norms[r], selves[r])
            for c in range(columns):
                f[c] = 0.0
                scores[r, c] = 0.0
            if averaged > 0 or machine.counts[IDLE] < machine.counts[LIVE]:  # else w = 0
                row = cached_row(kernel, points, cache, k, NONE)
                for c in range(columns):
                    f[c] = dot(machine.alpha[c, :n], row[:n])
                    scores[r, c] = dot(smooth[c, :n], row[:n])
            # A new time step: the average of the last one has served.
            for p in range(averaged):
                for c in range(columns):
                    smooth[c, touched[p]] = machine.alpha[c, touched[p]]
            averaged = 0
            if expansion_only:
                drop_idle(cache, machine)
            if not again:
                seen[classes[r]] += 1
                machine.counts[LEARNED] += 1
            if not held:
                if selves[r] == 0:
                    pop_point(points)
                    forget_slot(cache, k)
                    continue
                enter(machine, k, classes[r], keys[r], bounds[classes[r]], f, stance)
                for c in range(columns):
                    smooth[c, k] = 0.0
                    machine.best_i[c] = NONE
                    machine.best_j[c] = NONE
                while machine.counts[LIVE] > parameters.points_max:
                    remove(kernel, points, cache, machine, smooth, least_useful(points, machine, k))
            if parameters.process and update(kernel, points, cache, machine, smooth, False, k, 1.0):
                touched[averaged] = k
                averaged += 1
            if expansion_only and not held and machine.held[k] == 0:
                leave(machine, k)
                pop_point(points)
                forget_slot(cache, k)
            drawn[0] = 0
        while drawn[0] < (updates if machine.counts[LIVE] > 0 else 0):
            s, u = draw(points, machine, random), drawn[0]
            drawn[0] += 1
            # Of the K iterates of this time step those from u on, K - u of them, hold the step of update u.
            if update(kernel, points, cache, machine, smooth, expansion_only, s, (updates - u) / updates):
                touched[averaged] = s
                averaged += 1
                if work_of(points, cache, machine, values_before, steps, value_work) > work_max:
                    return r, NEEDS_REST
        drawn[0] = NONE
        holes = points.used[USED] - machine.counts[LIVE]
        if holes > HOLES_MIN and holes * HOLES_PART > machine.counts[LIVE]:
            return r + 1, NEEDS_COMPACTION
    return classes.shape[0], DONE


@compiled
def random_updates(kernel, points, cache, machine, smooth, random, updates, value_work, work_max):
    """So many updates of points drawn at random, not averaged: the batch counterpart (section 6).

    Returns how many were made before work_max was reached.
    """
    values_before, steps = cache.counters[VALUES], machine.counts[STEPS]
    for u in range(updates):
        if work_of(points, cache, machine, values_before, steps, value_work) > work_max:
            return u
        update(kernel, points, cache, machine, smooth, False, draw(points, machine, random), 1.0)
    return updates


@compiled
def subtract_steps(kernel, points, cache, slots, steps, g):
    """g (n,) of a column, where the coefficients of these slots have moved by `steps`."""
    for p in range(slots.shape[0]):
        subtract_row(g, steps[p], cached_row(kernel, points, cache, slots[p], NONE))


class TrackingSVM(DualExpansion):
    """Averaged tracking over one or several columns. Other parameters: dual.py.

    algorithm: 1 or 2 of the paper, "cached" (section 5.2), or "batch", the batch counterpart (section 6): it enters a
    micro-batch at once, then makes rounds of as many random updates as it holds points, and predicts by its last
    iterate. K: updates at each time step; of "batch", rounds at most at each micro-batch. tol: largest violation that
    `finish` leaves, and at which "batch" ends its rounds; > 0.
    """

    biased = False
    keeps_extremes = False
    smooth: Array

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        algorithm: int | str = 2,
        K: int = 10,
        tol: float = 1e-3,
        **shared: Any,
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise ValueError(f"algorithm must be one of {', '.join(map(str, ALGORITHMS))}, got {algorithm!r}")
        if not 1 <= K <= K_MAX:
            raise ValueError(f"K must be from 1 to {K_MAX}, got {K}")
        if not 0 < tol < 1e3:
            raise ValueError(f"tol must be > 0 and < 1000, got {tol}")
        super().__init__(kernel, dim, **shared)
        self.algorithm = algorithm
        self.K = int(K)
        self.parameters = Parameters(
            tol=float(tol),
            updates=0 if algorithm == "batch" else self.K,
            process=algorithm in (2, "cached"),
            expansion_only=algorithm == "cached",
            points_max=int(self.points_max),
        )

    # -- arrays ---------------------------------------------------------------------------------------------------

    def _empty(self, columns: int, cap: int) -> Machine:
        self.smooth = np.zeros((columns, cap))
        return super()._empty(columns, cap)

    def _resized(self, slots: Array, cap: int) -> Machine:
        smooth = np.zeros((self.smooth.shape[0], cap))
        smooth[:, : slots.size] = self.smooth[:, slots]
        self.smooth = smooth
        return super()._resized(slots, cap)

    def _widened(self, classes: int) -> Machine:
        old, columns = self.smooth, self.smooth.shape[0]
        self.smooth = np.zeros((classes, old.shape[1]))
        if columns == 1:
            self.smooth[:2] = 0.0 - old[0], old[0]
        else:
            self.smooth[:columns] = old
        machine = super()._widened(classes)
        self._forget_extremes(machine)
        return machine

    # -- learning -------------------------------------------------------------------------------------------------

    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """A time step for each row of a batch (Solver.learn); with `again`, points that are held are not entered."""
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        scores = np.empty((len(rows), self.columns))
        bounds = self.bounds
        drawn = np.array([NONE])
        done, reason = 0, NEEDS_ROOM
        batch = rows.labelled(classes, keys, again=again)
        while done < len(rows):
            done, reason = learn_rows(
                self.kernel, self.points, self.cache, self.machine, self.smooth, self.parameters, bounds,
                self.seen, self.random, batch, done, drawn, self.value_work, turns.WORK_MAX, scores,
            )  # fmt: skip
            turns.rest()
            if reason == NEEDS_ROOM:
                self.make_room(int(rows.indptr[done + 1] - rows.indptr[done]))
            elif reason == NEEDS_COMPACTION:
                self.compact()
        if self.algorithm == "batch":
            self._update_all()
        return scores

    def _update_all(self) -> None:
        for _ in range(self.K):
            if self._violation(self.machine.alpha, self.machine.g) <= self.parameters.tol:
                break
            self.update_randomly(self.live)
        self.smooth[:] = self.machine.alpha

    def update_randomly(self, updates: int) -> None:
        """So many updates of points drawn at random, which the average does not hold. There must be a point."""
        while updates:
            updates -= random_updates(
                self.kernel, self.points, self.cache, self.machine, self.smooth, self.random, updates, self.value_work,
                turns.WORK_MAX,
            )  # fmt: skip
            turns.rest()

    def _take_out(self, slots: Array) -> None:
        self.smooth[:, slots] = 0.0
        moved, average = bool(self.machine.held[slots].any()), self.smooth.copy()
        super()._take_out(slots)
        if not moved:
            self.smooth = average
        elif self.algorithm == "batch":
            self._update_all()

    def finish(self) -> Finish:
        """Optimise every column over the points held until no coefficient violates by more than tol.

        The optimum then predicts: the average is of the next time step.
        """
        finish = self._optimise(self.parameters.tol)
        if self.parameters.expansion_only:
            drop_idle(self.cache, self.machine)
            self.compact()
        return finish

    def _settled(self) -> None:
        self._forget_extremes(self.machine)
        self.smooth[:] = self.machine.alpha

    @staticmethod
    def _forget_extremes(machine: Machine) -> None:
        machine.b[:], machine.delta[:] = 0.0, 0.0
        machine.best_i[:], machine.best_j[:] = NONE, NONE

    # -- reading --------------------------------------------------------------------------------------------------

    def _predicting(self) -> Array:
        return self.smooth

    def _violation(self, alpha: Array, g: Array) -> float:
        n, live = self.slots, self.machine.class_of[: self.slots] != NONE
        rises = live & (alpha[:, :n] < self.machine.upper[:, :n])
        falls = live & (alpha[:, :n] > self.machine.lower[:, :n])
        return float(max(g[:, :n].max(initial=0.0, where=rises), -g[:, :n].min(initial=0.0, where=falls)))

    def certificate(self) -> Certificate:
        """Where the averaged coefficients, those that predict, stand over the points held.

        The dual and primal objective, their gap, and the largest violation of a coefficient.
        """
        n = self.slots
        g, moved = self.machine.g.copy(), self.smooth[:, :n] - self.machine.alpha[:, :n]
        live, at_once = self.machine.class_of[:n] != NONE, turns.portion(n * self.value_work)
        for c in range(self.columns):
            slots = np.flatnonzero(live & (moved[c] != 0.0))
            for p in range(0, slots.size, at_once):
                some = slots[p : p + at_once]
                subtract_steps(self.kernel, self.points, self.cache, some, moved[c, some], g[c, :n])
                turns.rest()
        average = self.machine._replace(alpha=self.smooth, g=g)
        return certificate_of(
            support_vectors=int((self.smooth[:, :n] != 0).any(axis=0).sum()),
            points=self.live,
            kernel_evaluations=int(self.cache.counters[VALUES]),
            steps=int(self.machine.counts[STEPS]),
            dual=float(m.dual_objective(average, n)),
            gap=float(m.working_set_gap(average, n)),
            kkt_violation=self._violation(self.smooth, g),
        )

    def memory_bytes(self) -> int:
        """Memory of points and coefficients and of the cache lines that were used, bytes."""
        return super().memory_bytes() + int(self.smooth.nbytes)

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Everything that the next prediction or update depends on, as arrays. Holes are kept, empty."""
        return super().state() | {"smooth": self.smooth[:, : self.slots].copy()}

    def load(self, state: State) -> None:
        """Take over a state of `state`. ValueError where an array does not fit the others or this configuration."""
        smooth = StateReader(state).take("smooth", np.float64, state["alpha"].shape if "alpha" in state else (0, 0))
        lower, upper = (StateReader(state).take(name, np.float64, smooth.shape) for name in ("lower", "upper"))
        check_range("smooth", smooth, lower, upper)
        super().load(state)
        self.smooth = np.zeros(self.machine.alpha.shape)
        self.smooth[:, : self.slots] = smooth
