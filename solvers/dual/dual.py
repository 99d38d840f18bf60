"""The base of solvers that store the gradient of every point: the arrays of machine.py and a cache of kernel rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.counts import HOLES_PART, LEARNED, LIVE, NEEDS_REMOVAL, NONE, STEPS
from hinged.solvers.core.expansion import SLOTS_STEP, Expansion
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.points import has_room
from hinged.solvers.core.reports import Certificate, Finish, PointScores, certificate_of
from hinged.solvers.core.rowcache import (
    VALUES,
    RowCache,
    carried,
    new_cache,
    renewed,
    touched_bytes,
)
from hinged.solvers.core.rows import LabelledRows, Rows
from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.core.solver import check_fade
from hinged.solvers.core.states import COUNT_MAX, MAGNITUDE_MAX, State, StateReader, check_learned, check_range
from hinged.solvers.core.terms import Terms, gathered
from hinged.solvers.dual import machine as m
from hinged.solvers.dual import smo
from hinged.solvers.dual.coordinate import violation
from hinged.solvers.dual.direction import extremes
from hinged.solvers.dual.entering import enter_rows
from hinged.solvers.dual.listed import list_coefficients_anew
from hinged.solvers.dual.machine import IDLE, Machine, scan_column, set_bias
from hinged.solvers.dual.making_way import PART, first_to_go
from hinged.solvers.dual.vacating import ROUNDING, hand_over, move_gradients, vacate

Array = np.ndarray[Any, Any]


RESETTLE_STEPS = 20  # maximum steps of re-optimising after a point had to be removed
EACH_STEPS = 5  # further steps per point when many points are removed together
ROWS_SHARED_MAX = 16384  # up to this many points, all columns share rows in finishing; above, each is shrunk alone
WIDER_PART = 8  # cache lines have room for 1 / WIDER_PART more slots than are in use
ONES_BYTES = 2**27  # limit of cached rows with one column, if every non-zero is 1: such rows are fast to compute
BESIDE_PART = 6  # finishing shortens the cache lines if more than 1 / BESIDE_PART of a line is unused
VIEWED_PART = 32  # a view lists terms if they fill at most 1 / VIEWED_PART of the slots: then they are faster to add
ROUNDING_MAX = 1e-6  # largest rounding error of a long stream, relative to the terms of a sum


class DualExpansion(Expansion):
    """An expansion with gradients and a kernel-row cache. Parameters: see `Solver`."""

    bounded = True

    machine: Machine
    cache: RowCache
    biased: ClassVar[bool] = True
    keeps_extremes: ClassVar[bool] = True  # whether extremes are stored from one example to the next
    widens_lines: ClassVar[bool] = False  # whether cache lines may be shorter than the slots, and grow later
    measures_degradation: ClassVar[bool] = True  # whether the cost of removing points at points_max is known
    parameters: Any  # the subclass's parameters for compiled code; they include `tol`
    delta_min: float | None = None  # largest violation that learning leaves to finishing; None: no violation is left
    even = (
        False  # whether exchanging the two classes negates every coefficient exactly; if not, only up to the tolerance
    )

    def __init__(self, kernel: Kernel, dim: int, **shared: Any) -> None:
        super().__init__(kernel, dim, **shared)
        self.cache = new_cache(self.points, dim, self.cache_bytes)
        self.degradation = 0.0  # sum of |dw|^2 over all points removed at points_max, in all columns

    def _leave(self, delta_min: float | None) -> None:
        """Leave violations up to delta_min to further epochs and to finishing. None selects the default."""
        self.delta_min = None if delta_min is None else float(delta_min)

    def _tau(self, usual: float, most: float = np.inf, *, again: bool) -> float:
        """Return the violation that learning ignores: delta_min, but at most `most`.

        usual: the default of delta_min with several columns. A further epoch searches the optimum of all examples, so
        it ignores only violations up to tol.
        """
        left = self.delta_min
        if left is None:
            left = usual if self.columns > 1 else 0.0
        return float(max(0.0 if again else min(left, most), self.parameters.tol))

    def _empty(self, columns: int, cap: int) -> Machine:
        return m.empty_machine(columns, cap)

    def _resized(self, slots: Array, cap: int) -> Machine:
        return m.resized(self.machine, slots, cap)

    def _widened(self, classes: int) -> Machine:
        machine, former = m.with_more_classes(self.machine, classes, self.slots, self.bounds), self.columns
        for c in range(0 if self.keeps_extremes else former):
            scan_column(machine, c, self.slots)
        if not self.biased:
            machine.b[:] = 0.0
        return machine

    def _moved(self, slots: Array | None) -> None:
        self._recache(slots, self._line_width())

    def _recache(self, slots: Array | None, width: int) -> None:
        """Make the cache for the points of `slots`, which are now all points, with lines of this width."""
        bytes_max = self.cache_bytes
        if self.points.only_ones[0] and self.columns == 1:
            bytes_max = min(bytes_max, ONES_BYTES)
        given = (self.points, self.dim, bytes_max)
        # Rows whose values are all 1 are computed as fast as they are moved, and only where they are needed.
        if slots is None or self.points.only_ones[0]:
            self.cache = new_cache(*given, self.cache, width)
        else:
            self.cache = carried(self.cache, *given, slots, width)

    def _line_width(self) -> int:
        """Return the number of slots that a cache line covers.

        It is all slots if each slot has a line, else a few more slots than are used. Lines of points whose values are
        all 1 also cover all slots, because shortening these lines would lose them.
        """
        cap, n, former = self.points.start.size, self.slots, self.cache.lines.shape[1]
        if (
            not self.widens_lines
            or self.points.only_ones[0]
            or cap * cap * np.dtype(self.dtype).itemsize <= self.cache_bytes
        ):
            return cap
        return former if n < former else min(cap, -(-(n + n // WIDER_PART) // SLOTS_STEP) * SLOTS_STEP)

    def _cut_lines(self) -> None:
        """Shorten the cache lines to the slots in use, if some points have no line and much of each line is unused."""
        n, width = -(-self.slots // SLOTS_STEP) * SLOTS_STEP, self.cache.lines.shape[1]
        if self.cache.lines.shape[0] < self.slots and (width - n) * BESIDE_PART > width:
            self._recache(np.arange(self.slots), n)

    def make_room(self, nnz: int) -> None:
        """Lengthen the cache lines if they are shorter than the slots; else do what Expansion does."""
        if has_room(self.points, nnz):
            self._moved(np.arange(self.slots))
        else:
            super().make_room(nnz)

    def point_scores(self) -> PointScores | None:
        """Return the decision values at all points, from their gradients: f = y - g + b."""
        slots, machine = self._live_slots(), self.machine
        scores = machine.sign[:, slots] - machine.g[:, slots] + machine.b[:, None]
        # The ramp loss gives an outlier the box of the opposite label.
        wrong = np.where(machine.sign > 0, machine.upper <= 0.0, machine.lower >= 0.0)[:, slots]
        own = np.arange(slots.size)
        classes = machine.class_of[slots]
        aside = wrong[0] if self.columns == 1 else wrong[np.maximum(classes, 0), own]
        weights = np.ones(slots.size) if self.fading else self._weights_at(slots)
        return PointScores(self.keys(), classes, scores.T, aside, weights, self.held_rows())

    def take_in(self, rows: Rows, classes: Array, keys: Array, f: Array, weights: Array) -> None:
        """Store rows as points with alpha = 0.

        f (m, K): decision values without the bias. weights (m,): factors of C.
        """
        self._in_runs(
            weights, lambda run: self._enter_run(rows.part(run.start, run.stop), classes[run], keys[run], f[run])
        )

    def _enter_run(self, rows: Rows, classes: Array, keys: Array, f: Array) -> None:
        batch, done = rows.labelled(classes, keys), 0
        while done < len(rows):
            width = self.cache.lines.shape[1]
            done = enter_rows(self.points, self.machine, self.bounds, batch, f, done, width)
            if done < len(rows):
                self.make_room(int(rows.indptr[done + 1] - rows.indptr[done]))

    # -- optimising -----------------------------------------------------------------------------------------------

    def optimise(self, tol: float) -> Finish:
        """Optimise every column over all points until no violation exceeds tol."""
        if self.live < self.slots:
            self.compact()
        steps, converged = 0, True
        shared = self.columns > 1 and self.live <= ROWS_SHARED_MAX
        if shared and self.widens_lines and not self.points.only_ones[0]:
            self._cut_lines()
        for box in self._boxes():
            done = smo.solve(
                self.kernel, self.points, self.cache, box, self.dim, tol, biased=self.biased, even=self.even,
                shrink=not shared, value_work=self.value_work,
            )  # fmt: skip
            steps, converged = steps + done.steps, converged and done.converged
        self._settle(steps)
        return Finish(steps, converged)

    def _give_back(self) -> None:
        """Release the memory of a cache that the finishing step emptied.

        The next example may arrive much later.
        """
        self.cache = renewed(self.cache)

    @property
    def _measured(self) -> bool:
        """Whether points are removed at points_max and the cost of the removals is known."""
        return self.measures_degradation and self.when_full == "remove"

    def make_way(self, count: int) -> None:
        """Remove `count` points, the least useful first (making_way.py), and re-optimise over the rest."""
        n, machine = self.slots, self.machine
        alpha, g = machine.alpha[:, :n].copy(), machine.g[:, :n].copy()
        self._expel(first_to_go(machine, n, count))
        # Change of w in each column, by g = y - K alpha: |dw|^2 = d.K d = -d.dg with d = d alpha.
        for c in range(self.columns):
            self.degradation += max(0.0, float(-dot(machine.alpha[c, :n] - alpha[c], machine.g[c, :n] - g[c])))
        self._resettle(np.full(self.columns, RESETTLE_STEPS))
        self._tidy()

    def _provide(self, reason: int, batch: LabelledRows, row: int) -> None:
        if reason == NEEDS_REMOVAL:
            self.make_way(max(1, self.points_max // PART))
        else:
            super()._provide(reason, batch, row)

    def _take_out(self, slots: Array) -> None:
        held = self._expel(slots)
        self._resettle(np.where(held > 0, RESETTLE_STEPS + EACH_STEPS * held, 0))

    def _expel(self, slots: Array) -> Array:
        """Turn slots into holes. Return (K,) how many of these slots had a coefficient in each column.

        With a bias, other points take over the sum of their coefficients. Gradients are updated with the rows of the
        removed points or, if fewer points stay, with the rows of the points that stay.
        """
        machine, n = self.machine, self.slots
        given, held = (self.kernel, self.points, self.cache, machine), np.zeros(self.columns, np.int64)
        going = np.count_nonzero(machine.held[slots])
        anew = bool(2 * going > machine.counts[LIVE] - machine.counts[IDLE])
        at_once = turns.portion(n * (self.value_work + self.columns))
        for p in range(0, slots.size, at_once):
            vacate(*given, slots[p : p + at_once], anew, held)
            turns.rest()
        if anew:
            machine.g[:, :n] = machine.sign[:, :n]
            stay = np.flatnonzero(machine.held[:n])
            for p in range(0, stay.size, at_once):
                move_gradients(*given, stay[p : p + at_once], -1.0)
                turns.rest()
        for c in np.flatnonzero(held) if self.biased else ():
            left = np.full(2, np.nan)
            while not hand_over(*given, int(c), left, self.value_work, turns.WORK_MAX):
                turns.rest()
        return held

    def _resettle(self, steps_max: Array) -> None:
        """Re-optimise after points had to be removed, with at most steps_max (K,) steps in each column."""
        steps = 0
        for box, most in zip(self._boxes(), steps_max.tolist(), strict=True):
            steps += smo.advance(
                self.kernel, self.points, self.cache, box, self.parameters.tol, most, biased=self.biased,
                even=self.even, value_work=self.value_work,
            )[0]  # fmt: skip
        self._settle(steps)

    def _tidy(self) -> None:
        """Compact the slots if there are many holes. Compacting loses all cached rows."""
        if (self.slots - self.live) * HOLES_PART > self.live:
            self.compact()

    def _boxes(self) -> list[smo.Box]:
        return [
            smo.Box(*(getattr(self.machine, name)[c, : self.slots] for name in smo.Box._fields))
            for c in range(self.columns)
        ]

    def _settle(self, steps: int) -> None:
        """Update everything that depends on the coefficients."""
        machine, n = self.machine, self.slots
        machine.counts[STEPS] += steps
        for c in range(self.columns):
            scan_column(machine, c, n)
            if self.biased:
                set_bias(machine, c)
            else:
                machine.delta[c] = violation(machine.g[c], machine.best_i[c], machine.best_j[c])
            turns.rest()
        m.list_anew(machine, n)
        self._settled()

    def _settled(self) -> None:
        """Update what depends on the coefficients. Any coefficient may have changed."""

    def fade(self, factor: float) -> None:
        """Reduce the weight of everything learned so far (Solver.fade), without computing any kernel value."""
        check_fade(factor, fades=self.fades)
        m.shrink(self.machine, self.slots, float(factor))
        self._settle(0)

    def shrunk_to(self, part: float) -> Array:
        """Return the numbers of the examples whose box is at most `part` of the bound of their class."""
        slots = self._live_slots()
        narrow = m.widths_at(self.machine, slots) <= self.class_bounds[self.machine.class_of[slots]] * part
        return self.keys()[narrow]

    def weight_of(self, key: int) -> float:
        """Return the example's own weight, without its class weight; 1 if it is not a point or the solver fades."""
        found = self.held_weights()[self.keys() == key]
        return float(found[0]) if found.size and not self.fading else 1.0

    def held_weights(self) -> Array:
        """Return the points' own weights, without class weights, in the order of `keys`. Nothing may have faded."""
        return self._weights_at(self._live_slots())

    def _weights_at(self, slots: Array) -> Array:
        if not self.heaviest:
            return np.ones(slots.size)
        found: Array = m.widths_at(self.machine, slots) / self.class_bounds[self.machine.class_of[slots]]
        return found

    # -- reading --------------------------------------------------------------------------------------------------

    def _terms(self) -> Terms | None:
        machine = self.machine
        if self.columns < 2 or self._predicting() is not machine.alpha:
            return None
        length = np.where(machine.listed * VIEWED_PART <= self.slots, machine.listed, NONE)
        return gathered(length, machine.listed_slots, machine.listed_values)

    def _delta(self) -> Array:
        return self.machine.delta.copy()

    def certificate(self) -> Certificate:
        """Return sizes, dual and primal objective, gap, KKT violation, and the cost of removed points."""
        return certificate_of(
            support_vectors=int((self.machine.held[: self.slots] > 0).sum()),
            points=self.live,
            kernel_evaluations=int(self.cache.counters[VALUES]),
            steps=int(self.machine.counts[STEPS]),
            dual=float(m.dual_objective(self.machine, self.slots)),
            gap=float(m.working_set_gap(self.machine, self.slots)),
            kkt_violation=float(self.machine.delta.max(initial=0.0)),
            weight_degradation=self.degradation if self._measured else None,
            converged=self.converged,
        )

    def memory_bytes(self) -> int:
        """Return the memory of points, coefficients, and the pages that the row cache has used, in bytes."""
        return super().memory_bytes() + touched_bytes(self.cache)

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return as arrays everything that the next prediction or update depends on. Holes are empty slots."""
        n, machine = self.slots, self.machine
        live = machine.class_of[:n] != NONE
        return self._shared_state() | {
            "key": machine.key[:n].copy(),
            "idle": machine.idle[: machine.counts[IDLE]].copy(),
            **{name: np.where(live, getattr(machine, name)[:, :n], 0.0) for name in ("alpha", "g", "lower", "upper")},
            **{name: getattr(machine, name).copy() for name in ("best_i", "best_j", "b", "delta")},
            "steps": machine.counts[STEPS : STEPS + 1].copy(),
            "learned": machine.counts[LEARNED : LEARNED + 1].copy(),
            **({"degradation": np.array([self.degradation])} if self._measured else {}),
        }

    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """
        checked = StateReader(state)
        loaded = self._read_shared(checked)
        class_of, columns = loaded.class_of, loaded.columns
        n = class_of.size
        machine = m.empty_machine(columns, loaded.points.start.size)
        machine.class_of[:n] = class_of
        machine.key[:n] = loaded.key
        for name in ("alpha", "g", "lower", "upper"):
            getattr(machine, name)[:, :n] = loaded.by_slot(checked, name, MAGNITUDE_MAX)
        for name, most in (("b", MAGNITUDE_MAX if self.biased else 0.0), ("delta", MAGNITUDE_MAX)):
            getattr(machine, name)[:] = checked.take(name, np.float64, (columns,), -most, most)
        for name in ("best_i", "best_j"):
            slots = checked.take(name, np.int64, (columns,), NONE, n - 1)
            if (class_of[slots[slots != NONE]] == NONE).any():
                raise ValueError(f"{name} names a slot without a point")
            getattr(machine, name)[:] = slots
        alive = class_of != NONE
        machine.sign[:, :n] = np.where(alive, self._signs(class_of, columns), 0)
        m.set_masks(machine, n)
        self._check_boxes(machine, self.C * loaded.weights, n, loaded.heaviest)
        machine.held[:n] = (machine.alpha[:, :n] != 0).sum(axis=0)
        idle = checked.take("idle", np.int64, (None,), 0, n - 1)
        if not np.array_equal(np.sort(idle), np.flatnonzero(alive & (machine.held[:n] == 0))):
            raise ValueError("idle must list the points without a coefficient")
        machine.idle[: idle.size] = idle
        machine.idle_at[idle] = np.arange(idle.size)
        list_coefficients_anew(machine, n)
        machine.nearest[:n] = np.where(alive, class_of, 0) if columns > 1 else 0
        steps, learned = (int(checked.take(name, np.int64, (1,), 0, COUNT_MAX)[0]) for name in ("steps", "learned"))
        check_learned(loaded.seen, learned)
        machine.counts[:] = alive.sum(), steps, learned, idle.size
        degradation = 0.0
        if self._measured and "degradation" in state:  # states of version 0.1.0 have no degradation
            degradation = float(checked.take("degradation", np.float64, (1,), 0.0, np.finfo(np.float64).max)[0])
        self._take_over(loaded, machine)
        self.degradation = degradation

    def _signs(self, classes: Array, columns: int) -> Array:
        """Return the linear term of the dual (columns, n) of examples with these classes (n,): y."""
        positive = np.array([[1]]) if columns == 1 else np.arange(columns)[:, None]
        return np.where(classes == positive, 1, -1)

    def _total(self, lower: Array, upper: Array) -> float:  # noqa: ARG002  a solver without labels reads the boxes
        """Return the sum that the coefficients of a column must have with these boxes (n,), if there is a bias."""
        return 0.0

    def _check_boxes(self, machine: Machine, bounds: Array, n: int, heaviest: float) -> None:
        """Refuse boxes that do not fit y and the class, coefficients outside them, and extremes that cannot move."""
        width = np.where(machine.class_of[:n] == NONE, 0.0, np.append(bounds, 0.0)[machine.class_of[:n]])
        lower, upper = machine.lower[:, :n], machine.upper[:, :n]
        if self.fading or heaviest:  # a state contains neither its fading nor each example's weight
            faded = m.widths(machine, n)
            if (faded > width * max(1.0, heaviest) * (1.0 + ROUNDING)).any():
                raise ValueError("lower and upper must lie within the bounds of the points' classes")
            width = faded
        own = (lower == np.where(machine.sign[:, :n] < 0, -width, 0.0)) & (
            upper == np.where(machine.sign[:, :n] > 0, width, 0.0)
        )
        if not (own | self._boxed_otherwise(machine, width, n)).all():
            raise ValueError("lower and upper must be the bounds of the points' classes")
        check_range("alpha", machine.alpha[:, :n], lower, upper)
        for name, side in (("best_i", machine.up), ("best_j", machine.down)):
            best = getattr(machine, name)
            if not side[np.flatnonzero(best != NONE), best[best != NONE]].all():
                raise ValueError(f"{name} names a point that stands on its bound")

    def _boxed_otherwise(self, machine: Machine, width: Array, n: int) -> Array:  # noqa: ARG002
        """Return a mask (K, n): where a box may differ from the box of y.

        width (n,): C times each point's class weight.
        """
        return np.zeros((1, 1), bool)

    def examine(self) -> None:
        """Refuse a state that learning cannot reach (Solver.examine): g must be y - K alpha, and fit the rest."""
        super().examine()
        n, machine = self.slots, self.machine
        sampled, rows = self._sampled(self._live_slots())
        largest = float(np.abs(rows).max(initial=0.0))
        for c in range(self.columns):
            alpha, g = machine.alpha[c, :n], machine.g[c, :n]
            size = float(np.abs(alpha).sum() + self.bounds.max())
            total = self._total(machine.lower[c, :n], machine.upper[c, :n])
            if self.biased and abs(alpha.sum() - total) > ROUNDING_MAX * size:
                raise ValueError(f"alpha must have the sum {total:g}, got {alpha.sum():g}")
            away = np.abs(g[sampled] - (machine.sign[c, sampled] - rows @ alpha))
            if not away.max(initial=0.0) <= ROUNDING_MAX * (1.0 + size * largest):
                raise ValueError("g must be y - K alpha")
            expected = extremes(g, machine.up[c, :n], machine.down[c, :n]) if self.keeps_extremes else (NONE, NONE)
            if (machine.best_i[c], machine.best_j[c]) != expected:
                raise ValueError("best_i and best_j must be the extremes of g")
