"""Predictions: turn decision values into the predicted class and its score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np

from hinged.service.model.metrics import UNKNOWN
from hinged.solvers.core.solver import class_numbers

Array = np.ndarray[Any, Any]


def predicted(columns: Array, classes: int) -> tuple[Array, Array]:
    """Return the predicted class numbers (m,) and their scores (m,), from the decision values (m, K) of the columns.

    With a single column, positive values mean the second class. Without any class, the prediction is UNKNOWN and the
    score is 0.
    """
    numbers = numbers_of(columns, classes)
    return numbers, score_of(columns, numbers) if classes else np.zeros(numbers.size)


def numbers_of(columns: Array, classes: int) -> Array:
    """Return only the class numbers."""
    if classes == 0:
        return np.full(columns.shape[0], UNKNOWN, np.int32)
    return class_numbers(columns, classes)


def score_of(columns: Array, numbers: Array) -> Array:
    """Return the scores (m,) of the classes `numbers` (m,), from the decision values (m, K), K >= 1."""
    if columns.shape[1] == 1:
        return np.where(numbers == 1, columns[:, 0], 0.0 - columns[:, 0])
    return np.asarray(columns[np.arange(numbers.size), numbers])


def together(parts: Iterable[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
    """Join consecutive parts of a batch that have the same number of columns. A part is a pair (decision values (m, K),
    class numbers (m,)).

    A window moves every few examples, which creates small parts. The counts do not depend on how a batch is divided,
    but counting a small part costs as much as counting a large part.
    """
    for _, run in groupby(parts, key=lambda part: part[0].shape[1]):
        columns, numbers = zip(*run, strict=True)
        yield (columns[0], numbers[0]) if len(columns) == 1 else (np.concatenate(columns), np.concatenate(numbers))
