"""Rows of numbers in the form that a configuration asks for.

Where the server scales features, rows are kept as they came, in float64: (indptr, indices, values) with norms and
selves 0 and no measure, for no kernel sees them so. Else they are as the kernel and the precision see them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.service.data.parts import Configuration
from hinged.service.data.records import NUMBER_MAX
from hinged.solvers.core.rows import BadRow, Rows, ordered, rows_from_csr, rows_from_dense

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
    held = X != 0
    indptr = np.concatenate(([0], np.cumsum(held.sum(axis=1))))
    indices, values = np.nonzero(held)[1].astype(np.int32), X[held].astype(np.float64)
    _check_numbers(indptr, indices, values)
    return _as_they_came(indptr, indices, values, dim)


def sparse_rows(indptr: Array, indices: Array, values: Array, configuration: Configuration) -> Rows:
    """The rows of a CSR batch, in any order within a row. BadRow for one that is none of this configuration's."""
    dim = configuration.features.dim
    if not configuration.scaled:
        return rows_from_csr(indptr, indices, values, configuration.kernel.build(), dim, configuration.dtype)
    indptr, values = np.asarray(indptr, np.int64), np.asarray(values, np.float64)
    _check_numbers(indptr, indices, values)
    return _as_they_came(*ordered(indptr, indices, values, dim, np.float64), dim)


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


def _check_numbers(indptr: Array, indices: Array, values: Array) -> None:
    wrong = np.flatnonzero(~(np.abs(values) <= NUMBER_MAX))  # NaN is
    if wrong.size:
        p = int(wrong[0])
        reason = f"numbers must be finite and at most {NUMBER_MAX:g} from 0"
        raise BadRow(
            int(np.searchsorted(indptr, p, side="right")) - 1, f"feature {indices[p]} is {values[p]}; {reason}"
        )


def _as_they_came(indptr: Array, indices: Array, values: Array, dim: int) -> Rows:
    zeros = np.zeros(indptr.size - 1)
    return Rows(indptr, indices, values, zeros, zeros, dim)
