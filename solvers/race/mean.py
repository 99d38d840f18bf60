"""The answer of a race: the mean of its arms' decision values, in which each arm counts by its standing.

While the race cannot tell two arms apart, their mean is more accurate than the leader. An arm that is clearly
behind does not count, and predictions do not compute its values. So an answer costs as much as the race is in doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hinged.solvers.core.decision import ExpansionView
from hinged.solvers.core.reports import Contributions
from hinged.solvers.core.rows import Rows

Array = np.ndarray[Any, Any]


def mean_of(values: Iterable[Array], shares: Iterable[Any]) -> Array:
    """Return the mean of decision values, each (m, columns), by shares, each a number or (m, 1).

    The sum runs in the order of the arms, so its bits do not depend on m.
    """
    total: Any = 0.0
    whole: Any = 0.0
    for value, share in zip(values, shares, strict=True):
        total, whole = total + share * value, whole + share
    found: Array = total / whole
    return found


@dataclass(frozen=True, slots=True)
class MeanView:
    """The views of several arms, with the share of each. A view never changes. leader: a view of these."""

    views: tuple[ExpansionView, ...]
    shares: tuple[float, ...]
    leader: ExpansionView

    @property
    def weights(self) -> tuple[float, ...]:
        """The shares, divided by their sum."""
        whole = sum(self.shares)
        return tuple(share / whole for share in self.shares)

    @property
    def b(self) -> Array:
        """(K,) the mean of the biases."""
        return mean_of([view.b for view in self.views], self.shares)

    @property
    def delta(self) -> Array:
        """As in `View`: the largest of any arm."""
        found: Array = np.max([view.delta for view in self.views], axis=0)
        return found

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
    every, whole = np.concatenate([each.keys for each in found]), sum(shares)
    order = every.argsort(kind="stable")  # np.unique takes ten times as long for runs of ascending keys
    new = np.diff(every[order], prepend=-1) != 0
    place, first = np.empty(every.size, np.int64), order[new]
    place[order] = new.cumsum() - 1
    weighed = np.concatenate([share / whole * each.parts for each, share in zip(found, shares, strict=True)], axis=1)
    parts = np.array([np.bincount(place, column, first.size) for column in weighed])
    merged, classes = (
        np.concatenate(arrays)[first] for arrays in zip(*((a.merged, a.classes) for a in found), strict=True)
    )
    return Contributions(every[first], merged, classes, parts)
