import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core import turns
from hinged.solvers.core.decision import ExpansionView
from hinged.solvers.core.kernels import KERNELS, inner_to_radial, kernel_row, make_kernel
from hinged.solvers.core.points import append_point, compacted, empty_points, points_from_rows, subset
from hinged.solvers.core.rows import rows_from_csr, rows_from_dense
from hinged.solvers.jit.compiled import compiled
from tests.helpers.solvers import naive

PARAMETERS = {"gamma": 0.3, "degree": 3, "coef0": 0.5}
DTYPES = [np.float32, np.float64]

matrices = st.integers(1, 40).flatmap(
    lambda n: st.integers(1, 12).flatmap(
        lambda dim: st.lists(
            st.lists(st.one_of(st.just(0.0), st.floats(-4, 4, width=32)), min_size=dim, max_size=dim),
            min_size=n,
            max_size=n,
        )
    )
)


def row_of(kernel, points, rows, r, begin=0, end=None):
    end = len(rows) if end is None else end
    first, last = rows.indptr[r], rows.indptr[r + 1]
    out = np.empty(points.start.size, rows.values.dtype)
    spread = np.zeros(rows.dim, rows.values.dtype)
    kernel_row(
        kernel, rows.indices[first:last], rows.values[first:last], rows.norms[r], points, begin, end, spread, out
    )
    assert not spread.any()
    return out[begin:end]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=25, deadline=None)
@given(X=matrices)
def test_kernel_rows_agree_with_plain_loops(name, dtype, X):
    kernel = make_kernel(name, **PARAMETERS)
    rows = rows_from_dense(np.array(X), kernel, len(X[0]), dtype)
    points = points_from_rows(rows, len(X[0]))
    for r in range(len(X)):
        expected = [naive.kernel_value(name, X[r], z, **PARAMETERS) for z in X]
        tolerance = {"rtol": 3e-5, "atol": 3e-4} if dtype is np.float32 else {"rtol": 1e-12, "atol": 1e-12}
        np.testing.assert_allclose(row_of(kernel, points, rows, r), expected, **tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=25, deadline=None)
@given(X=matrices, split=st.integers(0, 40))
def test_a_kernel_value_has_the_same_bits_however_it_is_computed(name, dtype, X, split):
    kernel = make_kernel(name, **PARAMETERS)
    dim = len(X[0])
    rows = rows_from_dense(np.array(X), kernel, dim, dtype)
    by_columns = points_from_rows(rows, dim)
    sparse_only = by_columns._replace(columns=np.zeros((0, 0), dtype), only_ones=np.array([False]))
    one_by_one = empty_points(dim, dtype, len(X), int(rows.indptr[-1]) + 1)
    for r in range(len(X)):
        first, last = rows.indptr[r], rows.indptr[r + 1]
        append_point(one_by_one, rows.indices[first:last], rows.values[first:last], rows.norms[r], rows.selves[r])
    K = np.array([row_of(kernel, by_columns, rows, r) for r in range(len(X))])
    assert np.array_equal(K, K.T)
    assert np.array_equal(K.diagonal(), rows.selves)
    split = min(split, len(X))
    for r in range(len(X)):
        parts = [row_of(kernel, by_columns, rows, r, 0, split), row_of(kernel, by_columns, rows, r, split)]
        assert np.array_equal(K[r], np.concatenate(parts))
        assert np.array_equal(K[r], row_of(kernel, sparse_only, rows, r))
        assert np.array_equal(K[r], row_of(kernel, one_by_one, rows, r))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_rows_of_ones_have_the_same_bits_counted_by_bytes_or_not(name, dtype):
    random = np.random.default_rng(0)
    X = (random.random((5000, 30)) < 0.3).astype(float)
    kernel = make_kernel(name, **PARAMETERS)
    rows = rows_from_dense(X, kernel, 30, dtype)
    others = rows_from_dense(X[:40] * random.choice([-1.0, 0.5, 1.0, 2.0], (40, 30)), kernel, 30, dtype)
    points = points_from_rows(rows, 30)
    assert points.only_ones[0]
    summed = points._replace(only_ones=np.array([False]))
    for query in (rows, others):
        for r in range(40):
            assert np.array_equal(row_of(kernel, points, query, r, r, 5000), row_of(kernel, summed, query, r, r, 5000))


def test_bytes_count_while_every_non_zero_is_1_and_rows_are_short():
    kernel, dim = make_kernel("rbf", 0.01), 300
    X = np.zeros((4, dim))
    X[0, :255], X[1, 3:9], X[2, :256], X[3, 1] = 1.0, 1.0, 1.0, 2.0
    rows = rows_from_dense(X, kernel, dim)
    for last, counted in ((0, True), (1, True), (2, False), (3, False)):
        order = np.array([0, 1, last]) if last > 1 else np.array([0, 1])
        part = rows.take(order)
        points = empty_points(dim, np.float32)
        for r in range(order.size):
            first, end = part.indptr[r], part.indptr[r + 1]
            append_point(points, part.indices[first:end], part.values[first:end], part.norms[r], part.selves[r])
        assert points.only_ones[0] == points_from_rows(part, dim).only_ones[0] == counted
        for s in range(order.size):
            expected = [naive.kernel_value("rbf", X[order[s]], z, gamma=0.01) for z in X[order]]
            np.testing.assert_allclose(row_of(kernel, points, part, s), expected, rtol=3e-5)
        # Without the points that prevented it, bytes count again, with the same bits.
        again = compacted(points, np.arange(2), dim, 256, 4096)
        assert again.only_ones[0]
        for s in range(2):
            assert np.array_equal(row_of(kernel, again, part, s, 0, 2), row_of(kernel, points, part, s, 0, 2))
            assert np.array_equal(
                row_of(kernel, subset(again, np.arange(2)), part, s, 0, 2), row_of(kernel, points, part, s, 0, 2)
            )


def test_long_rows_have_the_same_bits_as_short_ones():
    X = np.random.default_rng(0).standard_normal((3000, 5))
    kernel = make_kernel("rbf", 0.2)
    rows = rows_from_dense(X, kernel, 5)
    points = points_from_rows(rows, 5)
    whole = row_of(kernel, points, rows, 7)
    pieces = [row_of(kernel, points, rows, 7, b, min(b + 77, 3000)) for b in range(0, 3000, 77)]
    assert np.array_equal(whole, np.concatenate(pieces))


@pytest.mark.parametrize(("m", "work"), [(530, turns.WORK_MAX), (90, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_dense_rows_in_a_batch_are_predicted_with_the_same_bits_as_one_by_one(name, dtype, m, work, monkeypatch):
    monkeypatch.setattr(turns, "WORK_MAX", work)
    # Of rows, features and points more than a block each, never whole blocks; a tenth of the features is zero.
    random = np.random.default_rng(0)
    X = random.standard_normal((700, 301)) * (random.random((700, 301)) < 0.9)
    kernel = make_kernel(name, gamma=1e-3)
    rows = rows_from_dense(X, kernel, 301, dtype)
    view = ExpansionView(
        kernel, points_from_rows(rows, 301), 700, random.standard_normal((2, 700)), np.ones(2), np.zeros(2), 301
    )
    together = view.decision(rows.part(0, m))
    one_by_one = np.concatenate([view.decision(rows.part(r, r + 1)) for r in range(m)])
    np.testing.assert_array_equal(together, one_by_one)


def test_the_float32_exponential_is_within_two_units_in_the_last_place():
    x = -np.concatenate(([0.0], np.geomspace(1e-8, 87.0, 200_001))).astype(np.float32)
    expected = np.exp(x.astype(np.float64))
    got = run_exp(x.copy())
    assert got[0] == 1.0
    assert (np.abs(got / expected - 1.0)).max() < 1.3e-7
    assert run_exp(np.array([-1e30, -200.0], np.float32)).max() < 1e-37


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_kernel_value_is_the_same_wherever_it_stands_in_a_row(dtype):
    """In a whole vector of the processor, in a part of a vector, or alone."""
    x = -np.linspace(0.0, 90.0, 150).astype(dtype)
    alone = np.concatenate([run_exp(x[s : s + 1].copy()) for s in range(x.size)])
    for n in range(x.size + 1):
        assert np.array_equal(run_exp(x[:n].copy()), alone[:n])


@compiled
def run_exp(x):
    zeros = np.zeros_like(x)
    inner_to_radial(x, zeros, zeros[0], x.dtype.type(-0.5), x.shape[0])  # exp(-0.5 max(0, -2 x))
    return x


@pytest.mark.parametrize(
    ("name", "parameters", "complaint"),
    [
        ("sigmoid", {}, "kernel must be one of linear, polynomial, rbf, laplacian, got 'sigmoid'"),
        ("rbf", {"gamma": 0.0}, "gamma must be finite and > 0, got 0.0"),
        ("rbf", {"gamma": float("nan")}, "gamma must be finite and > 0, got nan"),
        ("polynomial", {"degree": 0}, "degree must be an integer from 1 to 16, got 0"),
        ("polynomial", {"coef0": -1.0}, "coef0 must be finite and >= 0"),
    ],
)
def test_a_bad_kernel_is_refused_with_what_was_got(name, parameters, complaint):
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(")):
        make_kernel(name, **parameters)


def test_dense_and_sparse_spellings_of_a_point_are_the_same_row():
    kernel = make_kernel("rbf", 1.0)
    dense = rows_from_dense(np.array([[0.0, 2.5, 0.0, -1.0]]), kernel, 4)
    sparse = rows_from_csr([0, 3], np.array([3, 0, 1]), np.array([-1.0, 0.0, 2.5]), kernel, 4)
    for name in ("indptr", "indices", "values", "norms", "selves"):
        assert np.array_equal(getattr(dense, name), getattr(sparse, name))


@pytest.mark.parametrize(
    ("X", "complaint"),
    [
        ([[1.0, 2.0], [1.0, np.nan]], "row 1: feature 1 is nan; numbers must be finite"),
        ([[np.inf, 2.0]], "row 0: feature 0 is inf; numbers must be finite"),
        ([[1e39, 2.0]], r"row 0: feature 0 is 1e\+39, too large for float32"),
        ([[1e19, 2.0]], "row 0: its norm or its kernel value with itself is larger than 1e"),
        ([[1.0]], "row 0: expected 2 features, got 1"),
    ],
)
def test_a_bad_dense_row_is_refused_with_its_place(X, complaint):
    with pytest.raises(ValueError, match=complaint):
        rows_from_dense(np.array(X), make_kernel("linear"), 2)


@pytest.mark.parametrize(
    ("indices", "values", "complaint"),
    [
        ([0, 5], [1.0, 1.0], r"row 0: index 5 is outside 0\.\.4"),
        ([-1, 2], [1.0, 1.0], r"row 0: index -1 is outside 0\.\.4"),
        ([3, 3], [1.0, 1.0], "row 0: index 3 is given twice"),
        ([3, 1], [1.0, np.inf], "row 0: feature 1 is inf"),
    ],
)
def test_a_bad_sparse_row_is_refused_with_its_place(indices, values, complaint):
    with pytest.raises(ValueError, match=complaint):
        rows_from_csr([0, 2], np.array(indices), np.array(values), make_kernel("linear"), 5)
