"""The answer of a race: the mean of its arms' decision values, in which each arm counts by its standing.

While the race cannot tell two arms apart, their mean is more accurate than the leader. An arm that is clearly
behind does not count, and predictions do not compute its values. So an answer costs as much as the race is in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hinged.solvers.core.reports import Contributions, View
from hinged.solvers.core.rows import Rows

Array = np.ndarray[Any, Any]


def mean_of(values: Sequence[Array], shares: Sequence[Any]) -> Array:
    """Return the mean of decision values, each (m, columns), by shares, each a number or (m, 1).

    The sum runs in the order of the arms, so its bits do not depend on m.
    """
    total, whole = shares[0] * values[0], shares[0]
    for value, share in zip(values[1:], shares[1:], strict=True):
        total, whole = total + share * value, whole + share
    found: Array = total / whole
    return found


@dataclass(frozen=True, slots=True)
class MeanView:
    """The views of several arms, with the share of each. A view predicts, and never changes."""

    views: tuple[View, ...]
    shares: tuple[float, ...]

    @property
    def weights(self) -> tuple[float, ...]:
        """The shares, divided by their sum."""
        whole = sum(self.shares)
        return tuple(share / whole for share in self.shares)

    @property
    def delta(self) -> Array:
        """As in `View`: the largest of any arm."""
        return np.max([view.delta for view in self.views], axis=0)

    @property
    def size(self) -> int:
        """As in `View`."""
        return sum(view.size for view in self.views)

    @property
    def gathered(self) -> int:
        """As in `View`."""
        return sum(view.gathered for view in self.views)

    def decision(self, rows: Rows) -> Array:
        """Return the decision values (m, K) of a batch."""
        return mean_of([view.decision(rows) for view in self.views], self.shares)


def joined(found: Sequence[Contributions], shares: Sequence[float]) -> Contributions:
    """Return the contributions of the points of several arms to their mean. A point of several arms stands once."""
    keys, first, place = np.unique(
        np.concatenate([each.keys for each in found]), return_index=True, return_inverse=True
    )
    whole = sum(shares)
    parts = np.concatenate([share / whole * each.parts for share, each in zip(shares, found, strict=True)], axis=1)
    summed = np.zeros((parts.shape[0], keys.size))
    np.add.at(summed, (slice(None), place), parts)
    merged, classes = (np.concatenate([each[k] for each in found])[first] for k in (1, 2))
    return Contributions(keys, merged, classes, summed)
