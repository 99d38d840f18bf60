"""The optimum of a whole data set, found by a machine that holds only some of the examples as points.

A pass of an online solver drops points that the optimum needs, so its finishing step ends below the optimum. Here the
machine

1. optimises over its points,
2. computes the decision value of every other example, and takes in each example that violates its condition,

and repeats both until no example violates. An example without a coefficient, of label y = +-1 in a column, violates if
y (f + b) < 1 - tau / 2. The points lie within tau / 2 of the bias too, so no pair of examples violates by more than
tau. Each round with a violation raises the dual objective W, so the rounds end.

f (m, K) are decision values of the m examples without the bias. Only the first round computes them in full. Between two
rounds most coefficients stay, many at their bound, so later rounds only add the changes: f += K (alpha - former alpha).
An example far from the margin seldom violates later, so a round looks at the far examples only if no near example
violates. Rounds begin with a loose tau, because a solution to many digits is of no use as long as points are missing.
No point leaves between two rounds, because it would often have to come back.

If points_max leaves no room, points without a coefficient leave, and the examples that violate most come first. The
rounds then end when the number of missing examples no longer falls. The points of such an end make no useful model,
because most of them are on the wrong side of the margin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.decision import ExpansionView
from hinged.solvers.core.reports import FinishRound, WholeFinish
from hinged.solvers.core.rows import Rows
from hinged.solvers.dual.dual import DualExpansion
from hinged.solvers.dual.machine import working_set_gap

Array = np.ndarray[Any, Any]

FIRST_TAU = 0.1  # tau of the first round
TAU_STEP = 10.0  # each later round divides tau by this, down to tol
NEAR = 0.5
"""An example with y (f + b) < 1 + NEAR is near. With a smaller value, more violations of far examples come late."""
TAKEN_WORK = 20  # work of copying one number of a row, which holds Python's lock
ROUNDS_MAX = 100  # limit of the rounds, because rounding errors of huge coefficients might cause violations for ever


def optimise_over(
    solver: DualExpansion,
    rows: Rows,
    classes: Array,
    keys: Array,
    weights: Array,
    remove_idle: Callable[[], None],
    told: Callable[[FinishRound], None],
) -> WholeFinish:
    """Optimise a solver with a bias over its points and a data set; examples that the optimum needs become points.

    classes, keys, weights (m,): as in `Solver.learn_weighted`. remove_idle: removes points without a coefficient.
    told: called after each round.
    """
    columns, tol = solver.columns, float(solver.parameters.tol)
    y = np.where(classes[:, None] == (np.arange(columns) if columns > 1 else 1), np.int8(1), np.int8(-1))
    f, near = np.zeros(y.shape), np.zeros(len(rows), bool)
    nothing = np.zeros((columns, 0))
    former = {True: nothing, False: nothing}  # coefficients at the last look at the near and at the far examples
    tau, steps, fewest = max(tol, FIRST_TAU), 0, len(rows) + 1
    at_once = turns.portion(TAKEN_WORK * rows.values.size / max(1, len(rows)))
    for _ in range(ROUNDS_MAX):
        done = solver.optimise(tau)
        steps += done.steps
        if not done.converged:
            break
        others = np.isin(keys, solver.keys(), invert=True)
        for part in (True, False):
            looked = np.flatnonzero(others & (near == part))
            change = _change(solver, former[part])
            for begin in range(0, looked.size, at_once):
                some = looked[begin : begin + at_once]
                f[some] += change.decision(rows.take(some))
            former[part] = solver.machine.alpha[:, : solver.slots].copy()
            below = 1.0 - y[looked] * (f[looked] + solver.machine.b)
            shortfall = below.max(axis=1)
            violate = shortfall > tau / 2
            if violate.any():
                break
        missing = looked[violate]
        losses = (np.maximum(below, 0.0).sum(axis=1) * (solver.class_bounds[classes] * weights)[looked]).sum()
        told(FinishRound(solver.live, missing.size, float(working_set_gap(solver.machine, solver.slots) + losses)))
        if not missing.size and tau == tol:
            return WholeFinish(steps, converged=True, missing=0)
        if not part:  # the same coefficients were looked at with both
            near[looked] = shortfall > -NEAR
        full = missing.size > solver.points_max - solver.live
        if full:
            if tau == tol and missing.size >= fewest:
                return WholeFinish(steps, converged=False, missing=missing.size)
            fewest = missing.size if tau == tol else fewest
            remove_idle()
            worst = np.argsort(-shortfall[violate], kind="stable")
            missing = np.sort(missing[worst[: solver.points_max - solver.live]])
        solver.take_in(rows.take(missing), classes[missing], keys[missing], f[missing], weights[missing])
        if full:  # the next round computes f in full, also for the examples that left
            f[:], near[:], former = 0.0, False, {True: nothing, False: nothing}
        tau = max(tol, tau / TAU_STEP)
    return WholeFinish(steps, converged=False, missing=0)


def _change(solver: DualExpansion, former: Array) -> ExpansionView:
    """Return a view whose decision values are the change of f since the coefficients were `former` (K, n).

    The first n slots are still the same points.
    """
    change = solver.machine.alpha[:, : solver.slots].copy()
    change[:, : former.shape[1]] -= former
    nothing = np.zeros(solver.columns)
    return ExpansionView(solver.kernel, solver.points, solver.slots, change, nothing, nothing, solver.dim)
