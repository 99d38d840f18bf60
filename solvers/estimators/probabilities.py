"""Probabilities of an estimator's classes: its decision values at a temperature (Guo, Pleiss, Sun and Weinberger, ICML
2017), which changes no order and no prediction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

Array = np.ndarray[Any, Any]

FEWEST = 10  # decision values by which a temperature is found
INVERSE_MOST = 1e3


def probabilities(scores: Array, inverse: float) -> Array:
    """(m, classes) of decision values (m, K)."""
    found: Array = softmax(inverse * _of_classes(scores), axis=1)
    return found


def _of_classes(scores: Array) -> Array:
    """(m, classes): of two classes the half of one column, with either sign."""
    return np.column_stack((-0.5 * scores[:, 0], 0.5 * scores[:, 0])) if scores.shape[1] == 1 else scores


def inverse_temperature(scores: Array, classes: Array) -> float:
    """By what decision values (m, K) are to be multiplied to give the truth, classes (m,), the most likelihood.

    They are to be from right before their examples were learned. 1 where there are too few.
    """
    if len(classes) < FEWEST or not scores.any():
        return 1.0

    values = _of_classes(scores)

    def loss(inverse: float) -> float:  # convex
        return -float(log_softmax(inverse * values, axis=1)[np.arange(len(classes)), classes].mean())

    return float(minimize_scalar(loss, bounds=(0.0, INVERSE_MOST), method="bounded", options={"xatol": 1e-4}).x)
