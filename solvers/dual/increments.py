"""Exact learning and unlearning: after every example, the exact optimum for all examples that are held.

An example that is learned is a box that opens, and an example that is unlearned is a box that closes. Each change is a
straight line from a problem whose optimum is known (path.py). After each change the KKT conditions hold to 1e-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.counts import LEARNED, NONE
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.points import append_point, has_room
from hinged.solvers.core.reports import Finish
from hinged.solvers.core.rowcache import cached_row, drop_row
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.core.solver import columns_of
from hinged.solvers.core.states import State, StateReader, check_range
from hinged.solvers.dual.machine import HINGE, enter, leave
from hinged.solvers.dual.making_way import first_to_go
from hinged.solvers.dual.margin import FREE, HIGH, LOW, MARGIN_MIN, M, Margin, empty_margin, leave_margin
from hinged.solvers.dual.optimal import OptimalExpansion

Array = np.ndarray[Any, Any]


class ExactParameters(NamedTuple):
    """tol: the violation at which a repair stops."""

    tol: float


class IncrementalExpansion(OptimalExpansion):
    """Examples that are learned and unlearned exactly; kernel values are float64. Parameters: see `Solver`.

    All examples are points. With when_full "remove", an example is unlearned for each further example.
    """

    parameters = ExactParameters(1e-12)
    measures_degradation = False

    def __init__(self, kernel: Kernel, dim: int, *, dtype: type = np.float64, **shared: Any) -> None:
        if dtype != np.float64:
            raise ValueError(f"dtype must be float64: exact learning needs exact kernel values, got {dtype}")
        self.margins: list[Margin] = []
        super().__init__(kernel, dim, dtype=dtype, **shared)

    # -- learning -------------------------------------------------------------------------------------------------

    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Learn a batch, exactly after each example (Solver.learn).

        With `again`, skip examples that are points already.
        """
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        scores = np.empty((len(rows), self.columns))
        for r in range(len(rows)):
            if not again:
                self._count(classes[r : r + 1])
            scores[r] = self._enter(rows, r, int(classes[r]), int(keys[r]), again=again)
        return scores

    def learn_together(self, rows: Rows, classes: Array, keys: Array) -> None:
        """Learn a batch by one path, which has fewer events than one path per example. Errors: see Solver.learn."""
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        if self.live + len(rows) > self.points_max:
            raise ValueError(
                f"a batch learned together must fit: {self.live} + {len(rows)} of {self.points_max} points"
            )
        self._count(classes)
        slots = [self._store(rows, r, int(classes[r]), int(keys[r]))[0] for r in range(len(rows))]
        self._open(np.array(slots, np.int64))

    def _count(self, classes: Array) -> None:
        self.seen += np.bincount(classes, minlength=self.classes)
        self.machine.counts[LEARNED] += classes.size

    def _enter(self, rows: Rows, r: int, own: int, key: int, *, again: bool) -> Array:
        if again:
            held = np.flatnonzero(
                (self.machine.key[: self.slots] == key) & (self.machine.class_of[: self.slots] != NONE)
            )
            if held.size:
                return self.machine.sign[:, held[0]] - self.machine.g[:, held[0]] + self.machine.b
        while self.live >= self.points_max:
            self._take_out(self._first_to_go())
            self._tidy()
        slot, scores = self._store(rows, r, own, key)
        self._open(np.array([slot]))
        return scores

    def _store(self, rows: Rows, r: int, own: int, key: int) -> tuple[int, Array]:
        """Store a row in its slot with a box of width 0; return the row's decision values."""
        first, last = int(rows.indptr[r]), int(rows.indptr[r + 1])
        while not has_room(self.points, last - first):
            self.make_room(last - first)
        n, machine = self.slots, self.machine
        slot = int(
            append_point(self.points, rows.indices[first:last], rows.values[first:last], rows.norms[r], rows.selves[r])
        )
        row = cached_row(self.kernel, self.points, self.cache, slot, NONE)
        f = np.array([dot(machine.alpha[c, :n], row[:n]) for c in range(self.columns)])
        enter(machine, slot, own, key, self.bounds[own], f, np.full(self.columns, HINGE, np.int8))
        q = self._signs(np.array([own]), self.columns)[:, 0]
        machine.sign[:, slot], machine.g[:, slot] = q, q - f
        machine.lower[:, slot] = machine.upper[:, slot] = 0.0
        for margin in self.margins:
            margin.side[slot] = LOW
        return slot, f + machine.b

    def _open(self, slots: Array) -> None:
        """Let the boxes of these slots grow from width 0 to the box of their class."""
        n, machine = self.slots, self.machine
        for c in range(self.columns):
            lower, upper = machine.lower[c, :n].copy(), machine.upper[c, :n].copy()
            lower[slots], upper[slots] = self._box_of(c, slots)
            self._go(c, lower, upper)
        self._finish_change()

    def _box_of(self, c: int, slots: Array) -> tuple[Array, Array]:
        """Return the full boxes of these points in a column."""
        bound = self.machine.sign[c, slots] * self.bounds[self.machine.class_of[slots]]
        return np.minimum(bound, 0.0), np.maximum(bound, 0.0)

    def _first_to_go(self) -> Array:
        """Return the slot of the example that is unlearned first at points_max: the least useful (making_way.py)."""
        return first_to_go(self.machine, self.slots, 1)

    def unlearn(self, keys: Sequence[int] | Array) -> None:
        """Unlearn the examples with these keys, as if they had never been learned.

        Raise ValueError for an unknown key.
        """
        self._drop_slots(np.unique(self._slots_of(keys)))

    def _take_out(self, slots: Array) -> None:
        self._close(slots)
        for s in slots:
            leave(self.machine, int(s))
            drop_row(self.cache, int(s))
        self._finish_change()

    def _close(self, slots: Array) -> None:
        """Let the boxes of these slots shrink to width 0. Then their coefficients are 0 and none of them is free."""
        n, machine = self.slots, self.machine
        for c in range(self.columns):
            lower, upper = machine.lower[c, :n].copy(), machine.upper[c, :n].copy()
            lower[slots] = upper[slots] = 0.0
            self._go(c, lower, upper)
            machine.alpha[c, slots] = 0.0
            margin = self.margins[c]
            for s in slots:
                if margin.side[s] == FREE:
                    leave_margin(margin, int(s))
        self._finish_change()

    def _slots_of(self, keys: Sequence[int] | Array) -> Array:
        n, machine = self.slots, self.machine
        held = {int(machine.key[s]): s for s in np.flatnonzero(machine.class_of[:n] != NONE)}
        missing = [int(key) for key in keys if int(key) not in held]
        if missing:
            raise ValueError(f"keys must be of examples held, got {missing[0]}")
        return np.array([held[int(key)] for key in keys], np.int64)

    def _without(self, slots: Array) -> Array:
        """Return the decision values of the points in `slots`, computed without these points."""
        before = self._frozen()
        self._close(slots)
        scores: Array = (self.machine.sign[:, slots] - self.machine.g[:, slots]).T + self.machine.b
        self._thaw(before)
        return scores

    def _frozen(self) -> tuple[Any, list[Margin]]:
        return type(self.machine)(*(a.copy() for a in self.machine)), [
            Margin(*(a.copy() for a in margin)) for margin in self.margins
        ]

    def _thaw(self, frozen: tuple[Any, list[Margin]]) -> None:
        self.machine, self.margins = frozen

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return as arrays everything that the next prediction or update depends on. Holes are empty slots."""
        found = super().state() | self._chosen()
        n = self.slots
        for c, margin in enumerate(self.margins):
            m = int(margin.counts[M])
            found |= {
                f"members.{c}": margin.members[:m].copy(),
                f"R.{c}": margin.R[: m + 1, : m + 1].copy() if m else np.zeros((1, 1)),
                f"side.{c}": margin.side[:n].copy(),
            }
        return found

    def _chosen(self) -> State:
        """Return the parameters that can change, as a part of the state."""
        return {}

    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """
        checked = StateReader(state)
        n = checked.take("class_of", np.int32, (None,)).size
        columns = columns_of(checked.take("seen", np.int64, (None,)).size)
        alive = checked.take("class_of", np.int32, (None,)) != NONE
        margins = []
        for c in range(columns):
            members = checked.take(f"members.{c}", np.int64, (None,), 0, n - 1)
            m = members.size
            margin = empty_margin(n, max(MARGIN_MIN, 1 << m.bit_length()))
            margin.members[:m], margin.counts[M] = members, m
            margin.R[: m + 1, : m + 1] = checked.take(f"R.{c}", np.float64, (m + 1, m + 1))
            margin.side[:] = checked.take(f"side.{c}", np.int8, (n,), LOW, HIGH)
            if not np.array_equal(np.sort(members), np.flatnonzero(alive & (margin.side == FREE))):
                raise ValueError(f"members.{c} must list the free points")
            if (margin.side[~alive] == FREE).any():
                raise ValueError(f"side.{c} calls a slot free where there is no point")
            margins.append(margin)
        super().load(state)
        cap = self.points.start.size
        self.margins = [
            margin._replace(side=np.concatenate((margin.side, np.full(cap - n, LOW, np.int8)))) for margin in margins
        ]

    def examine(self) -> None:
        """Refuse a state that learning cannot reach (Solver.examine), for example an R that is no inverse."""
        super().examine()
        n, machine = self.slots, self.machine
        for c, margin in enumerate(self.margins):
            m, side = int(margin.counts[M]), margin.side[:n]
            alpha, _, lower, upper = self._column(c)
            free = (alpha > lower) & (alpha < upper)  # rounding can prevent a margin set; then free points are allowed
            for name, bound in (("lower", LOW), ("upper", HIGH)):
                stands = (side == bound) & (machine.class_of[:n] != NONE) & ~(free & (m == 0))
                at = getattr(machine, name)[c, :n][stands]
                check_range(f"alpha of side.{c}", machine.alpha[c, :n][stands], at, at)
            members = margin.members[:m]
            sampled, rows = self._sampled(members)
            place = np.searchsorted(members, sampled, sorter=np.argsort(members))
            place = np.argsort(members)[place]
            bordered = np.vstack((np.ones(sampled.size), rows[:, members].T))
            inverse = margin.R[: m + 1, : m + 1]
            product = inverse @ bordered
            product[place + 1, np.arange(sampled.size)] -= 1.0
            terms = np.abs(inverse) @ np.abs(bordered)
            if not (np.abs(product) <= 1e-3 * np.maximum(terms, 1.0)).all():
                raise ValueError(f"R.{c} must be the inverse of the kernel values between the free points")

    def finish(self) -> Finish:
        """Do nothing, because the solver is always at the optimum."""
        return Finish(0, converged=True)
