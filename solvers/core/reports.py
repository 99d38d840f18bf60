"""The reports of a solver: its view for predictions, a finishing step, the contributions of points, its certificate."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from hinged.solvers.core.rows import Rows

Array = np.ndarray[Any, Any]
Certificate = dict[str, float | int | None]


class Finish(NamedTuple):
    """The outcome of a finishing step: the number of steps, and whether it converged before its limit of steps."""

    steps: int
    converged: bool


class WholeFinish(NamedTuple):
    """The outcome of a finishing step over a data set: steps, and whether it converged.

    missing: number of examples that violated when points_max left no room for them; 0 if there was room.
    """

    steps: int
    converged: bool
    missing: int


class FinishRound(NamedTuple):
    """The state of a finishing step over a data set.

    points: number of points. violating: number of other examples that violate. gap: duality gap over all of these.
    """

    points: int
    violating: int
    gap: float


def untold(found: FinishRound) -> None:
    """Tell nobody of a round."""


class Contributions(NamedTuple):
    """The contribution of each point to the decision values of one row.

    keys (n,): numbers of the points' examples; for a merged point, the number of its newest example. merged (n,) bool.
    classes (n,). parts (K, n): the contributions. Their sum over the points, plus the bias, is the decision value.
    """

    keys: Array
    merged: Array
    classes: Array
    parts: Array


class PointScores(NamedTuple):
    """Decision values at all points: keys (n,), classes (n,), scores (n, K); aside (n,): whether the ramp drops it;
    weights (n,): own weights, 1 if unknown; rows: the points themselves.
    """

    keys: Array
    classes: Array
    scores: Array
    aside: Array
    weights: Array
    rows: Rows


class View(Protocol):
    """The state that predictions read while learning continues. It never changes."""

    @property
    def delta(self) -> Array:
        """(K,) the largest violation of each column; 0 for a solver without violations. Label queries need it."""

    @property
    def size(self) -> int:
        """Number of kernel values, or features, computed per row."""

    @property
    def gathered(self) -> int:
        """Number of numbers of sparse points that each row reads, however few its x has."""

    def decision(self, rows: Rows) -> Array:
        """Return the decision values (m, K) of a batch."""


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
    """Return the fields of a certificate. A field that the solver does not have is None; primal = dual + gap."""
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
