"""Kernel rows computed together have the bits of rows computed one by one."""

import numpy as np
import pytest

from hinged.solvers.core import turns
from hinged.solvers.core.ahead import BEGIN, END, FILLED, are_worth, block_of, look_ahead, nothing_ahead
from hinged.solvers.core.kernels import kernel_row, make_kernel
from hinged.solvers.core.points import compacted, points_from_rows
from hinged.solvers.core.rows import rows_from_dense

DIM = 40
DTYPES = [np.float32, np.float64]


def rows_of(n, kernel, dtype, seed=0, density=0.3):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, DIM)) * (random.random((n, DIM)) < density)
    X[n // 2] = 0.0
    return rows_from_dense(X, kernel, DIM, dtype)


@pytest.mark.parametrize("work", [1, 50_000, turns.WORK_MAX])
@pytest.mark.parametrize("n", [128, 129, 255, 1000])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["linear", "polynomial", "rbf"])
def test_rows_together_have_the_bits_of_single_rows(name, dtype, n, work, monkeypatch):
    monkeypatch.setattr(turns, "WORK_MAX", work)
    kernel = make_kernel(name, gamma=0.3, degree=3, coef0=0.5)
    rows = rows_of(40, kernel, dtype, seed=1)
    points = compacted(points_from_rows(rows_of(n, kernel, dtype), DIM), np.arange(n), DIM, n + 5, n * DIM)
    batch = rows.labelled(np.zeros(40, np.int64), np.arange(40))
    assert n >= block_of(points.columns)
    ahead = look_ahead(nothing_ahead(dtype), kernel, points, batch, 3, 20)
    assert ahead.of[BEGIN] == 3
    assert ahead.of[FILLED] == n
    for r in range(3, ahead.of[END]):
        part, single = slice(rows.indptr[r], rows.indptr[r + 1]), np.empty(n, dtype)
        kernel_row(
            kernel, rows.indices[part], rows.values[part], rows.norms[r], points, 0, n, np.zeros(1, dtype), single
        )  # fmt: skip
        assert np.array_equal(ahead.rows[r - 3, :n].view(np.uint8), single.view(np.uint8))


def test_columns_begin_with_lines_of_the_caches():
    for dtype in DTYPES:
        points = points_from_rows(rows_of(100, make_kernel("rbf"), dtype), DIM)
        points = compacted(points, np.arange(100), DIM, 160, 100 * DIM)
        assert all(points.columns[f].ctypes.data % 64 == 0 for f in range(DIM))
        assert points.columns.flags.c_contiguous


def test_rows_are_computed_together_only_where_that_is_faster(monkeypatch):
    kernel, laplacian = make_kernel("rbf"), make_kernel("laplacian")
    points = points_from_rows(rows_of(1000, kernel, np.float32), DIM)
    ones = points_from_rows(rows_from_dense(np.ones((1000, DIM)), kernel, DIM, np.float32), DIM)
    few = points_from_rows(rows_of(100, kernel, np.float32), DIM)
    assert not are_worth(kernel, points, 100)
    monkeypatch.setattr("hinged.solvers.core.ahead.COLUMNS_BYTES_LEAST", 1)
    assert are_worth(kernel, points, 100)
    assert not are_worth(kernel, points, 3)
    assert not are_worth(laplacian, points, 100)
    assert not are_worth(kernel, ones, 100)
    assert not are_worth(kernel, few, 100)
    sparse = points._replace(columns=np.zeros((0, 0), np.float32))
    assert not are_worth(kernel, sparse, 100)
