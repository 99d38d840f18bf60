"""Fading: a solver reaches the optimum of weighted examples, and adapts to a change of the stream."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.kernels import make_kernel
from tests.helpers.solvers.naive import box_optimum, gram
from tests.helpers.solvers.streams import stream_of, two_moons

FADING = [name for name, entry in SOLVERS.items() if entry.make.fades]
BIASED = ["lasvm"]
KEPT = {"lasvm-g": {"idle_max": 1000}}  # no point is removed


def test_these_solvers_fade():
    of_gap, tracking = ["lasvm-g", "full", "lasvm-nc", "lasvm-i"], [f"tracking-{k}" for k in (1, 2, "cached", "batch")]
    assert ["auto", "lasvm", *of_gap, *tracking, "bsca"] == FADING


@pytest.mark.parametrize("name", ["lasvm", "lasvm-g", "full", "tracking-1", "tracking-batch"])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), C=st.sampled_from([0.3, 5.0]), half_life=st.sampled_from([5, 40]))
def test_finished_it_is_the_optimum_of_weighted_examples(name, seed, C, half_life):
    X, y = two_moons(80, noise=0.4, seed=seed)
    exactly = {"kernel": make_kernel("rbf", 4.0), "tol": 1e-7, "dtype": np.float64}
    stream = stream_of(name, X, (y > 0).astype(int), batch=1, C=C, announced=2, **exactly, **KEPT.get(name, {}))
    for k in range(80):
        stream.learn(k, k + 1)
        stream.solver.fade(2.0 ** (-1 / half_life))
    stream.solver.finish()
    K, box = gram("rbf", X, gamma=4.0), C * 2.0 ** (-np.arange(80, 0, -1) / half_life)
    if name in BIASED:
        svc = SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(K, y, sample_weight=box)
        expected = svc.decision_function(K)
    else:
        alpha = box_optimum(K, y, np.minimum(0.0, box * y), np.maximum(0.0, box * y))
        expected = K @ alpha
    np.testing.assert_allclose(stream.decision(X)[:, 0], expected, atol=2e-4)


@pytest.mark.parametrize("name", [name for name in FADING if name not in {"auto", "bsca"}])
def test_coefficients_boxes_and_averages_shrink_and_gradients_stay_true(name):
    X, y = two_moons(150, noise=0.4, seed=1)
    stream = stream_of(name, X, (y > 0).astype(int), batch=7, C=2.0, dtype=np.float64, announced=2).learn()
    solver = stream.solver
    before, seen = solver.state(), stream.decision(X)[:, 0] - solver.machine.b[0]
    solver.fade(0.25)
    after = solver.state()
    for array in ("alpha", "lower", "upper"):
        assert np.array_equal(after[array], before[array] * 0.25)
    np.testing.assert_allclose(stream.decision(X)[:, 0] - solver.machine.b[0], 0.25 * seen, atol=1e-6)
    keys = solver.keys()
    live = solver.machine.class_of[: solver.slots] >= 0
    f = gram("rbf", X)[np.ix_(keys, keys)] @ solver.machine.alpha[0, : solver.slots][live]
    np.testing.assert_allclose(solver.machine.g[0, : solver.slots][live], y[keys] - f, atol=1e-5)
    solver.examine()


def test_on_a_budget_coefficients_averages_and_memory_shrink():
    X, y = two_moons(300, noise=0.4, seed=1)
    stream = stream_of("bsca", X, (y > 0).astype(int), batch=7, dtype=np.float64, announced=2).learn()
    before, seen = stream.solver.state(), stream.decision(X)
    stream.solver.fade(0.25)
    after = stream.solver.state()
    for array in ("alpha", "smooth", "memory_alpha"):
        assert np.array_equal(after[array], before[array] * 0.25)
    np.testing.assert_allclose(stream.decision(X), 0.25 * seen, rtol=1e-12)
    stream.solver.examine()


@pytest.mark.parametrize("name", ["lasvm", "lasvm-g", "tracking-1"])
def test_a_class_that_comes_late_finds_faded_boxes(name):
    X, y = two_moons(90, noise=0.4, seed=2)
    classes = (y > 0).astype(int)
    classes[60:] = 2
    stream = stream_of(name, X, classes, batch=5, C=2.0, dtype=np.float64, announced=2)
    stream.learn(0, 60)
    for _ in range(3):
        stream.solver.fade(0.5)
    stream.solver.add_class()
    machine, n = stream.solver.machine, stream.solver.slots
    live = machine.class_of[:n] >= 0
    assert (np.maximum(machine.upper, -machine.lower)[:, :n][:, live] == 0.25).all()
    stream.learn(60, 90)
    stream.solver.finish()
    assert (stream.decision(X).argmax(axis=1) == classes)[60:].mean() > 0.6


@pytest.mark.long
@pytest.mark.parametrize("name", ["lasvm", "lasvm-g", "lasvm-nc", "lasvm-i", "tracking-2", "bsca"])
def test_a_machine_that_fades_follows_a_flip(name):
    def after_flip(half_life):
        found = []
        for seed in range(3):
            X, y = two_moons(1600, noise=0.4, seed=seed)
            y[800:] *= -1
            stream = stream_of(name, X, (y > 0).astype(int), batch=10, C=3.0, **KEPT.get(name, {}))
            for begin in range(0, 1600, 10):
                stream.learn(begin, begin + 10)
                if half_life:
                    stream.solver.fade(2.0 ** (-10 / half_life))
            found.append(((np.concatenate(stream.scores)[:, 0] > 0) == (y > 0))[800:].mean())
        return np.mean(found)

    assert after_flip(100) > after_flip(None) + 0.02


@pytest.mark.parametrize("factor", [0.0, -0.5, 1.5, float("nan")])
def test_an_invalid_factor_is_refused(factor):
    stream = stream_of("lasvm", *two_moons(20, seed=0), batch=5, announced=2)
    with pytest.raises(ValueError, match="factor must be > 0 and <= 1"):
        stream.solver.fade(factor)


def test_a_solver_that_cannot_fade_says_so():
    with pytest.raises(ValueError, match="cannot let what it has learned fade"):
        stream_of("bsgd", *two_moons(20, seed=0)).solver.fade(0.5)
