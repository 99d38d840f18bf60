"""Every kernel by its name: what it is a function of, and which parameters it has. kernels.py computes them.

    linear      k(x, z) = x.z
    polynomial  k(x, z) = (gamma x.z + coef0)^degree
    rbf         k(x, z) = exp(-gamma |x - z|^2)
    laplacian   k(x, z) = exp(-gamma |x - z|_1)

A new kernel is a `Family` here and its formula in `inner_to_kernel` (kernels.py). Configurations, the estimators'
rules, the commands and the table in docs/solvers.md follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, Lt

LINEAR, POLYNOMIAL, RBF, LAPLACIAN = range(4)

COEF0_MAX = 1e15
"""Below it coef0 must be."""
NORM_MAX = 1e37
"""Largest squared norm (1-norm for the Laplacian) and k(x, x) of a row: sums of two stay below float32's end."""

PARAMETERS: Mapping[str, Any] = {
    "degree": Annotated[int, Ge(1), Le(16)],
    "coef0": Annotated[float, Ge(0), Lt(COEF0_MAX)],
}
"""What a kernel may have beside gamma, which is a number > 0 or found by a warm-up."""


@dataclass(frozen=True, slots=True)
class Family:
    """A kernel for every value of its parameters.

    code: in compiled code. parameters: with their defaults. distance: the norm of x - z that it is a function of; None
    of x.z. spread: the mean of a warm-up, and its factor, of which gamma "scale" is the inverse. diagonal: k(x, x)
    where that hangs on gamma, and gamma_max: the largest gamma where x.x is so much at most, by degree and coef0.
    """

    code: int
    formula: str
    parameters: Mapping[str, Any]
    distance: Literal["square", "absolute"] | None = None
    spread: tuple[str, float] | None = None
    diagonal: str | None = None
    gamma_max: Callable[[float, int, float], float] | None = None


def gamma_of_power(square_max: float, degree: int, coef0: float) -> float:
    """The largest gamma with which (gamma x.x + coef0)^degree is at most half of NORM_MAX: the rest is for rounding."""
    from hinged.solvers.core.elementary import exp, log  # noqa: PLC0415  the commands need no compiler

    return float((float(exp(log(NORM_MAX / 2) / degree)) - coef0) / square_max)


KERNELS: Mapping[str, Family] = {
    "linear": Family(LINEAR, "x.z", {}),
    "polynomial": Family(
        POLYNOMIAL,
        "(gamma x.z + coef0)^degree",
        {"gamma": 1.0, "degree": 3, "coef0": 0.0},
        spread=("inner", 1.0),
        diagonal="(gamma |x|^2 + coef0)^degree",
        gamma_max=gamma_of_power,
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
