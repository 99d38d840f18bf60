"""Probabilities of an estimator's classes: its decision values at a temperature (Guo, Pleiss, Sun and Weinberger, ICML
2017), which changes no order and no prediction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

Array = np.ndarray[Any, Any]

FEWEST = 10  # decision values by which a temperature is found
LOG_MOST = 7.0  # of its inverse, either way


def log_probabilities(scores: Array, inverse: float) -> Array:
    """(m, classes) logarithms, of decision values (m, K): of two classes the half of one column, with either sign."""
    both = np.column_stack((-0.5 * scores[:, 0], 0.5 * scores[:, 0])) if scores.shape[1] == 1 else scores
    found: Array = log_softmax(inverse * both, axis=1)
    return found


def inverse_temperature(scores: Array, classes: Array) -> float:
    """By what decision values (m, K) are to be multiplied to give the truth, classes (m,), the most likelihood.

    They are to be from right before their examples were learned. 1 where there are too few.
    """
    if len(classes) < FEWEST or not scores.any():
        return 1.0

    def loss(logarithm: float) -> float:
        return -float(log_probabilities(scores, np.exp(logarithm))[np.arange(len(classes)), classes].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-LOG_MOST, LOG_MOST), method="bounded").x))
