"""Learning by a rule over a kernel expansion: the common part of perceptrons and online gradient descent.

An example is seen once: y f(x) is compared with a margin, and the example may join the expansion with a coefficient; on
a budget a point then makes way for it. The algorithms (perceptrons.py) differ in a few numbers and in the removal step:
their `UpdateRule`. Coefficients are signed, there is no bias, and an example with k(x, x) = 0 cannot change f.
Arrays: core/coefficients.py. Some rules keep sums in `smooth` and in

tally  (K, 2) float64   per column: examples visited, if the rule averages; mistakes and Q, if it forgets.

With several columns an example becomes a point if any column takes it. The budget counts points, and one removal serves
all columns.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Lt

from hinged.solvers.core import turns
from hinged.solvers.core.coefficients import CoefficientExpansion
from hinged.solvers.core.counts import (
    NONE,
)
from hinged.solvers.core.kernels import (
    Kernel,
)
from hinged.solvers.core.rows import LabelledRows, Rows
from hinged.solvers.core.solver import UNBOUNDED, columns_of
from hinged.solvers.core.states import COUNT_MAX, MAGNITUDE_MAX, REACHED_MAX, State, StateReader, check_range
from hinged.solvers.online.rules import (
    FORGETTING,
    REDUNDANT,
    RESCALING,
    UpdateRule,
    learn_rows,
    leave_margins,
    scratch_of,
)

Array = np.ndarray[Any, Any]


class OnlineExpansion(CoefficientExpansion):
    """An expansion that learns row by row, here and in projections.py; budget: most points held."""

    budget: int | None = None

    def _set_budget(self, budget: int, most: int) -> None:
        if budget > min(self.points_max, most):
            raise ValueError(f"budget must be at most {most} and at most points_max = {self.points_max}, got {budget}")
        self.budget = int(budget)

    @property
    def room(self) -> int:
        """Examples that may come before points_max is reached; on a budget points make way by themselves."""
        return super().room if self.budget is None else UNBOUNDED

    @property
    def full_at(self) -> int:
        """Points at which one must make way for the next example."""
        return super().full_at if self.budget is None else self.budget

    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Learn a batch in order (Solver.learn)."""
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        scores = np.empty((len(rows), self.columns))
        batch, done = rows.labelled(classes, keys, again=again), 0
        while done < len(rows):
            done, reason = self._learn_rows(batch, done, scores)
            turns.rest()
            self._provide(reason, batch, done)
        return scores

    @abstractmethod
    def _learn_rows(self, batch: LabelledRows, begin: int, scores: Array) -> tuple[int, int]:
        """Learn rows begin..; return (rows done, why it stopped)."""

    def _spread(self) -> Array:
        """Scratch of `kernel_row`."""
        return np.zeros(self.dim if self.points.columns.shape[0] == 0 else 1, self.dtype)

    def load(self, state: State) -> None:
        """Take over a state of `state`. ValueError where an array does not fit the rest or this configuration."""
        live = int((StateReader(state).take("class_of", np.int32, (None,)) != NONE).sum())
        if self.budget is not None and live > self.budget:
            raise ValueError(f"the state holds {live} points, more than the budget of {self.budget}")
        super().load(state)


class RuledExpansion(OnlineExpansion):
    """An expansion that learns by an `UpdateRule`."""

    rule: UpdateRule = UpdateRule()
    tally: Array

    def __init__(self, kernel: Kernel, dim: int, **shared: Any) -> None:
        super().__init__(kernel, dim, **shared)
        self.tally = np.zeros((0, 2))

    def _learn_rows(self, batch: LabelledRows, begin: int, scores: Array) -> tuple[int, int]:
        # BOGD clips all points to their bounds at every removal, so bounds can depend on the class alone.
        bounds = self.class_bounds if self.rule.removal == RESCALING else self.bounds
        done, reason = learn_rows(
            self.kernel, self.points, self.machine, self.tally, self.rule, self.factors, bounds, self.seen,
            self.random, self.full_at, batch, begin, self._spread(), self.value_work, turns.WORK_MAX,
            *scratch_of(self.points, self.columns, self.rule), scores,
        )  # fmt: skip
        return done, reason

    def _take_out(self, slots: Array) -> None:
        if self.rule.removal == REDUNDANT:
            row, at_once = np.empty(self.slots, self.dtype), turns.portion(self.slots * self.value_work)
            for p in range(0, slots.size, at_once):
                leave_margins(
                    self.kernel, self.points, self.machine, slots[p : p + at_once], self._spread(), row
                )  # fmt: skip
                turns.rest()
        super()._take_out(slots)

    def _add_columns(self, classes: int) -> None:
        super()._add_columns(classes)
        old, self.tally = self.tally, np.zeros((columns_of(classes), 2))
        self.tally[: len(old)] = old
        if len(old) == 1:
            self.tally[1] = old[0]

    def state(self) -> State:
        """Return as arrays all that the next prediction or update depends on."""
        return super().state() | {"tally": self.tally.copy()}

    def load(self, state: State) -> None:
        """Take over a state of `state`. ValueError where an array does not fit the rest or this configuration."""
        checked = StateReader(state)
        columns = columns_of(checked.take("seen", np.int64, (None,)).size)
        tally = checked.take("tally", np.float64, (columns, 2), -MAGNITUDE_MAX, MAGNITUDE_MAX)
        counted = self.rule.averages or self.rule.removal == FORGETTING
        most = COUNT_MAX if counted else 0
        if not ((tally[:, 0] >= 0) & (tally[:, 0] <= most) & (tally[:, 0] == np.floor(tally[:, 0]))).all():
            raise ValueError(f"tally must begin with counts from 0 to {most}, got {tally[:, 0]}")
        if self.rule.removal != FORGETTING and tally[:, 1].any():
            raise ValueError("tally must be 0 behind the counts of a rule that does not forget")
        if self.rule.removal == RESCALING:
            seen, weights = self._read_seen(checked)
            class_of = checked.take("class_of", np.int32, (None,), NONE, seen.size - 1)
            bounds = np.where(class_of == NONE, 0.0, np.append(self.C * weights, 0.0)[class_of])
            check_range("alpha", checked.take("alpha", np.float64, (columns, class_of.size)), -bounds, bounds)
        super().load(state)
        self.tally = tally

    def examine(self) -> None:
        """Refuse a state that learning cannot reach (Solver.examine): the cost of removals is bounded too."""
        super().examine()
        if np.abs(self.tally).max(initial=0.0) > REACHED_MAX**2:
            raise ValueError(f"tally must be within {REACHED_MAX**2:g}")


def check_shrinking(eta: float, lam: float) -> None:
    """Refuse eta and lam (ValueError) with which coefficients would change sign instead of shrinking."""
    if not eta * lam < 1:
        raise ValueError(f"eta * lam must be < 1, got lam = {lam}, eta = {eta}")


class BudgetRuledExpansion(RuledExpansion):
    """A `RuledExpansion` of at most `budget` points, > 1."""

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        budget: Annotated[int, Ge(2), Lt(2**31), "most points held; then a point makes way for each new point"] = 500,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        self._set_budget(budget, UNBOUNDED)
