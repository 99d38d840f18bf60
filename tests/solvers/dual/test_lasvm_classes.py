"""LASVM with one class for a long time, with rare classes, with several, and with weights."""

import numpy as np
import pytest
from sklearn.svm import SVC

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.reports import Finish
from hinged.solvers.dual.lasvm import LASVM
from tests.helpers.solvers.invariants import check_invariants
from tests.helpers.solvers.streams import Stream, same, settled, two_moons


def test_one_class_for_long_keeps_a_bounded_sample_and_answers_with_that_class():
    random = np.random.default_rng(0)
    n, seed_max = 100_000, 300
    X = random.standard_normal((n, 2)) + 3.0
    stream = Stream(np.r_[X, [[-3.0, -3.0]] * 50], [0] * n + [1] * 50, batch=1000, C=10.0, seed_max=seed_max)
    stream.learn(0, n)
    assert stream.solver.live == seed_max
    assert stream.solver.slots < 2 * seed_max + 300
    assert (stream.decision(X[:10])[:, 0] == -1.0).all()
    kept = stream.solver.machine.key[: stream.solver.slots]
    kept = kept[kept != NONE]
    # A uniform sample: its mean rank lies within five standard errors of the middle.
    assert abs(kept.mean() - n / 2) < 5 * n / np.sqrt(12 * seed_max)
    assert stream.solver.finish() == Finish(0, converged=True)
    assert stream.solver.live == seed_max
    stream.learn(n)
    f = stream.decision(np.array([[3.0, 3.0], [-3.0, -3.0]]))[:, 0]
    assert f[0] < 0 < f[1]


def test_a_class_that_appears_late_and_rarely_is_learned():
    random = np.random.default_rng(1)
    negatives = random.standard_normal((1500, 2))
    later = random.standard_normal((2000, 2))
    rare = random.random(2000) < 0.01
    later[rare] += 4.0
    stream = Stream(np.r_[negatives, later], np.r_[np.zeros(1500, int), rare.astype(int)], C=10.0).learn()
    stream.solver.finish()
    predicted = stream.decision(later)[:, 0] > 0
    assert predicted[rare].mean() > 0.9
    assert predicted[~rare].mean() < 0.02


def test_several_classes_are_one_versus_rest_over_shared_points():
    random = np.random.default_rng(2)
    centres = np.array([[0, 0], [3, 0], [0, 3], [3, 3]])
    classes = random.integers(0, 4, 300)
    X = centres[classes] + 0.7 * random.standard_normal((300, 2))
    stream = Stream(X, classes, C=5.0, tol=1e-6, dtype=np.float64).learn()
    for _ in range(4):
        stream.learn(again=True)
        stream.solver.finish()
    for c in range(4):
        svc = SVC(C=5.0, gamma=1.0, tol=1e-8).fit(X, np.where(classes == c, 1, -1))
        np.testing.assert_allclose(stream.decision(X)[:, c], svc.decision_function(X), atol=2e-3)


def heaps(classes, n, seed=0):
    """Clusters of normal numbers, one per class, that overlap somewhat."""
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, n)
    return settled(random.standard_normal((classes, 8))[y] + 0.6 * random.standard_normal((n, 8))), y


def test_many_columns_leave_small_violations_to_finishing():
    X, classes = heaps(12, 1200)
    steps, right = [], []
    for delta_min in (0.0, None):
        stream = Stream(X, classes, make_kernel("rbf", 0.125), C=10.0, delta_min=delta_min).learn(0, 900)
        told = stream.solver.certificate()
        steps.append(told["steps"])
        check_invariants(stream, 10.0)
        assert told["kkt_violation"] <= 2.0
        stream.solver.finish()
        assert stream.solver.certificate()["kkt_violation"] <= 1e-3
        right.append((stream.decision(X[900:]).argmax(axis=1) == classes[900:]).mean())
    assert 3 * steps[1] < steps[0]
    assert right[1] > right[0] - 0.01


def test_by_default_one_column_leaves_nothing_and_a_third_class_changes_that():
    X, classes = heaps(3, 400)
    first = np.minimum(classes, 1)
    states = []
    for delta_min in (None, 0.0, 0.5):
        stream = Stream(X, first, C=10.0, delta_min=delta_min).learn(0, 200)
        states.append(stream.solver.state())
        stream.solver.add_class()
        stream.classes = classes
        states.append(stream.learn(200).solver.state())
    same(states[0], states[2])
    assert not np.array_equal(states[0]["alpha"], states[4]["alpha"])
    assert states[1]["steps"] < states[3]["steps"]


def test_a_third_class_turns_one_column_into_three():
    X, y = two_moons(300, seed=4)
    classes = (y > 0).astype(int)
    stream = Stream(X, classes, C=10.0).learn(0, 200)
    f = stream.decision(X)[:, 0]
    dual = stream.solver.certificate()["dual"]
    stream.solver.add_class()
    columns = stream.decision(X)
    assert columns.shape == (300, 3)
    assert np.array_equal(columns[:, 1], f)
    assert np.array_equal(columns[:, 0], -f)
    assert (columns[:, 2] == -1.0).all()
    assert stream.solver.certificate()["dual"] == pytest.approx(2 * dual)
    check_invariants(stream, 10.0)
    stream.classes = np.where(X[:, 1] > 0.8, 2, classes)
    stream.learn(200)
    check_invariants(stream, 10.0)


def test_a_weighted_class_has_a_larger_box():
    X, y = two_moons(300, noise=0.8, seed=6)
    kernel = make_kernel("rbf", 1.0)
    solver = LASVM(kernel, 2, C=2.0)
    solver.add_class(1.0)
    solver.add_class(7.0)
    stream = Stream(X, (y > 0).astype(int), kernel)
    stream.solver = solver
    stream.learn()
    solver.finish()
    alpha = solver.machine.alpha[0, : solver.slots]
    assert alpha.max() == 14.0
    assert alpha.min() == -2.0


@pytest.mark.parametrize("declared", [2, 4])
@pytest.mark.parametrize("again", [False, True])
def test_finishing_before_the_second_class_has_come_keeps_the_sample(declared, again):
    X, y = two_moons(300, seed=7)
    order = np.argsort(y, kind="stable")
    X, classes = X[order], (y[order] > 0).astype(int)
    first = int((classes == 0).sum())
    stream = Stream(X, classes, C=10.0)
    while stream.solver.classes < declared:
        stream.solver.add_class()
    stream.learn(0, first)
    if again:
        stream.learn(0, first, again=True)
    else:
        stream.solver.finish()
    assert stream.solver.live == first
    stream.learn(first)
    check_invariants(stream, 10.0)
    stream.solver.finish()
    columns = stream.decision(X)
    predicted = columns.argmax(axis=1) if declared > 2 else columns[:, 0] > 0
    assert (predicted == classes).mean() > 0.9
