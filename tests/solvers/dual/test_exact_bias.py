"""The bias of the exact solver, with and without a free coefficient."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.dual import margin
from tests.helpers.solvers import naive
from tests.helpers.solvers.exact_streams import PARAMETERS, exact_stream
from tests.helpers.solvers.streams import Stream


def free_and_middle(solver, c=0):
    """Return whether a coefficient is strictly free in a column, and the middle of the interval of b."""
    n, machine = solver.slots, solver.machine
    live = machine.class_of[:n] != NONE
    alpha, lower, upper, g = (getattr(machine, name)[c, :n][live] for name in ("alpha", "lower", "upper", "g"))
    rounding = 1e-9 * (upper - lower)
    rises, falls = alpha < upper - rounding, alpha > lower + rounding
    ends = [g[rises].max(initial=-np.inf), g[falls].min(initial=np.inf)]
    return bool((rises & falls).any()), sum(ends) / 2


def balanced(n, seed, copies):
    """Return examples of two classes in turn, including copies with either label."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = random.standard_normal((n, 2)) + np.where(y == 1, 0.8, -0.8)[:, None]
    return (np.round(X) if copies else X), y


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    n=st.integers(2, 40),
    kernel=st.sampled_from(["linear", "polynomial", "rbf", "laplacian"]),
    C=st.sampled_from([1e-3, 1e-2, 0.1, 1.0, 100.0]),
    copies=st.booleans(),
    change=st.sampled_from([None, "unlearn", "C", "gamma"]),
)
def test_where_no_coefficient_is_free_b_is_in_the_middle_as_in_libsvm(seed, n, kernel, C, copies, change):
    X, y = balanced(n, seed, copies)
    stream = exact_stream(X, y, kernel, C=C)
    K, held = naive.gram(kernel, X, **PARAMETERS), np.arange(n)
    for k in range(n):
        stream.learn(k, k + 1)
        if k:
            free, middle = free_and_middle(stream.solver)
            assert free or stream.solver.machine.b[0] == pytest.approx(middle, abs=1e-9)
    if change == "unlearn":
        stream.solver.unlearn([n - 1, n // 2] if n > 4 else [])
        held = stream.solver.keys()
    elif change == "C":
        stream.solver.change_C(C / 3)
    elif change == "gamma" and kernel != "linear":
        stream.solver.change_kernel(stream.solver.kernel._replace(gamma=0.6))
        K = naive.gram(kernel, X, **PARAMETERS | {"gamma": 0.6})
    free, middle = free_and_middle(stream.solver)
    assert free or stream.solver.machine.b[0] == pytest.approx(middle, abs=1e-9)
    svc = SVC(C=stream.solver.C, kernel="precomputed", tol=1e-10).fit(K[np.ix_(held, held)], y[held])
    expected = svc.decision_function(K[:, held])
    scale = 1.0 + np.abs(expected).max()  # LIBSVM stores kernel values in float32
    assert np.allclose(stream.decision(X)[:, 0], expected, atol=1e-3 * scale)


@pytest.mark.parametrize("C", [1e-3, 1e-2])
def test_with_a_small_C_it_is_as_accurate_as_the_batch_machine(C):
    X, y = balanced(40, 3, copies=False)
    exact = exact_stream(X, y, C=C).learn()
    batch = Stream(X, y, make_kernel("rbf", **PARAMETERS), name="smo", dtype=np.float64, C=C, tol=1e-9).learn()
    assert not free_and_middle(exact.solver)[0]
    assert np.allclose(exact.decision(X), batch.decision(X), atol=1e-6)
    assert ((exact.decision(X)[:, 0] > 0) == (y == 1)).mean() > 0.85


def test_a_free_vector_determines_b_and_without_one_b_is_in_the_middle():
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    stream = Stream(X, y, make_kernel("linear"), name="exact", announced=0, batch=3, dtype=np.float64, C=0.1)
    stream.solver.add_class(1.5)
    stream.solver.add_class(1.0)
    stream.learn()
    free, _ = free_and_middle(stream.solver)  # 0.1 per positive example, and at most 0.15 for the negatives
    assert free
    stream.solver.change_C(0.1, [2.0, 1.0])  # all three are at their bounds now, w = 0.3
    free, middle = free_and_middle(stream.solver)
    assert not free
    assert stream.solver.margins[0].counts[margin.M] == 0
    assert middle == pytest.approx((1.0 - 0.6 + -1.0) / 2)
    assert stream.solver.machine.b[0] == pytest.approx(middle, abs=1e-12)
