"""The one-class SVM, exact after every example that it learns or unlearns: a machine without labels.

P. Laskov, C. Gehl, S. Krueger and K.-R. Mueller, Incremental Support Vector Learning: Analysis, Implementation and
Applications, JMLR 7, 2006, for the problem of B. Schoelkopf et al., Estimating the Support of a High-Dimensional
Distribution, Neural Computation 13, 2001. In LIBSVM's scaling it is

    min 1/2 alpha.K.alpha  subject to  sum(alpha) = nu n, 0 <= alpha <= 1,

and f(x) = sum_i alpha_i k(x_i, x) - rho is negative for at most a fraction nu of the examples. n counts the examples
held; an example of weight w counts w times, and its box is [0, w].

alpha   (n,) float64  dual coefficients, never negative
g       (n,) float64  -K alpha: q is 0, where a classifier has its labels
b       float         -rho

An example that is learned opens its box and raises the sum by nu; an example that is unlearned does the opposite. Both
move along one path (path.py). If no coefficient is free, as often if nu n is an integer, rho is not unique. Then rho is
the middle of its interval, as in LIBSVM. With nu = 1 no coefficient is free and the interval has only one end, which
is rho.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from annotated_types import Gt, Le

from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.states import State, StateReader
from hinged.solvers.dual.increments import IncrementalExpansion
from hinged.solvers.dual.machine import Machine
from hinged.solvers.dual.margin import M

Array = np.ndarray[Any, Any]

ONLY = 0
"""The number of the only class."""


class OneClassSVM(IncrementalExpansion):
    """Exact one-class SVM; kernel values are float64. Parameters: see `Solver`.

    All examples are points of class 0, which is announced from the start. With when_full "remove", the oldest example
    is unlearned, so the machine is the optimum for the newest points_max examples.
    """

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        nu: Annotated[float, Gt(0), Le(1), "largest fraction of the examples with a negative decision value"] = 0.5,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        self.nu = float(nu)
        super().add_class()

    def add_class(self, weight: float = 1.0) -> None:
        """Refuse a further class."""
        raise ValueError(f"a one-class machine has one class, got another with the weight {weight}")

    def _signs(self, classes: Array, columns: int) -> Array:
        """Return q: 0 for every example."""
        return np.zeros((columns, classes.size), np.int64)

    def _total(self, lower: Array, upper: Array) -> float:
        """Return nu n: nu times the widths of all boxes."""
        return self.nu * float(upper.sum() - lower.sum())

    def _box_of(self, c: int, slots: Array) -> tuple[Array, Array]:  # noqa: ARG002  there is one column
        return np.zeros(slots.size), self.bounds[self.machine.class_of[slots]]

    def _open(self, slots: Array) -> None:
        """Let the boxes of these slots open.

        If most examples are new, SMO solves the problem instead. From an empty machine a path could not begin: all
        coefficients grow in proportion, so all events would be at its first point.
        """
        if slots.size == 1 or 2 * slots.size <= self.live:
            super()._open(slots)
            return
        self.machine.lower[ONLY, slots], self.machine.upper[ONLY, slots] = self._box_of(ONLY, slots)
        self._mend(ONLY)
        self._finish_change()

    def _rest(self, c: int) -> None:
        """Do nothing: although all boxes are on one side of 0, the optimum is not 0."""

    def _first_to_go(self) -> Array:
        """Return the slot of the oldest example."""
        return self._live_slots()[:1]

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return keys (n,) and decision values (n, 1) of every example, each computed without that example.

        The state is the same afterwards, to the bit. All examples that have no coefficient, before and after one of
        them is unlearned, share one optimum: without any of them the sum is the same, and no other example changes.
        """
        machine, slots = self.machine, self._live_slots()
        scores, left = np.empty((slots.size, 1)), np.ones(slots.size, bool)
        idle = slots[machine.held[slots] == 0]
        if idle.size and not self.heaviest:
            innermost = idle[machine.g[ONLY, idle].argmin() :][:1]
            before = self._frozen()
            self._close(innermost)
            f = self.machine.b[ONLY] - self.machine.g[ONLY]
            if self.margins[ONLY].counts[M] and f[innermost[0]] >= 0.0:  # else another optimum, or another rho
                scores[:, 0], left = f[slots], self.machine.alpha[ONLY, slots] != 0.0
            self._thaw(before)
        for p in np.flatnonzero(left):
            scores[p] = self._without(slots[p : p + 1])
        return self.machine.key[slots].copy(), scores

    def _boxed_otherwise(self, machine: Machine, width: Array, n: int) -> Array:
        fits: Array = (machine.lower[:, :n] == 0.0) & (machine.upper[:, :n] == width)
        return fits

    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """
        StateReader(state).take("seen", np.int64, (1,))
        super().load(state)
