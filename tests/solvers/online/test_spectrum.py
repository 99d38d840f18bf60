"""Eigenvectors in plain arithmetic, against LAPACK's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.online.spectrum import largest_eigenvectors


def check(K, count):
    values, vectors = largest_eigenvectors(K, count)
    size = max(np.abs(K).max(), np.finfo(float).tiny) * len(K)
    assert values.shape == (count,)
    assert vectors.shape == (len(K), count)
    assert np.allclose(values / size, np.linalg.eigvalsh(K)[::-1][:count] / size, atol=1e-14, rtol=0)
    assert (np.diff(values) <= 0).all()
    assert np.allclose(vectors.T @ vectors, np.eye(count), atol=1e-13 * len(K))
    assert np.allclose(K @ vectors / size, vectors * (values / size), atol=1e-14)


def gram(n, dim, gamma, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, dim))
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("gamma", [0.01, 1.0, 100.0])  # nearly of rank one, with fast decay, nearly the identity
@pytest.mark.parametrize("count", [1, 40, 200])
def test_eigenvectors_of_gram_matrices_equal_lapacks(gamma, count):
    check(gram(200, 3, gamma), count)


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(1, 24),
    rank=st.integers(0, 24),
    copies=st.integers(1, 3),
    scale=st.sampled_from([1e-200, 1e-30, 1.0, 1e37]),
    seed=st.integers(0, 1000),
)
def test_eigenvectors_of_matrices_of_low_rank_equal_lapacks(n, rank, copies, scale, seed):
    X = np.repeat(np.random.default_rng(seed).standard_normal((n, rank)), copies, axis=0)
    check(X @ X.T * scale, len(X))


@pytest.mark.parametrize(
    "K",
    [np.zeros((5, 5)), np.eye(6), np.ones((64, 64)), np.diag(np.arange(10.0)), np.array([[3.0]]), -np.eye(3),
     np.diag([1.0, 1e-100, 1e-200, 1e-300]) + 1e-150],
)  # fmt: skip
def test_eigenvectors_that_need_no_rotation_or_vanish_equal_lapacks(K):
    check(K, len(K))
