"""Exact incremental and decremental learning: the optimum of all examples held, after every example.

C. Diehl and G. Cauwenberghs, SVM Incremental Learning, Adaptation and Optimization, IJCNN 2003. Examples are learned
and unlearned, alone or many at once, and C, class weights and the kernel's parameter are changed, without starting
over. Each change is a straight line from a problem whose optimum is known (path.py). After each change the KKT
conditions hold to 1e-8.

Signs: alpha is signed and g = y - K alpha, as in all solvers here; the paper's alpha and g are y alpha and -y (g - b).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.counts import LEARNED, NONE
from hinged.solvers.core.families import NORM_MAX
from hinged.solvers.core.kernels import (
    Kernel,
    checked_kernel,
    row_norms,
)
from hinged.solvers.core.points import append_point, has_room
from hinged.solvers.core.reports import Finish
from hinged.solvers.core.rowcache import (
    cached_row,
    clear,
    drop_row,
)
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.core.solver import columns_of
from hinged.solvers.core.states import BOUND_MAX, State, StateReader, check_range
from hinged.solvers.dual.machine import HINGE, enter, leave
from hinged.solvers.dual.making_way import first_to_go
from hinged.solvers.dual.margin import (
    FREE,
    HIGH,
    LOW,
    MARGIN_MIN,
    M,
    Margin,
    empty_margin,
    leave_margin,
)
from hinged.solvers.dual.optimal import (
    OptimalExpansion,
)

Array = np.ndarray[Any, Any]


class ExactParameters(NamedTuple):
    """tol: the violation that mending aims at."""

    tol: float


class ExactSVM(OptimalExpansion):
    """Exact incremental SVM with a bias; kernel values are float64. Parameters: see `Solver`.

    All examples are held. With when_full "remove" the least useful example is unlearned (making_way.py).
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
        """Learn a batch, exactly after each example (Solver.learn); with `again`, examples that are held stay."""
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        scores = np.empty((len(rows), self.columns))
        for r in range(len(rows)):
            if not again:
                self._count(classes[r : r + 1])
            scores[r] = self._enter(rows, r, int(classes[r]), int(keys[r]), again=again)
        return scores

    def learn_together(self, rows: Rows, classes: Array, keys: Array) -> None:
        """Learn a batch by one path, which has fewer events than a path per example. Errors: Solver.learn."""
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
            self._take_out(first_to_go(self.machine, self.slots, 1))
            self._tidy()
        slot, scores = self._store(rows, r, own, key)
        self._open(np.array([slot]))
        return scores

    def _store(self, rows: Rows, r: int, own: int, key: int) -> tuple[int, Array]:
        """Store a row in its slot with a closed box; return its decision values."""
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
        machine.lower[:, slot] = machine.upper[:, slot] = 0.0
        for margin in self.margins:
            margin.side[slot] = LOW
        return slot, f + machine.b

    def _open(self, slots: Array) -> None:
        """Let the boxes of these slots grow from a point to the box of their class."""
        n, machine = self.slots, self.machine
        for c in range(self.columns):
            lower, upper = machine.lower[c, :n].copy(), machine.upper[c, :n].copy()
            bound = machine.sign[c, slots] * self.bounds[machine.class_of[slots]]
            lower[slots], upper[slots] = np.minimum(bound, 0.0), np.maximum(bound, 0.0)
            self._go(c, lower, upper)
        self._finish_change()

    def unlearn(self, keys: Sequence[int] | Array) -> None:
        """Forget the examples with these keys, as if they had never come. ValueError for an unknown key."""
        self._drop_slots(np.unique(self._slots_of(keys)))

    def relabel(self, key: int, example_class: int) -> None:
        """Give an example another class, as if it always had been of it. ValueError for an unknown key or class."""
        if not 0 <= example_class < self.classes:
            raise ValueError(f"a class must be from 0 to {self.classes - 1}, got {example_class}")
        slots = self._slots_of([key])
        machine, former = self.machine, int(self.machine.class_of[slots[0]])
        if example_class == former:
            return
        weight = float(self._weights_at(slots)[0])
        self._close(slots)
        machine.class_of[slots] = example_class
        for c in range(self.columns):
            sign = 1 if example_class == (1 if self.columns == 1 else c) else -1
            machine.g[c, slots] += sign - machine.sign[c, slots]
            machine.sign[c, slots] = sign
        self.seen[former] = max(self.seen[former] - 1, 0)
        self.seen[example_class] += 1
        with self._weighing(weight):
            self._open(slots)

    def _take_out(self, slots: Array) -> None:
        self._close(slots)
        for s in slots:
            leave(self.machine, int(s))
            drop_row(self.cache, int(s))
        self._finish_change()

    def _close(self, slots: Array) -> None:
        """Let the boxes of these slots shrink to a point. Then their coefficients are 0 and none of them is free."""
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

    # -- another configuration -------------------------------------------------------------------------------------

    def change_C(self, C: float, weights: Sequence[float] | None = None) -> None:
        """Go to another C and, if given, other class weights (section III of the paper)."""
        checked = self.weights if weights is None else np.array(weights, float)
        if checked.shape != self.weights.shape:
            raise ValueError(f"weights must be one for each of {self.classes} classes, got {checked.shape}")
        if not (0 < C < 1e15 and (checked > 0).all() and (C * checked < 1e15).all()):
            raise ValueError(f"C times the weight of a class must be > 0 and < 1e15, got {C} * {checked}")
        n, machine = self.slots, self.machine
        live = machine.class_of[:n] != NONE
        own = self._weights_at(np.arange(n))
        self.C, self.weights = float(C), checked
        for c in range(self.columns):
            bound = np.where(live, machine.sign[c, :n] * self.bounds[machine.class_of[:n]] * own, 0.0)
            self._go(c, np.minimum(bound, 0.0), np.maximum(bound, 0.0))
        self._finish_change()

    def change_kernel(self, kernel: Kernel) -> None:
        """Go to another parameter of the same kernel (section IV): q moves to y from where alpha is optimal."""
        if kernel.code != self.kernel.code:
            raise ValueError("the kernel must be of the same type")
        self._set_kernel(checked_kernel(kernel))
        machine = self.machine
        for c in range(self.columns):
            n = self.slots
            before = machine.g[c, :n].copy()
            self._measure_gradient(c)
            shift = machine.g[c, :n] - before
            machine.g[c, :n] = before
            margin = self.margins[c]
            self._admit_all(c, margin.members[: margin.counts[M]].copy())
            self._go(c, machine.lower[c, :n].copy(), machine.upper[c, :n].copy(), shift)
        self._finish_change()

    def _set_kernel(self, kernel: Kernel) -> None:
        """Give the points another kernel; a view keeps the former one."""
        n, points = self.slots, self.points
        norm, selves = points.norm.copy(), points.selves.copy()
        indptr = np.concatenate((points.start[:n], points.used[1:]))
        row_norms(kernel, indptr, points.values, norm[:n], selves[:n])
        if not (selves[:n] <= NORM_MAX).all():
            raise ValueError(f"the kernel must give each example held at most {NORM_MAX:g} with itself")
        self.kernel, self.points = kernel, points._replace(norm=norm, selves=selves)
        self._recache(None, self.points.start.size)

    # -- without some examples ------------------------------------------------------------------------------------

    def leave_one_out(self) -> tuple[Array, Array]:
        """keys (n,) and decision values (n, K) of every example held, each by the machine without that example.

        The state is the same to the bit before and after. An example without a coefficient need not be unlearned,
        unless it is an end of the interval of a column's b (where no point of the column is free).
        """
        machine = self.machine
        slots = np.flatnonzero(machine.class_of[: self.slots] != NONE)
        scores = (machine.sign[:, slots] - machine.g[:, slots]).T + machine.b
        unfree = [c for c, margin in enumerate(self.margins) if not margin.counts[M]]
        ends = np.concatenate((machine.best_i[unfree], machine.best_j[unfree]))
        for p in np.flatnonzero((machine.held[slots] > 0) | np.isin(slots, ends)):
            scores[p] = self._without(slots[p : p + 1])
        return self.machine.key[slots].copy(), scores

    def k_fold(self, folds: Sequence[Sequence[int]]) -> list[Array]:
        """Decision values (m, K) of the examples of each fold, given by keys, by the machine without that fold."""
        return [self._without(self._slots_of(fold)) for fold in folds]

    def tune(self, grid: Sequence[float], parameter: str = "C") -> list[float]:
        """The leave-one-out error for each value of C or gamma; the machine walks from value to value, and back."""
        if parameter not in ("C", "gamma"):
            raise ValueError(f"parameter must be C or gamma, got {parameter!r}")
        before, C, kernel, points, cache = self._frozen(), self.C, self.kernel, self.points, self.cache
        errors = []
        try:
            for value in grid:
                if parameter == "C":
                    self.change_C(value)
                else:
                    self.change_kernel(self.kernel._replace(gamma=float(value)))
                errors.append(self.leave_one_out_error())
        finally:
            self.C, self.kernel, self.points, self.cache = C, kernel, points, cache
            clear(cache)  # the caches of the other kernels took over its memory
            self._thaw(before)
        return errors

    def leave_one_out_error(self) -> float:
        """The fraction of the examples held that the machine without them gets wrong."""
        keys, scores = self.leave_one_out()
        own = self.machine.class_of[self._slots_of(keys)]
        found = scores.argmax(axis=1) if self.columns > 1 else scores[:, 0] > 0
        return float((found != own).mean())

    def _slots_of(self, keys: Sequence[int] | Array) -> Array:
        n, machine = self.slots, self.machine
        held = {int(machine.key[s]): s for s in np.flatnonzero(machine.class_of[:n] != NONE)}
        missing = [int(key) for key in keys if int(key) not in held]
        if missing:
            raise ValueError(f"keys must be of examples held, got {missing[0]}")
        return np.array([held[int(key)] for key in keys], np.int64)

    def _without(self, slots: Array) -> Array:
        """Decision values of the points in `slots` by the machine without them."""
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
        """Return as arrays all that the next prediction or update depends on. Holes are kept, empty."""
        found = super().state() | {"C": np.array([self.C]), "kernel": np.array(self.kernel, float)}
        n = self.slots
        for c, margin in enumerate(self.margins):
            m = int(margin.counts[M])
            found |= {
                f"members.{c}": margin.members[:m].copy(),
                f"R.{c}": margin.R[: m + 1, : m + 1].copy() if m else np.zeros((1, 1)),
                f"side.{c}": margin.side[:n].copy(),
            }
        return found

    def load(self, state: State) -> None:
        """Take over a state of `state`. ValueError where an array does not fit the rest or this configuration."""
        checked = StateReader(state)
        n = checked.take("class_of", np.int32, (None,)).size
        columns = columns_of(checked.take("seen", np.int64, (None,)).size)
        C = float(checked.take("C", np.float64, (1,))[0])
        code, gamma, degree, coef0 = checked.take("kernel", np.float64, (4,)).tolist()
        if code != self.kernel.code or not 0 < C < BOUND_MAX:
            raise ValueError(
                f"C must be > 0 and < {BOUND_MAX:g}, kernel must begin with {self.kernel.code}; got {C} and {code:g}"
            )
        kernel = checked_kernel(Kernel(self.kernel.code, gamma, degree, coef0))
        if kernel.degree != degree:
            raise ValueError(f"degree must be an integer, got {degree}")
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
        former = self.kernel, self.C
        self.kernel, self.C = kernel, C
        try:
            super().load(state)
        except ValueError:
            self.kernel, self.C = former
            raise
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
        """Do nothing: the solver is always at the optimum."""
        return Finish(0, converged=True)
