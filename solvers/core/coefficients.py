"""Solvers that store coefficients but no gradients: the solvers on a budget and the online baselines.

cap = slots of the point store; K = number of columns.

alpha     (K, cap) float64  signed dual coefficients.
smooth    (K, cap) float64  averaged coefficients (for predictions), another running sum of a solver, or zeros.
class_of  (cap,) int32      class of the point, NONE for a hole.
key       (cap,) int64      number of the example; for a merged point -2 - (number of its newest example).
b         (K,) float64      bias; 0 in solvers without a bias.
counts    (4,) int64        live points, steps, examples learned, kernel values computed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.counts import LEARNED, LIVE, NONE, STEPS
from hinged.solvers.core.expansion import Expansion
from hinged.solvers.core.reports import Certificate, certificate_of
from hinged.solvers.core.states import (
    COEFFICIENT_MAX,
    COUNT_MAX,
    MAGNITUDE_MAX,
    REACHED_MAX,
    State,
    StateReader,
    check_learned,
)
from hinged.solvers.jit.compiled import in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

VALUES = 3  # place of "kernel values computed" in `counts`, after the places that all solvers share (counts.py)
EQUAL = 2e-9  # relative: squared coefficients that differ by less differ only by rounding


@handed
class Coefficients(NamedTuple):
    """The arrays in the form that compiled code uses; see the module's docstring."""

    alpha: Array
    smooth: Array
    class_of: Array
    key: Array
    b: Array
    counts: Array


def empty_coefficients(columns: int, cap: int) -> Coefficients:
    """Return arrays without points."""
    return Coefficients(
        alpha=np.zeros((columns, cap)),
        smooth=np.zeros((columns, cap)),
        class_of=np.full(cap, NONE, np.int32),
        key=np.full(cap, NONE, np.int64),
        b=np.zeros(columns),
        counts=np.zeros(4, np.int64),
    )


@in_place
def sign_of(example_class, c, columns):
    """Return the label y of an example in column c: +1 or -1."""
    return 1.0 if example_class == (1 if columns == 1 else c) else -1.0


@in_place
def first_least(values, n, scale):
    """Return the first slot of values (n,) with the smallest value, up to rounding; NONE if no value is finite.

    Of equal values, the oldest slot wins, not the slot whose value is smallest through rounding. scale: size of the
    numbers if the values are differences of numbers; 0 for other values.
    """
    at, least = NONE, np.inf
    for s in range(n):
        if values[s] < least:
            at, least = s, values[s]
    most, older = least + EQUAL * max(abs(least), scale), False
    for s in range(at):
        older |= values[s] <= most  # rarely true; a branch would prevent vector instructions
    for s in range(at if older else 0):
        if values[s] <= most:
            return s
    return at


@in_place
def enter(machine, s, example_class, key):
    """Add the point of slot s, with coefficients of zero."""
    machine.class_of[s] = example_class
    machine.key[s] = key
    for c in range(machine.alpha.shape[0]):
        machine.alpha[c, s] = 0.0
        machine.smooth[c, s] = 0.0
    machine.counts[LIVE] += 1


@in_place
def leave(machine, s):
    """Turn slot s into a hole."""
    machine.class_of[s] = NONE
    machine.key[s] = NONE
    for c in range(machine.alpha.shape[0]):
        machine.alpha[c, s] = 0.0
        machine.smooth[c, s] = 0.0
    machine.counts[LIVE] -= 1


class CoefficientExpansion(Expansion):
    """An expansion without gradients. Parameters: see `Solver`."""

    machine: Coefficients

    def _empty(self, columns: int, cap: int) -> Coefficients:
        return empty_coefficients(columns, cap)

    def _resized(self, slots: Array, cap: int) -> Coefficients:
        old, n = self.machine, slots.size
        new = empty_coefficients(old.alpha.shape[0], cap)
        for name in ("alpha", "smooth"):
            getattr(new, name)[:, :n] = getattr(old, name)[:, slots]
        for name in ("class_of", "key"):
            getattr(new, name)[:n] = getattr(old, name)[slots]
        new.b[:], new.counts[:] = old.b, old.counts
        return new

    def _widened(self, classes: int) -> Coefficients:
        old, columns = self.machine, self.machine.alpha.shape[0]
        new = empty_coefficients(classes, old.class_of.size)._replace(
            class_of=old.class_of.copy(), key=old.key.copy(), counts=old.counts.copy()
        )
        if columns == 1:
            for name in ("alpha", "smooth", "b"):
                getattr(new, name)[0] = 0.0 - getattr(old, name)[0]
                getattr(new, name)[1] = getattr(old, name)[0]
        else:
            for name in ("alpha", "smooth", "b"):
                getattr(new, name)[:columns] = getattr(old, name)
        return new

    def _take_out(self, slots: Array) -> None:
        for s in slots:
            leave(self.machine, int(s))

    def certificate(self) -> Certificate:
        """Return only the sizes; a subclass that can compute its objective adds the objective."""
        return certificate_of(
            support_vectors=int((self.machine.alpha[:, : self.slots] != 0).any(axis=0).sum()),
            points=self.live,
            kernel_evaluations=int(self.machine.counts[VALUES]),
            steps=int(self.machine.counts[STEPS]),
        )

    def state(self) -> State:
        """Return as arrays everything that the next prediction or update depends on. Holes are empty slots."""
        n, machine = self.slots, self.machine
        return self._shared_state() | {
            "key": machine.key[:n].copy(),
            "alpha": machine.alpha[:, :n].copy(),
            "smooth": machine.smooth[:, :n].copy(),
            "b": machine.b.copy(),
            "counts": machine.counts.copy(),
        }

    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """
        checked = StateReader(state)
        loaded = self._read_shared(checked)
        n, columns = loaded.class_of.size, loaded.columns
        machine = empty_coefficients(columns, loaded.points.start.size)
        machine.class_of[:n] = loaded.class_of
        machine.key[:n] = loaded.key
        machine.alpha[:, :n] = loaded.by_slot(checked, "alpha", COEFFICIENT_MAX)
        machine.smooth[:, :n] = loaded.by_slot(checked, "smooth", COEFFICIENT_MAX if self.merging else MAGNITUDE_MAX)
        machine.b[:] = checked.take("b", np.float64, (columns,), 0.0, 0.0)
        machine.counts[:] = checked.take("counts", np.int64, (4,), 0, COUNT_MAX)
        live = loaded.class_of != NONE
        if machine.counts[LIVE] != live.sum():
            raise ValueError("counts must begin with the number of points")
        check_learned(loaded.seen, int(machine.counts[LEARNED]))
        if not (loaded.points.selves[:n][live] > 0).all():
            raise ValueError("a point must have a kernel value with itself > 0: otherwise it changes nothing")
        self._take_over(loaded, machine)

    def examine(self) -> None:
        """Refuse a state that learning cannot reach (Solver.examine): coefficients that would soon overflow."""
        super().examine()
        n, machine = self.slots, self.machine
        parts = np.abs(machine.alpha[:, :n]) * np.sqrt(np.maximum(self.points.selves[:n].astype(np.float64), 1.0))
        if parts.max(initial=0.0) > REACHED_MAX:
            raise ValueError(f"coefficients times |phi(x)| must be within {REACHED_MAX:g}, got {parts.max():g}")
        if np.abs(machine.smooth[:, :n]).max(initial=0.0) > REACHED_MAX**2:
            raise ValueError(f"smooth must be within {REACHED_MAX**2:g}")
