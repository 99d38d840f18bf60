"""The arms of a race: solvers with different C, kernel gamma, half-life and loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from hinged.solvers.core.elementary import exp
from hinged.solvers.core.families import LAPLACIAN, RBF
from hinged.solvers.core.kernels import Kernel, is_radial
from hinged.solvers.core.rows import Rows
from hinged.solvers.dual.gap import GapSVM
from hinged.solvers.dual.lasvm import LASVM

Array = np.ndarray[Any, Any]

FADES = 16  # fading steps per half-life
LEAVES = 4  # fading steps between two searches for examples that have faded away
LEAST = (1 + 1e-6) / 32  # fraction of its box at which an example is removed: reached after five half-lives
LN_2 = 0.6931471805599453

IDLE, IDLE_FADING = 1000, 250
"""Number of points up to which an arm keeps points without a coefficient.

An arm that fades keeps fewer, because such points soon become too old. Each of these points costs one kernel value per
example, even if it is never used again.
"""

ARMS_MAX = 16  # maximum number of arms at the same time
C_LEAST, C_MOST = 1e-3, 100.0
GAMMA_LEAST, GAMMA_MOST = 4.0**-4, 4.0**4
HALF_LIFE_LEAST, HALF_LIFE_MOST = 250, 16_000
RULES = 5  # newest version of the race's rules
FORMER_FIELDS = 4  # number of fields of a setting in the states of a race with rules 1 and 2
STEEP, STEEP_FORMER = 10.0, 2.5
"""Largest product of the factors C and gamma of an arm with the ramp. Above it, an arm is slow.

STEEP_FORMER: the same of a Laplacian arm, with rules up to 4.
"""
SLOW = 1000  # half-life from which an arm counts as one that forgets slowly
OWN = -1  # code for the race's kernel


class Setting(NamedTuple):
    """The settings of an arm: C and gamma (as multiples of the race's C and gamma), half-life, loss and kernel.

    half_life: number of examples after which an example counts half; 0 for no fading. ramp: True for the ramp loss
    (LASVM-NC), which treats examples that contradict the machine as outliers; False for the hinge loss. kernel: the
    code of the arm's kernel (families.py), or OWN for the race's kernel.
    """

    C: float
    gamma: float = 1.0
    half_life: int = 0
    ramp: bool = False
    kernel: int = OWN

    def allowed(self, rules: int = RULES) -> bool:
        """Return whether a race with these rules may use this setting."""
        fading = self.half_life == 0 or HALF_LIFE_LEAST <= self.half_life <= HALF_LIFE_MOST
        ramp = not self.ramp or (self.half_life == 0 and not self.is_steep(rules))
        known = self.kernel in {OWN, LAPLACIAN}
        return known and C_LEAST <= self.C <= C_MOST and GAMMA_LEAST <= self.gamma <= GAMMA_MOST and fading and ramp

    def of_gamma(self, gamma: float, rules: int) -> Setting:
        """Return the setting with another gamma. The ramp is switched off if it is too steep for that gamma."""
        found = self._replace(gamma=gamma)
        return found._replace(ramp=self.ramp and not found.is_steep(rules))

    def is_steep(self, rules: int) -> bool:
        """Return whether the ramp would make this arm slow."""
        return self.C * self.gamma > (STEEP_FORMER if rules < 5 and self.kernel == LAPLACIAN else STEEP)

    @property
    def forgets(self) -> Literal[0, 1, 2]:
        """How fast an arm forgets: 0 for never, 1 for slowly, 2 for fast."""
        return 0 if not self.half_life else 1 if self.half_life >= SLOW else 2


RADIAL = (
    Setting(1.0),
    *(Setting(C, gamma, ramp=True) for C, gamma in ((1.0, 1.0), (10.0, 0.25), (10.0, 1.0))),
    *(Setting(C, gamma) for C, gamma in ((1.0, 4.0), (10.0, 4.0), (10.0, 16.0))),
    *(Setting(3.0, gamma, 1000) for gamma in (1.0, 4.0)),
    *(Setting(3.0, gamma, 250) for gamma in (0.25, 1.0)),
)
"""The first arms for a kernel of a distance. The very first arm leads until answers have been counted."""

RARE = Setting(10.0, 1.0, ramp=True, kernel=LAPLACIAN)
"""The arm that is favoured where one class is rare (standings.py)."""

ABSOLUTE = tuple(
    setting._replace(kernel=LAPLACIAN)
    for setting in (
        *(Setting(1.0), Setting(10.0), Setting(10.0, 4.0), Setting(10.0, 0.25, ramp=True)),
        *(Setting(3.0, 1.0, half_life) for half_life in (1000, 250)),
    )
)
FORMER_BOTH = (*(setting for setting in RADIAL if setting not in {Setting(1.0, 4.0), Setting(10.0, 16.0)}), *ABSOLUTE)
"""The first arms if Laplacian arms race beside RBF arms. They replace two RBF arms with a large gamma."""
BOTH = (*FORMER_BOTH, RARE)

OTHER = (Setting(1.0), Setting(0.01), Setting(0.1), Setting(10.0), Setting(3.0, half_life=1000))
"""The first arms for any other kernel. Its norms depend on gamma, so all first arms have the same gamma."""


def has_both(kernel: Kernel, rules: int) -> bool:
    """Return whether Laplacian arms race beside the arms of this kernel."""
    return kernel.code == RBF and rules > 2


def first_settings(kernel: Kernel, rules: int = RULES) -> tuple[Setting, ...]:
    """Return the settings of the arms with which a race with these rules begins."""
    if not is_radial(kernel):
        return OTHER
    return RADIAL if not has_both(kernel, rules) else BOTH if rules > 4 else FORMER_BOTH


def favoured(settings: Sequence[Setting], kernel: Kernel) -> int:
    """Return the index of the arm that is favoured where one class is rare, or -1."""
    rare = RARE if kernel.code == RBF else RARE._replace(kernel=OWN)
    return settings.index(rare) if rare in settings else -1


def settings_of(array: Array) -> list[Setting]:
    """Return the settings in an array (A, 5). Older states have fewer columns: (A, 4) or (A, 3)."""
    if not 3 <= array.shape[1] <= len(Setting._fields) or not np.isin(array[:, 3:4], (0.0, 1.0)).all():
        raise ValueError(f"a setting must be C, gamma, half-life, 0 or 1, and a kernel, got {array.tolist()}")
    return [
        Setting(C, gamma, int(half_life), any(more[:1]), *(int(code) for code in more[1:]))
        for C, gamma, half_life, *more in array.tolist()
    ]


def read_settings(array: Array, kernel: Kernel, rules: int) -> list[Setting]:
    """Read the settings of a state. Raise ValueError if a race with this kernel and rules cannot reach them."""
    found = settings_of(array)
    if not 0 < len(found) <= ARMS_MAX or len(set(found)) < len(found):
        raise ValueError(f"there must be 1 to {ARMS_MAX} different arms, got {found}")
    radial, both = is_radial(kernel), has_both(kernel, rules)
    wrong = [
        s for s in found if not s.allowed(rules) or (s.gamma != 1.0 and not radial) or (s.kernel != OWN and not both)
    ]
    if wrong:
        raise ValueError(f"a race has no arm of {wrong[0]}")
    return found


def near(setting: Setting, kernel: Kernel, rules: int = RULES) -> Iterator[Setting]:
    """Yield the settings that are one step away from a setting, the most promising first."""
    C, gamma, half_life = setting[:3]
    if is_radial(kernel):
        yield setting._replace(ramp=True)
        yield from (setting.of_gamma(factor * gamma, rules) for factor in (4.0, 0.25))
    if has_both(kernel, rules):
        yield setting._replace(kernel=OWN) if setting.kernel == LAPLACIAN else setting._replace(kernel=LAPLACIAN)
    if half_life:
        yield from (setting._replace(half_life=half_life * 4), setting._replace(half_life=half_life // 4))
    if not is_radial(kernel):
        yield from (setting._replace(C=C * 3.0), setting._replace(C=C / 3.0))


STEPS_MAX = 10
"""Maximum number of steps of an arm with the ramp for one example, in a column. Where the classes overlap, or with many
features, the arm would otherwise take hundreds of steps, and more time than all other arms.
"""
RAMPED = ("tol", "delta_min", "points_max", "when_full", "seed", "dtype", "cache_bytes")


class Arm:
    """A solver with its setting.

    C: the race's C, which the setting multiplies. shared: parameters of all arms (LASVM's; an arm with the ramp uses
    only those in RAMPED). An arm may use a smaller idle_max than the idle_max in `shared`.

    bounded: whether an arm with the ramp takes at most STEPS_MAX steps for an example. serial: the number under which
    the race finds the arm's earlier answers (late.py).
    """

    machine: LASVM | GapSVM
    serial: int

    def __init__(
        self, setting: Setting, kernel: Kernel, dim: int, C: float, *, bounded: bool = True, **shared: Any
    ) -> None:
        self.setting = setting
        code = kernel.code if setting.kernel == OWN else setting.kernel
        own = kernel._replace(code=code, gamma=kernel.gamma * setting.gamma)
        idle_max = min(shared.pop("idle_max", IDLE), IDLE_FADING if self.fades else IDLE)
        if setting.ramp:
            taken = {name: shared[name] for name in RAMPED if name in shared}
            self.machine = GapSVM(own, dim, C=C * setting.C, loss="ramp", idle_max=idle_max, **taken)
            if bounded:
                self.machine.bound_steps(STEPS_MAX)
        else:
            self.machine = LASVM(own, dim, C=C * setting.C, idle_max=idle_max, **shared)
        self.machine.fading = self.fades
        self._step = max(1, setting.half_life // FADES)

    @property
    def solver(self) -> str:
        """The name of the arm's solver."""
        return "lasvm-nc" if self.setting.ramp else "lasvm"

    @property
    def fades(self) -> bool:
        """Whether old examples count less with each further example."""
        return self.setting.half_life > 0

    def learn(self, rows: Rows, classes: Array, keys: Array, learned: int) -> Array:
        """Learn a batch (Solver.learn) after `learned` examples. Meanwhile old examples fade and are removed."""
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
        """Learn the points of another arm, in that arm's order."""
        held = other.machine
        known = held.held_rows().under(self.machine.kernel), held.held_classes(), held.keys()
        if held.heaviest and not other.fades:
            self.machine.learn_weighted(*known, held.held_weights())
        else:
            self.machine.learn(*known)

    @cached_property
    def _factor(self) -> float:
        """The factor of a fading step.

        It is computed when the arm learns, so that creating an arm needs no compiler.
        """
        return float(exp(-LN_2 * self._step / self.setting.half_life))

    def _fade(self, factor: float, step: int) -> None:
        self.machine.fade(factor)
        if step % LEAVES == 0:
            self.machine.drop(self.machine.shrunk_to(LEAST))
