"""Decision values of the exact solver without some examples: one by one, in folds, and over a grid."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hinged.solvers.core.kernels import make_kernel
from tests.helpers.solvers.exact_streams import Doing, check_decisions, exact_stream
from tests.helpers.solvers.streams import Stream, two_moons


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    n=st.integers(2, 14),
    classes=st.integers(2, 4),
    kernel=st.sampled_from(["linear", "polynomial", "rbf", "laplacian"]),
    C=st.sampled_from([0.1, 1.0, 30.0]),
    copies=st.booleans(),
)
@example(seed=78_160, n=6, classes=2, kernel="linear", C=30.0, copies=False)
def test_leaving_one_out_is_an_optimum_of_the_rest(seed, n, classes, kernel, C, copies):
    doing = Doing(seed, n, classes, kernel, C, copies)
    for _ in range(n):
        doing.do("learn")
    keys, scores = doing.solver.leave_one_out()
    assert sorted(keys.tolist()) == list(range(n))
    for k, score in zip(keys, scores, strict=True):
        others = np.delete(np.arange(n), k)
        check_decisions(doing.solver, score[None], doing.gram(), doing.stream.classes, others, np.array([k]))


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    n=st.integers(2, 14),
    classes=st.integers(2, 3),
    C=st.sampled_from([0.01, 0.25, 1.0, 30.0]),
    whole=st.booleans(),
)
@example(seed=207, n=5, classes=2, C=1.0, whole=True)
@example(seed=37, n=8, classes=2, C=0.25, whole=False)
def test_leaving_one_out_is_unlearning_it(seed, n, classes, C, whole):
    """If no point is free, b is the middle of its interval.

    An example without a coefficient may be an end of the interval.
    """
    random = np.random.default_rng(seed)
    X = random.integers(-2, 3, (n, 2)).astype(float) if whole else random.standard_normal((n, 2))
    labels = np.where(random.random(n) < 0.6, 0, np.arange(n) % classes)
    keys, found = exact_stream(X, labels, C=C).learn().solver.leave_one_out()
    for key, scores in zip(keys, found, strict=True):
        left = exact_stream(X, labels, C=C).learn()
        left.solver.unlearn([key])
        np.testing.assert_allclose(scores, left.decision(X[key : key + 1])[0], atol=1e-9)


def test_leaving_one_out_is_training_without_it(noisy):
    X, classes = noisy
    stream = exact_stream(X, classes, C=2.0).learn()
    before = stream.solver.state()
    keys, scores = stream.solver.leave_one_out()
    after = stream.solver.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert keys.tolist() == list(range(60))
    for k in keys:
        others = np.delete(np.arange(60), k)
        trained = exact_stream(X, classes, C=2.0)
        trained.solver.learn_together(trained.rows(X[others]), classes[others], others)
        assert scores[k] == pytest.approx(trained.decision(X[k : k + 1])[0], abs=1e-6)
    wrong = (scores[:, 0] > 0) != (classes == 1)
    assert stream.solver.leave_one_out_error() == wrong.mean()


def test_folds_are_decided_by_the_machine_without_them(noisy):
    X, classes = noisy
    stream = exact_stream(X, classes, C=2.0).learn()
    folds = np.array_split(np.random.default_rng(0).permutation(60), 5)
    for fold, scores in zip(folds, stream.solver.k_fold(folds), strict=True):
        others = np.setdiff1d(np.arange(60), fold)
        trained = exact_stream(X, classes, C=2.0)
        trained.solver.learn_together(trained.rows(X[others]), classes[others], others)
        assert np.allclose(scores, trained.decision(X[fold]), atol=1e-6)


@pytest.mark.parametrize(("parameter", "grid"), [("C", [0.1, 1.0, 10.0]), ("gamma", [0.2, 0.5, 2.0])])
def test_tuning_walks_a_grid_and_comes_back(noisy, parameter, grid):
    X, classes = noisy
    stream = exact_stream(X, classes, C=2.0).learn()
    before = stream.solver.state()
    errors = stream.solver.tune(grid, parameter)
    after = stream.solver.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    for value, error in zip(grid, errors, strict=True):
        gamma, C = (value, 2.0) if parameter == "gamma" else (0.5, value)
        other = Stream(X, classes, make_kernel("rbf", gamma), name="exact", C=C, dtype=np.float64).learn()
        assert other.solver.leave_one_out_error() == error


def test_rows_cached_before_a_walk_over_kernels_are_not_used_after_it():
    X, classes = two_moons(40, seed=3)
    classes = (classes > 0).astype(int)
    walked, plain = (exact_stream(X, classes, C=2.0).learn(0, 30) for _ in range(2))
    walked.solver.tune([0.1, 2.0], "gamma")
    states = [stream.learn(30, 40).solver.state() for stream in (walked, plain)]
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0] if name != "steps")
