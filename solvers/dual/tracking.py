"""Averaged tracking SVMs (Usunier, Bordes and Bottou, AISTATS 2010): an approximate optimum after every example.

Maximises, in each column, W(alpha) = alpha.y - 1/2 alpha.K.alpha over the box (0, C w_class) for y = +1, (-C w_class,
0) for y = -1. There is no bias, so there is no equality constraint, and a step moves one coefficient. Each time step
makes a fixed number K of updates at points drawn at random. Predictions use the mean of the K iterates of that time
step. Arrays: as in machine.py, with b = 0 and delta = 0 and unused extremes, plus

smooth  (columns, cap) float64  the averaged coefficients; they differ from alpha only in the points just updated.

Algorithm 1 draws from all examples seen. So all examples are points, and the solver stores the gradient of each
(section 5.1). Most draws find nothing to update, and such a draw costs nothing. If gradients were computed at each
draw, Adult would need twice as many kernel values with K = 10, and twenty times as many with K = 100. With a cache of
unlimited size it would need half as many, but still a sum over all support vectors per draw. Algorithm 2 updates the
new example first, outside the average (PROCESS). The cached variant (section 5.2) is Algorithm 2 with only the kernel
expansion. The batch counterpart (section 6) uses all examples at once.

Differences from the paper's listing:

- |x_i| <= 1 is not assumed: steps are divided by K_ii. An example with K_ii = 0 (a zero row with a linear kernel)
  cannot change w, so it is only counted.
- The cached variant draws from its own points, so that no draw is wasted. The paper's variant draws from all examples
  seen and skips those that are not points.
- One draw is used for all columns, so that a kernel row is computed once.
- Each update draws several points and updates the point that gains most. Before the averaged updates, at most BEFORE
  extra updates are made, until none of the points drawn violates much. With a large C, K uniform updates per example
  leave the machine far from its optimum. The paper's algorithm has draws 1 and delta_max None.
- The batch counterpart makes many more updates at a time than K, and predicts with its last iterate.
- At points_max the least useful point is removed, and the updates of later time steps compensate for it.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from hinged.solvers.core import turns
from hinged.solvers.core.counts import (
    NONE,
    STEPS,
)
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.parameters import Since
from hinged.solvers.core.reports import Certificate, Finish, certificate_of
from hinged.solvers.core.rowcache import (
    VALUES,
)
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.states import State, StateReader, check_range
from hinged.solvers.dual import machine as m
from hinged.solvers.dual.dual import DualExpansion
from hinged.solvers.dual.machine import HINGE, Machine
from hinged.solvers.dual.time_steps import (
    ALGORITHMS,
    K_MAX,
    TrackingParameters,
    drop_idle,
    learn_rows,
    random_updates,
    subtract_steps,
    touched_max,
)

Array = np.ndarray[Any, Any]


class TrackingSVM(DualExpansion):
    """Averaged tracking with one or more columns. Other parameters: `DualExpansion`.

    algorithm: 1 or 2 of the paper, "cached" (section 5.2), or "batch", the batch counterpart (section 6). "batch" adds
    a whole micro-batch, then makes rounds of random updates, and predicts with its last iterate. A round has as many
    updates as there are points. K: updates per time step; for "batch", the maximum number of rounds per micro-batch.
    tol: largest violation that `finish` leaves, and at which "batch" ends its rounds; > 0. draws: points drawn for each
    update. delta_max: before the averaged updates, updates are made until no drawn point violates by more than
    delta_max; None for no such updates. The paper uses draws=1 and delta_max=None, and "batch" always uses these
    values.
    """

    biased = False
    fades = True
    keeps_extremes = False
    measures_degradation = False
    smooth: Array

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        algorithm: int | str = 2,
        tol: Annotated[float, Gt(0), Lt(1e3), "violations that the finishing step ignores"] = 1e-3,
        K: Annotated[
            int,
            Ge(1),
            Le(K_MAX),
            "coordinate updates per example; for `tracking-batch`, maximum rounds per micro-batch",
        ] = 10,
        draws: Annotated[
            int,
            Ge(1),
            Le(K_MAX),
            Since(1),
            "number of points drawn for an update; the point that gains most is updated; 1 in the paper",
        ] = 100,
        delta_max: Annotated[
            float | None,
            Gt(0),
            Since(None),
            "before the averaged updates, update until no drawn point violates by more; null: no such updates",
        ] = 1.0,
        **shared: Any,
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise ValueError(f"algorithm must be one of {', '.join(map(str, ALGORITHMS))}, got {algorithm!r}")
        if delta_max is not None and algorithm != "batch" and not delta_max > tol:
            raise ValueError(f"delta_max must be > tol = {tol}, got {delta_max}")
        super().__init__(kernel, dim, **shared)
        self.algorithm = algorithm
        self.K = int(K)
        self.parameters = TrackingParameters(
            tol=float(tol),
            updates=0 if algorithm == "batch" else self.K,
            process=algorithm in (2, "cached"),
            expansion_only=algorithm == "cached",
            points_max=int(self.points_max),
            draws=int(draws),
            delta_max=np.inf if delta_max is None or algorithm == "batch" else float(delta_max),
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
        """Do a time step for each row of a batch (Solver.learn). With `again`, do not add points that exist already."""
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        scores = self._learn_run(rows, classes, keys, again=again)
        if self.algorithm == "batch":
            self._update_all()
        return scores

    def _learn_weighted(self, rows: Rows, classes: Array, keys: Array, weights: Array, *, again: bool) -> Array:
        scores = super()._learn_weighted(rows, classes, keys, weights, again=again)
        if self.algorithm == "batch":
            self._update_all()
        return scores

    def _learn_run(self, rows: Rows, classes: Array, keys: Array, *, again: bool) -> Array:
        scores = np.empty((len(rows), self.columns))
        bounds = self.bounds
        drawn = np.array([NONE])
        done = 0
        batch = rows.labelled(classes, keys, again=again)
        f, stance = np.zeros(self.columns), np.full(self.columns, HINGE, np.int8)
        while done < len(rows):
            touched = np.empty(touched_max(self.smooth.shape[1], self.parameters), np.int64)
            done, reason = learn_rows(
                self.kernel, self.points, self.cache, self.machine, self.smooth, self.parameters, bounds,
                self.seen, self.random, batch, done, drawn, self.value_work, turns.WORK_MAX,
                f, stance, touched, scores,
            )  # fmt: skip
            turns.rest()
            self._provide(reason, batch, done)
        return scores

    def _update_all(self) -> None:
        for _ in range(self.K):
            if self._violation(self.machine.alpha, self.machine.g) <= self.parameters.tol:
                break
            self.update_randomly(self.live)
        self.smooth[:] = self.machine.alpha

    def update_randomly(self, updates: int) -> None:
        """Make `updates` updates of points drawn at random, without averaging. There must be a point."""
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
        """Optimise every column over all points until no coefficient violates by more than tol.

        Afterwards the optimum predicts, and the average starts again with the next time step.
        """
        finish = self.optimise(self.parameters.tol)
        if self.parameters.expansion_only:
            drop_idle(self.cache, self.machine)
            self.compact()
        self._give_back()
        return finish

    def fade(self, factor: float) -> None:
        """Reduce the weight of everything learned so far, including the average (Solver.fade)."""
        average = self.smooth * factor
        super().fade(factor)
        self.smooth[:] = np.clip(average, self.machine.lower, self.machine.upper)

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
        """Report on the averaged coefficients, which predict, over all points.

        The report contains the dual and primal objective, their gap, and the largest violation of a coefficient.
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
        """Return the memory of points, coefficients and the row cache, in bytes."""
        return super().memory_bytes() + int(self.smooth.nbytes)

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return as arrays everything that the next prediction or update depends on. Holes are empty slots."""
        return super().state() | {"smooth": self.smooth[:, : self.slots].copy()}

    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """
        smooth = StateReader(state).take("smooth", np.float64, state["alpha"].shape if "alpha" in state else (0, 0))
        lower, upper = (StateReader(state).take(name, np.float64, smooth.shape) for name in ("lower", "upper"))
        check_range("smooth", smooth, lower, upper)
        super().load(state)
        self.smooth = np.zeros(self.machine.alpha.shape)
        self.smooth[:, : self.slots] = smooth
