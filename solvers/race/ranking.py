"""How high each arm ranks an example of a rare class.

Where one class is rare, most arms answer the frequent class nearly always, and an arm that never finds the rare class
is among the most accurate. People then look at the examples with the highest scores. So an example of a rare class also
earns credit by its rank among RECENT examples of the most frequent class: s / (s + a), where a is the share of those
with at least its score, and s is three times the share of the rare classes. The rarer they are, the more this credit
counts: by as much as the example lacks evidence (evidence.py). The credit for a right answer counts for the rest. An
error on the most frequent class loses as much as the example has evidence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.solvers.core.states import State, StateReader

Array = np.ndarray[Any, Any]

RECENT = 200  # examples of the most frequent class whose scores are kept
FLAGGED = 0.3  # s / evidence: evidence is ten times the share of the rare classes


class Ranking:
    """The newest scores of examples of the most frequent class, where one class is rare.

    recent (A, n <= RECENT, columns): the decision values of each arm, the oldest first.
    """

    def __init__(self, arms: int, columns: int) -> None:
        self.recent = np.zeros((arms, 0, columns), np.float32)

    def add(self, scores: Array, classes: Array, seen: Array, evidence: Array, credit: Array) -> Array:
        """Return the credit (m, A) of a batch, mixed with the credit by rank, and keep scores.

        scores (A, m, columns). classes (m,). seen (K,): the examples of each class before the batch. evidence (m,).
        """
        mixed, counts = credit.astype(np.float64), evidence < 1.0
        if not counts.any():
            return mixed
        each = classes[:, None] == np.arange(seen.size)
        frequent = (seen + each.cumsum(axis=0) - each).argmax(axis=1) == classes
        common, share = counts & frequent, evidence[:, None]
        mixed[common] = 1.0 - share[common] * (1.0 - mixed[common])
        scores = scores.astype(np.float32)
        known, before = np.concatenate((self.recent, scores[:, common]), axis=1), self.recent.shape[1]
        for r in np.flatnonzero(counts & ~frequent).tolist():
            end = before + int(common[:r].sum())
            latest = known[:, max(0, end - RECENT) : end]
            above = (_of_class(latest, classes[r]) >= _of_class(scores[:, r : r + 1], classes[r])).sum(axis=1)
            rank = FLAGGED * share[r] / (FLAGGED * share[r] + above / max(1, latest.shape[1]))
            mixed[r] = share[r] * mixed[r] + (1.0 - share[r]) * rank
        self.recent = known[:, -RECENT:].copy()
        return mixed

    def take(self, arms: Array) -> None:
        """Let these arms race from now on, each with the scores of the arm of this index."""
        self.recent = self.recent[arms]

    def state(self) -> State:
        """Return the scores, if there are any."""
        return {"recent": self.recent.copy()} if self.recent.size else {}

    def load(self, checked: StateReader) -> None:
        """Read what `state` returned. Raise ValueError if it does not fit."""
        if "recent" in checked.state:
            arms, _, columns = self.recent.shape
            self.recent = checked.take("recent", np.float32, (arms, None, columns))
            if not 0 < self.recent.shape[1] <= RECENT:
                raise ValueError(f"recent must have 1 to {RECENT} scores of each arm, got {self.recent.shape[1]}")


def _of_class(scores: Array, number: int) -> Array:
    """Return the scores (A, n) of one class among decision values (A, n, columns)."""
    if scores.shape[2] > 1:
        found: Array = scores[:, :, number]
        return found
    return scores[:, :, 0] if number else -scores[:, :, 0]
