"""Careful reading of a solver's state: the arrays may come from anywhere, and compiled code checks no bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
State = dict[str, Array]

BOUND_MAX = 1e15  # limit of C times the weight of a class
COUNT_MAX = 2**62  # limit of a count in a state
COEFFICIENT_MAX = 1e150  # limit of the size of a coefficient; its square is finite
REACHED_MAX = 1e60  # limit, in `examine`, of a coefficient and of its part of |w|: learning never reaches it
MAGNITUDE_MAX = 1e150  # limit of all other numbers of a state; the square of the limit is finite
SAMPLE_MAX = 64  # number of points for which `examine` recomputes derived arrays


class StateReader:
    """A reader that takes arrays from a state and refuses arrays that are unsafe for compiled code."""

    def __init__(self, state: State) -> None:
        self.state = state

    def take(
        self,
        name: str,
        dtype: type,
        shape: tuple[int | None, ...],
        least: float | None = None,
        most: float | None = None,
    ) -> Array:
        """Return a copy of array `name`, of this dtype and shape (None: any), finite, with values in least..most."""
        if name not in self.state:
            raise ValueError(f"the state has no array {name}")
        array = np.array(self.state[name])
        fits = array.ndim == len(shape) and all(
            want in (None, got) for want, got in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            raise ValueError(f"{name} must be {np.dtype(dtype).name} {shape}, got {array.dtype} {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} holds NaN or infinity")
        if array.size and least is not None and most is not None and (array.min() < least or array.max() > most):
            raise ValueError(f"{name} must be from {least} to {most}, got {array.min()} to {array.max()}")
        return array


def read_heaviest(checked: StateReader) -> float:
    """Read `heaviest` from a state. Only a state with weighted examples contains it."""
    if "heaviest" not in checked.state:
        return 0.0
    return float(checked.take("heaviest", np.float64, (1,), np.finfo(np.float64).tiny, BOUND_MAX)[0])


def check_learned(seen: Array, learned: int) -> None:
    """Refuse class counts whose sum exceeds the number of examples learned.

    If a drop left no point of a class, and a further epoch learns the class again, its count starts again at 1.
    """
    if sum(seen.tolist()) > learned + seen.size:
        raise ValueError(f"seen must be at most the {learned} examples learned, got {seen}")


def check_range(name: str, values: Array, least: Array | float, most: Array | float) -> None:
    """Refuse values that are outside least..most by more than rounding."""
    margin = 1e-9 * np.maximum(np.abs(least), np.abs(most))
    if not ((values >= least - margin) & (values <= most + margin)).all():
        raise ValueError(f"{name} must lie within bounds, got {values.min()} to {values.max()}")
