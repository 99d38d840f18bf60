"""Figures of each class, from the counts and the window that every model has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hinged.service.model.decisions.margins import exact, ranking
from hinged.service.model.figures import confusion
from hinged.solvers.estimators.rare import rare_class
from hinged.solvers.scores.tally import PrequentialWindow, Tally

Array = np.ndarray[Any, Any]
Figures = dict[str, Any]


def precision(right: float, _: float, predicted: float) -> float | None:
    """Return the share of the predictions of a class that are right."""
    return right / predicted if predicted else None


def recall(right: float, there: float, _: float) -> float | None:
    """Return the share of a class that was predicted as the class."""
    return right / there if there else None


def f1(right: float, there: float, predicted: float) -> float | None:
    """Return the harmonic mean of precision and recall."""
    return 2.0 * right / (there + predicted) if there + predicted else None


OF_CLASS: Mapping[str, Callable[[float, float, float], float | None]] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
}
"""Functions that compute figures of a class from the examples that were predicted right, that are of the class, and
that were predicted as the class.
"""


def of_class(tally: Tally, number: int) -> Figures:
    """Return the figures of a class: of all examples, of the newest examples, and of all examples with fading."""
    window = tally.window
    newest = confusion(window.classes, window.numbers, tally.cells.shape[0])
    return {
        "all": of_cells(tally.cells, number),
        "window": {**of_cells(newest, number), **of_window(window, number)},
        "fading": of_cells(tally.faded, number),
    }


def of_cells(cells: Array, number: int) -> Figures:
    """Return the figures of a class from (weighted) counts by class (rows) and predicted class."""
    told = float(cells[number, number]), float(cells[number].sum()), float(cells[:, number].sum())
    return {"examples": told[1], **{name: of(*told) for name, of in OF_CLASS.items()}}


def of_window(window: PrequentialWindow, number: int) -> Figures:
    """Return the ranking figures of a class over the newest examples, from their exact scores."""
    scores = scores_of(window.scores.T, number)
    there = ~np.isnan(scores)
    return ranking(exact(scores[there], window.classes[there] == number))


def scores_of(columns: Array, number: int) -> Array:
    """Return the scores (m,) of a class, from decision values (m, K); NaN for a class without a column."""
    known = columns.shape[1]
    if known == 1 and number < 2:
        return np.asarray(columns[:, 0] if number else 0.0 - columns[:, 0], np.float64)
    return np.asarray(columns[:, number], np.float64) if number < known else np.full(columns.shape[0], np.nan)


def warning_of(cells: Array, names: Sequence[str]) -> str | None:
    """Return a warning if accuracy says little because a class is rare, or None. cells: counts of all predictions."""
    found = rare_class(cells.sum(axis=1))
    if found is None:
        return None
    number, share = found
    return (
        f"{share} of the labels are {names[number]}: accuracy says little; look at `classes`, and set `costs` or "
        "`watch`"
    )
