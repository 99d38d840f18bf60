"""Rows of numbers in the form that a configuration asks for.

Where the server scales features, rows are kept as they came, in float64: (indptr, indices, values) with norms and
selves 0 and no measure, for no kernel sees them so. Else they are as the kernel and the precision see them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.service.data.parts import Configuration
from hinged.service.data.records import NUMBER_MAX
from hinged.solvers.core.rows import BadRow, Rows, rows_from_csr, rows_from_dense

Array = np.ndarray[Any, Any]


def dense_rows(X: Array, configuration: Configuration) -> Rows:
    """The rows of a matrix (m, dim). BadRow for one that is none of this configuration's."""
    dim = configuration.features.dim
    if not configuration.scaled:
        return rows_from_dense(X, configuration.kernel.build(), dim, configuration.dtype)
    if X.ndim != 2:
        raise ValueError(f"a batch has two axes (rows, features), got {X.ndim}")
    if X.shape[1] != dim:
        raise BadRow(0, f"expected {dim} features, got {X.shape[1]}")
    X = np.asarray(X, np.float64)
    held = X != 0
    row_of, indices = np.nonzero(held)
    values = X[held]
    _check_numbers(row_of, indices, values)
    return _as_they_came(row_of, indices, values, X.shape[0], dim)


def sparse_rows(indptr: Array, indices: Array, values: Array, configuration: Configuration) -> Rows:
    """The rows of a CSR batch, in any order within a row. BadRow for one that is none of this configuration's."""
    dim = configuration.features.dim
    if not configuration.scaled:
        return rows_from_csr(indptr, indices, values, configuration.kernel.build(), dim, configuration.dtype)
    m, values = indptr.size - 1, np.asarray(values, np.float64)
    row_of, indices = np.repeat(np.arange(m), np.diff(indptr)), np.asarray(indices, np.int64)
    outside = np.flatnonzero((indices < 0) | (indices >= dim))
    if outside.size:
        raise BadRow(int(row_of[outside[0]]), f"index {indices[outside[0]]} is outside 0..{dim - 1}")
    _check_numbers(row_of, indices, values)
    place = row_of * np.int64(dim) + indices
    if (np.diff(place) <= 0).any():
        order = np.argsort(place, kind="stable")
        row_of, indices, values, place = row_of[order], indices[order], values[order], place[order]
        twice = np.flatnonzero(np.diff(place) == 0)
        if twice.size:
            raise BadRow(int(row_of[twice[0]]), f"index {indices[twice[0]]} is given twice")
    held = np.flatnonzero(values)
    return _as_they_came(row_of[held], indices[held], values[held], m, dim)


def is_fit(rows: Rows, configuration: Configuration) -> bool:
    """Whether rows have the form already."""
    if not configuration.scaled:
        return rows.fits(configuration.kernel.build(), configuration.dtype)
    return rows.measure is None and rows.values.dtype == np.float64


def refit(rows: Rows, configuration: Configuration) -> Rows:
    """Rows of whatever form in this one. BadRow for a row that has none."""
    if is_fit(rows, configuration):
        return rows
    return sparse_rows(rows.indptr, rows.indices, rows.values, configuration)


def _check_numbers(row_of: Array, indices: Array, values: Array) -> None:
    wrong = np.flatnonzero(~(np.abs(values) <= NUMBER_MAX))  # NaN is
    if wrong.size:
        p = wrong[0]
        reason = f"numbers must be finite and at most {NUMBER_MAX:g} from 0"
        raise BadRow(int(row_of[p]), f"feature {indices[p]} is {values[p]}; {reason}")


def _as_they_came(row_of: Array, indices: Array, values: Array, m: int, dim: int) -> Rows:
    ends = np.concatenate(([0], np.cumsum(np.bincount(row_of, minlength=m)))).astype(np.int64)
    zeros = np.zeros(m)
    return Rows(ends, indices.astype(np.int32), values, zeros, zeros, dim)
