"""LASVM-G, FULL, LASVM-NC and LASVM-I: online kernel SVMs without a bias, paced by the duality gap.

S. Ertekin, L. Bottou and C. L. Giles, Nonconvex Online Support Vector Machines, TPAMI 33, 2011. The four solvers share
one algorithm. They differ in three ways: the box of an example (section 5); the filter before learning (section 6); and
whether CLEAN removes points that are not support vectors (section 4.2).

    lasvm-g   hinge loss, CLEAN             lasvm-nc  ramp loss, CLEAN
    full      hinge loss, keeps all points  lasvm-i   hinge loss, with the ramp as a filter, CLEAN

Differences from the paper:

- PROCESS moves by min(upper - alpha, g / K) if g > 0. REPROCESS ends when the largest violation of a point is at most
  tau, and so does the gap loop. The paper's test of a pair stops too early without a bias.
- The gap of the working set is sum max((upper - alpha) g, (lower - alpha) g); the sign and the labels in eq. 9 are
  wrong. The sums of the gap target (eq. 8) are over the support vectors.
- CLEAN ranks points of both classes by their KKT slack: how far they are from becoming a support vector again.
- In a column, the ramp applies to an example only after the example's class and both sides of the column have
  ramp_start support vectors there. The paper's LASVM-I has no such condition, and its LASVM-NC ignores the class. Both
  would treat a class that appears late as outliers and never learn it.
- A step moves two points together to their common optimum (coordinate.py). This needs 1/22 of the steps on Adult.
- Gap and target are recomputed only after a move. An example that stays at its box within tau changes neither.
- In the first epoch, tau is delta_min, because with many columns an example moves most columns only a little. Further
  epochs and finishing use tol. The paper's algorithm has delta_min 0.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Lt

from hinged.solvers.core import turns
from hinged.solvers.core.counts import (
    NEEDS_CLEANING,
)
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.parameters import Since
from hinged.solvers.core.reports import Finish
from hinged.solvers.core.rows import LabelledRows, Rows
from hinged.solvers.core.solver import UNBOUNDED, columns_of
from hinged.solvers.core.states import COUNT_MAX, MAGNITUDE_MAX, State, StateReader
from hinged.solvers.dual.coordinate import box_gap
from hinged.solvers.dual.dual import DualExpansion
from hinged.solvers.dual.machine import (
    IDLE,
    Machine,
)
from hinged.solvers.dual.pace import (
    LOSSES,
    NO_RAMP,
    RAMP_FILTER,
    RAMP_LOSS,
    Pace,
    PaceParameters,
    gap_target,
    idle_slacks,
    learn_rows,
    leave_all,
)
from hinged.solvers.dual.pausing import not_begun

Array = np.ndarray[Any, Any]

REPROCESS_MAX = 10_000  # maximum number of steps of REPROCESS in a column, for one example
DELTA_MIN = (
    0.25  # largest violation that learning leaves to finishing, with several columns; half the margin has width 1
)


class GapSVM(DualExpansion):
    """LASVM-G, FULL, LASVM-NC or LASVM-I. Other parameters: `DualExpansion`.

    tol: tau, > 0. delta_min: learning leaves violations of a point up to delta_min to further epochs and to finishing
    (None: DELTA_MIN with several columns, 0 with one). loss: "hinge", "ramp" (LASVM-NC) or "filter" (LASVM-I). ramp_s:
    the ramp's left end, < 1. ramp_start: minimum number of support vectors before the ramp applies to an example in a
    column. The example's class and each side of the column must have that many there. idle_max: number of points
    without a coefficient that stay at a CLEAN (None: all, without CLEAN). clean_every: number of examples from one
    CLEAN to the next.
    """

    biased = False
    fades = True

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        tol: Annotated[float, Gt(0), Lt(1e3), "tau: smaller violations are ignored"] = 1e-3,
        delta_min: Annotated[
            float | None,
            Ge(0),
            Lt(1e3),
            Since(0.0),
            "largest violation of a point left to finishing; null: 0.25 with three or more classes, else 0",
        ] = None,
        loss: str = "hinge",
        idle_max: Annotated[
            int | None, Ge(0), Lt(2**31), "number of points without a coefficient that CLEAN keeps; null: all"
        ] = 1000,
        clean_every: Annotated[int, Ge(1), Lt(2**31), "number of examples from one CLEAN to the next"] = 1000,
        ramp_s: Annotated[
            float,
            Gt(-1e6),
            Lt(1),
            "left end of the ramp: below this margin an example is an outlier; no effect far below -1",
        ] = -1.0,
        ramp_start: Annotated[
            int, Ge(1), Lt(2**31), "number of support vectors that a class must have before the ramp applies to it"
        ] = 100,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        self._leave(delta_min)
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}")
        self.parameters = PaceParameters(
            float(tol),
            float(tol),
            LOSSES[loss],
            float(ramp_s),
            int(ramp_start),
            UNBOUNDED if idle_max is None else int(idle_max),
            int(clean_every),
            self.full_at,
            REPROCESS_MAX,
        )
        self.pace = Pace(np.zeros(0), np.zeros(0), np.zeros((0, 0), np.int64), np.zeros((0, 2), np.int64))

    def bound_steps(self, most: int) -> None:
        """Take at most this many steps of REPROCESS for one example, in a column."""
        self.parameters = self.parameters._replace(steps_max=most)

    def add_class(self, weight: float = 1.0) -> None:
        """Announce another class; its examples may be learned from now on. Their bound is C times `weight`."""
        super().add_class(weight)
        discarded = np.zeros((self.classes, 2), np.int64)
        discarded[:-1] = self.pace.discarded
        self._measure(discarded)

    def _measure(self, discarded: Array) -> None:
        """Recompute gap, target and the number of support vectors by class."""
        machine, n = self.machine, self.slots
        parts = [[getattr(machine, name)[c, :n] for name in GAP_OF] for c in range(self.columns)]
        sv_of = np.zeros((self.columns, self.classes), np.int64)
        for c in range(self.columns):
            sv_of[c] = np.bincount(machine.class_of[:n][machine.alpha[c, :n] != 0], minlength=self.classes)
        self.pace = Pace(
            np.array([box_gap(*(p for name, p in zip(GAP_OF, part, strict=True) if name != "sign")) for part in parts]),
            np.array([gap_target(*part) for part in parts]),
            sv_of,
            discarded,
        )

    @property
    def discarded(self) -> Array | None:
        """The number of examples left and right of the ramp, (classes, 2); None without a ramp."""
        return None if self.parameters.loss == NO_RAMP else self.pace.discarded.copy()

    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Do online iterations over a batch (Solver.learn). With `again`, process known points again."""
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        scores = np.empty((len(rows), self.columns))
        bounds = self.bounds
        f, stance = np.zeros(self.columns), np.zeros(self.columns, np.int8)
        at, done = not_begun(), 0
        batch = rows.labelled(classes, keys, again=again)
        parameters = self.parameters._replace(tau=self._tau(DELTA_MIN, again=again))
        while done < len(rows):
            done, reason = learn_rows(
                self.kernel, self.points, self.cache, self.machine, self.pace, parameters, bounds, self.seen,
                batch, done, at, self.value_work, turns.WORK_MAX, f, stance, scores,
            )  # fmt: skip
            turns.rest()
            self._provide(reason, batch, done)
        return scores

    def _provide(self, reason: int, batch: LabelledRows, row: int) -> None:
        if reason == NEEDS_CLEANING:
            self._clean()
        else:
            super()._provide(reason, batch, row)

    def _clean(self) -> None:
        """Do CLEAN: of the points without a coefficient, keep the idle_max points with the least slack."""
        machine = self.machine
        slacks = np.empty(machine.counts[IDLE])
        idle_slacks(machine, slacks)
        slots = machine.idle[: slacks.size]
        extra = slots[np.lexsort((slots, slacks))][self.parameters.idle_max :]
        leave_all(self.cache, machine, self.slots, np.sort(extra))
        self.compact()

    def _settled(self) -> None:
        self._measure(self.pace.discarded)

    def finish(self) -> Finish:
        """Optimise every column over all points until no point violates by more than tol, then do CLEAN."""
        finish = self.optimise(self.parameters.tol)
        if self.machine.counts[IDLE] > self.parameters.idle_max:
            self._clean()
        self._give_back()
        return finish

    def state(self) -> State:
        """Return as arrays everything that the next prediction or update depends on. Holes are empty slots."""
        return super().state() | {
            "gap": self.pace.gap.copy(),
            "target": self.pace.target.copy(),
            "discarded": self.pace.discarded.copy(),
        }

    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """
        checked = StateReader(state)
        classes = checked.take("seen", np.int64, (None,)).size
        columns = columns_of(classes)
        gap = checked.take("gap", np.float64, (columns,), -MAGNITUDE_MAX, MAGNITUDE_MAX)
        target = checked.take("target", np.float64, (columns,), 0.0, MAGNITUDE_MAX)
        learned = int(checked.take("learned", np.int64, (1,), 0, COUNT_MAX)[0])
        discarded = checked.take("discarded", np.int64, (classes, 2), 0, learned)
        if sum(discarded.ravel().tolist()) > (0 if self.parameters.loss == NO_RAMP else learned):
            raise ValueError(f"discarded must be some of {learned} examples, and none without a ramp")
        super().load(state)
        self._measure(discarded)
        self.pace = self.pace._replace(gap=gap, target=target)

    def _boxed_otherwise(self, machine: Machine, width: Array, n: int) -> Array:
        """Return where (K, n) a ramp outlier has the box of the opposite label, or an empty box (take_stance)."""
        lower, upper, sign = machine.lower[:, :n], machine.upper[:, :n], machine.sign[:, :n]
        if self.parameters.loss == RAMP_LOSS:
            found: Array = (lower == np.where(sign > 0, -width, 0.0)) & (upper == np.where(sign < 0, width, 0.0))
        else:
            found = (lower == 0.0) & (upper == 0.0) & (self.parameters.loss == RAMP_FILTER)
        return found


GAP_OF = ("alpha", "g", "sign", "lower", "upper")
