"""Figures of predictions, computed from counts (solvers/scores/tally.py) when somebody reads them.

To add a metric, see docs/contributing/metric.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from hinged.service.data.classes import Label
from hinged.solvers.scores.sigmoid import WINDOW
from hinged.solvers.scores.tally import BRIER, LOG_LOSS, PrequentialWindow, Tally

Array = np.ndarray[Any, Any]
Figures = dict[str, Any]

CONFUSION_CLASSES_MAX = 32  # maximum number of classes for which the figures contain a confusion matrix
BINS = 10  # number of bins of a reliability diagram


def _gauge(name: str, meaning: str) -> Any:
    """Declare a figure that is part of a glance and that Prometheus gets as well."""
    return field(metadata={"gauge": name, "meaning": meaning})


@dataclass(frozen=True, slots=True)
class SourceGlance:
    """The figures of one source that are cheap to compute. NaN until there is a prediction."""

    source: str
    predicted: int
    accuracy: float = _gauge("hinged_accuracy_ratio", "Accuracy over the newest 1,000 scored predictions.")
    log_loss: float = _gauge("hinged_log_loss", "Log loss over the newest 1,000 scored predictions.")
    brier: float = _gauge("hinged_brier_score", "Brier score over the newest 1,000 scored predictions.")


EXPOSED: Mapping[str, tuple[str, str]] = {
    each.name: (each.metadata["gauge"], each.metadata["meaning"]) for each in fields(SourceGlance) if each.metadata
}
"""The figures that Prometheus gets for each source: their metric names and meanings."""


def accuracy(cells: Array) -> float:
    """Return the share of (weighted) examples that were predicted correctly. cells: counts by class (rows) and
    predicted class.
    """
    return float(np.diagonal(cells).sum()) / float(cells.sum())


def balanced_accuracy(cells: Array) -> float:
    """Return the mean, over the classes that occur, of the accuracy in each class."""
    of_class = cells.sum(axis=1)
    present = of_class > 0
    return float((np.diagonal(cells)[present] / of_class[present]).mean())


def cohen(cells: Array) -> float | None:
    """Return Cohen's kappa: how far the accuracy exceeds chance. None if a random prediction would always be right."""
    total = float(cells.sum())
    chance = float((cells.sum(axis=1) * cells.sum(axis=0)).sum()) / (total * total)
    return (accuracy(cells) - chance) / (1 - chance) if chance < 1 else None


def area(scores: Array, positive: Array) -> float:
    """Return the area under the ROC curve: the share of pairs in which the positive example has the higher score. Ties
    count as half.
    """
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    n = int(positive.sum())
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (positive.size - n)))


def auc(scores: Array, classes: Array) -> float | None:
    """Return the AUC of the single column in `scores` (K, n). With several columns, return the mean AUC of each present
    class against the rest. Return None if there is no pair.

    Scores that are NaN, because the column was added after the example, are left out.
    """
    areas = []
    for c, column in enumerate(scores):
        there = ~np.isnan(column)
        positive = classes[there] == (1 if len(scores) == 1 else c)
        if positive.any() and not positive.all():
            areas.append(area(column[there], positive))
    return float(np.mean(areas)) if areas else None


OF_CELLS: Mapping[str, Callable[[Array], float | None]] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "kappa": cohen,
}
"""Functions that compute figures from counts by class and predicted class. There are counts of the window, of its newer
half, and of all predictions with fading.
"""
OF_WINDOW: Mapping[str, Callable[[PrequentialWindow], float | None]] = {
    "log_loss": lambda window: float(window.losses[:, LOG_LOSS].mean()),
    "brier": lambda window: float(window.losses[:, BRIER].mean()),
    "auc": lambda window: auc(window.scores, window.classes),
}
"""Functions that compute figures from the newest predictions themselves."""


def agreement(cells: Array) -> Figures:
    """Return the figures of (weighted) examples, counted by class (rows) and predicted class."""
    return {name: of(cells) for name, of in OF_CELLS.items()} if cells.any() else dict.fromkeys(OF_CELLS)


def figures_of(tally: Tally, labels: Sequence[Label]) -> Figures:
    """Return the figures of a tally. `labels` name the classes of the confusion matrices."""
    window, classes = tally.window, tally.cells.shape[0]
    n, half = window.classes.size, min((tally.seen + 1) // 2, WINDOW)
    cells = confusion(window.classes, window.numbers, classes)
    newer = (tally.seen - 1 - np.arange(half)) % WINDOW  # indices in the ring, newest first
    overall, recent = agreement(tally.cells), agreement(cells)
    return {
        "predicted": tally.seen,
        "accuracy": overall["accuracy"],
        "accuracy_window": recent["accuracy"],
        "window": {
            "examples": n,
            **recent,
            **{name: of(window) if n else None for name, of in OF_WINDOW.items()},
        },
        "newest_half": {
            "examples": half,
            **agreement(confusion(window.classes[newer], window.numbers[newer], classes)),
        },
        "fading": _fading(tally),
        "confusion": {"classes": list(labels), "all": tally.cells.tolist(), "window": cells.tolist()}
        if 0 < len(labels) <= CONFUSION_CLASSES_MAX
        else None,
    }


def reliability_of(window: PrequentialWindow, probability: Callable[[Array, Array], Array]) -> list[Figures]:
    """Return how often predictions were right, grouped by the probability that the current calibration gives them.

    There is a bin for each tenth that has any predictions, with its bounds, number of examples, mean probability and
    accuracy. probability: a function of columns (m, K) and classes (m,).
    """
    whole = np.flatnonzero(~np.isnan(window.scores).any(axis=0))
    if not whole.size:
        return []
    numbers = window.numbers[whole]
    chances = probability(np.ascontiguousarray(window.scores[:, whole].T, np.float64), numbers)
    right, known = window.classes[whole] == numbers, ~np.isnan(chances)
    bins = np.minimum((BINS * chances[known]).astype(np.int64), BINS - 1)
    return [
        {
            "from": b / BINS,
            "to": (b + 1) / BINS,
            "examples": int((bins == b).sum()),
            "probability": float(chances[known][bins == b].mean()),
            "accuracy": float(right[known][bins == b].mean()),
        }
        for b in np.unique(bins).tolist()
    ]


def confusion(truth: Array, predicted: Array, classes: int) -> Array:
    """Return counts of examples (classes, classes) by class (rows) and predicted class."""
    return np.bincount(truth * classes + predicted, minlength=classes**2).reshape(classes, classes)


def _fading(tally: Tally) -> Figures:
    faded, losses = tally.faded, tally.faded_losses
    weight = float(faded.sum())
    return {
        "examples": weight,
        **agreement(faded),
        "log_loss": float(losses[LOG_LOSS]) / weight if weight else None,
        "brier": float(losses[BRIER]) / weight if weight else None,
    }


def glance_of(name: str, tally: Tally) -> SourceGlance:
    """Return the figures of a source that are cheap to compute."""
    window = tally.window
    if not window.classes.size:
        return SourceGlance(name, 0, np.nan, np.nan, np.nan)
    log_loss, brier = window.losses.mean(axis=0).tolist()
    return SourceGlance(name, tally.seen, float((window.classes == window.numbers).mean()), log_loss, brier)
