"""Batch SMO as a solver: all examples are points, and each micro-batch ends at the optimum.

See Bordes et al. 2005, section 3.1, with second-order selection and shrinking (smo.py). In a stream, each optimisation
starts from the current coefficients. A new example starts at zero, so that sum(alpha) stays 0.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Gt, Lt

from hinged.solvers.core.counts import LEARNED
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.reports import Finish
from hinged.solvers.core.rows import Rows
from hinged.solvers.dual.dual import DualExpansion
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]


@handed
class BatchParameters(NamedTuple):
    """tol: the largest violation of a pair that may remain."""

    tol: float


class SMO(DualExpansion):
    """The batch support vector machine, solved again with every batch. tol: > 0; other parameters: `DualExpansion`."""

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        tol: Annotated[float, Gt(0), Lt(1e3), "largest violation of a pair that may remain"] = 1e-3,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        self.parameters = BatchParameters(float(tol))

    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Add a batch and optimise. Return the decision values (m, K) from before the batch (Solver.learn)."""
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        return self._learn_weighted(rows, classes, keys, np.ones(len(rows)), again=again)

    def _learn_weighted(self, rows: Rows, classes: Array, keys: Array, weights: Array, *, again: bool) -> Array:
        scores = np.empty((len(rows), self.columns))
        # If points are removed at points_max, split a batch that would push out its own examples.
        most = len(rows) if self.when_full == "refuse" else max(1, self.points_max // 2)
        for begin in range(0, len(rows), max(1, most)):
            part = slice(begin, min(begin + most, len(rows)))
            own = rows.part(part.start, part.stop)
            scores[part] = self._learn(own, classes[part], keys[part], weights[part], again)
        return scores

    def _learn(self, rows: Rows, classes: Array, keys: Array, weights: Array, again: bool) -> Array:
        if again:
            new = ~np.isin(keys, self.machine.key[: self.slots])
        else:
            new = np.ones(classes.size, bool)
            self.machine.counts[LEARNED] += classes.size
            self.seen += np.bincount(classes, minlength=self.classes)
        if (surplus := self.live + int(new.sum()) - self.points_max) > 0:
            self.make_way(surplus)
        scores = self.decision(rows)
        entering, f = rows.take(np.flatnonzero(new)), scores[new] - self.machine.b
        self.take_in(entering, classes[new], keys[new], f, weights[new])
        self.finish()
        return scores

    def _take_out(self, slots: Array) -> None:
        super()._take_out(slots)
        if self._delta().max(initial=0.0) > self.parameters.tol:
            self.finish()

    @property
    def converged(self) -> bool:
        """Whether no pair violates by more than tol in any column (Solver.converged)."""
        return bool(self._delta().max(initial=0.0) <= self.parameters.tol)

    def finish(self) -> Finish:
        """Optimise every column over all points until no pair violates by more than tol."""
        return self.optimise(self.parameters.tol)
