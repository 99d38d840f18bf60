import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hinged.solvers.estimators.scaling import CLIP, DENSE, SPARSE, bent, found, matrix_of

numbers = st.sampled_from([0.0, 1.0, -2.5, 1e100, -1e100, 1e-300, 7.0]) | st.floats(-9, 9)
tables = st.integers(1, 12).flatmap(
    lambda n: st.integers(1, 4).flatmap(
        lambda d: st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=n, max_size=n).map(np.array)
    )
)


def csr(X):
    rows = sparse.csr_array(X)
    rows.eliminate_zeros()
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data


def scaled(form, X, shown=None):
    shown = X if shown is None else shown
    return matrix_of(found(form, csr(shown), X.shape[1]).rows(csr(X)), X.shape[1])


@pytest.mark.long
@given(tables, st.sampled_from([DENSE, SPARSE]))
def test_any_values_become_finite_and_clipped(X, form):
    Z = scaled(form, X)
    assert (np.abs(Z) <= CLIP).all()
    assert form == DENSE or (Z[X == 0] == 0).all()


@pytest.mark.long
@given(tables, st.lists(st.integers(-40, 40), min_size=4, max_size=4), st.sampled_from([DENSE, SPARSE]))
def test_a_power_of_two_on_a_column_changes_no_bit(X, powers, form):
    X = np.where((np.abs(X) < 1e-200) | (np.abs(X) > 1e50), 0.0, X)
    factors = 2.0 ** np.array(powers[: X.shape[1]])
    if form == SPARSE:  # rows of equal length would stay unchanged; these two lengths differ
        X = np.vstack((X, np.full(X.shape[1], 1.0), np.full(X.shape[1], 3.0)))
    assert np.array_equal(scaled(form, X), scaled(form, X * factors))


@pytest.mark.long
@given(st.integers(0, 10_000), st.sampled_from([DENSE, SPARSE]))
def test_any_positive_factors_on_the_columns_change_nothing_but_rounding(seed, form):
    random = np.random.default_rng(seed)
    X = np.exp(random.normal(size=(40, 5)) * random.choice([0.3, 2.0], 5)) * (random.random((40, 5)) < 0.8)
    factors = np.exp(5 * random.normal(size=5))
    assert scaled(form, X * factors) == pytest.approx(scaled(form, X), rel=1e-9, abs=1e-9)


@pytest.mark.long
@given(tables)
def test_the_order_of_the_rows_does_not_matter_to_the_last_bit(X):
    forward, back = (found(DENSE, csr(part), X.shape[1]) for part in (X, X[::-1]))
    assert np.array_equal(forward.mean, back.mean)
    assert np.array_equal(forward.unit, back.unit)
    assert forward.scale == pytest.approx(back.scale, rel=1e-12)


def test_a_column_of_ordinary_numbers_is_standardised():
    X = np.random.default_rng(0).uniform(10, 20, size=(500, 1))
    assert scaled(DENSE, X) == pytest.approx((X - X.mean()) / X.std())


def test_a_column_of_two_values_gets_width_1_and_a_constant_column_becomes_0():
    X = np.array([[3.0, 7.0], [3.0, 7.0], [9.0, 7.0], [9.0, 7.0]])
    assert np.array_equal(scaled(DENSE, X), [[-0.5, 0], [-0.5, 0], [0.5, 0], [0.5, 0]])
    assert np.array_equal(scaled(DENSE, np.array([[6.0, 14.0]]), X), [[0, 1]])


def test_a_nearly_constant_column_is_scaled_by_its_range():
    X = np.zeros((400, 1))
    X[:4, 0] = 1, 1, 0.5, 0.75
    assert np.ptp(scaled(DENSE, X)) == pytest.approx(4)


def test_a_heavy_tail_is_bent_so_that_small_values_still_differ():
    X = np.exp(3 * np.random.default_rng(1).normal(size=(1000, 1)))
    Z = scaled(DENSE, X)[:, 0]
    assert np.array_equal(np.argsort(Z, kind="stable"), np.argsort(X[:, 0], kind="stable"))
    straight = (X[:, 0] - X.mean()) / X.std()
    middle = np.quantile(X[:, 0], [0.25, 0.75])
    width = [np.diff(np.interp(middle, np.sort(X[:, 0]), np.sort(part)))[0] for part in (Z, straight)]
    assert width[0] > 10 * width[1]


def test_the_bend_is_odd_grows_and_is_log2_at_powers_of_two():
    u = np.sort(np.random.default_rng(2).normal(0, 100, 1000))
    assert (np.diff(bent(u, 1.0)) > 0).all()
    assert np.array_equal(bent(-u, 3.0), -bent(u, 3.0))
    assert np.array_equal(bent(2.0 ** np.arange(1, 60) - 1, 1.0), np.arange(1, 60))
    assert np.array_equal(bent(np.array([0.5, 2.0, 1e200]), np.array([2.0, 2.0, 1e-300])), [0.25, 1.0, 1000.0])


def test_sparse_ones_and_rows_of_one_length_stay_as_they_are():
    random = np.random.default_rng(3)
    ones = (random.random((50, 8)) < 0.3).astype(float)
    assert np.array_equal(scaled(SPARSE, ones), ones)
    unit = random.random((50, 8)) * (random.random((50, 8)) < 0.5)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-9)
    assert np.array_equal(scaled(SPARSE, unit), unit)


def test_a_sparse_column_that_was_not_shown_has_the_scale_of_all():
    shown = np.array([[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [2.0, 4.0, 0.0]])
    assert scaled(SPARSE, np.array([[0.0, 0.0, 10.0**0.5]]), shown)[0, 2] == pytest.approx(1.0)
