"""Weights of single examples: factors of their C, besides the weights of their classes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def checked_weights(weights: Array, count: int, bounds: tuple[float, float], most: float) -> Array:
    """Check weights (count,) of examples, each > 0; the least and the largest C times a weight must be in 0..`most`."""
    checked = np.asarray(weights, np.float64)
    if checked.shape != (count,):
        raise ValueError(f"weights must be one for each of {count} rows, got {checked.shape}")
    wrong = ~((bounds[0] * checked > 0) & (bounds[1] * checked < most))
    if wrong.any():
        raise ValueError(
            f"C times the weight of an example must be > 0 and < {most:g}, got {bounds[1]:g} * "
            f"{checked[wrong.argmax()]:g}"
        )
    return checked


def runs_of(weights: Array) -> list[slice]:
    """The parts of a batch whose rows have equal weights, in order."""
    edges = [0, *(np.flatnonzero(np.diff(weights)) + 1).tolist(), weights.size]
    return [slice(begin, end) for begin, end in pairwise(edges) if begin < end]
