"""BSCA and BSGD, kernel SVMs with at most B points (Qaadan, Schueler and Glasmachers, ICPRAM 2019; without a bias).

BSCA (algorithm 2) ascends the dual of each column, one example at a time. It maximises
W(alpha) = alpha.y - 1/2 alpha.K.alpha in the box (0, C w_class) for y = +1, (-C w_class, 0) for y = -1:

    alpha_i <- clip(alpha_i + (y_i - f(x_i)) / K_ii),   f = sum_s beta_s k(x_s, .),

and adds the change of alpha_i to f as the coefficient of a new point x_i.

BSGD (Wang, Crammer and Vucetic, JMLR 13, 2012; eq. 4 here) minimises lambda / 2 |w|^2 + the mean hinge loss by gradient
descent with the rate 1 / (lambda t): beta <- (1 - 1/t) beta, and beta_i grows by y_i / (lambda t) if y_i f(x_i) < 1.

Both solvers represent f by at most B points. Before a further point is added, two points are merged (merging.py), or
one point is projected onto the other points (factor.py) or removed. The coefficients beta of the points are `alpha` of
coefficients.py. The coefficients alpha of the examples, which the box bounds, are in memory.py.

Differences from the paper. In the printed form, BSCA's accuracy varies strongly from one example to the next and falls
from pass to pass, and BSGD's accuracy varies too. The first two differences can be switched off:

- At the t-th example, a step of BSCA is at most max(step_max / sqrt(1 + t / step_decay), step_least) / K_ii long. If
  all kernel values are similar, a full step on one example changes f everywhere, long before C bounds it.
- Predictions use `smooth`, a running average of beta over about `averaging` examples. It is merged and projected along
  with beta. The nearest points compensate for its loss in a merge (remainder.py). Until the window is full, its weights
  follow Shamir and Zhang, ICML 2013, section 4, with eta = 3. From then on its weights are exponential.
- An example that equals a point of its class is added to the point's coefficient and does not become a new point.
  Algorithm 2 needs this rule for repeated examples. A merge would have the same effect without any degradation.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from hinged.solvers.budget import memory as mem
from hinged.solvers.budget.factor import RIDGES, factor_delete
from hinged.solvers.budget.maintenance import (
    MAINTAINED,
    MERGE,
    PROJECT,
    VISITED,
    empty_upkeep,
)
from hinged.solvers.budget.remainder import FEW, NEAREST, NEAREST_MAX, SMALL_BUDGET
from hinged.solvers.budget.visits import (
    BUDGET_MAX,
    FACTOR_TOL,
    PROJECTED_MAX,
    RESETTLE_STEPS,
    BudgetParameters,
    learn_rows,
    longest_row,
    make_good,
)
from hinged.solvers.core import turns
from hinged.solvers.core.coefficients import CoefficientExpansion
from hinged.solvers.core.counts import (
    DONE,
    LEARNED,
    LIVE,
    NEEDS_COMPACTION,
    NEEDS_PLACES,
    NEEDS_ROOM,
    NEEDS_ROW_ROOM,
    NONE,
)
from hinged.solvers.core.families import RBF
from hinged.solvers.core.kernels import (
    Kernel,
)
from hinged.solvers.core.parameters import Since
from hinged.solvers.core.points import (
    POOL_USED,
    USED,
)
from hinged.solvers.core.reports import Certificate
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.solver import UNBOUNDED, check_fade, columns_of
from hinged.solvers.core.states import BOUND_MAX, COUNT_MAX, MAGNITUDE_MAX, State, StateReader, read_heaviest

Array = np.ndarray[Any, Any]


class BudgetExpansion(CoefficientExpansion):
    """The base of the solvers with a budget. Other parameters: see `Solver`.

    budget: maximum number of points after any example, from 2 to points_max; at most 100,000, or 5,000 with projection.
    maintenance: how the number of points is limited: "merge" (rbf only), "project" or "remove"; None for "merge" with
    rbf, else "project". merging: how the place of a merged point is found, by "table" or "golden" section. averaging:
    number of examples in the running average, > 0; predictions use the averaged coefficients. None: predictions use the
    current coefficients. nearest: number of points, besides the merged point, that compensate for the average's loss in
    a merge, from 1 to 200; above 3 the number is approximate. None: 19 with a budget of up to 200, else 3.
    """

    bounded = True

    merging = True

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        budget: Annotated[
            int, Ge(2), Lt(2**31), "maximum number of points; the least useful points are merged or removed"
        ] = 500,
        maintenance: Annotated[
            Literal["merge", "remove", "project"] | None,
            "how the number of points is reduced; null: `merge` for the rbf kernel, else `project`",
        ] = None,
        merging: Annotated[
            Literal["table", "golden"], "how the place of a merged point is found: by a table or by golden section"
        ] = "table",
        averaging: Annotated[
            int | None,
            Ge(1),
            Lt(2**31),
            "number of examples in the running average, which predicts; null: the present coefficients predict",
        ] = 1000,
        nearest: Annotated[
            int | None,
            Ge(1),
            Le(NEAREST_MAX),
            Since(3),
            "number of points, besides the merged point, that compensate for the average's loss in a merge; null: 19 "
            "with a budget of up to 200, else 3",
        ] = None,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        if maintenance is None:
            maintenance = "merge" if kernel.code == RBF else "project"
        if maintenance == "merge" and kernel.code != RBF:
            raise ValueError("points can be merged with the rbf kernel only; other kernels need project or remove")
        most = min(self.points_max, BUDGET_MAX if maintenance != "project" else PROJECTED_MAX)
        if not 2 <= budget <= most:
            raise ValueError(f"budget must be from 2 to {most} here, got {budget}")
        if nearest is None:
            nearest = NEAREST if budget <= SMALL_BUDGET else FEW
        self.budget = int(budget)
        self.parameters = BudgetParameters(
            budget=self.budget,
            dim=dim,
            ridge=RIDGES[self.dtype],
            rate=0.0,
            window=float(averaging or 0),
            step_max=0.0,
            step_decay=1.0,
            step_least=0.0,
            extra_steps=0,
            recent=0,
        )
        self.places_max = 1
        self.memory = mem.empty_memory(0, 1, 0, self.dtype)
        self.upkeep = empty_upkeep(self.budget, maintenance, merging, int(nearest))

    @property
    def merges(self) -> int:
        """Number of merges, projections and removals so far."""
        return int(self.upkeep.counts[MAINTAINED])

    @property
    def room(self) -> int:
        """Number of examples that fit: any number, because points are removed automatically."""
        return UNBOUNDED

    @property
    def full_at(self) -> int:
        """Number of points at which a point must be removed for the next example."""
        return self.budget

    def _add_columns(self, classes: int) -> None:
        super()._add_columns(classes)
        self.memory = mem.with_columns(self.memory, classes)

    def _predicting(self) -> Array:
        return self.machine.smooth if self.parameters.window > 0 else self.machine.alpha

    def _spread(self) -> Array:
        """Return zeros for expanding a row into a dense vector, if that is needed."""
        needed = self.points.columns.shape[0] == 0 or self.upkeep.maintenance == MERGE
        return np.zeros(self.dim if needed else 1, self.dtype)

    def make_room(self, nnz: int) -> None:
        """Enlarge the arrays if needed, so that two rows with nnz non-zeros in total fit. Points keep their slots."""
        cap, pool = self.points.start.size, self.points.indices.size
        cap = cap * 2 if self.slots + 2 > cap else cap
        needed = int(self.points.used[POOL_USED]) + nnz
        pool = max(pool * 2, needed) if needed > pool else pool
        self._move(np.arange(self.slots), cap, pool)

    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Visit a batch in order (Solver.learn).

        With `again`, continue from the remembered coefficients of each example.
        """
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        scores = np.empty((len(rows), self.columns))
        spread = self._spread()
        bounds = self.factors if self.parameters.rate > 0 else self.bounds
        done, visits, reason = 0, 0, DONE
        batch = rows.labelled(classes, keys, again=again)
        f = np.zeros(self.columns)
        while done < len(rows):
            row = np.empty(self.points.start.size, self.dtype)
            done, visits, reason = learn_rows(
                self.kernel, self.points, self.machine, self.memory, self.upkeep, self.parameters, bounds,
                self.places_max, self.seen, self.random, spread,
                batch, done, visits, self.value_work, turns.WORK_MAX, f, row, scores,
            )  # fmt: skip
            turns.rest()
            if reason == NEEDS_ROOM:
                longest = max(longest_row(self.points, self.memory), int(np.diff(rows.indptr).max()))
                self.make_room(longest + min(2 * longest, self.dim))
                spread = self._spread()
            elif reason == NEEDS_COMPACTION:
                self.compact()
            elif reason == NEEDS_PLACES:
                self.memory = mem.with_places(self.memory, min(2 * self.memory.key.size, self.places_max))
            elif reason == NEEDS_ROW_ROOM:
                self.memory = mem.with_room(
                    self.memory, self.parameters.recent, int(rows.indptr[done + 1] - rows.indptr[done])
                )
        return scores

    def drop(self, keys: Array) -> None:
        """Remove the points of these examples, and what the memory contains of these examples (Solver.drop).

        BSCA then makes some further steps on its points, and the average starts again. Otherwise the average would long
        include f from just after the removal. If a point was merged from two examples, the older example's part is
        removed with the newer example.
        """
        self.memory = mem.without(self.memory, np.asarray(keys, np.int64))
        super().drop(keys)

    def _take_out(self, slots: Array) -> None:
        moved = bool(self.machine.alpha[:, slots].any() or self.machine.smooth[:, slots].any())
        if self.upkeep.maintenance == PROJECT:
            live = self._live_slots()
            for rank in np.searchsorted(live, slots)[::-1]:
                factor_delete(self.upkeep.factor, live.size, int(rank))
                live = np.delete(live, rank)
                turns.rest()
        super()._take_out(slots)
        if not moved:
            return
        if self.parameters.rate == 0.0 and self.live:
            row = np.empty(self.slots, self.dtype)
            steps, at_once = RESETTLE_STEPS * slots.size, turns.portion(self.slots * self.value_work)
            for done in range(0, steps, at_once):
                make_good(
                    self.kernel, self.points, self.machine, self.memory, self.upkeep, self.parameters, self.bounds,
                    self.random, self._spread(), row, min(at_once, steps - done),
                )  # fmt: skip
                turns.rest()
        if self.parameters.window > 0:
            self.machine.smooth[:] = self.machine.alpha

    def certificate(self) -> Certificate:
        """Return the sizes, and the weight degradation summed over all budget maintenance and all columns."""
        return super().certificate() | {"weight_degradation": float(self.upkeep.degradation[0])}

    def memory_bytes(self) -> int:
        """Return the memory of the points, the coefficients and the remembered examples, in bytes."""
        return super().memory_bytes() + mem.bytes_of(self.memory) + self.upkeep.factor.nbytes

    def state(self) -> State:
        """Return as arrays everything that the next prediction or update depends on. Holes are empty slots."""
        m = self.live if self.upkeep.factor.size else 0
        return (
            super().state()
            | mem.state_of(self.memory)
            | {
                "factor": self.upkeep.factor[:m, :m].copy(),
                "degradation": self.upkeep.degradation.copy(),
                "upkeep_counts": self.upkeep.counts.copy(),
            }
        )

    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """
        checked = StateReader(state)
        seen, weights = self._read_seen(checked)
        memory = mem.read_memory(
            checked,
            self.kernel,
            self.dim,
            self.dtype,
            columns_of(seen.size),
            seen.size,
            self.places_max,
            self.parameters.recent,
            float((self.C * weights).max(initial=0.0)) * max(1.0, read_heaviest(checked))
            if self.parameters.rate == 0.0
            else 0.0,
        )
        counts = checked.take("counts", np.int64, (4,), 0, COUNT_MAX)
        if counts[LIVE] > self.budget:
            raise ValueError(f"counts must begin with at most {self.budget} points, got {counts[LIVE]}")
        m = counts[LIVE] if self.upkeep.factor.size else 0
        factor = np.zeros_like(self.upkeep.factor)
        factor[:m, :m] = checked.take("factor", np.float64, (m, m), -MAGNITUDE_MAX, MAGNITUDE_MAX)
        if not (np.diagonal(factor)[:m] > 0).all():
            raise ValueError("factor must have a positive diagonal")
        degradation = checked.take("degradation", np.float64, (1,), 0.0, np.finfo(np.float64).max)
        upkeep_counts = checked.take("upkeep_counts", np.int64, (2,), 0, COUNT_MAX)
        # The memory of examples grows with the number of examples, up to a limit. A loaded memory must have reached the
        # limit, or have a place for each example learned.
        if memory.key.size < self.places_max and counts[LEARNED] > memory.key.size:
            raise ValueError(f"memory_key has {memory.key.size} places for {counts[LEARNED]} examples")
        if upkeep_counts[VISITED] < counts[LEARNED]:
            raise ValueError(f"{counts[LEARNED]} examples are learned and {upkeep_counts[VISITED]} visited")
        super().load(state)
        self.memory = memory
        self.upkeep = self.upkeep._replace(factor=factor, degradation=degradation, counts=upkeep_counts)

    def examine(self) -> None:
        """Refuse a state that learning cannot reach (Solver.examine): `factor` must be the kernel matrix's factor."""
        super().examine()
        if not self.upkeep.factor.size:
            return
        live = self._live_slots()
        sampled, rows = self._sampled(live)
        upper, columns = np.triu(self.upkeep.factor[: live.size, : live.size]), np.searchsorted(live, sampled)
        size = np.sqrt(self.points.selves[live][:, None].astype(np.float64) * self.points.selves[sampled])
        if not (np.abs(upper.T @ upper[:, columns] - rows[:, live].T) <= FACTOR_TOL * size).all():
            raise ValueError("factor must be the factor of the kernel values between the points")

    def known(self) -> Array:
        """Return the numbers of the points' examples and of the remembered examples."""
        rows = self.memory.number[: self.memory.rows.used[USED]]
        return np.unique(np.concatenate((self.keys(), self.memory.key[self.memory.key != NONE], rows)))


class BSCA(BudgetExpansion):
    """Budgeted stochastic coordinate ascent. Other parameters: `BudgetExpansion`.

    With averaging=None and step_max=None it is the form that the paper prints.

    step_max: initial bound of a step, in units of 1 / k(x, x), > 0, or None for no bound. step_decay: number of
    examples after which the bound has shrunk to 1 / sqrt(2), > 0, or infinity for a constant bound. step_least: lower
    limit of the bound, >= 0. extra_steps: further steps after each example, each on one of the last `reservoir`
    examples, drawn uniformly. remembered: number of examples whose alpha is still known in a further epoch (memory.py),
    at least `reservoir`.
    """

    fades = True

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        step_max: Annotated[
            float | None, Gt(0), "initial bound of a step, in units of 1 / k(x, x); null: no bound"
        ] = 2.0,
        step_decay: Annotated[float, Gt(0), "number of examples until that bound is 1 / sqrt(2) as large"] = 1000.0,
        step_least: Annotated[float, Ge(0), "lower limit of that bound"] = 0.25,
        extra_steps: Annotated[int, Ge(0), Le(1000), "number of further steps on recent examples, per example"] = 0,
        reservoir: Annotated[int, Ge(1), Le(2**24), "number of recent examples stored for these steps"] = 1000,
        remembered: Annotated[
            int, Ge(1), Le(2**30), "number of examples whose coefficients are still known in a further epoch"
        ] = 2**17,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        if remembered < reservoir:
            raise ValueError(f"remembered must be at least reservoir = {reservoir}, got {remembered}")
        self.parameters = self.parameters._replace(
            step_max=float(step_max or 0.0),
            step_decay=float(step_decay),
            step_least=float(step_least),
            extra_steps=int(extra_steps),
            recent=int(reservoir) if extra_steps else 0,
        )
        self.places_max = int(remembered)
        self.memory = mem.empty_memory(0, min(mem.PLACES_MIN, self.places_max), self.parameters.recent, self.dtype)

    def check_weights(self, weights: Array, count: int) -> Array:
        """Check the weights of `count` examples (Solver.check_weights). Extra steps do not use these weights."""
        if self.parameters.extra_steps:
            raise ValueError(
                f"extra_steps must be 0 where examples have weights of their own, got {self.parameters.extra_steps}"
            )
        return super().check_weights(weights, count)

    def fade(self, factor: float) -> None:
        """Reduce the weight of everything learned so far (Solver.fade): f, its average, the examples' alpha."""
        check_fade(factor, fades=self.fades)
        for alpha in (self.machine.alpha, self.machine.smooth, self.memory.alpha):
            np.multiply(alpha, factor, out=alpha)


class BSGD(BudgetExpansion):
    """Budgeted stochastic gradient descent (Pegasos on a budget). Other parameters: `BudgetExpansion`.

    lambda is 1 / (C examples), or `regularization` if that is given. examples: the expected number of examples n. A
    class weight multiplies the loss.
    """

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        examples: Annotated[int, Ge(1), Lt(2**53), "n in lambda = 1 / (C n): the expected number of examples"] = 10_000,
        regularization: Annotated[float | None, Gt(0), "lambda; null: 1 / (C examples)"] = None,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        rate = self.C * examples if regularization is None else 1.0 / regularization
        if not rate < BOUND_MAX:
            raise ValueError(f"1 / lambda must be < {BOUND_MAX:g}, got {rate:g}")
        self.parameters = self.parameters._replace(rate=float(rate))
