"""sample_weight: examples with a larger or smaller weight than usual, or with weight 0."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC
from sklearn.utils.validation import has_fit_parameter

from hinged.sklearn import (
    ExactSVMClassifier,
    FullSVMClassifier,
    LASVMClassifier,
    PerceptronClassifier,
    SMOClassifier,
    TrackingSVMClassifier,
    load,
)
from hinged.solvers.estimators.loading import CLASSIFIERS
from tests.helpers.solvers.streams import three_classes, two_moons

ESTIMATORS = [*CLASSIFIERS.values()]
estimators = pytest.mark.parametrize("Estimator", ESTIMATORS)
WITH_BIAS = [SMOClassifier, LASVMClassifier, ExactSVMClassifier]


def exactly(Estimator, **parameters):
    """Let the estimator reach the optimum of all examples."""
    digits = {"tol": 1e-7, "precision": "float64"} if "tol" in Estimator().get_params() else {}
    return Estimator(C=0.7, gamma=2.0, random_state=0, **digits, **parameters)


def some_weights(n, seed=0):
    """Return weights from 0.1 to 10, and 0 for a fifth of them."""
    random = np.random.default_rng(seed)
    return 10.0 ** random.uniform(-1, 1, n) * (random.random(n) > 0.2)


@pytest.mark.parametrize("Estimator", WITH_BIAS)
@pytest.mark.parametrize("class_weight", [None, {1: 3.0}])
def test_a_converged_machine_with_a_bias_is_SVC_with_the_same_weights(Estimator, class_weight):
    X, y = two_moons(200, noise=0.4, seed=1)
    weights = some_weights(200)
    reference = SVC(C=0.7, gamma=2.0, tol=1e-7, class_weight=class_weight).fit(X, y, weights)
    model = exactly(Estimator, class_weight=class_weight).fit(X, y, sample_weight=weights)
    assert model.decision_function(X) == pytest.approx(reference.decision_function(X), abs=1e-3)
    assert weights[model.support_].all()


@pytest.mark.parametrize("Estimator", [*WITH_BIAS, FullSVMClassifier, TrackingSVMClassifier])
def test_a_whole_weight_repeats_and_zero_removes(Estimator):
    X, classes = three_classes(90, seed=2)
    times = np.random.default_rng(0).integers(0, 4, 90)
    weighted = exactly(Estimator).fit(X, classes, times)
    repeated = exactly(Estimator).fit(X.repeat(times, axis=0), classes.repeat(times))
    assert weighted.decision_function(X) == pytest.approx(repeated.decision_function(X), abs=1e-3)


@estimators
def test_examples_of_weight_0_change_nothing(Estimator):
    X, classes = three_classes(120, seed=3)
    counts = np.arange(120) % 3 > 0
    far = np.where(counts[:, None], X, 1e6)
    once = {"shuffle": False} if "shuffle" in Estimator().get_params() else {}
    model = Estimator(scale="auto", random_state=0, **once).fit(far, classes, counts.astype(float))
    other = Estimator(scale="auto", random_state=0, **once).fit(X[counts], classes[counts])
    assert np.array_equal(model.decision_function(X), other.decision_function(X))
    if hasattr(model, "predict_proba"):
        assert np.array_equal(model.predict_proba(X), other.predict_proba(X))
    if hasattr(model, "support_"):
        known = model.support_ >= 0  # -1 for a merged point
        assert np.array_equal(model.support_[known], np.flatnonzero(counts)[other.support_[known]])


@estimators
def test_it_is_a_parameter_of_both_ways_to_learn(Estimator):
    assert has_fit_parameter(Estimator, "sample_weight")
    X, classes = three_classes(90, seed=4)
    weights = 1.0 + np.arange(90) % 3
    model = Estimator(random_state=0).partial_fit(X[:50], classes[:50], [0, 1, 2], sample_weight=weights[:50])
    plain = Estimator(random_state=0).partial_fit(X[:50], classes[:50], [0, 1, 2])
    assert not np.array_equal(model.decision_function(X), plain.decision_function(X))
    twin = pickle.loads(pickle.dumps(model))  # noqa: S301 - it is our own
    read = load(model.to_model_file())
    for each in (model, twin, read):
        each.partial_fit(X[50:], classes[50:], sample_weight=weights[50:])
        assert np.array_equal(each.decision_function(X), model.decision_function(X))
    before = model.decision_function(X)
    model.partial_fit(X[:5], classes[:5], sample_weight=np.zeros(5))
    assert np.array_equal(model.decision_function(X), before)


def test_it_may_be_one_number_and_rows_may_be_sparse():
    X, y = two_moons(100, seed=5)
    model = exactly(LASVMClassifier).fit(X, y, sample_weight=3.0)
    tripled = exactly(LASVMClassifier).set_params(C=2.1).fit(X, y)
    assert model.decision_function(X) == pytest.approx(tripled.decision_function(X), abs=1e-5)
    weights = some_weights(100)
    dense, thin = (exactly(LASVMClassifier).fit(Z, y, weights) for Z in (X, sparse.csr_array(X)))
    assert dense.decision_function(X) == pytest.approx(thin.decision_function(X), abs=1e-5)


@pytest.mark.long
def test_further_epochs_and_a_race_take_them_too():
    X, y = two_moons(300, noise=0.4, seed=6)
    weights = some_weights(300)
    parameters = {"shuffle": False, "finish": False, "random_state": 0}
    model = LASVMClassifier(warm_start=True, **parameters).fit(X, y, weights).fit(X, y, weights)
    whole = LASVMClassifier(epochs=2, **parameters).fit(X, y, weights)
    assert np.array_equal(model.decision_function(X), whole.decision_function(X))
    assert model.solver_.seen.sum() == np.count_nonzero(weights)
    race = LASVMClassifier(C="auto", random_state=0).fit(X, y, weights)
    assert load(race.to_model_file()).predict(X).tolist() == race.predict(X).tolist()


@pytest.mark.parametrize("Estimator", [LASVMClassifier, PerceptronClassifier, SMOClassifier])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([1.0, 2.0], r"sample_weight must be one number for each of 60 examples, got \(2,\)"),
        (np.r_[-1.0, np.ones(59)], "sample_weight must be finite and >= 0, got -1"),
        (np.r_[np.ones(59), np.nan], "sample_weight must be finite and >= 0, got nan"),
        (np.zeros(60), "sample_weight must be > 0 for one example at least, got zero for all 60"),
        (np.r_[np.ones(59), 1e20], r"C times the weight of an example must be > 0 and < 1e\+15, got 1 \* 1e\+20"),
    ],
)
def test_an_invalid_sample_weight_is_refused(Estimator, wrong, message):
    X, y = two_moons(60, seed=7)
    with pytest.raises(ValueError, match=message):
        Estimator().fit(X, y, wrong)
    if wrong[-1] != 0:
        model = Estimator(warm_start=True).fit(X, y)
        before = model.decision_function(X)
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, wrong)
        assert np.array_equal(model.decision_function(X), before)


@pytest.mark.long
@pytest.mark.parametrize("by", ["class_weight", "sample_weight"])
def test_a_race_finds_the_rare_class_that_weighs_more(by):
    random = np.random.default_rng(0)
    y = random.random(3000) < 0.03
    X = random.standard_normal((3000, 2)) + 1.5 * y[:, None]
    weights = {"sample_weight": np.where(y[:2000], 20.0, 1.0)} if by == "sample_weight" else {}
    own = {"class_weight": "balanced"} if by == "class_weight" else {}
    recalls = []
    for C in (1.0, "auto"):
        model = LASVMClassifier(C=C, random_state=0, **own).fit(X[:2000], y[:2000], **weights)
        recalls.append(model.predict(X[2000:])[y[2000:]].mean())
    assert recalls[1] > recalls[0] - 0.1
