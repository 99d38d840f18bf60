import numpy as np
import pytest

from hinged.sklearn import BSCAClassifier, ExactSVMClassifier, LASVMClassifier, SMOClassifier
from tests.helpers.solvers.streams import two_moons

ONLINE = [LASVMClassifier, BSCAClassifier]
estimators = pytest.mark.parametrize("Estimator", [*ONLINE, SMOClassifier, ExactSVMClassifier])


@pytest.mark.parametrize("Estimator", ONLINE)
def test_on_the_same_examples_it_makes_further_epochs(Estimator):
    X, y = two_moons(300, noise=0.4)
    finish = {"finish": False} if Estimator is LASVMClassifier else {}
    parameters = {"shuffle": False, "random_state": 0, **finish}
    model = Estimator(warm_start=True, **parameters).fit(X, y).fit(X, y)
    whole = Estimator(epochs=2, **parameters).fit(X, y)
    assert np.array_equal(model.decision_function(X), whole.decision_function(X))
    assert model.solver_.seen.sum() == len(X)


@estimators
def test_other_examples_are_learned_after_those_before(Estimator):
    X, y = two_moons(300, noise=0.4)
    model = Estimator(warm_start=True, random_state=0).fit(X[:150], y[:150])
    machine = model.solver_
    model.fit(X[150:], y[150:]).fit(X[150:], y[150:])
    assert model.solver_ is machine
    assert machine.seen.sum() == 300
    if Estimator is not BSCAClassifier:
        assert model.support_.max() >= 150
        assert np.array_equal(model.support_vectors_, X[model.support_].astype(machine.dtype))


@estimators
def test_without_it_fit_starts_again(Estimator):
    X, y = two_moons(200, noise=0.4)
    once = Estimator(random_state=0).fit(X, y)
    twice = Estimator(random_state=0).fit(-X[:50], y[:50]).fit(X, y)
    assert np.array_equal(once.decision_function(X), twice.decision_function(X))


def test_it_reaches_the_optimum_over_all_examples():
    X, y = two_moons(200, noise=0.4)
    model = SMOClassifier(warm_start=True, tol=1e-6, gamma=1.0).fit(X[:100], y[:100]).fit(X[100:], y[100:])
    whole = SMOClassifier(tol=1e-6, gamma=1.0).fit(X, y)
    assert model.decision_function(X) == pytest.approx(whole.decision_function(X), abs=1e-3)


def test_epochs_may_change_and_the_machine_may_not():
    X, y = two_moons(200, noise=0.4)
    model = LASVMClassifier(warm_start=True, random_state=0).fit(X, y)
    model.set_params(epochs=3, shuffle=False, random_state=7).fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match=r"C must stay 1.0 where warm_start goes on with a machine, got 10"):
        model.set_params(C=10).fit(X, y)
    model.set_params(C=1.0)
    with pytest.raises(ValueError, match="y must hold labels"):
        model.fit(X, y + 5)
    with pytest.raises(ValueError, match="features"):
        model.fit(X[:, :1], y)
    assert np.array_equal(model.decision_function(X), before)
