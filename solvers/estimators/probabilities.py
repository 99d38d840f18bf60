"""Probabilities of an estimator's classes: decision values at a temperature (Guo, Pleiss, Sun and Weinberger, ICML
2017). A temperature changes no order and no prediction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

Array = np.ndarray[Any, Any]

FEWEST = 10  # fewest decision values that a temperature is fitted to
INVERSE_MOST = 1e3


def probabilities(scores: Array, inverse: float) -> Array:
    """(m, classes) of decision values (m, K)."""
    found: Array = softmax(inverse * _of_classes(scores), axis=1)
    return found


def _of_classes(scores: Array) -> Array:
    """(m, classes): one column for two classes becomes its half with either sign."""
    return np.column_stack((-0.5 * scores[:, 0], 0.5 * scores[:, 0])) if scores.shape[1] == 1 else scores


def inverse_temperature(scores: Array, classes: Array) -> float:
    """The factor of decision values (m, K) that makes the true classes (m,) most likely; 1 if there are too few.

    The decision values must be from just before their examples were learned.
    """
    if len(classes) < FEWEST or not scores.any():
        return 1.0

    values = _of_classes(scores)

    def loss(inverse: float) -> float:  # convex
        return -float(log_softmax(inverse * values, axis=1)[np.arange(len(classes)), classes].mean())

    return float(minimize_scalar(loss, bounds=(0.0, INVERSE_MOST), method="bounded", options={"xatol": 1e-4}).x)
