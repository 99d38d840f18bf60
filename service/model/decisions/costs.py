"""The expected cost of each decision, and the decision with the lowest cost.

With probabilities p_t and the cost c_td of decision d for true class t, decision d costs sum_t p_t c_td. A cost that
nobody named is 1 for an error and 0 for a right decision, so the sum is 1 - p_d plus a term for each named cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hinged.service.data.costs import ASK

Array = np.ndarray[Any, Any]

ASKED = -1
"""The number that stands for the decision "ask"."""


class CostTable(NamedTuple):
    """The costs for the classes of a model.

    classes: number of classes. ask: cost of a person's look; None if the model never asks.
    named: (true class, decision, cost minus its default) of each named cost.
    """

    classes: int
    ask: float | None
    named: tuple[tuple[int, int, float], ...]

    @classmethod
    def of(cls, costs: Mapping[str, Any], names: Sequence[str]) -> CostTable:
        """Return the table for classes of these names. Costs of unknown classes wait until the classes come."""
        numbers = {name: number for number, name in enumerate(names)}
        named = tuple(
            (numbers[truth], numbers[decision], float(cost) - (truth != decision))
            for truth, row in costs.items()
            if truth != ASK and truth in numbers
            for decision, cost in row.items()
            if decision in numbers
        )
        return cls(len(names), costs.get(ASK), named)

    def expected(self, chances: Array) -> Array:
        """Return the expected cost (m, classes) of each decision. chances (m, classes): probabilities."""
        found = 1.0 - chances
        for truth, decision, extra in self.named:
            found[:, decision] += extra * chances[:, truth]
        return found

    def decide(self, chances: Array) -> tuple[Array, Array]:
        """Return the decisions (m,) with the lowest expected costs, and these costs (m,).

        Among equal decisions the first class wins, and any class wins against ASKED.
        """
        costs = self.expected(chances)
        numbers = costs.argmin(axis=1).astype(np.int32)
        least = costs[np.arange(numbers.size), numbers]
        if self.ask is None:
            return numbers, least
        asked = least > self.ask
        return np.where(asked, np.int32(ASKED), numbers), np.where(asked, self.ask, least)

    def matrix(self) -> Array:
        """Return the cost (classes, classes + 1) by true class and decision. ASKED selects the last column."""
        found = 1.0 - np.eye(self.classes, self.classes + 1)
        found[:, ASKED] = np.nan if self.ask is None else self.ask
        for truth, decision, extra in self.named:
            found[truth, decision] += extra
        return found
