"""Describe the columns of a model: what each name of x became, and how much the predictions depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hinged.answers import ColumnFigures, FrequentValue
from hinged.service.data.features.observing import Field
from hinged.service.model.model import Model
from hinged.service.model.predictions import numbers_of
from hinged.solvers.core import turns
from hinged.solvers.core.rows import Rows, rows_from_csr
from hinged.solvers.core.solver import Solver

Array = np.ndarray[Any, Any]

FIELDS_MAX = 100
VALUES_MAX = 5  # maximum number of strings that are listed for a name
POINTS_MIN, POINTS_MAX = 10, 300  # number of points whose predictions are compared
WORK_MAX = 400_000_000
"""Work (turns.py) of all predictions, about 0.2 s. A model with many names or points compares fewer points."""


def columns_of(model: Model) -> list[ColumnFigures]:
    """Return what the first FIELDS_MAX names of x became. Dense features have numbers as names."""
    fields = model.configuration.features.fields(model.learner.warmup.encoder, FIELDS_MAX)
    held = model.solver.point_scores()
    may_lack = model.configuration.features.MAY_LACK
    rows = held.rows if held is not None and len(held.rows) else None
    shares = None if rows is None else np.bincount(rows.indices, minlength=rows.dim) / len(rows)
    effects = [None for _ in fields] if rows is None else _effects(model, fields, rows)
    return [
        {
            "name": field.name,
            "kinds": list(field.kinds),
            "values": len(field.values),
            "frequent": [] if shares is None else _frequent(field, shares),
            "usual": field.usual,
            "missing": _missing(field, rows) if rows is not None and may_lack else None,
            "effect": effect,
        }
        for field, effect in zip(fields, effects, strict=True)
    ]


def _effects(model: Model, fields: Sequence[Field], rows: Rows) -> list[float | None]:
    """Return for each name the share of points whose predicted class changes if their x lacks the name.

    None for a name that shares its columns with other names, and if there are fewer than two classes.
    """
    solver, classes = model.solver, len(model.labels)
    some = rows.take(_compared(rows, len(fields)))
    before = numbers_of(solver.decision(some), classes)
    found: list[float | None] = []
    for field in fields:
        if field.columns is None or classes < 2:
            found.append(None)
        elif not field.columns.size:
            found.append(0.0)
        else:
            after = numbers_of(solver.decision(_without(some, field.columns, solver)), classes)
            found.append(float(np.mean(before != after)))
            turns.rest()
    return found


def _compared(rows: Rows, fields: int) -> Array:
    """Return the numbers of the points to compare, spread evenly over all points, which are in order of age."""
    n = len(rows)
    work_each = max(1, fields) * (rows.values.size + turns.VALUE_WORK * n)
    compared = min(n, POINTS_MAX, max(POINTS_MIN, WORK_MAX // work_each))
    return np.linspace(0, n - 1, compared).astype(np.int64)


def _without(rows: Rows, columns: Array, solver: Solver) -> Rows:
    """Return rows as if these columns were missing."""
    kept = np.ones(rows.dim, bool)
    kept[columns] = False
    kept = kept[rows.indices]
    indptr = np.concatenate(([0], np.cumsum(kept)))[rows.indptr]
    return rows_from_csr(indptr, rows.indices[kept], rows.values[kept], solver.kernel, rows.dim, rows.values.dtype.type)


def _missing(field: Field, rows: Rows) -> float | None:
    """Return the share of points without a value of a name. None if the points do not tell it.

    A number that equals the mean is stored like a missing number, so a constant number is unknown.
    """
    if field.columns is None:
        return None
    own = np.zeros(rows.dim, bool)
    own[field.columns] = True
    before = np.concatenate(([0], np.cumsum(own[rows.indices])))[rows.indptr]
    present = np.count_nonzero(np.diff(before))
    return 1.0 - present / len(rows) if present else None


def _frequent(field: Field, shares: Array) -> list[FrequentValue]:
    """Return the most frequent strings and booleans of a name. shares (dim,): the share of points with each column."""
    found = [(value, float(shares[column])) for value, column in field.values.items()]
    found.sort(key=lambda each: -each[1])
    return [{"value": value, "share": share} for value, share in found[:VALUES_MAX] if share]
