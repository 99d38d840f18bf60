"""Learning by a rule over a kernel expansion: what perceptrons and online gradient descent have in common.

An example is seen once: y f(x) is compared with a margin, the example may join the expansion with a coefficient, and
on a budget a point makes way for it. The algorithms (perceptrons.py) differ in a few numbers and the removal
step, their `Rule`. Coefficients are signed, there is no bias, and an example with k(x, x) = 0 cannot change f. Arrays:
solvers/core/coefficients.py; some rules keep sums in `smooth`, and in

tally  (K, 2) float64   of each column: examples visited if the rule averages; mistakes and Q if it forgets

With several columns an example becomes a point if any column takes it, the budget counts points, and one removal
serves all columns.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.coefficients import VALUES, CoefficientExpansion, enter, first_least, leave, sign_of
from hinged.solvers.core.compiled import compiled
from hinged.solvers.core.counts import (
    DONE,
    HOLES_PART,
    LEARNED,
    LIVE,
    NEEDS_COMPACTION,
    NEEDS_REST,
    NEEDS_ROOM,
    NONE,
    STEPS,
)
from hinged.solvers.core.kernels import (
    BEGIN,
    Kernel,
    kernel_row,
    point_row,
)
from hinged.solvers.core.lanes import dot
from hinged.solvers.core.points import USED, append_point, has_room
from hinged.solvers.core.random import random_below
from hinged.solvers.core.rows import Batch, Rows
from hinged.solvers.core.solver import (
    COUNT_MAX,
    MAGNITUDE_MAX,
    REACHED_MAX,
    UNBOUNDED,
    State,
    StateReader,
    check_range,
    columns_of,
)
from hinged.solvers.dual.lasvm import HOLES_MIN
from hinged.solvers.dual.machine import find_key

Array = np.ndarray[Any, Any]

SMALLEST, REDUNDANT, RANDOM, RESCALING, FORGETTING, PROJECTING = range(6)
ETA_MAX = 1e6
SWEPT = 3  # work of an example for each coefficient
MISTAKES_EARN = 15.0 / 32.0  # the part of a mistake's progress that the Forgetron may spend on removals


class Rule(NamedTuple):
    """What makes one of these algorithms.

    margin: an example with y f(x) <= margin changes its column. eta: by this, times y and the weight of its class;
    with `aggressive` by the passive-aggressive step instead. keep: 1 - eta lambda, what each example leaves of every
    coefficient. averages: the average over all examples predicts. removal: which point makes way.
    """

    margin: float = 0.0
    eta: float = 1.0
    keep: float = 1.0
    aggressive: bool = False
    averages: bool = False
    removal: int = SMALLEST


@compiled
def step_of(rule, y, f, weight, bound, self_value):
    """What an example adds to its coefficient in a column that gives it the value f."""
    if self_value <= 0.0 or not y * f <= rule.margin:
        return 0.0
    if rule.aggressive:
        return y * min(bound, (rule.margin - y * f) / self_value)
    return y * rule.eta * weight


@compiled
def add_to_margins(machine, n, c, factor, row):
    """BudgetPerceptron keeps f of the points it holds: add factor k(x, .)."""
    for i in range(n):
        if machine.class_of[i] != NONE:
            machine.smooth[c, i] += factor * row[i]


@compiled
def forget(machine, tally, s, n, row, self_value):
    """Shrink all columns before slot s leaves, as little as keeps Q within what the mistakes have earned.

    phi is the largest in (0, 1] with Q + sum_c Psi_c <= 15/32 M, where Psi = (sigma phi)^2 k + 2 sigma phi
    (1 - phi mu), sigma = |alpha_s| and mu = y_s f(x_s). row = k(x_s, .) and self_value are in units of the largest
    k(x, x), as the paper takes k(x, x) <= 1; Q and M are summed over the columns: their expansions shrink together.
    """
    a, b, balance = 0.0, 0.0, 0.0
    for c in range(machine.alpha.shape[0]):
        alpha = machine.alpha[c, s]
        a += alpha * alpha * self_value - 2.0 * alpha * dot(machine.alpha[c, :n], row[:n])
        b += 2.0 * abs(alpha)
        balance += tally[c, 1] - MISTAKES_EARN * tally[c, 0]
    balance = min(balance, 0.0)
    phi = 1.0
    if a + b + balance > 0.0:
        phi = -2.0 * balance / (b + np.sqrt(b * b - 4.0 * a * balance))
    for c in range(machine.alpha.shape[0]):
        for i in range(n):
            machine.alpha[c, i] *= phi
        alpha = machine.alpha[c, s]
        mu_sigma = alpha * dot(machine.alpha[c, :n], row[:n])
        tally[c, 1] += alpha * alpha * self_value + 2.0 * abs(alpha) - 2.0 * mu_sigma


@compiled
def weakest(points, machine, newest, removal, row):
    """The point, but the newest, that loses least: the oldest of those with the smallest sum over the columns.

    SMALLEST: |alpha k(x, .)|^2. PROJECTING (BPA-S): the same behind its projection on the newest, whose kernel row is
    `row`. FORGETTING: the oldest.
    """
    losses = np.full(newest, np.inf)
    for i in range(newest):
        if machine.class_of[i] == NONE:
            continue
        if removal == FORGETTING:
            return i
        loss = 0.0
        for c in range(machine.alpha.shape[0]):
            loss += machine.alpha[c, i] * machine.alpha[c, i]
        rest = np.float64(points.selves[i])
        if removal == PROJECTING:
            rest -= np.float64(row[i]) * np.float64(row[i]) / np.float64(points.selves[newest])
        losses[i] = loss * rest
    return first_least(losses, newest, 0.0)


@compiled
def most_redundant(points, machine, n):
    """argmax y_i (f(x_i) - alpha_i k(x_i, x_i)): by its margin without itself, in the worst column that holds it.

    Of equals the oldest: f is a sum of what came and went, in which copies of one example differ by rounding.
    """
    lacking, scale = np.full(n, np.inf), 0.0
    for i in range(n):
        if machine.class_of[i] == NONE:
            continue
        margin = np.inf
        for c in range(machine.alpha.shape[0]):
            alpha = machine.alpha[c, i]
            if alpha != 0.0:
                own = alpha * points.selves[i]
                rest = machine.smooth[c, i] - own
                margin = min(margin, rest if alpha > 0.0 else -rest)
                scale = max(scale, abs(own))
        lacking[i] = -margin
    return first_least(lacking, n, scale)


@compiled
def leave_margins(kernel, points, machine, slots, spread, row):
    """Take what these slots add out of the margins that BudgetPerceptron keeps."""
    n = points.used[USED]
    for s in slots:
        point_row(kernel, points, s, points, 0, n, spread, row)
        machine.counts[VALUES] += n
        for c in range(machine.alpha.shape[0]):
            add_to_margins(machine, n, c, -machine.alpha[c, s], row)


@compiled
def drawn(machine, random):
    """A uniformly drawn point other than the newest."""
    left = random_below(random, machine.counts[LIVE] - 1)
    s = 0
    while machine.class_of[s] == NONE or left > 0:
        left -= machine.class_of[s] != NONE
        s += 1
    return s


@compiled
def make_way(kernel, points, machine, tally, rule, bounds, random, spread, row):
    """Remove one point for the newest, whose kernel row with the others is `row` (overwritten)."""
    n = points.used[USED]
    newest = n - 1
    if rule.removal == REDUNDANT:
        s = most_redundant(points, machine, n)
    elif rule.removal in (RANDOM, RESCALING):
        s = drawn(machine, random)
    else:
        s = weakest(points, machine, newest, rule.removal, row)
    if rule.removal == PROJECTING:
        onto = np.float64(row[s]) / np.float64(points.selves[newest])
        for c in range(machine.alpha.shape[0]):
            machine.alpha[c, newest] += machine.alpha[c, s] * onto
    elif rule.removal == RESCALING:
        # What stays makes good, in the mean, for what a uniform draw removes.
        held = machine.counts[LIVE] - 1
        for c in range(machine.alpha.shape[0]):
            for i in range(newest):
                bound = bounds[machine.class_of[i]] if machine.class_of[i] != NONE else 0.0
                scaled = machine.alpha[c, i] * held / (held - 1.0)
                machine.alpha[c, i] = max(-bound, min(bound, scaled))
    elif rule.removal in (REDUNDANT, FORGETTING):
        point_row(kernel, points, s, points, 0, n, spread, row)
        machine.counts[VALUES] += n
        if rule.removal == FORGETTING:
            largest = 0.0
            for i in range(n):
                if machine.class_of[i] != NONE:
                    largest = max(largest, np.float64(points.selves[i]))
            for i in range(n):
                row[i] /= largest
            forget(machine, tally, s, n, row, row[s])
        else:
            for c in range(machine.alpha.shape[0]):
                add_to_margins(machine, n, c, -machine.alpha[c, s], row)
    leave(machine, s)


@compiled
def learn_rows(
    kernel,
    points,
    machine,
    tally,
    rule,
    weights,
    bounds,
    seen,
    random,
    full_at,
    batch,
    begin,
    spread,
    value_work,
    work_max,
    scores,
):
    """Learn rows begin.. of a batch; returns (rows done, why it stopped). Arguments: solvers/dual/lasvm.py.

    weights (classes,), bounds (classes,) is C times them; full_at: points that may be held; scores (m, K) receives what
    the state right before each row predicts. An example that is held already (`again`) adds to its coefficient.
    Stops before a row with NEEDS_REST where work_max is reached. value_work: work of a kernel value.
    """
    indptr, indices, values, norms, selves, classes, keys, again = batch
    columns = machine.alpha.shape[0]
    row = np.empty(points.start.shape[0], values.dtype)
    mean = np.empty(row.shape[0] if rule.averages else 0)
    f, step = np.zeros(columns), np.zeros(columns)
    begun, swept = machine.counts[VALUES], 0
    for r in range(begin, classes.shape[0]):
        if swept + value_work * (machine.counts[VALUES] - begun) > work_max:
            return r, NEEDS_REST
        first, last = indptr[r], indptr[r + 1]
        if not has_room(points, last - first):
            return r, NEEDS_ROOM
        own, n = classes[r], points.used[USED]
        s = NONE
        if again:
            s = find_key(machine, n, keys[r])
        else:
            seen[own] += 1
            machine.counts[LEARNED] += 1
        kernel_row(kernel, indices[first:last], values[first:last], norms[r], points, BEGIN, n, spread, row)
        machine.counts[VALUES] += n
        swept += SWEPT * columns * n
        taken = 0
        for c in range(columns):
            alpha = machine.alpha[c, :n]
            f[c] = dot(alpha, row[:n])
            scores[r, c] = f[c]
            if rule.averages and tally[c, 0] > 0.0:
                for i in range(n):
                    mean[i] = alpha[i] - machine.smooth[c, i] / tally[c, 0]
                scores[r, c] = dot(mean[:n], row[:n])
            step[c] = step_of(rule, sign_of(own, c, columns), f[c], weights[own], bounds[own], selves[r])
            taken += step[c] != 0.0
            if rule.keep != 1.0:
                for i in range(n):
                    alpha[i] *= rule.keep
        if taken > 0:
            enters = s == NONE
            if enters:
                s = append_point(points, indices[first:last], values[first:last], norms[r], selves[r])
                enter(machine, s, own, keys[r])
            machine.counts[STEPS] += taken
            for c in range(columns):
                machine.alpha[c, s] += step[c]
                if rule.averages:
                    machine.smooth[c, s] += step[c] * tally[c, 0]
                elif rule.removal == REDUNDANT:
                    add_to_margins(machine, n, c, step[c], row)
                    if enters:
                        machine.smooth[c, s] = f[c] + step[c] * selves[r]
                elif rule.removal == FORGETTING:
                    tally[c, 0] += step[c] != 0.0
                elif rule.removal == RESCALING:
                    machine.alpha[c, s] = max(-bounds[own], min(bounds[own], machine.alpha[c, s]))
            if machine.counts[LIVE] > full_at:
                make_way(kernel, points, machine, tally, rule, bounds, random, spread, row)
        if rule.averages:
            for c in range(columns):
                tally[c, 0] += 1.0
        holes = points.used[USED] - machine.counts[LIVE]
        if holes > HOLES_MIN and holes * HOLES_PART > machine.counts[LIVE]:
            return r + 1, NEEDS_COMPACTION
    return classes.shape[0], DONE


class OnlineExpansion(CoefficientExpansion):
    """What learns row by row over an expansion, here and in projections.py; budget: points held at most."""

    budget: int | None = None

    def _set_budget(self, budget: int, most: int) -> None:
        if not 1 < budget <= min(self.points_max, most):
            raise ValueError(
                f"budget must be > 1, at most {most} and at most points_max = {self.points_max}, got {budget}"
            )
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
            if reason == NEEDS_ROOM:
                self.make_room(int(rows.indptr[done + 1] - rows.indptr[done]))
            elif reason == NEEDS_COMPACTION:
                self.compact()
        return scores

    @abstractmethod
    def _learn_rows(self, batch: Batch, begin: int, scores: Array) -> tuple[int, int]:
        """Learn rows begin..; returns (rows done, why it stopped)."""

    def _spread(self) -> Array:
        """Scratch of `kernel_row`."""
        return np.zeros(self.dim if self.points.columns.shape[0] == 0 else 1, self.dtype)

    def load(self, state: State) -> None:
        """Take over a state of `state`. ValueError where an array does not fit the others or this configuration."""
        live = int((StateReader(state).take("class_of", np.int32, (None,)) != NONE).sum())
        if self.budget is not None and live > self.budget:
            raise ValueError(f"the state holds {live} points, more than the budget of {self.budget}")
        super().load(state)


class RuledExpansion(OnlineExpansion):
    """An expansion that learns by a `Rule`."""

    rule: Rule = Rule()
    tally: Array

    def __init__(self, kernel: Kernel, dim: int, **shared: Any) -> None:
        super().__init__(kernel, dim, **shared)
        self.tally = np.zeros((0, 2))

    def _learn_rows(self, batch: Batch, begin: int, scores: Array) -> tuple[int, int]:
        done, reason = learn_rows(
            self.kernel, self.points, self.machine, self.tally, self.rule, self.weights, self.bounds, self.seen,
            self.random, self.full_at, batch, begin, self._spread(), self.value_work, turns.WORK_MAX, scores,
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
        """Everything that the next prediction or update depends on, as arrays."""
        return super().state() | {"tally": self.tally.copy()}

    def load(self, state: State) -> None:
        """Take over a state of `state`. ValueError where an array does not fit the others or this configuration."""
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
        """Refuse a state that none comes to by learning (Solver.examine): what removals have cost is bounded, too."""
        super().examine()
        if np.abs(self.tally).max(initial=0.0) > REACHED_MAX**2:
            raise ValueError(f"tally must be within {REACHED_MAX**2:g}")


def checked_eta(eta: float, lam: float = 0.0) -> float:
    """A learning rate that lets the coefficients shrink, not turn. ValueError for another."""
    if not 0 < eta <= ETA_MAX:
        raise ValueError(f"eta must be > 0 and at most {ETA_MAX:g}, got {eta}")
    if not (lam >= 0 and eta * lam < 1):
        raise ValueError(f"lam must be >= 0 and eta * lam < 1, got lam = {lam}, eta = {eta}")
    return float(eta)


class BudgetRuledExpansion(RuledExpansion):
    """A `RuledExpansion` of at most `budget` points, > 1."""

    def __init__(self, kernel: Kernel, dim: int, *, budget: int = 500, **shared: Any) -> None:
        super().__init__(kernel, dim, **shared)
        self._set_budget(budget, UNBOUNDED)
