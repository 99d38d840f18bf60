"""Exact incremental and decremental learning of a classifier.

C. Diehl and G. Cauwenberghs, SVM Incremental Learning, Adaptation and Optimization, IJCNN 2003. Examples are learned
and unlearned, one or many at a time, without starting again (increments.py). The same is true for changes of C, of
class weights and of the kernel's parameter.

Signs: alpha is signed and g = y - K alpha, as in all solvers here; the paper's alpha and g are y alpha and -y (g - b).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.families import NORM_MAX
from hinged.solvers.core.kernels import Kernel, checked_kernel, row_norms
from hinged.solvers.core.points import has_room, pop_point
from hinged.solvers.core.rowcache import clear, forget_slot
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.states import BOUND_MAX, State, StateReader
from hinged.solvers.dual.increments import IncrementalExpansion
from hinged.solvers.dual.machine import BY_COLUMN, scan_column, set_bias
from hinged.solvers.dual.margin import M, Margin

Array = np.ndarray[Any, Any]

TIE = 1e-8
"""Relative difference up to which an example counts as strange as another: rounding must not order the margin."""


class ExactSVM(IncrementalExpansion):
    """Exact incremental SVM with a bias; kernel values are float64. Parameters: see `Solver`.

    All examples are points. With when_full "remove", the least useful example is unlearned (making_way.py).
    """

    def relabel(self, key: int, example_class: int) -> None:
        """Change the class of an example, as if it had always been of that class.

        Raise ValueError for an unknown key or class.
        """
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

    # -- another configuration -------------------------------------------------------------------------------------

    def change_C(self, C: float, weights: Sequence[float] | None = None) -> None:
        """Change C and, if given, the class weights (section III of the paper)."""
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
        """Change the parameter of the kernel (section IV): q moves to y from the value for which alpha is optimal."""
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
        """Give the points another kernel. A view that exists already keeps the former kernel."""
        n, points = self.slots, self.points
        norm, selves = points.norm.copy(), points.selves.copy()
        indptr = np.concatenate((points.start[:n], points.used[1:]))
        row_norms(kernel, indptr, points.values, norm[:n], selves[:n])
        if not (selves[:n] <= NORM_MAX).all():
            raise ValueError(f"the kernel must give each example held at most {NORM_MAX:g} with itself")
        self.kernel, self.points = kernel, points._replace(norm=norm, selves=selves)
        self._recache(None, self.points.start.size)

    # -- p-values ---------------------------------------------------------------------------------------------------

    def p_values(self, rows: Rows) -> Array:
        """Return the p-values (m, classes) of the claims that an example is of a class; the state stays, to the bit.

        Full conformal prediction: V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World, 2005,
        and by increments and decrements: G. Cherubin, K. Chatzikokolakis and M. Jaggi, Exact Optimization of Conformal
        Predictors via Incremental and Decremental Learning, ICML 2021. For each class, the example is learned as one of
        the class. The p-value is the share of the examples of the class, including the new one, that are at least as
        strange as the new one. The strangeness of an example is 1 - y f(x) = y (g - b) in the column of its class. All
        examples on the margin are equally strange: their coefficients order them too, but not uniquely if some are
        copies. If the example is exchangeable with the examples of its class, the p-value of the class is at most p
        with a probability of at most p.
        """
        rows = rows.under(self.kernel)
        found = np.ones((len(rows), self.classes))
        for r in range(len(rows)) if self.live else ():
            nnz = int(rows.indptr[r + 1] - rows.indptr[r])
            while not has_room(self.points, nnz):
                self.make_room(nnz)
            before, only_ones = self._frozen(), bool(self.points.only_ones[0])
            slot = self._store(rows, r, 0, NONE)[0]
            try:
                for number in range(self.classes):
                    found[r, number] = self._p_value(slot, number)
            finally:
                self._thaw(before)
                pop_point(self.points)
                self.points.only_ones[0] = only_ones
                forget_slot(self.cache, slot)
        return found

    def _p_value(self, slot: int, number: int) -> float:
        """Return the p-value of a class for the point of the newest slot, which has no box yet. Only the column of the
        class changes; it is as before afterwards.
        """
        c, machine, n = min(number, self.columns - 1), self.machine, slot + 1
        own = np.flatnonzero(machine.class_of[:slot] == number)
        if not own.size:
            return 1.0
        column, b, margin = [getattr(machine, name)[c].copy() for name in BY_COLUMN], machine.b[c], self.margins[c]
        self.margins[c] = Margin(*(a.copy() for a in margin))
        y, f = 1 if self.columns > 1 or number == 1 else -1, machine.sign[c, slot] - machine.g[c, slot]
        machine.class_of[slot], machine.sign[c, slot], machine.g[c, slot] = number, y, y - f
        lower, upper = machine.lower[c, :n].copy(), machine.upper[c, :n].copy()
        lower[slot:], upper[slot:] = self._box_of(c, np.array([slot]))
        self._go(c, lower, upper)
        if not self.margins[c].counts[M]:
            scan_column(machine, c, n)
            set_bias(machine, c)
        strange = y * (machine.g[c, :n] - machine.b[c])
        for name, array in zip(BY_COLUMN, column, strict=True):
            getattr(machine, name)[c] = array
        machine.b[c], self.margins[c] = b, margin
        least = strange[slot] - TIE * (1.0 + abs(strange[slot]))
        return float((np.count_nonzero(strange[own] >= least) + 1) / (own.size + 1))

    # -- without some examples ------------------------------------------------------------------------------------

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return keys (n,) and decision values (n, K) of every example, each computed without that example.

        The state is the same afterwards, to the bit. An example without a coefficient need not be unlearned. The
        exception is an example that is an end of the interval of a column's b (if no point of the column is free).
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
        """Return the decision values (m, K) of each fold's examples (given by key), computed without that fold."""
        return [self._without(self._slots_of(fold)) for fold in folds]

    def tune(self, grid: Sequence[float], parameter: str = "C") -> list[float]:
        """Return the leave-one-out error for each value of C or gamma.

        The solver goes from value to value, and back.
        """
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
            clear(cache)  # the caches of the other kernels used its memory
            self._thaw(before)
        return errors

    def leave_one_out_error(self) -> float:
        """Return the fraction of the examples that the solver gets wrong when it is trained without them."""
        keys, scores = self.leave_one_out()
        own = self.machine.class_of[self._slots_of(keys)]
        found = scores.argmax(axis=1) if self.columns > 1 else scores[:, 0] > 0
        return float((found != own).mean())

    # -- state ----------------------------------------------------------------------------------------------------

    def _chosen(self) -> State:
        return {"C": np.array([self.C]), "kernel": np.array(self.kernel, float)}

    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """
        checked = StateReader(state)
        C = float(checked.take("C", np.float64, (1,))[0])
        code, gamma, degree, coef0 = checked.take("kernel", np.float64, (4,)).tolist()
        if code != self.kernel.code or not 0 < C < BOUND_MAX:
            raise ValueError(
                f"C must be > 0 and < {BOUND_MAX:g}, kernel must begin with {self.kernel.code}; got {C} and {code:g}"
            )
        kernel = checked_kernel(Kernel(self.kernel.code, gamma, degree, coef0))
        if kernel.degree != degree:
            raise ValueError(f"degree must be an integer, got {degree}")
        former = self.kernel, self.C
        self.kernel, self.C = kernel, C
        try:
            super().load(state)
        except ValueError:
            self.kernel, self.C = former
            raise
