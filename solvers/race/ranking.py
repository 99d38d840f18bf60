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
from hinged.solvers.jit.compiled import compiled

Array = np.ndarray[Any, Any]

RECENT = 200  # examples of the most frequent class whose scores are kept
FLAGGED = 0.3  # s / evidence: evidence is ten times the share of the rare classes


@compiled
def score_of(scores, c):
    """Return the score of class c among an example's decision values (columns,), in single precision."""
    if scores.size > 1:
        return np.float32(scores[c])
    return np.float32(scores[0] if c else -scores[0])


@compiled
def add_ranks(scores, classes, seen, evidence, recent, place, credit):
    """Mix credit (m, A) of a batch with the credit by rank, in place. Keep the scores of the most frequent class.

    scores (A, m, columns). seen (K,): examples of each class before the batch; counts on. recent (A, RECENT, columns),
    place: a ring, and how many scores were ever put into it. Return the next place.
    """
    top = np.argmax(seen)
    for r in range(classes.size):
        c, share = classes[r], evidence[r]
        n = min(place, recent.shape[1])
        for a in range(recent.shape[0] if share < 1.0 else 0):
            if c == top:
                credit[r, a] = 1.0 - share * (1.0 - credit[r, a])
                recent[a, place % recent.shape[1]] = scores[a, r]
                continue
            above, own = 0, score_of(scores[a, r], c)
            for k in range(n):
                above += score_of(recent[a, k], c) >= own
            rank = FLAGGED * share / (FLAGGED * share + above / max(n, 1))
            credit[r, a] = share * credit[r, a] + (1.0 - share) * rank
        place += share < 1.0 and c == top
        seen[c] += 1
        top = c if seen[c] > seen[top] else top
    return place


class Ranking:
    """The newest scores that each arm gave examples of the most frequent class, where one class is rare."""

    def __init__(self, arms: int, columns: int) -> None:
        self.recent, self.place = np.zeros((arms, 0, columns), np.float32), 0

    def add(self, scores: Array, classes: Array, seen: Array, evidence: Array, credit: Array) -> Array:
        """Return the credit (m, A) of a batch, mixed with the credit by rank (`add_ranks`)."""
        mixed = credit.astype(np.float64)
        if (evidence == 1.0).all():
            return mixed
        if not self.recent.size:
            self.recent = np.zeros((len(self.recent), RECENT, scores.shape[2]), np.float32)
        self.place = int(add_ranks(scores, classes, seen.copy(), evidence, self.recent, self.place, mixed))
        return mixed

    def take(self, arms: Array) -> None:
        """Let these arms race from now on, each with the scores of the arm of this index."""
        self.recent = self.recent[arms]

    def state(self) -> State:
        """Return the scores, the oldest first, if there are any."""
        count = min(self.place, RECENT)
        order = np.arange(self.place - count, self.place) % RECENT
        return {"recent": self.recent[:, order]} if count else {}

    def load(self, checked: StateReader) -> None:
        """Read what `state` returned. Raise ValueError if it does not fit."""
        if "recent" in checked.state:
            arms, _, columns = self.recent.shape
            found = checked.take("recent", np.float32, (arms, None, columns))
            self.place = found.shape[1]
            if not 0 < self.place <= RECENT:
                raise ValueError(f"recent must have 1 to {RECENT} scores of each arm, got {self.place}")
            self.recent = np.pad(found, ((0, 0), (0, RECENT - self.place), (0, 0)))
