"""Columns that are always at their optimum, and the way from one optimum to the next when the problem changes.

Each change follows a path (path.py); then rounding errors are removed (margin.py). If a path goes wrong, the margin set
is rebuilt, or SMO solves the column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.counts import NONE, STEPS
from hinged.solvers.core.rowcache import (
    cached_row,
)
from hinged.solvers.dual import path, smo
from hinged.solvers.dual.dual import ROUNDING_MAX, DualExpansion
from hinged.solvers.dual.margin import (
    EVENTS,
    FREE,
    HIGH,
    LOW,
    TIDY,
    M,
    Margin,
    admit,
    empty_margin,
    is_loose,
    join,
    mark,
    subtract_rows,
    tidy,
    worst_violation,
)
from hinged.solvers.dual.near import enlarged, nothing_near

Array = np.ndarray[Any, Any]

KKT_MAX = 1e-9  # a larger violation after a path is repaired at once
EVENTS_PER_POINT_MAX = 20  # maximum number of events of a path, per point
MEND_STEPS, MEND_STEPS_PER_POINT = 20_000, 200  # limits of the SMO steps of a repair: fixed, and per point
MEND_EVERY = 1000  # SMO steps between two checks of the violation beyond rounding


class OptimalExpansion(DualExpansion):
    """A dual expansion in which every column has a margin set and is always at its optimum.

    parameters.tol: the violation at which a repair stops.
    """

    margins: list[Margin]

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
            margin.side[:] = HIGH  # every point is negative and at 0, its upper bound

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
        """Return the margin set of column c with room for twice as many members."""
        margin = self.margins[c]
        m = int(margin.counts[M])
        larger = empty_margin(margin.side.size, 2 * margin.members.size)
        larger.members[:m] = margin.members[:m]
        larger.R[: m + 1, : m + 1] = margin.R[: m + 1, : m + 1]
        larger.counts[:] = margin.counts
        self.margins[c] = larger._replace(side=margin.side)
        return self.margins[c]

    def _column(self, c: int) -> tuple[Array, Array, Array, Array]:
        """Return alpha, g, lower and upper (n_slots,) of a column."""
        n, machine = self.slots, self.machine
        return machine.alpha[c, :n], machine.g[c, :n], machine.lower[c, :n], machine.upper[c, :n]

    # -- changing the problem -------------------------------------------------------------------------------------

    def _go(self, c: int, lower: Array, upper: Array, dq: Array | None = None) -> None:
        """Move column c to the optimum for new bounds (n_slots,), and for a q that changes by dq."""
        n, machine = self.slots, self.machine
        live = (machine.class_of[:n] != NONE).astype(np.uint8)
        alpha, g, now_lower, now_upper = self._column(c)
        b = machine.b[c : c + 1]
        margin, near = self.margins[c], nothing_near()
        rise = self._total(lower, upper) - self._total(now_lower, now_upper)
        way = path.new_path(now_lower, now_upper, (lower, upper), dq, rise, live, margin.members.size)
        events, code = int(margin.counts[EVENTS]), path.STUCK if self._loose(c) else path.UNDER_WAY
        while code in (path.UNDER_WAY, path.CROWDED):
            code, near = path.follow(
                self.kernel, self.points, self.cache, margin, near, way, alpha, g, b, now_lower, now_upper,
                EVENTS_PER_POINT_MAX * (n + 10), self.value_work, turns.WORK_MAX,
            )  # fmt: skip
            if code == path.CROWDED:
                margin = self._enlarged(c)
                way = way._replace(dalpha=np.zeros(margin.members.size))
                near = enlarged(near, margin.members.size)
            turns.rest()
        machine.counts[STEPS] += int(margin.counts[EVENTS]) - events
        now_lower[:], now_upper[:] = lower, upper
        well = self._refine(c) if code == path.DONE else code == path.STILL
        self._mask(c)
        if not (well and self._stands(c, KKT_MAX)):
            self._mend(c)

    def _refine(self, c: int) -> bool:
        """Remove the rounding errors of a path (`tidy`). Return whether all numbers are finite."""
        machine, margin = self.machine, self.margins[c]
        alpha, g, lower, upper = self._column(c)
        changes, at, total = np.empty(margin.members.size), np.zeros(3, np.int64), self._total(lower, upper)
        while True:
            tidy(
                self.kernel, self.points, self.cache, margin, alpha, g, machine.b[c : c + 1], lower, upper, total,
                changes, at, self.value_work, turns.WORK_MAX,
            )  # fmt: skip
            turns.rest()
            if at[0] == TIDY:
                return not at[2]

    def _subtract_rows(self, slots: Array, factors: Array, target: Array) -> None:
        """Do target (n,) -= sum over p of factors_p times the kernel row of slots_p."""
        at_once = turns.portion(self.slots * (self.value_work + 1))
        for p in range(0, slots.size, at_once):
            part = slice(p, p + at_once)
            subtract_rows(self.kernel, self.points, self.cache, slots[part], factors[part], target)
            turns.rest()

    def _mask(self, c: int) -> None:
        """Set the masks of a column from its coefficients."""
        n, machine = self.slots, self.machine
        columns = (getattr(machine, name)[c, :n] for name in ("alpha", "lower", "upper", "up", "down"))
        mark(machine.class_of[:n], *columns)

    def _violation(self, c: int) -> float:
        """Return the largest violation of a pair, beyond the rounding of the gradients."""
        n, machine = self.slots, self.machine
        up, down, alpha, g = (getattr(machine, name)[c, :n] for name in ("up", "down", "alpha", "g"))
        return float(worst_violation(up, down, alpha, g, self.points.selves[:n]))

    def _stands(self, c: int, most: float) -> bool:
        """Return whether no pair violates by more than `most`, and sum(alpha) is right up to rounding."""
        alpha, _, lower, upper = self._column(c)
        off = abs(alpha.sum() - self._total(lower, upper))
        return self._violation(c) <= most and bool(off <= ROUNDING_MAX * np.abs(alpha).sum())

    def _loose(self, c: int) -> bool:
        """Return whether a coefficient outside the margin set is off its bound. No path can begin there."""
        n, machine = self.slots, self.machine
        return bool(
            is_loose(self.margins[c].side[:n], machine.alpha[c, :n], machine.lower[c, :n], machine.upper[c, :n])
        )

    def _mend(self, c: int) -> None:
        """Repair a column after rounding led a path astray: rebuild R, or else run SMO and rebuild the margin set.

        If rounding errors are too large for any margin set, as with kernel values of 1e15, the column keeps SMO's
        solution. The next change of the column then begins with SMO too.
        """
        n, machine, margin = self.slots, self.machine, self.margins[c]
        alpha, _, lower, upper = self._column(c)
        self._balance(c)
        outside = (margin.side[:n] != FREE) & (lower < upper)  # their sides may be wrong after the path
        margin.side[:n][outside & (alpha == lower)] = LOW
        margin.side[:n][outside & (alpha == upper)] = HIGH
        if not self._loose(c):
            members = margin.members[: margin.counts[M]].copy()
            margin.counts[M] = 0
            if all(self._join(c, int(s)) for s in members) and self._refine(c):
                self._mask(c)
                if self._stands(c, KKT_MAX):
                    return
            self._balance(c)
        self._solve(c)
        found = alpha.copy(), machine.g[c, :n].copy(), self._violation(c)
        if not (self._build(c) and self._stands(c, max(KKT_MAX, found[2]))):
            alpha[:], machine.g[c, :n] = found[:2]
            self._set_aside(c)
            self._mask(c)

    def _balance(self, c: int) -> None:
        """Bring coefficients into their boxes and to their sum, and update everything that depends on them."""
        alpha, _, lower, upper = self._column(c)
        np.clip(np.nan_to_num(alpha), lower, upper, out=alpha)
        left = alpha.sum() - self._total(lower, upper)
        for s in np.flatnonzero(upper > lower):
            if left == 0.0:
                break
            before, alpha[s] = alpha[s], min(max(alpha[s] - left, lower[s]), upper[s])
            left -= before - alpha[s]
        self._measure_gradient(c)
        self._mask(c)

    def _solve(self, c: int) -> None:
        """Run SMO until no violation is larger than rounding errors, or the limit of steps is reached."""
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
        """Recompute g = q - K alpha."""
        n, machine = self.slots, self.machine
        g = machine.sign[c, :n].astype(float)
        slots = np.flatnonzero(machine.alpha[c, :n])
        self._subtract_rows(slots, machine.alpha[c, slots], g)
        machine.g[c, :n] = g

    def _set_aside(self, c: int) -> None:
        """Empty the margin set: set b and the side of each point. A free point gets the side that it would move to."""
        n, machine = self.slots, self.machine
        alpha, g, lower, upper = self._column(c)
        ends = np.array([g[alpha < upper].max(initial=-np.inf), g[alpha > lower].min(initial=np.inf)])
        machine.b[c] = ends[np.isfinite(ends)].mean() if np.isfinite(ends).any() else 0.0
        live, side = (
            machine.class_of[:n] != NONE,
            self.margins[c].side,
        )
        side[:n] = np.where(live & ((alpha > lower) | ((lower == upper) & (g > machine.b[c]))), HIGH, LOW)
        self.margins[c].counts[M] = 0

    def _build(self, c: int) -> bool:
        """Build the margin set from the coefficients strictly between their bounds.

        Return whether all numbers are finite.
        """
        n, machine = self.slots, self.machine
        self._set_aside(c)
        self._admit_all(c, np.flatnonzero((machine.up[c, :n] != 0) & (machine.down[c, :n] != 0)))
        finite = self._refine(c)
        self._mask(c)
        return finite

    def _admit_all(self, c: int, slots: Array) -> None:
        """Make these slots the margin set, starting from an empty R."""
        alpha, g, lower, upper = self._column(c)
        self.margins[c].counts[M] = 0
        for s in slots:
            margin = self._with_room(c)
            while not admit(self.kernel, self.points, self.cache, margin, alpha, g, lower, upper, int(s), 1):
                turns.rest()
            turns.rest()

    def _join(self, c: int, s: int) -> bool:
        """Add slot s to the margin set. Return False if the slot depends on the set."""
        turns.rest()
        return bool(join(self._with_room(c), cached_row(self.kernel, self.points, self.cache, s, NONE), s))

    def _with_room(self, c: int) -> Margin:
        """Return the margin set of column c with room for another member."""
        margin = self.margins[c]
        return margin if margin.counts[M] < margin.members.size else self._enlarged(c)

    def _finish_change(self) -> None:
        """Update everything that depends on coefficients that changed in any column."""
        for c in range(self.columns):
            self._rest(c)
        bias = self.machine.b.copy()
        free = [int(margin.counts[M]) for margin in self.margins]
        self._settle(0)
        for c, m in enumerate(free):
            if m:  # the bias from the margin set is more precise than from the extremes
                self.machine.b[c] = bias[c]

    def _rest(self, c: int) -> None:
        """If all points have the same sign, the optimum is 0: remove the rounding errors of the path to 0."""
        n, machine, margin = self.slots, self.machine, self.margins[c]
        rises, falls = machine.upper[c, :n] > 0.0, machine.lower[c, :n] < 0.0
        if rises.any() and falls.any():
            return
        machine.alpha[c, :n], machine.g[c, :n] = 0.0, machine.sign[c, :n]
        margin.side[:n], margin.counts[M] = np.where(falls, HIGH, LOW), 0
        self._mask(c)
