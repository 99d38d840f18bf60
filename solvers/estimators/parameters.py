"""What the parameters of an estimator may be: all are looked at before anything is computed.

A value that is none is refused by its name, with what is allowed and what was got, so that a grid which holds "1" for 1
says so at its first fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from hinged.solvers.core.kernels import KERNELS
from hinged.solvers.core.solver import WHEN_FULL
from hinged.solvers.core.states import BOUND_MAX
from hinged.solvers.estimators.base import PRECISIONS
from hinged.solvers.estimators.scaling import AUTO

SEED_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Rule:
    """What a value must be, and that in words."""

    fits: Callable[[Any], bool]
    allowed: str

    def __or__(self, other: Rule) -> Rule:
        """Either of the two."""
        return Rule(lambda value: self.fits(value) or other.fits(value), f"{self.allowed} or {other.allowed}")


def check(values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Refuse the first value that its rule does not allow. Names without a rule may be anything."""
    for name, value in values.items():
        rule = rules.get(name)
        if rule is not None and not rule.fits(value):
            raise ValueError(f"{name} must be {rule.allowed}, got {value!r}")


def example_weights(sample_weight: Any, count: int, *, some: bool) -> np.ndarray[Any, Any] | None:
    """`sample_weight` as numbers (count,) >= 0; None where there is none. some: whether one must be more than 0."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, np.float64)
    if weights.ndim == 0:
        weights = np.full(count, weights)
    if weights.shape != (count,):
        raise ValueError(f"sample_weight must be one number for each of {count} examples, got {weights.shape}")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise ValueError(f"sample_weight must be finite and >= 0, got {weights[wrong][0]:g}")
    if some and not weights.any():
        raise ValueError(f"sample_weight must be > 0 for one example at least, got zero for all {count}")
    return weights


def number(*, above: float = -math.inf, least: float = -math.inf, below: float = math.inf) -> Rule:
    """A finite number within bounds, of which `above` and `below` are none themselves."""
    bounds = [
        *([f"> {above:g}"] if above > -math.inf else []),
        *([f">= {least:g}"] if least > -math.inf else []),
        *([f"< {below:g}"] if below < math.inf else []),
    ]

    def fits(value: Any) -> bool:
        return _is(Real, value) and math.isfinite(value) and above < value < below and value >= least

    return Rule(fits, " ".join(["a number", " and ".join(bounds)]).strip())


def integer(least: int, most: int | None = None) -> Rule:
    """A whole number within these bounds."""

    def fits(value: Any) -> bool:
        return _is(Integral, value) and value >= least and (most is None or value <= most)

    return Rule(fits, f"an integer >= {least}" if most is None else f"an integer from {least} to {most}")


def one_of(*allowed: Any) -> Rule:
    """One of a few values."""
    names = ", ".join(map(str, allowed))
    words = f"one of {names}" if len(allowed) > 1 else repr(allowed[0])
    return Rule(lambda value: any(_alike(value, each) for each in allowed), words)


def _is(kind: type, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _alike(value: Any, allowed: Any) -> bool:
    """Whether it is this one, in Python's type or in NumPy's."""
    if allowed is None:
        return value is None
    kind = str if isinstance(allowed, str) else Integral
    return _is(kind, value) and bool(value == allowed)


def _are_weights(value: Any) -> bool:
    return isinstance(value, Mapping) and all(number(above=0.0).fits(weight) for weight in value.values())


POSITIVE = number(above=0.0, below=BOUND_MAX)
NONE = one_of(None)
FLAG = Rule(lambda value: isinstance(value, bool | np.bool_), "True or False")
COUNT = integer(1, 2**31 - 1)
PLACES = integer(2, 2**31 - 1)

RULES: dict[str, Rule] = {
    "C": POSITIVE,
    "kernel": one_of(*KERNELS, "poly"),
    "gamma": POSITIVE | one_of("scale") | one_of("auto"),
    "degree": integer(1, 16),
    "coef0": number(least=0.0),
    "scale": NONE | one_of(AUTO),
    "class_weight": NONE | one_of("balanced") | Rule(_are_weights, "a dict of numbers > 0 by class"),
    "random_state": NONE
    | integer(0, SEED_MAX)
    | Rule(lambda value: isinstance(value, np.random.RandomState), "a RandomState"),
    "warm_start": FLAG,
    "tol": number(above=0.0),
    "precision": one_of(*PRECISIONS),
    "points_max": PLACES,
    "when_full": one_of(*WHEN_FULL),
    "cache_size": number(least=0.0),
    "epochs": COUNT,
    "shuffle": FLAG,
    "finish": FLAG,
    "delta_min": NONE | number(least=0.0),
    "delta_max": NONE | number(above=0.0),
    "second_order": FLAG,
    "idle_max": integer(0, 2**31 - 1),
    "seed_max": integer(1),
    "clean_every": COUNT,
    "ramp_s": number(below=1.0),
    "ramp_start": COUNT,
    "K": COUNT,
    "draws": COUNT,
    "budget": PLACES,
    "maintenance": NONE | one_of("merge", "project", "remove"),
    "merging": one_of("table", "golden"),
    "averaging": NONE | COUNT,
    "nearest": NONE | integer(1, 200),
    "step_max": NONE | number(above=0.0),
    "step_decay": Rule(lambda value: _is(Real, value) and value > 0, "a number > 0"),  # infinity: no decay
    "step_least": number(least=0.0),
    "extra_steps": integer(0),
    "reservoir": COUNT,
    "remembered": COUNT,
    "regularization": NONE | number(above=0.0),
    "examples": NONE | integer(1),
    "beta": number(least=0.0),
    "novelty": number(least=0.01, below=1.0),
    "eta": number(above=0.0),
    "lam": number(least=0.0),
    "frequencies": COUNT,
    "rank": NONE | COUNT,
}
"""By parameter: one name means one thing in all estimators."""
