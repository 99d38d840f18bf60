"""Solvers that keep the gradient of every point they hold: the arrays of solvers/machine.py and a kernel-row cache."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from solvers import machine as m
from solvers import smo
from solvers.compiled import compiled
from solvers.coordinate import violation
from solvers.direction import NONE, extremes, move_gradient
from solvers.expansion import Expansion
from solvers.kernels import Kernel
from solvers.machine import (
    IDLE,
    LEARNED,
    STEPS,
    Machine,
    leave,
    note_change,
    scan_column,
    set_bias,
    slack_of,
)
from solvers.points import USED
from solvers.rowcache import HITS, MISSES, VALUES, RowCache, cached_row, clear, drop_row, new_cache
from solvers.solver import Certificate, Finish, PointScores, State, StateReader, certificate_of

Array = np.ndarray[Any, Any]

HOLES_PART = 4  # holes are compacted away when there is one for four live points


RESETTLE_STEPS = 20  # steps that make good for a point that had to leave


@compiled
def least_useful(machine, n):
    """The point to give up first: the idle one with the largest slack, else that with the least |alpha| in all."""
    least, chosen = np.inf, NONE
    for s in range(n):
        if machine.class_of[s] == NONE:
            continue
        use = 0.0
        for c in range(machine.alpha.shape[0]):
            use += abs(machine.alpha[c, s])
        if machine.held[s] == 0:
            use = -max(0.0, slack_of(machine, s))
        if use < least:
            least, chosen = use, s
    return chosen


@compiled
def expel(kernel, points, cache, machine, s, biased):
    """Take slot s out of every column. With a bias the points that gain most, or lose least, take over its alpha."""
    n = points.used[USED]
    for c in range(machine.alpha.shape[0]):
        alpha, g = machine.alpha[c, :n], machine.g[c, :n]
        up, down = machine.up[c, :n], machine.down[c, :n]
        up[s], down[s] = 0, 0
        row_s = cached_row(kernel, points, cache, s, NONE)
        while alpha[s] != 0.0:
            i, j = extremes(g, up, down)
            t = i if alpha[s] > 0.0 else j
            if not biased or t == NONE:  # with a bias, the last digits of a sum of others at their bounds
                move_gradient(g, -alpha[s], 0.0, row_s, row_s, up, down)
                alpha[s] = 0.0
                note_change(machine, s, False, True)
                break
            room = machine.upper[c, t] - alpha[t] if alpha[s] > 0.0 else machine.lower[c, t] - alpha[t]
            part = room if abs(room) < abs(alpha[s]) else alpha[s]
            was_zero = alpha[t] == 0.0
            alpha[t] = machine.upper[c, t] if part == room and part > 0.0 else alpha[t] + part
            if part == room and part < 0.0:
                alpha[t] = machine.lower[c, t]
            alpha[s] = 0.0 if part == alpha[s] else alpha[s] - part
            up[t], down[t] = alpha[t] < machine.upper[c, t], alpha[t] > machine.lower[c, t]
            row_t = cached_row(kernel, points, cache, t, s)
            move_gradient(g, part, -part, row_t, row_s, up, down)
            note_change(machine, t, was_zero, alpha[t] == 0.0)
            note_change(machine, s, False, alpha[s] == 0.0)
    leave(machine, s)
    drop_row(cache, s)


class DualExpansion(Expansion):
    """An expansion with gradients and a kernel-row cache. Parameters: solvers/solver.py."""

    machine: Machine
    cache: RowCache
    biased: ClassVar[bool] = True
    parameters: Any  # of the subclass, for compiled code; `tol` among them

    def __init__(self, kernel: Kernel, dim: int, **shared: Any) -> None:
        super().__init__(kernel, dim, **shared)
        self.cache = new_cache(self.points, dim, self.cache_bytes)

    def _empty(self, columns: int, cap: int) -> Machine:
        return m.empty_machine(columns, cap)

    def _resized(self, slots: Array, cap: int) -> Machine:
        return m.resized(self.machine, slots, cap)

    def _widened(self, classes: int) -> Machine:
        return m.with_more_classes(self.machine, classes, self.slots, self.bounds)

    def _moved(self) -> None:
        if self.cache.line_of.size == self.points.start.size:
            clear(self.cache)  # its memory is warm
        else:
            self.cache = new_cache(self.points, self.dim, self.cache_bytes, self.cache)

    def point_scores(self) -> PointScores | None:
        """Decision values at the points held, from their gradients: f = y - g + b."""
        slots, machine = self._live_slots(), self.machine
        scores = machine.sign[:, slots] - machine.g[:, slots] + machine.b[:, None]
        # The ramp loss gives an outlier the box of the other label.
        wrong = np.where(machine.sign > 0, machine.upper <= 0.0, machine.lower >= 0.0)[:, slots]
        own = np.arange(slots.size)
        classes = machine.class_of[slots]
        aside = wrong[0] if self.columns == 1 else wrong[np.maximum(classes, 0), own]
        return PointScores(self.keys(), classes, scores.T, aside)

    # -- optimising -----------------------------------------------------------------------------------------------

    def _optimise(self, tol: float) -> Finish:
        """Optimise every column over the points held until nothing violates by more than tol."""
        if self.live < self.slots:
            self.compact()
        steps, converged = 0, True
        for box in self._boxes():
            done = smo.solve(self.kernel, self.points, self.cache, box, self.dim, tol, biased=self.biased)
            steps, converged = steps + done.steps, converged and done.converged
        self._settle(steps)
        return Finish(steps, converged)

    def remove_least(self) -> None:
        """Remove the least useful point and make good for it in the others."""
        expel(self.kernel, self.points, self.cache, self.machine, least_useful(self.machine, self.slots), self.biased)
        advance = smo.smo_steps if self.biased else smo.coordinate_steps
        steps = sum(
            advance(self.kernel, self.points, self.cache, box, self.parameters.tol, RESETTLE_STEPS)[0]
            for box in self._boxes()
        )
        self._settle(steps)
        if (self.slots - self.live) * HOLES_PART > self.live:
            self.compact()

    def _boxes(self) -> list[smo.Box]:
        return [
            smo.Box(*(getattr(self.machine, name)[c, : self.slots] for name in smo.Box._fields))
            for c in range(self.columns)
        ]

    def _settle(self, steps: int) -> None:
        """Bring everything that follows from the coefficients up to date."""
        machine, n = self.machine, self.slots
        machine.counts[STEPS] += steps
        for c in range(self.columns):
            scan_column(machine, c, n)
            if self.biased:
                set_bias(machine, c)
            else:
                machine.delta[c] = violation(machine.g[c], machine.best_i[c], machine.best_j[c])
        m.list_idle_anew(machine, n)
        self._settled()

    def _settled(self) -> None:
        """Called when all coefficients may have changed."""

    # -- reading --------------------------------------------------------------------------------------------------

    def _delta(self) -> Array:
        return self.machine.delta.copy()

    def certificate(self) -> Certificate:
        """Sizes, dual and primal objective, gap of the working set, KKT violation."""
        return certificate_of(
            support_vectors=int((self.machine.held[: self.slots] > 0).sum()),
            points=self.live,
            kernel_evaluations=int(self.cache.counters[VALUES]),
            steps=int(self.machine.counts[STEPS]),
            dual=float(m.dual_objective(self.machine, self.slots)),
            gap=float(m.working_set_gap(self.machine, self.slots)),
            kkt_violation=float(self.machine.delta.max(initial=0.0)),
        )

    def cache_figures(self) -> dict[str, int]:
        """How the row cache did: rows found, rows computed anew, bytes reserved."""
        counters = self.cache.counters
        return {
            "hits": int(counters[HITS]),
            "misses": int(counters[MISSES]),
            "bytes": self.cache.lines.nbytes,
        }

    def memory_bytes(self) -> int:
        """Memory of points and coefficients and of the cache lines that were used, bytes."""
        lines = int((self.cache.filled > 0).sum()) * self.cache.lines.shape[1] * self.cache.lines.itemsize
        return super().memory_bytes() + int(lines)

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Everything that the next prediction or update depends on, as arrays. Holes are kept, empty."""
        n, machine = self.slots, self.machine
        live = machine.class_of[:n] != NONE
        return self._shared_state() | {
            "key": machine.key[:n].copy(),
            "idle": machine.idle[: machine.counts[IDLE]].copy(),
            **{name: np.where(live, getattr(machine, name)[:, :n], 0.0) for name in ("alpha", "g", "lower", "upper")},
            **{name: getattr(machine, name).copy() for name in ("best_i", "best_j", "b", "delta")},
            "steps": machine.counts[STEPS : STEPS + 1].copy(),
            "learned": machine.counts[LEARNED : LEARNED + 1].copy(),
        }

    def load(self, state: State) -> None:
        """Take over a state of `state`. ValueError where an array does not fit the others or this configuration."""
        checked = StateReader(state)
        loaded = self._read_shared(checked)
        class_of, columns = loaded.class_of, loaded.columns
        n = class_of.size
        machine = m.empty_machine(columns, loaded.points.start.size)
        machine.class_of[:n] = class_of
        machine.key[:n] = checked.take("key", np.int64, (n,))
        for name in ("alpha", "g", "lower", "upper"):
            getattr(machine, name)[:, :n] = checked.take(name, np.float64, (columns, n))
        for name in ("b", "delta"):
            getattr(machine, name)[:] = checked.take(name, np.float64, (columns,))
        for name in ("best_i", "best_j"):
            slots = checked.take(name, np.int64, (columns,), NONE, n - 1)
            if (class_of[slots[slots != NONE]] == NONE).any():
                raise ValueError(f"{name} names a slot without a point")
            getattr(machine, name)[:] = slots
        alive = class_of != NONE
        for c in range(columns):
            positive = class_of == (1 if columns == 1 else c)
            machine.sign[c, :n] = np.where(alive, np.where(positive, 1, -1), 0)
            machine.up[c, :n] = alive & (machine.alpha[c, :n] < machine.upper[c, :n])
            machine.down[c, :n] = alive & (machine.alpha[c, :n] > machine.lower[c, :n])
        machine.held[:n] = (machine.alpha[:, :n] != 0).sum(axis=0)
        idle = checked.take("idle", np.int64, (None,), 0, n - 1)
        if not np.array_equal(np.sort(idle), np.flatnonzero(alive & (machine.held[:n] == 0))):
            raise ValueError("idle must list the points without a coefficient")
        machine.idle[: idle.size] = idle
        machine.idle_at[idle] = np.arange(idle.size)
        machine.counts[:] = (
            alive.sum(),
            idle.size,
            checked.take("steps", np.int64, (1,), 0, 2**62)[0],
            checked.take("learned", np.int64, (1,), 0, 2**62)[0],
        )
        self._take_over(loaded, machine)
