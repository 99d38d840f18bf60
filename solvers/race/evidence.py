"""How much each example tells about the arms of a race, and how much a class counts.

Where one class is rare, nearly all arms are right about nearly all examples, and only the few examples of the other
classes tell the arms apart. Such a race must look further back, and wait longer until it removes an arm. So an example
counts as less evidence, down to none, as the share of the examples outside the most frequent class falls below a tenth.
Counts fade, and arms leave, by evidence. Elsewhere each example is one unit of evidence.

If balanced accuracy is the goal, an answer also weighs by how much rarer its class is than the most frequent class. If
the cost of errors is the goal, an answer weighs by the cost of the worst answer, and earns the share that it avoids.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.solvers.jit.compiled import compiled

Array = np.ndarray[Any, Any]

ENOUGH = 10.0  # 1 / share of the examples outside the most frequent class from which an example is full evidence

RAREST = 50.0  # largest weight of an answer: the first example of a class may be a wrong label


@compiled
def add_evidence(seen, classes, evidence, balance):
    """Fill evidence (m,) and balance (m,) for a batch with these classes (m,), and count the batch in seen (K,)."""
    total = most = 0
    for c in range(seen.shape[0]):
        total += seen[c]
        most = max(most, seen[c])
    for r in range(classes.shape[0]):
        evidence[r] = min(1.0, ENOUGH * (total - most + 1) / (total + 2))
        balance[r] = min(RAREST, (most + 1) / (seen[classes[r]] + 1))
        seen[classes[r]] += 1
        total += 1
        most = max(most, seen[classes[r]])


def evidence_of(seen: Array, classes: Array) -> tuple[Array, Array]:
    """Return (evidence, balance) of each example of a batch: its evidence (m,), and the weight of its class (m,), from
    about 1 to RAREST. seen (K,): the examples of each class before the batch.
    """
    evidence, balance = np.empty((2, classes.size))
    add_evidence(seen.copy(), classes, evidence, balance)
    return evidence, balance


def avoided(costs: Array, classes: Array) -> tuple[Array, Array]:
    """Return what the worst answer to each example of a batch costs (m,), and the share that each answer avoids (m, K +
    1). The last column is for an answer that is no class.

    costs (K, K): the cost of each answer (column) by true class (row).
    """
    rows = np.append(costs[classes], np.full((classes.size, 1), np.inf), axis=1)
    worst = rows[:, :-1].max(axis=1)
    return worst, 1.0 - np.minimum(rows / np.where(worst > 0, worst, 1.0)[:, None], 1.0)
