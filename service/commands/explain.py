"""Explain why a model makes a prediction, and find the examples that contradict their labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.service.data.examples import Details, Wanted
from hinged.service.data.inputs import Inputs
from hinged.service.errors import Invalid
from hinged.service.limits import P_VALUES_MAX
from hinged.service.model.model import Model
from hinged.service.model.predictions import predicted
from hinged.service.model.view import Decided, Intervals, Published
from hinged.solvers.core.rows import BadRow
from hinged.solvers.scores.selection import margins

Array = np.ndarray[Any, Any]
SUSPECT_WEIGHT_MIN = 0.01  # weight of an example below which its label has too little effect to be worth checking


class Explained(NamedTuple):
    """Explained decisions. They contain the state that made the decisions; the support vectors that contribute to the
    score of each row; by class name, the intervals of probabilities (None where unknown); and the p-values
    (m, classes). The last three parts are None if the caller did not ask for them, and p-values if they are unknown.
    """

    published: Published
    decided: Decided
    support_vectors: list[list[dict[str, Any]]] | None
    intervals: Intervals | None
    p_values: Array | None


def explain(model: Model, inputs: Inputs, details: Details) -> Explained:
    """Decide on each row, and return what `details` needs from the model itself: the support vectors that contribute
    most to the score of the predicted class, the intervals of probabilities, and p-values.

    Raise Invalid for a solver without support vectors or p-values, for too many p-values, and for an x that the model's
    kernel does not accept.
    """
    published = model.published()
    try:
        inputs = model.learner.rows(inputs)  # the inputs may have been read for an earlier configuration
    except BadRow as error:
        raise Invalid(f"examples[{error.row}].x: {error.reason}", index=error.row) from None
    decided = published.decide(inputs)
    vectors = _support_vectors(model, published, inputs, decided, details.explain) if details.explain else None
    p_values = _p_values(model, published, inputs, decided) if details.conformal else None
    return Explained(published, decided, vectors, _intervals(model, published, details.intervals), p_values)


def _p_values(model: Model, published: Published, inputs: Inputs, decided: Decided) -> Array | None:
    count, classes = len(inputs), len(published.known)
    if count * classes > P_VALUES_MAX:
        raise Invalid(
            f"conformal: a request may ask for {P_VALUES_MAX} p-values, got {count} examples with {classes} classes"
        )
    if decided.columns.shape[1] == 0:
        return None
    found = model.solver.p_values(published.seen(inputs)[0])
    if found is None:
        raise Invalid(f"conformal needs the solver exact, got a model of the solver {model.configuration.solver}")
    return found[:, :classes]


def _intervals(model: Model, published: Published, wanted: Wanted) -> Intervals | None:
    if not wanted:
        return None
    metrics, numbers = model.learner.metrics, {name: c for c, name in enumerate(published.known)}
    names = tuple(numbers) if isinstance(wanted, bool) else wanted
    return {name: metrics.interval(numbers[name]) if name in numbers else None for name in names}


def _support_vectors(
    model: Model, published: Published, inputs: Inputs, decided: Decided, most: int
) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = [[] for _ in range(len(inputs))]
    if decided.columns.shape[1] == 0:
        return found
    rows, _ = published.seen(inputs)
    for r, number in enumerate(decided.numbers.tolist()):
        contributions = model.solver.contributions(rows.take(np.array([r])))
        if contributions is None:
            raise Invalid(f"solver {model.configuration.solver} has no support vectors to explain a score with")
        column = 0 if decided.columns.shape[1] == 1 else number
        parts = contributions.parts[column]
        if decided.columns.shape[1] == 1 and number != 1:
            parts = 0.0 - parts
        largest = np.argsort(-np.abs(parts), kind="stable")[:most]
        found[r] = [
            {
                "id": model.id_of(int(contributions.keys[s])),
                "label": model.labels.labels[contributions.classes[s]],
                "contribution": float(parts[s]),
            }
            for s in largest[parts[largest] != 0]
        ]
    return found


def suspects(model: Model, most: int) -> list[dict[str, Any]]:
    """Return the points that contradict their label most, and the points that the ramp set aside. The labels of these
    points are probably wrong.

    Points are left out if somebody has confirmed their label by giving it again, or if their weight is below
    SUSPECT_WEIGHT_MIN. margin: y f(x), which is negative if the predicted label differs. Raise Invalid for a solver
    without points.
    """
    held = model.solver.point_scores()
    if held is None:
        raise Invalid(f"solver {model.configuration.solver} keeps no examples")
    numbers, _ = predicted(held.scores, len(model.labels))
    found = margins(held.scores, held.classes)
    confirmed = [model.corrections.get(number) == label for number, label in zip(held.keys, held.classes, strict=True)]
    open_ = ~np.array(confirmed, bool) & (held.weights >= SUSPECT_WEIGHT_MIN)
    wanted = np.flatnonzero(((found < 0) | held.aside) & open_)
    wanted = wanted[np.argsort(found[wanted], kind="stable")][:most]
    return [
        {
            "id": model.id_of(int(held.keys[s])),
            "label": model.labels.labels[held.classes[s]],
            "prediction": model.labels.labels[numbers[s]],
            "margin": float(found[s]),
            "reason": "set aside" if held.aside[s] else "contradicts",
        }
        for s in wanted.tolist()
    ]
