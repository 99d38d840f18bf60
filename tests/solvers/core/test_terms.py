"""Sums over non-zero terms, compared with sums over all terms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core import turns
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.decision import ExpansionView
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.points import points_from_rows
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.core.simd.lanes import LANES, dot
from hinged.solvers.core.terms import Terms, gathered, sum_of_terms


def sparse(shape, part, seed):
    """Return numbers of very different sizes. The fraction `part` of them is not 0."""
    random = np.random.default_rng(seed)
    return np.where(
        random.random(shape) < part, random.standard_normal(shape) * 10.0 ** random.integers(-8, 9, shape), 0
    )


@settings(max_examples=200, deadline=None)
@given(n=st.integers(0, 6 * LANES), part=st.floats(0, 1), seed=st.integers(0, 1000), first=st.integers(0, 40))
def test_a_sum_over_terms_has_the_bits_of_the_sum_over_all(n, part, seed, first):
    alpha, row = sparse(n, part, seed), sparse(n, 0.9, seed + 1).astype(np.float32)
    slots = np.flatnonzero(alpha).astype(np.int32)
    places = np.arange(slots.size, dtype=np.int32)
    given = slots + np.int32(first), places + np.int32(3), alpha[slots], 0, slots.size
    found = sum_of_terms(*given, first, n, row[slots], 3, np.full(LANES, np.nan))
    assert found == dot(alpha, row)
    assert np.copysign(1.0, found) == np.copysign(1.0, dot(alpha, row))


@pytest.mark.parametrize(("rows_at_once", "work"), [(1, turns.WORK_MAX), (90, turns.WORK_MAX), (90, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("listed", ["all", "some"])
def test_a_view_of_terms_decides_as_a_view_of_all_coefficients(listed, dtype, rows_at_once, work, monkeypatch):
    monkeypatch.setattr(turns, "WORK_MAX", work)
    # There are more than two blocks of points, the last not whole. Columns have many, few and no points in a block.
    random = np.random.default_rng(0)
    kernel, X = make_kernel("rbf", 0.1), random.standard_normal((700, 4))
    rows = rows_from_dense(X, kernel, 4, dtype)
    alpha = sparse((12, 700), np.array([[0.0, 0.002, 0.01, 0.5] * 3]).T, 1)
    whole = ExpansionView(kernel, points_from_rows(rows, 4), 700, alpha, sparse(12, 1, 2), np.zeros(12), 4)
    terms = terms_of(alpha, np.arange(12) % 3 > 0 if listed == "some" else np.ones(12, bool))
    view = replace(whole, terms=terms, alpha=alpha[terms.length == NONE])
    for begin in range(0, 90, rows_at_once):
        part = rows.part(begin, begin + rows_at_once)
        np.testing.assert_array_equal(view.decision(part), whole.decision(part))
    np.testing.assert_array_equal(view.coefficients(), alpha)
    assert whole.coefficients() is alpha


def terms_of(alpha, listed) -> Terms:
    """Return the terms of some columns."""
    slots, values = np.zeros(alpha.shape, np.int32), np.zeros(alpha.shape)
    for c, column in enumerate(alpha):
        held = np.flatnonzero(column)
        slots[c, : held.size], values[c, : held.size] = held, column[held]
    return gathered(np.where(listed, (alpha != 0).sum(axis=1), NONE), slots, values)
