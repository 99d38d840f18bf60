"""Batches of rows: parts, copies of one row, and selections."""

import numpy as np
import pytest

from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense


def fields(rows):
    return [rows.indptr, rows.indices, rows.values, rows.norms, rows.selves]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_and_a_selection_are_copies_of_the_parts(dtype):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(9, 5)) * (rng.random((9, 5)) < 0.6)  # row 4 is empty
    X[4] = 0.0
    rows = rows_from_dense(X, make_kernel("rbf", 0.5), 5, dtype)
    for r in range(9):
        part = rows.part(r, r + 1)
        for copy in (rows.row(r), rows.take(np.array([r]))):
            for given, expected, whole in zip(fields(copy), fields(part), fields(rows), strict=True):
                np.testing.assert_array_equal(given, expected)
                assert given.dtype == expected.dtype
                assert not np.shares_memory(given, whole)
            assert (copy.dim, copy.measure) == (rows.dim, rows.measure)
    wanted = np.array([0, 3, 4, 8])
    for k, r in enumerate(wanted):
        chosen = rows.take(wanted).part(k, k + 1)
        for given, expected in zip(fields(chosen), fields(rows.row(int(r))), strict=True):
            np.testing.assert_array_equal(given, expected)
