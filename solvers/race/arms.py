"""The arms of a race: machines that differ in C, in the kernel's gamma, in how long they remember, and in the loss."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.elementary import exp
from hinged.solvers.core.kernels import Kernel, is_radial
from hinged.solvers.core.rows import Rows
from hinged.solvers.dual.gap import GapSVM
from hinged.solvers.dual.lasvm import LASVM

Array = np.ndarray[Any, Any]

FADES = 16  # fading steps per half-life
LEAVES = 4  # fading steps between two searches for examples that leave
LEAST = (1 + 1e-6) / 32  # part of its box at which an example leaves: reached after five half-lives
LN_2 = 0.6931471805599453

IDLE, IDLE_FADING = 1000, 250
"""Points up to which an arm keeps points without a coefficient; less in an arm that fades, where they soon are too old.
Each kept point costs a kernel value per example, also if it is never needed again, as after a change."""

ARMS_MAX = 16  # most arms at once
C_LEAST, C_MOST = 1e-3, 100.0
GAMMA_LEAST, GAMMA_MOST = 4.0**-4, 4.0**4
HALF_LIFE_LEAST, HALF_LIFE_MOST = 250, 16_000
STEEP = 10.0  # largest C times gamma, as factors, of an arm with the ramp: beyond, it needs many times the steps


class Setting(NamedTuple):
    """The settings of an arm: C and gamma, as factors of the race's own, half-life and loss.

    half_life: examples after which an example counts half; 0 for no fading. ramp: whether the loss is the ramp
    (LASVM-NC), which treats examples that contradict the machine as outliers; else it is the hinge.
    """

    C: float
    gamma: float = 1.0
    half_life: int = 0
    ramp: bool = False

    @property
    def allowed(self) -> bool:
        """Whether a race may reach this setting."""
        fading = self.half_life == 0 or HALF_LIFE_LEAST <= self.half_life <= HALF_LIFE_MOST
        ramp = not self.ramp or (self.half_life == 0 and self.C * self.gamma <= STEEP)
        return C_LEAST <= self.C <= C_MOST and GAMMA_LEAST <= self.gamma <= GAMMA_MOST and fading and ramp

    def of_gamma(self, gamma: float) -> Setting:
        """The setting with another gamma; without the ramp where that is too steep for it."""
        return self._replace(gamma=gamma, ramp=self.ramp and self.C * gamma <= STEEP)


RADIAL = (
    Setting(1.0),
    *(Setting(C, gamma, ramp=True) for C, gamma in ((1.0, 1.0), (10.0, 0.25), (10.0, 1.0))),
    *(Setting(C, gamma) for C, gamma in ((1.0, 4.0), (10.0, 4.0), (10.0, 16.0))),
    *(Setting(3.0, gamma, 1000) for gamma in (1.0, 4.0)),
    *(Setting(3.0, gamma, 250) for gamma in (0.25, 1.0)),
)
"""The first arms with a kernel of a distance. The very first leads while nothing is known."""

OTHER = (Setting(1.0), Setting(0.01), Setting(0.1), Setting(10.0), Setting(3.0, half_life=1000))
"""The first arms with another kernel, whose norms depend on gamma."""


def first_settings(kernel: Kernel) -> tuple[Setting, ...]:
    """The arms that a race begins with."""
    return RADIAL if is_radial(kernel) else OTHER


def read_settings(array: Array, kernel: Kernel) -> list[Setting]:
    """Read the settings of a state (A, 4), or (A, 3) in older states. ValueError where a race cannot reach them."""
    if array.shape[1] not in {3, 4} or not np.isin(array[:, 3:], (0.0, 1.0)).all():
        raise ValueError(f"a setting must be C, gamma, half-life and 0 or 1, got {array.tolist()}")
    found = [Setting(C, gamma, int(half_life), any(ramp)) for C, gamma, half_life, *ramp in array.tolist()]
    if not 0 < len(found) <= ARMS_MAX or len(set(found)) < len(found):
        raise ValueError(f"there must be 1 to {ARMS_MAX} different arms, got {found}")
    wrong = [s for s in found if not s.allowed or (s.gamma != 1.0 and not is_radial(kernel))]
    if wrong:
        raise ValueError(f"a race has no arm of {wrong[0]}")
    return found


def near(setting: Setting, kernel: Kernel) -> Iterator[Setting]:
    """The settings a step away from a setting, the most promising first."""
    C, gamma, half_life, _ = setting
    if is_radial(kernel):
        yield from (setting._replace(ramp=True), setting.of_gamma(4.0 * gamma), setting.of_gamma(gamma / 4.0))
    if half_life:
        yield from (setting._replace(half_life=half_life * 4), setting._replace(half_life=half_life // 4))
    if not is_radial(kernel):
        yield from (setting._replace(C=C * 3.0), setting._replace(C=C / 3.0))


RAMPED = ("tol", "delta_min", "points_max", "when_full", "seed", "dtype", "cache_bytes")


class Arm:
    """A machine with its setting. C: the factor of the setting's C.

    shared: parameters of all arms (LASVM's; an arm with the ramp takes those in RAMPED); their idle_max is a bound.
    """

    machine: LASVM | GapSVM

    def __init__(self, setting: Setting, kernel: Kernel, dim: int, C: float, **shared: Any) -> None:
        self.setting = setting
        own = kernel._replace(gamma=kernel.gamma * setting.gamma)
        idle_max = min(shared.pop("idle_max", IDLE), IDLE_FADING if self.fades else IDLE)
        if setting.ramp:
            taken = {name: shared[name] for name in RAMPED if name in shared}
            self.machine = GapSVM(own, dim, C=C * setting.C, loss="ramp", idle_max=idle_max, **taken)
        else:
            self.machine = LASVM(own, dim, C=C * setting.C, idle_max=idle_max, **shared)
        self.machine.fading = self.fades
        self._step = max(1, setting.half_life // FADES)

    @property
    def solver(self) -> str:
        """The name of its solver."""
        return "lasvm-nc" if self.setting.ramp else "lasvm"

    @property
    def fades(self) -> bool:
        """Whether what it has learned counts less and less."""
        return self.setting.half_life > 0

    def learn(self, rows: Rows, classes: Array, keys: Array, learned: int) -> Array:
        """Learn a batch (Solver.learn) after `learned` examples; in between, old examples fade and leave."""
        if not self.fades:
            return self.machine.learn(rows, classes, keys)
        factor = self._factor
        found, begin, m = [], 0, len(rows)
        while begin < m:
            end = min(m, begin + self._step - (learned + begin) % self._step)
            part = rows.part(begin, end)
            found.append(self.machine.learn(part, classes[begin:end], keys[begin:end]))
            if (learned + end) % self._step == 0:
                self._fade(factor, (learned + end) // self._step)
            begin = end
        return np.concatenate(found)

    def learn_from(self, other: Arm) -> None:
        """Learn the points that another arm holds, in the order in which that arm holds them."""
        held = other.machine
        known = held.held_rows(), held.held_classes(), held.keys()
        if held.heaviest and not other.fades:
            self.machine.learn_weighted(*known, held.held_weights())
        else:
            self.machine.learn(*known)

    @cached_property
    def _factor(self) -> float:
        """The factor of a fading step; computed when the arm learns, so that making an arm needs no compiler."""
        return float(exp(-LN_2 * self._step / self.setting.half_life))

    def _fade(self, factor: float, step: int) -> None:
        self.machine.fade(factor)
        if step % LEAVES == 0:
            self.machine.drop(self.machine.shrunk_to(LEAST))
