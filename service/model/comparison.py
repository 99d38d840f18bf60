"""How much better a challenger predicts or decides than its champion, on the same examples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hinged.service.model.metrics import Prequential

Array = np.ndarray[Any, Any]

Z = 1.96
"""Standard deviations of a 95 % interval."""


def compared(challenger: Prequential, champion: Prequential, *, balanced: bool = False) -> dict[str, Any] | None:
    """Return a figure of both on the newest examples that both have predicted, and the interval of what the challenger
    gains. None if there is no such example.

    The figure is the mean cost of a decision if the champion has costs, else the balanced accuracy if `balanced`, else
    the accuracy. The interval has 95 % confidence.
    """
    n = min(challenger.window.classes.size, champion.window.classes.size)
    if not n:
        return None
    costs = None if champion.memory is None else champion.memory.costs
    if costs is not None:
        return _compared_costs(*(metrics.costs_of_newest(costs)[-n:] for metrics in (challenger, champion)))
    mine, other = challenger.newest_right()[-n:], champion.newest_right()[-n:]
    classes = champion.newest_classes()[-n:] if balanced else np.zeros(n, np.int32)
    groups = [classes == number for number in np.unique(classes)]
    gains, variances = zip(*(_gain(mine[group], other[group]) for group in groups), strict=True)
    middle, reach = sum(gains) / len(groups), Z * math.sqrt(sum(variances)) / len(groups)
    return {
        "figure": "balanced_accuracy" if balanced else "accuracy",
        "examples": n,
        "challenger": float(np.mean([mine[group].mean() for group in groups])),
        "champion": float(np.mean([other[group].mean() for group in groups])),
        "interval": [max(middle - reach, -1.0), min(middle + reach, 1.0)],
    }


def _gain(mine: Array, other: Array) -> tuple[float, float]:
    """Return the difference of two accuracies on the same examples, and its variance.

    Both rest on the examples that only one predicted correctly: A. Agresti and Y. Min, Simple Improved Confidence
    Intervals for Comparing Matched Proportions, Statistics in Medicine 24, 2005.
    """
    gained, lost = (0.5 + int(only.sum()) for only in (mine & ~other, other & ~mine))
    total = mine.size + 2
    middle = (gained - lost) / total
    return middle, ((gained + lost) / total - middle**2) / total


def _compared_costs(mine: Array, other: Array) -> dict[str, Any] | None:
    both = ~np.isnan(mine) & ~np.isnan(other)
    n = int(both.sum())
    if n < 2:
        return None
    saved = other[both] - mine[both]
    middle, reach = float(saved.mean()), Z * float(saved.std(ddof=1)) / math.sqrt(n)
    return {
        "figure": "cost",
        "examples": n,
        "challenger": float(mine[both].mean()),
        "champion": float(other[both].mean()),
        "interval": [middle - reach, middle + reach],
    }
