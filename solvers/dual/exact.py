"""Exact incremental and decremental learning: the optimum of all examples held, after every one.

C. Diehl and G. Cauwenberghs, SVM Incremental Learning, Adaptation and Optimization, IJCNN 2003. Examples are learned
and unlearned, one or many at once, and C, class weights and the kernel's parameter are changed, without starting over:
each is a straight line from a problem whose optimum is known (path.py). After each the KKT conditions hold to
1e-8.

Signs: alpha is signed and g = y - K alpha as everywhere here; the paper's alpha and g are y alpha and -y (g - b).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.counts import LEARNED, NONE, STEPS
from hinged.solvers.core.kernels import (
    NORM_MAX,
    Kernel,
    checked_kernel,
    row_norms,
)
from hinged.solvers.core.lanes import dot
from hinged.solvers.core.points import append_point, has_room
from hinged.solvers.core.rowcache import (
    cached_row,
    clear,
    drop_row,
    new_cache,
)
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import (
    BOUND_MAX,
    Finish,
    State,
    StateReader,
    check_range,
    columns_of,
)
from hinged.solvers.dual import path, smo
from hinged.solvers.dual.dual import DualExpansion, least_useful
from hinged.solvers.dual.machine import HINGE, enter, leave
from hinged.solvers.dual.margin import (
    EVENTS,
    FREE,
    HIGH,
    LOW,
    MARGIN_MIN,
    TIDY,
    M,
    Margin,
    admit,
    empty_margin,
    is_loose,
    join,
    leave_margin,
    mark,
    subtract_rows,
    tidy,
    worst_violation,
)

Array = np.ndarray[Any, Any]

KKT_MAX = 1e-9  # a larger violation after a path is mended at once
EVENTS_PER_POINT_MAX = 20  # of a path
MEND_STEPS, MEND_STEPS_PER_POINT = 20_000, 200  # of SMO in a column whose path went astray, at most their sum
MEND_EVERY = 1000  # of these between two looks at what rounding leaves to do


class Parameters(NamedTuple):
    """tol: what mending aims at."""

    tol: float


class ExactSVM(DualExpansion):
    """Exact incremental SVM with a bias, float64 kernel values alone. Parameters: solvers/core/solver.py.

    All examples are held. With when_full "remove" the least useful one is unlearned.
    """

    parameters = Parameters(1e-12)

    def __init__(self, kernel: Kernel, dim: int, *, dtype: type = np.float64, **shared: Any) -> None:
        if dtype != np.float64:
            raise ValueError(f"dtype must be float64: exact learning needs exact kernel values, got {dtype}")
        self.margins: list[Margin] = []
        super().__init__(kernel, dim, dtype=dtype, **shared)

    # -- the margin sets ------------------------------------------------------------------------------------------

    def _add_columns(self, classes: int) -> None:
        super()._add_columns(classes)
        old = self.margins
        if len(old) == 1 and classes > 2:  # the first class has the negated column
            old = [Margin(*(a.copy() for a in old[0])), old[0]]
            old[0].side[:] = -old[0].side
        new = int(self.machine.alpha.shape[0]) - len(old)
        self.margins = old + [empty_margin(self.points.start.size) for _ in range(new)]
        for margin in self.margins[len(old) :]:
            margin.side[:] = HIGH  # all points are negatives at 0, their upper bound

    def _resized(self, slots: Array, cap: int) -> Any:
        place = np.full(self.machine.class_of.size, NONE, np.int64)
        place[slots] = np.arange(slots.size)
        for c, margin in enumerate(self.margins):
            side = np.full(cap, LOW, np.int8)
            side[: slots.size] = margin.side[slots]
            m = int(margin.counts[M])
            margin.members[:m] = place[margin.members[:m]]
            self.margins[c] = margin._replace(side=side)
        return super()._resized(slots, cap)

    def _enlarged(self, c: int) -> Margin:
        """The column's margin set with room for twice as many."""
        margin = self.margins[c]
        m = int(margin.counts[M])
        larger = empty_margin(margin.side.size, 2 * margin.members.size)
        larger.members[:m] = margin.members[:m]
        larger.R[: m + 1, : m + 1] = margin.R[: m + 1, : m + 1]
        larger.counts[:] = margin.counts
        self.margins[c] = larger._replace(side=margin.side)
        return self.margins[c]

    # -- changing the problem -------------------------------------------------------------------------------------

    def _go(self, c: int, lower: Array, upper: Array, dq: Array | None = None) -> None:
        """Bring column c to the optimum of these bounds (n_slots,), and of q that changes by dq."""
        n, machine = self.slots, self.machine
        live = (machine.class_of[:n] != NONE).astype(np.uint8)
        alpha, g = machine.alpha[c, :n], machine.g[c, :n]
        now_lower, now_upper = machine.lower[c, :n], machine.upper[c, :n]
        b = machine.b[c : c + 1]
        margin, near = self.margins[c], path.nothing_near()
        way = path.new_way(now_lower, now_upper, (lower, upper), dq, live, margin.members.size)
        events, code = int(margin.counts[EVENTS]), path.STUCK if self._loose(c) else path.UNDER_WAY
        while code in (path.UNDER_WAY, path.CROWDED):
            code, near = path.follow(
                self.kernel, self.points, self.cache, margin, near, way, alpha, g, b, now_lower, now_upper,
                EVENTS_PER_POINT_MAX * (n + 10), self.value_work, turns.WORK_MAX,
            )  # fmt: skip
            if code == path.CROWDED:
                margin = self._enlarged(c)
                way = way._replace(dalpha=np.zeros(margin.members.size))
                near = path.enlarged(near, margin.members.size)
            turns.rest()
        machine.counts[STEPS] += int(margin.counts[EVENTS]) - events
        now_lower[:], now_upper[:] = lower, upper
        well = self._refine(c) if code == path.DONE else code == path.STILL
        self._mask(c)
        if not (well and self._violation(c) <= KKT_MAX):
            self._mend(c)

    def _refine(self, c: int) -> bool:
        """Take away what rounding left of a path, as `tidy` does; whether all numbers are finite."""
        n, machine, margin = self.slots, self.machine, self.margins[c]
        alpha, g, lower, upper = (getattr(machine, name)[c, :n] for name in ("alpha", "g", "lower", "upper"))
        changes, at = np.empty(margin.members.size), np.zeros(3, np.int64)
        while True:
            tidy(
                self.kernel, self.points, self.cache, margin, alpha, g, machine.b[c : c + 1], lower, upper,
                changes, at, self.value_work, turns.WORK_MAX,
            )  # fmt: skip
            turns.rest()
            if at[0] == TIDY:
                return not at[2]

    def _subtract_rows(self, slots: Array, factors: Array, target: Array) -> None:
        """target (n,) -= sum over p of factors_p times the kernel row of slots_p."""
        at_once = turns.portion(self.slots * (self.value_work + 1))
        for p in range(0, slots.size, at_once):
            part = slice(p, p + at_once)
            subtract_rows(self.kernel, self.points, self.cache, slots[part], factors[part], target)
            turns.rest()

    def _mask(self, c: int) -> None:
        """The masks of a column from its coefficients."""
        n, machine = self.slots, self.machine
        columns = (getattr(machine, name)[c, :n] for name in ("alpha", "lower", "upper", "up", "down"))
        mark(machine.class_of[:n], *columns)

    def _violation(self, c: int) -> float:
        """The largest violation of a pair, beyond what rounding of their gradients may be."""
        n, machine = self.slots, self.machine
        up, down, alpha, g = (getattr(machine, name)[c, :n] for name in ("up", "down", "alpha", "g"))
        return float(worst_violation(up, down, alpha, g, self.points.selves[:n]))

    def _loose(self, c: int) -> bool:
        """Whether a coefficient is free that the margin set does not hold: no path begins there."""
        n, machine = self.slots, self.machine
        return bool(
            is_loose(self.margins[c].side[:n], machine.alpha[c, :n], machine.lower[c, :n], machine.upper[c, :n])
        )

    def _mend(self, c: int) -> None:
        """Make good for a path that rounding led astray: R anew, or else SMO and the margin set from its optimum.

        Where rounding is too much for any margin set, as with kernel values of 1e15, what SMO found stands, and the
        next change of the column begins with SMO, too.
        """
        n, machine, margin = self.slots, self.machine, self.margins[c]
        alpha, lower, upper = (getattr(machine, name)[c, :n] for name in ("alpha", "lower", "upper"))
        np.clip(np.nan_to_num(alpha), lower, upper, out=alpha)
        left = alpha.sum()
        for s in np.flatnonzero(upper > lower):  # sum(alpha) = 0 again
            if left == 0.0:
                break
            before, alpha[s] = alpha[s], min(max(alpha[s] - left, lower[s]), upper[s])
            left -= before - alpha[s]
        self._measure_gradient(c)
        self._mask(c)
        if not self._loose(c):
            members = margin.members[: margin.counts[M]].copy()
            margin.counts[M] = 0
            if all(self._join(c, int(s)) for s in members) and self._refine(c):
                self._mask(c)
                if self._violation(c) <= KKT_MAX:
                    return
                self._measure_gradient(c)
        self._solve(c)
        found = alpha.copy(), machine.g[c, :n].copy(), self._violation(c)
        if not (self._build(c) and self._violation(c) <= max(KKT_MAX, found[2])):
            alpha[:], machine.g[c, :n] = found[:2]
            self._set_aside(c)
            self._mask(c)

    def _solve(self, c: int) -> None:
        """SMO until nothing violates beyond rounding, or for as many steps as are allowed."""
        box, most = self._boxes()[c], MEND_STEPS + MEND_STEPS_PER_POINT * self.slots
        tol, steps, done = self.parameters.tol, 0, MEND_EVERY
        while done == MEND_EVERY and steps < most and not (steps and self._violation(c) <= tol):
            done = smo.advance(
                self.kernel, self.points, self.cache, box, tol, MEND_EVERY, value_work=self.value_work
            )[0]  # fmt: skip
            steps += done
        self.machine.counts[STEPS] += steps
        self._measure_gradient(c)

    def _measure_gradient(self, c: int) -> None:
        """g = y - K alpha, from nothing."""
        n, machine = self.slots, self.machine
        g = machine.sign[c, :n].astype(float)
        slots = np.flatnonzero(machine.alpha[c, :n])
        self._subtract_rows(slots, machine.alpha[c, slots], g)
        machine.g[c, :n] = g

    def _set_aside(self, c: int) -> None:
        """An empty margin set: b, and the bound that each point stands on, or for a free one would go to."""
        n, machine = self.slots, self.machine
        alpha, g, lower, upper = (getattr(machine, name)[c, :n] for name in ("alpha", "g", "lower", "upper"))
        ends = np.array([g[alpha < upper].max(initial=-np.inf), g[alpha > lower].min(initial=np.inf)])
        machine.b[c] = ends[np.isfinite(ends)].mean() if np.isfinite(ends).any() else 0.0
        side = self.margins[c].side
        side[:n] = np.where((alpha > lower) | ((lower == upper) & (g > machine.b[c])), HIGH, LOW)
        self.margins[c].counts[M] = 0

    def _build(self, c: int) -> bool:
        """The margin set from the coefficients: those strictly between their bounds. Whether all numbers are finite."""
        n, machine = self.slots, self.machine
        self._set_aside(c)
        self._admit_all(c, np.flatnonzero((machine.up[c, :n] != 0) & (machine.down[c, :n] != 0)))
        finite = self._refine(c)
        self._mask(c)
        return finite

    def _admit_all(self, c: int, slots: Array) -> None:
        """Make the margin set of these slots, with R from nothing."""
        n, machine = self.slots, self.machine
        alpha, g, lower, upper = (getattr(machine, name)[c, :n] for name in ("alpha", "g", "lower", "upper"))
        self.margins[c].counts[M] = 0
        for s in slots:
            margin = self._with_room(c)
            while not admit(self.kernel, self.points, self.cache, margin, alpha, g, lower, upper, int(s), 1):
                turns.rest()
            turns.rest()

    def _join(self, c: int, s: int) -> bool:
        """Take slot s into the margin set; false where it depends on it."""
        turns.rest()
        return bool(join(self._with_room(c), cached_row(self.kernel, self.points, self.cache, s, NONE), s))

    def _with_room(self, c: int) -> Margin:
        """The column's margin set with room for one more."""
        margin = self.margins[c]
        return margin if margin.counts[M] < margin.members.size else self._enlarged(c)

    def _finish_change(self) -> None:
        """What follows from coefficients that moved in any column."""
        for c in range(self.columns):
            self._rest(c)
        bias = self.machine.b.copy()
        free = [int(margin.counts[M]) for margin in self.margins]
        self._settle(0)
        for c, m in enumerate(free):
            if m:  # the margin set knows the bias better than the extremes do
                self.machine.b[c] = bias[c]

    def _rest(self, c: int) -> None:
        """Where all points are of one sign, 0 is all that there is: take away what rounding left of a path to it."""
        n, machine, margin = self.slots, self.machine, self.margins[c]
        rises, falls = machine.upper[c, :n] > 0.0, machine.lower[c, :n] < 0.0
        if rises.any() and falls.any():
            return
        machine.alpha[c, :n], machine.g[c, :n] = 0.0, machine.sign[c, :n]
        margin.side[:n], margin.counts[M] = np.where(falls, HIGH, LOW), 0
        self._mask(c)

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
        """Learn a batch by one path: fewer events than one example after the other. Errors: Solver.learn."""
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
            self._take_out(np.array([least_useful(self.machine, self.slots)]))
            self._tidy()
        slot, scores = self._store(rows, r, own, key)
        self._open(np.array([slot]))
        return scores

    def _store(self, rows: Rows, r: int, own: int, key: int) -> tuple[int, Array]:
        """Give a row its slot with a box that is shut; its decision values."""
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
        """Let the boxes of these slots grow from a point to what their class has."""
        n, machine = self.slots, self.machine
        for c in range(self.columns):
            lower, upper = machine.lower[c, :n].copy(), machine.upper[c, :n].copy()
            bound = machine.sign[c, slots] * self.bounds[machine.class_of[slots]]
            lower[slots], upper[slots] = np.minimum(bound, 0.0), np.maximum(bound, 0.0)
            self._go(c, lower, upper)
        self._finish_change()

    def unlearn(self, keys: Sequence[int] | Array) -> None:
        """Forget the examples with these keys, as if they had never come. ValueError for one that is not held."""
        self._drop_slots(np.unique(self._slots_of(keys)))

    def relabel(self, key: int, example_class: int) -> None:
        """Learn that an example is of another class, as if it always had been. ValueError where one is not known."""
        if not 0 <= example_class < self.classes:
            raise ValueError(f"a class must be from 0 to {self.classes - 1}, got {example_class}")
        slots = self._slots_of([key])
        machine, former = self.machine, int(self.machine.class_of[slots[0]])
        if example_class == former:
            return
        self._close(slots)
        machine.class_of[slots] = example_class
        for c in range(self.columns):
            sign = 1 if example_class == (1 if self.columns == 1 else c) else -1
            machine.g[c, slots] += sign - machine.sign[c, slots]
            machine.sign[c, slots] = sign
        self.seen[former] = max(self.seen[former] - 1, 0)
        self.seen[example_class] += 1
        self._open(slots)

    def _take_out(self, slots: Array) -> None:
        self._close(slots)
        for s in slots:
            leave(self.machine, int(s))
            drop_row(self.cache, int(s))
        self._finish_change()

    def _close(self, slots: Array) -> None:
        """Let the boxes of these slots shrink to a point; their coefficients are 0 then, and none of them is free."""
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

    # -- changing the configuration -------------------------------------------------------------------------------

    def change_C(self, C: float, weights: Sequence[float] | None = None) -> None:
        """Go to another C and, where given, other class weights (section III of the paper)."""
        checked = self.weights if weights is None else np.array(weights, float)
        if checked.shape != self.weights.shape:
            raise ValueError(f"weights must be one for each of {self.classes} classes, got {checked.shape}")
        if not (0 < C < 1e15 and (checked > 0).all() and (C * checked < 1e15).all()):
            raise ValueError(f"C times the weight of a class must be > 0 and < 1e15, got {C} * {checked}")
        self.C, self.weights = float(C), checked
        n, machine = self.slots, self.machine
        live = machine.class_of[:n] != NONE
        for c in range(self.columns):
            bound = np.where(live, machine.sign[c, :n] * self.bounds[machine.class_of[:n]], 0.0)
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
        """Another kernel for the points; a view keeps the old ones."""
        n, points = self.slots, self.points
        norm, selves = points.norm.copy(), points.selves.copy()
        indptr = np.concatenate((points.start[:n], points.used[1:]))
        row_norms(kernel, indptr, points.values, norm[:n], selves[:n])
        if not (selves[:n] <= NORM_MAX).all():
            raise ValueError(f"the kernel must give each example held at most {NORM_MAX:g} with itself")
        self.kernel, self.points = kernel, points._replace(norm=norm, selves=selves)
        self.cache = new_cache(self.points, self.dim, self.cache_bytes, self.cache)

    # -- what would have been -------------------------------------------------------------------------------------

    def leave_one_out(self) -> tuple[Array, Array]:
        """keys (n,) and decision values (n, K) of every example held, each by the machine without it.

        The state is the same to the bit before and after. Examples without a coefficient need no unlearning.
        """
        slots = np.flatnonzero(self.machine.class_of[: self.slots] != NONE)
        scores = (self.machine.sign[:, slots] - self.machine.g[:, slots]).T + self.machine.b
        for p, s in enumerate(slots):
            if self.machine.held[s]:
                scores[p] = self._without(np.array([s]))
        return self.machine.key[slots].copy(), scores

    def k_fold(self, folds: Sequence[Sequence[int]]) -> list[Array]:
        """Decision values (m, K) of the examples of each fold, given by keys, by the machine without that fold."""
        return [self._without(self._slots_of(fold)) for fold in folds]

    def tune(self, grid: Sequence[float], parameter: str = "C") -> list[float]:
        """The leave-one-out error for each value of C or gamma; the machine walks from one to the next, and back."""
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
            clear(cache)  # the caches of other kernels took over its memory
            self._thaw(before)
        return errors

    def leave_one_out_error(self) -> float:
        """The part of the examples held that the machine without them gets wrong."""
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
        """Everything that the next prediction or update depends on, as arrays. Holes are kept, empty."""
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
        """Take over a state of `state`. ValueError where an array does not fit the others or this configuration."""
        checked = StateReader(state)
        n = checked.take("class_of", np.int32, (None,)).size
        columns = columns_of(checked.take("seen", np.int64, (None,)).size)
        C = float(checked.take("C", np.float64, (1,))[0])
        code, gamma, degree, coef0 = checked.take("kernel", np.float64, (4,)).tolist()
        if code != self.kernel.code or not 0 < C < BOUND_MAX:
            raise ValueError("C and kernel must be those of such a machine")
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
        """Refuse a state that none comes to by learning (Solver.examine): R is no inverse, say."""
        super().examine()
        n, machine = self.slots, self.machine
        for c, margin in enumerate(self.margins):
            m, side = int(margin.counts[M]), margin.side[:n]
            for name, bound in (("lower", LOW), ("upper", HIGH)):
                stands = (side == bound) & (machine.class_of[:n] != NONE)
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
        """Nothing is left to do: it is at the optimum."""
        return Finish(0, converged=True)
