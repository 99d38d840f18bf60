"""How much better a challenger predicts than its champion, on the same examples."""

from __future__ import annotations

import math
from typing import Any

from hinged.service.model.metrics import Prequential

Z = 1.96
"""Standard deviations of a 95 % interval."""


def compared(challenger: Prequential, champion: Prequential) -> dict[str, Any] | None:
    """Return both accuracies on the newest examples that both have predicted, and the interval of their difference.

    The interval has 95 % confidence. It rests on the examples that only one of both predicted correctly: A. Agresti and
    Y. Min, Simple Improved Confidence Intervals for Comparing Matched Proportions, Statistics in Medicine 24, 2005.
    None if there is no such example.
    """
    mine, other = challenger.newest_right(), champion.newest_right()
    n = min(mine.size, other.size)
    if not n:
        return None
    mine, other = mine[-n:], other[-n:]
    gained, lost = (0.5 + int(only.sum()) for only in (mine & ~other, other & ~mine))
    total = n + 2
    middle = (gained - lost) / total
    reach = Z * math.sqrt((gained + lost) / total - middle**2) / math.sqrt(total)
    return {
        "examples": n,
        "challenger": float(mine.mean()),
        "champion": float(other.mean()),
        "interval": [max(middle - reach, -1.0), min(middle + reach, 1.0)],
    }
