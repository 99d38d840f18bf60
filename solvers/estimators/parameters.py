"""The allowed values of an estimator's parameters. All parameters are checked before anything is computed.

An invalid value is refused with the parameter's name, the allowed values and the value given. So a grid with "1"
instead of 1 fails at its first fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hinged.solvers.core.families import KERNELS
from hinged.solvers.core.kernels import PARAMETERS
from hinged.solvers.core.parameters import FLAG, NONE, Constraint, integer, number, one_of, rule_of, rules_of
from hinged.solvers.core.solver import Solver
from hinged.solvers.estimators.base import PRECISIONS
from hinged.solvers.estimators.scaling import AUTO

SEED_MAX = 2**32 - 1


def example_weights(sample_weight: Any, count: int, *, some: bool) -> np.ndarray[Any, Any] | None:
    """Check `sample_weight`: numbers (count,) >= 0, or None. some: whether at least one weight must be > 0."""
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


ABSENT = frozenset({"NoneType", "NAType", "NaTType"})
"""Types of a missing value: None, and two types of pandas."""


def is_missing(value: object) -> bool:
    """Return whether a value is missing."""
    return type(value).__name__ in ABSENT or (isinstance(value, float) and bool(np.isnan(value)))


def check_no_gaps(y: Any) -> None:
    """Refuse missing labels, and texts mixed with other labels. scikit-learn says of these only that they cannot be
    compared.
    """
    values = np.asarray(y)
    if values.dtype.kind != "O" or values.ndim != 1:
        return
    labels = values.tolist()
    for place, label in enumerate(labels):
        if is_missing(label):
            raise ValueError(f"Input y contains NaN: y[{place}] is {label!r}; leave out examples without a label")
    texts = [isinstance(label, str) for label in labels]
    if any(texts) and not all(texts):
        got = f"{labels[texts.index(True)]!r} and {labels[texts.index(False)]!r}"
        raise ValueError(f"y must not mix texts with other labels, got {got}")


POSITIVE = rules_of(Solver)["C"]


def _are_weights(value: Any) -> bool:
    return isinstance(value, Mapping) and all(number(above=0.0).fits(weight) for weight in value.values())


POINTS = "points"  # value of `finish`: finish only over the points that the solver holds

COUNT = integer(1, 2**31 - 1)

RULES: dict[str, Constraint] = {
    **rules_of(Solver),
    "kernel": one_of(*KERNELS, "poly"),
    "gamma": POSITIVE | one_of("scale") | one_of("auto"),
    **{name: rule_of(annotation) for name, annotation in PARAMETERS.items()},
    "scale": NONE | one_of(AUTO),
    "class_weight": NONE | one_of("balanced") | Constraint(_are_weights, "a dict of numbers > 0 by class"),
    "random_state": NONE
    | integer(0, SEED_MAX)
    | Constraint(lambda value: isinstance(value, np.random.RandomState), "a RandomState"),
    "warm_start": FLAG,
    "verbose": FLAG,
    "precision": one_of(*PRECISIONS),
    "cache_size": number(least=0.0),
    "epochs": COUNT,
    "shuffle": FLAG,
    "finish": FLAG | one_of(POINTS),
}
"""The rules of the parameters that all estimators share. A solver declares the rules of its own parameters."""
