"""Solvers that keep the gradient of every point they hold: the arrays of solvers/machine.py and a kernel-row cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers import machine as m
from solvers.direction import NONE
from solvers.expansion import Expansion
from solvers.kernels import Kernel
from solvers.machine import IDLE, LEARNED, STEPS, Machine
from solvers.rowcache import HITS, MISSES, VALUES, RowCache, clear, new_cache
from solvers.solver import Certificate, State, StateReader, certificate_of

Array = np.ndarray[Any, Any]

CACHE_BYTES = 256 * 2**20


class DualExpansion(Expansion):
    """An expansion with gradients. cache_bytes: memory of the kernel-row cache; the rest: solvers/solver.py."""

    machine: Machine
    cache: RowCache

    def __init__(self, kernel: Kernel, dim: int, *, cache_bytes: int = CACHE_BYTES, **shared: Any) -> None:
        self.cache_bytes = cache_bytes
        super().__init__(kernel, dim, **shared)
        self.cache = new_cache(self.points, dim, cache_bytes)

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
            self.cache = new_cache(self.points, self.dim, self.cache_bytes, self.cache.counters)

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
