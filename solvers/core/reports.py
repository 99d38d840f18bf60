"""What a solver says: how it decides, what a finishing step did, what its points add, where it stands."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from hinged.solvers.core.rows import Rows

Array = np.ndarray[Any, Any]
Certificate = dict[str, float | int | None]


class Finish(NamedTuple):
    """What a finishing step did: steps taken, and whether it reached its tolerance or its bound on steps."""

    steps: int
    converged: bool


class Contributions(NamedTuple):
    """What each point adds to the decision values of one row.

    keys (n,): numbers of the points' examples, of a merged point that of its younger part. merged (n,) bool. classes
    (n,). parts (K, n): sum over the points plus the bias gives the decision values.
    """

    keys: Array
    merged: Array
    classes: Array
    parts: Array


class PointScores(NamedTuple):
    """Decision values at the points held: keys (n,), classes (n,), scores (n, K), and what the ramp set aside (n,)."""

    keys: Array
    classes: Array
    scores: Array
    aside: Array


class View(Protocol):
    """What predictions read while learning goes on. It never changes."""

    @property
    def delta(self) -> Array:
        """(K,) the largest violation of each column, 0 for a solver without one: what asking for labels needs."""

    @property
    def size(self) -> int:
        """Kernel values, or features, that a row takes."""

    def decision(self, rows: Rows) -> Array:
        """Decision values (m, K) of a batch."""


def certificate_of(
    *,
    support_vectors: int,
    points: int,
    kernel_evaluations: int,
    steps: int,
    dual: float | None = None,
    gap: float | None = None,
    kkt_violation: float | None = None,
    weight_degradation: float | None = None,
    converged: bool | None = None,
) -> Certificate:
    """The parts of every solver's certificate, None for what has no meaning; primal = dual + gap."""
    return {
        "support_vectors": support_vectors,
        "points": points,
        "kernel_evaluations": kernel_evaluations,
        "steps": steps,
        "dual": dual,
        "primal": None if dual is None or gap is None else dual + gap,
        "gap": gap,
        "kkt_violation": kkt_violation,
        "weight_degradation": weight_degradation,
        "converged": converged,
    }
