"""How much each example tells about the arms of a race.

Where one class is rare, nearly all arms are right about nearly all examples, and only the few examples of the other
classes tell the arms apart. Such a race must look further back, and wait longer until it removes an arm. So an example
counts as less evidence, down to none, as the share of the examples outside the most frequent class falls below a tenth.
Counts fade, and arms leave, by evidence. Elsewhere each example is one unit of evidence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.solvers.jit.compiled import compiled

Array = np.ndarray[Any, Any]

ENOUGH = 10.0  # 1 / share of the examples outside the most frequent class from which an example is full evidence


@compiled
def add_evidence(seen, classes, evidence):
    """Fill evidence (m,) for a batch with these classes (m,), and count the batch in seen (K,)."""
    total = most = 0
    for c in range(seen.shape[0]):
        total += seen[c]
        most = max(most, seen[c])
    for r in range(classes.shape[0]):
        evidence[r] = min(1.0, ENOUGH * (total - most + 1) / (total + 2))
        seen[classes[r]] += 1
        total += 1
        most = max(most, seen[classes[r]])


def evidence_of(seen: Array, classes: Array) -> Array:
    """Return the evidence (m,) of each example of a batch. seen (K,): the examples of each class before the batch."""
    evidence = np.empty(classes.size)
    add_evidence(seen.copy(), classes, evidence)
    return evidence
