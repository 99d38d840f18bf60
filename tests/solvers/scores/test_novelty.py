"""p-values of novelty compared with plain loops over the bag, and their distribution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import Rows, rows_from_dense
from hinged.solvers.scores.novelty import NEIGHBOURS, ROUNDING, Sample


def rows_of(X, dtype=np.float64, kernel="rbf"):
    return rows_from_dense(X, make_kernel(kernel, 0.5), X.shape[1], dtype)


def strangeness_of(bag, i):
    """Return the sum of the distances of one x of a bag to its nearest neighbours."""
    distances = [float(np.sqrt(sum((a - b) ** 2 for a, b in zip(bag[i], z, strict=True)))) for z in bag]
    return sum(sorted(distances[:i] + distances[i + 1 :])[:NEIGHBOURS])


def p_value_of(sample, x):
    bag = [*sample, x]
    found = [strangeness_of(bag, i) for i in range(len(bag))]
    return sum(each >= (1 - ROUNDING) * found[-1] for each in found) / len(bag)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    n=st.integers(NEIGHBOURS + 1, 25),
    dim=st.sampled_from([1, 2, 5]),
    grid=st.booleans(),
    kernel=st.sampled_from(["linear", "rbf", "laplacian"]),
)
def test_a_p_value_is_that_of_plain_loops_over_the_sample_and_x(seed, n, dim, grid, kernel):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n + 6, dim))
    X = np.round(X) if grid else X  # a grid has equal x and zeros
    X[n] = X[0]
    strangeness, p_values = Sample(rows_of(X[:n], kernel=kernel)).compare(rows_of(X[n:], kernel=kernel))
    assert strangeness == pytest.approx([strangeness_of([*X[:n], x], n) for x in X[n:]], abs=1e-6)
    assert p_values == pytest.approx([p_value_of(X[:n], x) for x in X[n:]])


def test_p_values_of_exchangeable_x_are_uniform():
    """Of 4,000 samples of 19 x, each of the 20 p-values is as frequent as chance allows."""
    random, counts = np.random.default_rng(0), np.zeros(21, int)
    for _ in range(4_000):
        X = random.standard_t(2, size=(20, 2)) * [1.0, 30.0]
        counts[round(20 * Sample(rows_of(X[:19])).compare(rows_of(X[19:]))[1][0])] += 1
    assert counts[0] == 0
    assert np.square(counts[1:] - 200).sum() / 200 < 43.8  # chi-square with 19 degrees of freedom, 0.1 %


def test_wide_sparse_rows_and_rows_of_ones_have_the_p_values_of_plain_loops():
    random = np.random.default_rng(1)
    for ones in (False, True):
        X = (random.random((40, 60)) < 0.1) * (1.0 if ones else random.standard_normal((40, 60)))
        short = rows_of(X)
        wide = Rows(short.indptr, 50_000 + short.indices, short.values, short.norms, short.selves, 2**20)
        p_values = Sample(wide.take(np.arange(30))).compare(wide.take(np.arange(30, 40)))[1]
        assert p_values == pytest.approx([p_value_of(X[:30], x) for x in X[30:]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_x_has_the_same_bits_alone_and_in_a_batch_and_a_duplicate_is_at_no_distance(dtype):
    X = np.random.default_rng(2).standard_normal((200, 7))
    X[150:153] = X[150]
    sample, rows = Sample(rows_of(X[:160], dtype)), rows_of(X, dtype)
    whole = sample.compare(rows)
    alone = [sample.compare(rows.row(r)) for r in range(200)]
    assert [found.tolist() for found in whole] == [[float(each[k][0]) for each in alone] for k in (0, 1)]
    assert whole[0][150] == 0.0
    assert whole[1][150] > 0.97


def test_huge_numbers_are_compared_without_an_error():
    rows = rows_of(np.random.default_rng(3).standard_normal((30, 2)) * 1e30, np.float32, "laplacian")
    strangeness, p_values = Sample(rows.part(0, 20)).compare(rows.part(20, 30))
    assert not np.isnan(strangeness).any()
    assert ((p_values > 0) & (p_values <= 1)).all()
