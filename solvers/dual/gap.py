"""LASVM-G, FULL, LASVM-NC and LASVM-I: online kernel SVMs without a bias, paced by the duality gap.

S. Ertekin, L. Bottou and C. L. Giles, Nonconvex Online Support Vector Machines, TPAMI 33, 2011. The four are one
machine; what differs is the box of an example (section 5), the filter before it (section 6) and whether points that
are no support vectors are cleaned away (section 4.2):

    lasvm-g   hinge loss, CLEAN             lasvm-nc  ramp loss, CLEAN
    full      hinge loss, keeps all points  lasvm-i   hinge loss behind the ramp as a filter, CLEAN

Where this differs from the print:

- PROCESS moves by min(upper - alpha, g / K) where g > 0; REPROCESS bails out when the largest violation of one point is
  at most tau (its pair test stops too early without a bias), and that ends the gap loop as well.
- The gap of the working set is sum max((upper - alpha) g, (lower - alpha) g) (eq. 9 has the sign and the labels wrong);
  the sums of the gap target (eq. 8) run over the support vectors.
- CLEAN ranks points by their KKT slack, how far they are from becoming a support vector again, for both classes alike.
- The ramp takes effect for an example in a column only once its class, and both sides of the column, have ramp_start
  support vectors there. As printed LASVM-I has no start at all, and LASVM-NC's start does not look at the class: a
  class that comes late would be taken for outliers and never be learned.
- A step moves two points at once to their common optimum (coordinate.py): on Adult a 22nd of the steps.
- Gap and target are worked out anew only where something moved. An example that rests at its box within tau leaves both
  as they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.compiled import compiled
from hinged.solvers.core.counts import (
    DONE,
    LEARNED,
    LIVE,
    NEEDS_CLEANING,
    NEEDS_REMOVAL,
    NEEDS_REST,
    NEEDS_ROOM,
    NONE,
    STEPS,
)
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.lanes import dot, lane_sums, nonzero
from hinged.solvers.core.points import (
    USED,
    append_point,
    has_room,
    pop_point,
)
from hinged.solvers.core.rowcache import (
    VALUES,
    cached_row,
    drop_row,
    forget_slot,
)
from hinged.solvers.core.rows import Batch, Rows
from hinged.solvers.core.solver import (
    COUNT_MAX,
    MAGNITUDE_MAX,
    UNBOUNDED,
    Finish,
    State,
    StateReader,
    columns_of,
)
from hinged.solvers.dual.coordinate import box_gap, box_search, violation
from hinged.solvers.dual.dual import (
    COLUMN,
    FORMER,
    REPEATED,
    SLOT,
    DualExpansion,
    not_begun,
    work_of,
)
from hinged.solvers.dual.machine import (
    ASIDE,
    HINGE,
    IDLE,
    RAMP,
    Machine,
    enter,
    find_key,
    leave,
    note_change,
    scan_column,
    slack_of,
)

Array = np.ndarray[Any, Any]

NO_RAMP, RAMP_LOSS, RAMP_FILTER = range(3)
LOSSES = {"hinge": NO_RAMP, "ramp": RAMP_LOSS, "filter": RAMP_FILTER}
REPROCESS_MAX = 10_000  # steps at one example


class Parameters(NamedTuple):
    """tau; loss code; s, the ramp's left end; support vectors of a class before the ramp counts; CLEAN's m, its period.

    full_at: points at which the least useful one makes way.
    """

    tol: float
    loss: int
    ramp_s: float
    ramp_start: int
    idle_max: int
    clean_every: int
    full_at: int


class Pace(NamedTuple):
    """gap (K,), target (K,): duality gap and gap target of each column as of its last step.

    sv_of (K, classes): support vectors of each class in each column. discarded (classes, 2): examples of each class
    that fell left (z < s) and right (z > 1) of the ramp when they came, in the column of their own class.
    """

    gap: Array
    target: Array
    sv_of: Array
    discarded: Array


def _primal_parts(alpha, g, sign, lower, upper):
    """Of one point: h, its square, and whether it counts."""
    held = nonzero(alpha)
    h = held * (upper - lower) * sign * g
    return h, h * h, held


_primal_sums = lane_sums(_primal_parts)


@compiled
def gap_target(alpha, g, sign, lower, upper):
    """Standard deviation of the primal (eq. 8): h = C y g over the support vectors; 0 without any."""
    total, squares, count = _primal_sums((alpha, g, sign, lower, upper))
    return np.sqrt(max(squares - total * total / count, 0.0)) if count > 0.0 else 0.0


@compiled
def take_stance(pace, parameters, own, again, f, stance):
    """The stance of an example of class `own` in each column; false if it is to be skipped in all.

    Where it comes `again`, what became of it counts no second time.
    """
    columns = pace.sv_of.shape[0]
    wanted = False
    for c in range(columns):
        stance[c] = HINGE
        positive = own == (1 if columns == 1 else c)
        z = f[c] if positive else -f[c]
        outlier = z < parameters.ramp_s
        filtered = parameters.loss == RAMP_FILTER and (outlier or z > 1.0)
        if parameters.loss != NO_RAMP and (outlier or filtered):
            ups = pace.sv_of[c, 1 if columns == 1 else c]
            held = pace.sv_of[c].sum()
            least = min(pace.sv_of[c, own], ups, held - ups)
            if least >= parameters.ramp_start:
                stance[c] = ASIDE if filtered else RAMP
                if not again and (positive or columns == 1):
                    pace.discarded[own, 0 if outlier else 1] += 1
        wanted = wanted or stance[c] != ASIDE
    return wanted


@compiled
def move(kernel, points, cache, machine, pace, c, i, j):
    """Move slots i and j, or one where they are the same, in column c; sets extremes and gap anew."""
    n = points.used[USED]
    row_i = cached_row(kernel, points, cache, i, NONE)
    row_j = cached_row(kernel, points, cache, j, i)
    alpha, g = machine.alpha[c, :n], machine.g[c, :n]
    lower, upper = machine.lower[c, :n], machine.upper[c, :n]
    zero_i, zero_j = alpha[i] == 0.0, alpha[j] == 0.0
    machine.best_i[c], machine.best_j[c] = box_search(
        i, j, alpha, g, lower, upper, machine.up[c, :n], machine.down[c, :n], row_i, row_j
    )
    note(machine, pace, c, i, zero_i)
    if i != j:
        note(machine, pace, c, j, zero_j)
    pace.gap[c] = box_gap(alpha, g, lower, upper)
    machine.counts[STEPS] += 1


@compiled
def note(machine, pace, c, s, was_zero):
    """Keep the idle list and the support vectors by class true after alpha of slot s moved in column c."""
    is_zero = machine.alpha[c, s] == 0.0
    note_change(machine, s, was_zero, is_zero)
    pace.sv_of[c, machine.class_of[s]] += np.int64(was_zero) - np.int64(is_zero)


@compiled
def learn_rows(
    kernel,
    points,
    cache,
    machine,
    pace,
    parameters,
    bounds,
    seen,
    batch,
    begin,
    at,
    value_work,
    work_max,
    scores,
):
    """Online iterations over rows begin.. of a batch; returns (rows done, why it stopped). As in lasvm.py."""
    indptr, indices, values, norms, selves, classes, keys, again = batch
    columns = machine.alpha.shape[0]
    f = np.zeros(columns)
    stance = np.zeros(columns, np.int8)
    values_before, steps, swept = cache.counters[VALUES], machine.counts[STEPS], 0
    for r in range(begin, classes.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        own = classes[r]
        n = points.used[USED]
        if at[COLUMN] == NONE:
            if swept + work_of(points, cache, machine, values_before, steps, value_work) > work_max:
                return r, NEEDS_REST
            if not has_room(points, last - first):
                return r, NEEDS_ROOM
            if machine.counts[LIVE] >= parameters.full_at:
                return r, NEEDS_REMOVAL
            swept += (columns + 1) * n
            k = find_key(machine, n, keys[r]) if again else NONE
            if k == NONE:
                k = append_point(points, indices[first:last], values[first:last], norms[r], selves[r])
                row = cached_row(kernel, points, cache, k, NONE)
                for c in range(columns):
                    f[c] = dot(machine.alpha[c, :n], row[:n])
                    scores[r, c] = f[c]
                if not again:
                    seen[own] += 1
                    machine.counts[LEARNED] += 1
                if not take_stance(pace, parameters, own, again, f, stance):
                    pop_point(points)
                    forget_slot(cache, k)
                    continue
                enter(machine, k, own, keys[r], bounds[own], f, stance)
            else:
                for c in range(columns):
                    scores[r, c] = machine.sign[c, k] - machine.g[c, k]
            at[COLUMN], at[REPEATED], at[SLOT] = 0, 0, k
        k, n = at[SLOT], points.used[USED]
        while at[COLUMN] < columns:
            c = at[COLUMN]
            g = machine.g[c, :n]
            enough = max(bounds[own], pace.target[c])
            if at[REPEATED] == 0:
                at[FORMER] = machine.counts[STEPS]
                rises = machine.up[c, k] != 0 and g[k] > parameters.tol
                falls = machine.down[c, k] != 0 and g[k] < -parameters.tol
                if rises or falls:
                    other = machine.best_j[c] if rises else machine.best_i[c]
                    move(kernel, points, cache, machine, pace, c, k, k if other == NONE else other)
            while at[REPEATED] < REPROCESS_MAX:
                i, j = machine.best_i[c], machine.best_j[c]
                machine.delta[c] = violation(g, i, j)
                if pace.gap[c] <= enough or machine.delta[c] <= parameters.tol:
                    break
                move(kernel, points, cache, machine, pace, c, j if i == NONE else i, i if j == NONE else j)
                at[REPEATED] += 1
                if work_of(points, cache, machine, values_before, steps, value_work) > work_max:
                    return r, NEEDS_REST
            if machine.counts[STEPS] > at[FORMER]:
                pace.target[c] = gap_target(
                    machine.alpha[c, :n], g, machine.sign[c, :n], machine.lower[c, :n], machine.upper[c, :n]
                )
            at[COLUMN], at[REPEATED] = c + 1, 0
            if at[COLUMN] < columns and (work_of(points, cache, machine, values_before, steps, value_work) > work_max):
                return r, NEEDS_REST
        at[COLUMN] = NONE
        if machine.counts[LEARNED] % parameters.clean_every == 0 and machine.counts[IDLE] > parameters.idle_max:
            return r + 1, NEEDS_CLEANING
    return classes.shape[0], DONE


@compiled
def leave_all(cache, machine, n, slots):
    """Turn idle slots into holes."""
    for s in slots:
        leave(machine, s)
        drop_row(cache, s)
    for c in range(machine.alpha.shape[0]):
        scan_column(machine, c, n)


@compiled
def idle_slacks(machine, slacks):
    """slacks (idle,) of the idle list, in its order."""
    for p in range(machine.counts[IDLE]):
        slacks[p] = slack_of(machine, machine.idle[p])


class GapSVM(DualExpansion):
    """LASVM-G, FULL, LASVM-NC or LASVM-I. Other parameters: dual.py.

    tol: tau, > 0. loss: "hinge", "ramp" (LASVM-NC) or "filter" (LASVM-I). ramp_s: the ramp's left end, < 1. ramp_start:
    support vectors that the class of an example and both sides of a column must have there before the ramp counts.
    idle_max: points without a coefficient that CLEAN leaves (None: all, there is no CLEAN). clean_every: examples
    between two CLEANs.
    """

    biased = False
    fades = True

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        tol: float = 1e-3,
        loss: str = "hinge",
        ramp_s: float = -1.0,
        ramp_start: int = 100,
        idle_max: int | None = 1000,
        clean_every: int = 1000,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        if not 0 < tol < 1e3:
            raise ValueError(f"tol must be > 0 and < 1000, got {tol}")
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}")
        if not -1e6 < ramp_s < 1:
            raise ValueError(f"ramp_s must be > -1e6 and < 1, got {ramp_s}")
        if not ramp_start > 0:
            raise ValueError(f"ramp_start must be > 0, got {ramp_start}")
        if idle_max is not None and not idle_max >= 0:
            raise ValueError(f"idle_max must be >= 0 or None, got {idle_max}")
        if not clean_every > 0:
            raise ValueError(f"clean_every must be > 0, got {clean_every}")
        self.parameters = Parameters(
            float(tol),
            LOSSES[loss],
            float(ramp_s),
            int(ramp_start),
            UNBOUNDED if idle_max is None else int(idle_max),
            int(clean_every),
            self.full_at,
        )
        self.pace = Pace(np.zeros(0), np.zeros(0), np.zeros((0, 0), np.int64), np.zeros((0, 2), np.int64))

    def add_class(self, weight: float = 1.0) -> None:
        """Announce one more class; its examples may come from now on. Their bound is C times `weight`."""
        super().add_class(weight)
        discarded = np.zeros((self.classes, 2), np.int64)
        discarded[:-1] = self.pace.discarded
        self._measure(discarded)

    def _measure(self, discarded: Array) -> None:
        """Work out gap, target and support vectors by class anew."""
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
        """(classes, 2) examples that fell left and right of the ramp, by class; None without a ramp."""
        return None if self.parameters.loss == NO_RAMP else self.pace.discarded.copy()

    def learn(self, rows: Rows, classes: Array, keys: Array, *, again: bool = False) -> Array:
        """Online iterations over a batch (Solver.learn); with `again`, points that are held are processed again."""
        classes, keys = np.asarray(classes, np.int64), np.asarray(keys, np.int64)
        self.check_batch(rows, classes, keys)
        scores = np.empty((len(rows), self.columns))
        bounds = self.bounds
        at, done = not_begun(), 0
        batch = rows.labelled(classes, keys, again=again)
        while done < len(rows):
            done, reason = learn_rows(
                self.kernel, self.points, self.cache, self.machine, self.pace, self.parameters, bounds, self.seen,
                batch, done, at, self.value_work, turns.WORK_MAX, scores,
            )  # fmt: skip
            turns.rest()
            self._provide(reason, batch, done)
        return scores

    def _provide(self, reason: int, batch: Batch, row: int) -> None:
        if reason == NEEDS_CLEANING:
            self._clean()
        else:
            super()._provide(reason, batch, row)

    def _clean(self) -> None:
        """CLEAN: of the points without a coefficient the idle_max with the least slack stay."""
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
        """Optimise every column over the points held until no point violates by more than tol, and CLEAN."""
        finish = self._optimise(self.parameters.tol)
        if self.machine.counts[IDLE] > self.parameters.idle_max:
            self._clean()
        return finish

    def state(self) -> State:
        """Everything that the next prediction or update depends on, as arrays. Holes are kept, empty."""
        return super().state() | {
            "gap": self.pace.gap.copy(),
            "target": self.pace.target.copy(),
            "discarded": self.pace.discarded.copy(),
        }

    def load(self, state: State) -> None:
        """Take over a state of `state`. ValueError where an array does not fit the others or this configuration."""
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
        """(K, n) where an outlier of the ramp has the box of the other label, or none at all (take_stance)."""
        lower, upper, sign = machine.lower[:, :n], machine.upper[:, :n], machine.sign[:, :n]
        if self.parameters.loss == RAMP_LOSS:
            found: Array = (lower == np.where(sign > 0, -width, 0.0)) & (upper == np.where(sign < 0, width, 0.0))
        else:
            found = (lower == 0.0) & (upper == 0.0) & (self.parameters.loss == RAMP_FILTER)
        return found


GAP_OF = ("alpha", "g", "sign", "lower", "upper")
