"""Every kernel by name: the function it computes and its parameters. kernels.py computes the values.

    linear      k(x, z) = x.z
    polynomial  k(x, z) = (gamma x.z + coef0)^degree
    rbf         k(x, z) = exp(-gamma |x - z|^2)
    laplacian   k(x, z) = exp(-gamma |x - z|_1)

The command line reads this module too, so it imports no library. A new kernel needs a `Family` here and its formula in
`inner_to_kernel` (kernels.py). Configurations, the estimators' rules, the command line and the table in
docs/reference/solvers.md follow from this list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

LINEAR, POLYNOMIAL, RBF, LAPLACIAN = range(4)

NORM_MAX = 1e37
"""Largest squared norm (1-norm for the Laplacian) and k(x, x) of a row: the sum of two fits in float32."""


@dataclass(frozen=True, slots=True)
class Family:
    """A kernel with any values of its parameters.

    code: number of the kernel in compiled code. parameters: names and defaults. distance: the norm of x - z that the
    kernel depends on; None if it depends on x.z. spread: the mean over a warm-up, and its factor, whose inverse is
    gamma "scale". power: k(x, x) is this power of gamma x.x + coef0; a number, or the parameter that holds it; None
    where k(x, x) is no such power.
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
"""Codes of the kernels that depend on a distance: norms and k(x, x) are the same for every gamma."""

if len(NAME_OF) < len(KERNELS):
    raise TypeError(f"two kernels have one code: {', '.join(KERNELS)}")
