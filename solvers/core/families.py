"""Every kernel by its name: what it is a function of, and which parameters it has. kernels.py computes them.

    linear      k(x, z) = x.z
    polynomial  k(x, z) = (gamma x.z + coef0)^degree
    rbf         k(x, z) = exp(-gamma |x - z|^2)
    laplacian   k(x, z) = exp(-gamma |x - z|_1)

The commands read it, too, so it imports no library. A new kernel is a `Family` here and its formula in
`inner_to_kernel` (kernels.py). Configurations, the estimators' rules, the commands and the table in
docs/reference/solvers.md follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

LINEAR, POLYNOMIAL, RBF, LAPLACIAN = range(4)

NORM_MAX = 1e37
"""Largest squared norm (1-norm for the Laplacian) and k(x, x) of a row: sums of two stay below float32's end."""


@dataclass(frozen=True, slots=True)
class Family:
    """A kernel for every value of its parameters.

    code: in compiled code. parameters: with their defaults. distance: the norm of x - z that it is a function of; None
    of x.z. spread: the mean of a warm-up, and its factor, of which gamma "scale" is the inverse. power: of gamma x.x +
    coef0 that k(x, x) is, or the parameter that says it; None where k(x, x) is no power of that.
    """

    code: int
    formula: str
    parameters: Mapping[str, Any]
    distance: Literal["square", "absolute"] | None = None
    spread: tuple[str, float] | None = None
    power: int | str | None = None


KERNELS: Mapping[str, Family] = {
    "linear": Family(LINEAR, "x.z", {}),
    "polynomial": Family(
        POLYNOMIAL,
        "(gamma x.z + coef0)^degree",
        {"gamma": 1.0, "degree": 3, "coef0": 0.0},
        spread=("inner", 1.0),
        power="degree",
    ),
    "rbf": Family(RBF, "exp(-gamma |x - z|^2)", {"gamma": "scale"}, distance="square", spread=("square", 0.5)),
    "laplacian": Family(
        LAPLACIAN, "exp(-gamma |x - z|_1)", {"gamma": "scale"}, distance="absolute", spread=("absolute", 1.0)
    ),
}
NAME_OF: Mapping[int, str] = {family.code: name for name, family in KERNELS.items()}
RADIAL = frozenset(family.code for family in KERNELS.values() if family.distance is not None)
"""The codes of kernels of a distance: norms and k(x, x) are the same for every gamma."""

if len(NAME_OF) < len(KERNELS):
    raise TypeError(f"two kernels have one code: {', '.join(KERNELS)}")
