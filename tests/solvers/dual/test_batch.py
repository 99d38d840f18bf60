"""Batch SMO as a solver, and the removal of points at points_max."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.dual import smo
from tests.helpers.solvers import naive
from tests.helpers.solvers.streams import Stream, two_moons


@pytest.mark.parametrize("batch", [7, 200])
@pytest.mark.parametrize("kernel", ["linear", "polynomial", "rbf", "laplacian"])
def test_at_each_moment_it_is_at_the_optimum_of_libsvm(kernel, batch):
    X, y = two_moons(200, noise=0.35, seed=5)
    gamma, degree, coef0, C = 0.7, 2, 1.0, 5.0
    stream = Stream(
        X, (y > 0).astype(int), make_kernel(kernel, gamma, degree, coef0), name="smo", batch=batch, C=C, tol=1e-7,
        dtype=np.float64,
    )  # fmt: skip
    for half in ((0, 100), (100, 200)):
        stream.learn(*half)
        end = half[1]
        K = naive.gram(kernel, X[:end], gamma=gamma, degree=degree, coef0=coef0)
        svc = SVC(C=C, kernel="precomputed", tol=1e-8).fit(K, y[:end])
        signed, on = svc.dual_coef_[0], svc.support_
        optimum = signed @ y[on] - 0.5 * signed @ K[np.ix_(on, on)] @ signed
        assert stream.solver.certificate()["dual"] == pytest.approx(optimum, rel=1e-6)
        assert stream.solver.live == end


def test_at_its_limit_of_steps_it_says_that_it_has_not_converged_and_goes_on_when_asked(monkeypatch):
    X, y = two_moons(200, noise=0.4, seed=5)
    stream = Stream(X, (y > 0).astype(int), name="smo", batch=100, C=10.0)
    assert stream.learn(0, 100).solver.certificate()["converged"] is True
    with monkeypatch.context() as few:
        few.setattr(smo, "STEPS_MAX", 5)
        few.setattr(smo, "STEPS_PER_POINT_MAX", 0)
        certificate = stream.learn(100, 200).solver.certificate()
        assert certificate["converged"] is False
        assert certificate["kkt_violation"] > 1e-3
        assert not stream.solver.finish().converged
    assert stream.solver.finish().converged
    assert stream.solver.certificate()["converged"] is True


def test_class_weights_are_those_of_libsvm():
    X, y = two_moons(150, noise=0.4, seed=2)
    stream = Stream(X, (y > 0).astype(int), name="smo", announced=0, C=2.0, tol=1e-7, dtype=np.float64)
    stream.solver.add_class(0.5)
    stream.solver.add_class(4.0)
    stream.learn()
    svc = SVC(C=2.0, kernel="precomputed", tol=1e-8, class_weight={-1: 0.5, 1: 4.0}).fit(naive.gram("rbf", X), y)
    expected = svc.decision_function(naive.gram("rbf", X))
    assert np.allclose(stream.decision(X)[:, 0], expected, atol=1e-3)


def test_up_to_points_max_nothing_is_dropped():
    X, y = two_moons(80, seed=1)
    stream = Stream(X, (y > 0).astype(int), name="smo", dtype=np.float64).learn()
    stream.learn(again=True)
    assert stream.solver.live == 80
    assert stream.solver.seen.sum() == 80


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    classes=st.integers(2, 4),
    name=st.sampled_from(["smo", "lasvm", "full"]),
    C=st.sampled_from([0.5, 20.0]),
    copies=st.booleans(),
)
def test_a_point_that_makes_way_leaves_a_machine_that_is_whole(seed, classes, name, C, copies):
    random = np.random.default_rng(seed)
    X = random.integers(-2, 3, (40, 2)).astype(float) if copies else random.standard_normal((40, 2))
    stream = Stream(X, random.integers(0, classes, 40), name=name, batch=10, C=C, dtype=np.float64).learn()
    K = naive.gram("rbf", X)
    while stream.solver.live > 1:
        before = stream.solver.live
        stream.solver.make_way(1)
        assert stream.solver.live == before - 1
        machine, n = stream.solver.machine, stream.solver.slots
        live = np.flatnonzero(machine.class_of[:n] != NONE)
        keys = machine.key[live]
        for c in range(stream.solver.columns):
            alpha = machine.alpha[c, live]
            assert (machine.lower[c, live] <= alpha).all()
            assert (alpha <= machine.upper[c, live]).all()
            if stream.solver.biased:
                assert abs(alpha.sum()) < 1e-9 * C * 40
            g = machine.sign[c, live] - K[np.ix_(keys, keys)] @ alpha
            assert np.allclose(g, machine.g[c, live], atol=1e-8 * C)


def test_points_that_are_no_support_vectors_make_way_first():
    X, y = two_moons(120, noise=0.1, seed=3)
    stream = Stream(X, (y > 0).astype(int), name="smo", C=10.0, dtype=np.float64).learn()
    vectors = stream.solver.certificate()["support_vectors"]
    before = stream.decision(X)
    for _ in range(120 - vectors):
        stream.solver.make_way(1)
    assert stream.solver.certificate()["support_vectors"] == stream.solver.live == vectors
    assert np.allclose(stream.decision(X), before, atol=1e-9)
