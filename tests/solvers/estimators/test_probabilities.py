"""Probabilities of the estimators, and parameters that an estimator finds by itself."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

from hinged.sklearn import BSCAClassifier, ExactSVMClassifier, LASVMClassifier, SMOClassifier, TrackingSVMClassifier
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.estimators.probabilities import inverse_temperature, probabilities

ESTIMATORS = (LASVMClassifier, BSCAClassifier, ExactSVMClassifier, TrackingSVMClassifier)


def noisy(classes=2, n=900):
    X, y = make_blobs(n, centers=classes, cluster_std=4.0, random_state=3)
    return X, np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("Estimator", ESTIMATORS)
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_of_all_classes_and_the_largest_is_the_prediction(Estimator, classes):
    X, y = noisy(classes, 300)
    machine = Estimator(random_state=0).fit(X[:200], y[:200])
    found = machine.predict_proba(X)
    assert found.shape == (300, classes)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.array_equal(machine.classes_[found.argmax(axis=1)], machine.predict(X))
    twin = pickle.loads(pickle.dumps(machine))  # noqa: S301 - it is our own
    assert np.array_equal(twin.predict_proba(X), found)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_temperature_of_the_stream_is_nearly_the_best_for_what_comes(classes):
    X, y = noisy(classes)
    machine = LASVMClassifier(C=10.0, random_state=0).fit(X[:600], y[:600])
    scores = machine.decision_function(X[600:])
    scores = scores[:, None] if scores.ndim == 1 else scores
    truth = np.searchsorted(machine.classes_, y[600:])
    best = probabilities(scores, inverse_temperature(scores, truth))
    far = probabilities(scores, 5.0)
    found = log_loss(y[600:], machine.predict_proba(X[600:]))
    assert log_loss(y[600:], best) <= found < log_loss(y[600:], best) + 0.04
    assert found < log_loss(y[600:], far) - 0.1


def test_the_temperature_is_the_most_likely():
    random = np.random.default_rng(0)
    scores, truth = random.normal(size=(500, 3)), None
    sharp = probabilities(scores, 3.0)
    truth = np.array([random.choice(3, p=row) for row in sharp])
    found = inverse_temperature(scores, truth)
    assert 2.4 < found < 3.7

    def likelihood(inverse):
        return np.log(probabilities(scores, inverse)[np.arange(500), truth]).sum()

    assert all(likelihood(found) >= likelihood(found * factor) - 1e-6 for factor in (0.9, 0.99, 1.01, 1.1))


def test_with_few_examples_the_temperature_is_one():
    assert inverse_temperature(np.zeros((0, 1)), np.zeros(0, int)) == 1.0
    assert inverse_temperature(np.zeros((50, 1)), np.zeros(50, int)) == 1.0


def test_a_stream_in_pieces_has_probabilities_too():
    X, y = noisy(2, 400)
    machine = LASVMClassifier(gamma=0.1)
    for begin in range(0, 400, 50):
        machine.partial_fit(X[begin : begin + 50], y[begin : begin + 50], classes=["a", "b"])
    assert log_loss(y, machine.predict_proba(X)) < np.log(2)


@pytest.mark.parametrize("machine", [SMOClassifier(), TrackingSVMClassifier(algorithm="batch")])
def test_a_batch_machine_has_no_probabilities(machine):
    with pytest.raises(AttributeError) as refused:
        machine.predict_proba([[0.0]])
    assert f"{type(machine).__name__} learns all examples at once" in str(refused.value.__cause__)
    assert "CalibratedClassifierCV" in str(refused.value.__cause__)
    assert hasattr(LASVMClassifier(), "predict_proba")


def waves(n, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-3, 3, (n, 2))
    return X, (np.sin(3 * X[:, 0]) + np.cos(3 * X[:, 1]) > 0).astype(int)


def test_C_auto_is_more_accurate_than_C_1():
    X, y = waves(2500)
    found, plain = (LASVMClassifier(C=C, random_state=0).fit(X[:1500], y[:1500]) for C in ("auto", 1.0))
    assert found.score(X[1500:], y[1500:]) > plain.score(X[1500:], y[1500:]) + 0.02
    leader = next(arm for arm in found.arms_ if arm["leads"])
    assert (leader["kernel"], leader["gamma"]) != ("rbf", plain.solver_.kernel.gamma)
    assert plain.arms_ is None
    machine = found.solver_.leader.machine
    apart = np.abs(X[1500:, None] - found.support_vectors_)
    distances = (apart if leader["kernel"] == "laplacian" else apart**2).sum(axis=2)
    kernel = np.exp(-leader["gamma"] * distances)
    rows = rows_from_dense(X[1500:], machine.kernel, X.shape[1], machine.dtype)
    np.testing.assert_allclose(kernel @ found.dual_coef_.T + found.intercept_, machine.decision(rows), atol=1e-3)
    assert found.n_support_.sum() == len(found.support_vectors_)
    twin = pickle.loads(pickle.dumps(found))  # noqa: S301 - it is our own
    assert np.array_equal(twin.decision_function(X), found.decision_function(X))
    assert twin.arms_ == found.arms_
    assert clone(found).get_params() == found.get_params()


def test_C_auto_may_be_one_of_a_grid():
    X, y = make_moons(300, noise=0.2, random_state=0)
    search = GridSearchCV(LASVMClassifier(random_state=0), {"C": [0.1, "auto"]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.8


@pytest.mark.parametrize(("Estimator", "C"), [(LASVMClassifier, "1"), (SMOClassifier, "auto"), (BSCAClassifier, -1)])
def test_another_C_is_refused_in_one_sentence(Estimator, C):
    X, y = make_moons(20, random_state=0)
    with pytest.raises(ValueError, match=rf"C must be a number > 0 and < 1e.15( or 'auto')?, got {C!r}"):
        Estimator(C=C).fit(X, y)
