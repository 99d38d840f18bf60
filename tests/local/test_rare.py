"""The estimators warn about rare classes, as the server's metrics do."""

import warnings

import numpy as np
import pytest

from hinged.service.model.decisions.rare import warning_of
from hinged.sklearn import HingedClassifier, LASVMClassifier, PerceptronClassifier, SMOClassifier

X = np.random.default_rng(0).normal(size=(400, 3))
EVERY_FORTIETH = np.where(np.arange(400) % 40 == 0, "fraud", "fine")
estimators = pytest.mark.parametrize(
    "Estimator", [HingedClassifier, LASVMClassifier, PerceptronClassifier, SMOClassifier]
)


def told(estimator, y, **more):
    """Return the warnings of `fit`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X[: len(y)], y, **more)
    assert {warning.filename for warning in caught} <= {__file__}
    return [str(warning.message) for warning in caught if warning.category is UserWarning]


@estimators
def test_a_rare_class_is_told_in_the_words_of_the_server(Estimator):
    (warning,) = told(Estimator(), EVERY_FORTIETH)
    assert warning.startswith("2.5 % of the labels are 'fraud': accuracy says little; ")
    server = warning_of(np.array([[390, 0], [10, 0]]), ["'fine'", "'fraud'"])
    assert server.partition(";")[0] == warning.partition(";")[0]


@estimators
def test_without_a_rare_class_or_with_few_labels_nothing_is_told(Estimator):
    assert told(Estimator(), np.arange(400) % 2) == []
    assert told(Estimator(), EVERY_FORTIETH[:99]) == []
    assert told(Estimator(), np.where(np.arange(400) % 20 == 0, 1, 0)) == []  # 5 %


@estimators
def test_who_weights_the_classes_knows(Estimator):
    for class_weight in ("balanced", {"fraud": 9.0, "fine": 1.0}):
        assert told(Estimator(class_weight=class_weight), EVERY_FORTIETH) == []


@estimators
def test_examples_without_weight_do_not_count(Estimator):
    weights = np.ones(400)
    weights[np.flatnonzero(EVERY_FORTIETH == "fine")[:300]] = 0.0
    assert told(Estimator(), EVERY_FORTIETH, sample_weight=weights) == []


@estimators
def test_a_single_class_is_told_and_predicted(Estimator):
    estimator = Estimator()
    assert told(estimator, ["a"] * 9) == ["y has a single class, 'a': every prediction will be this class"]
    assert estimator.predict([[5.0, 0.0, 0.0]]).tolist() == ["a"]


def test_costs_in_the_configuration_need_no_warning():
    costs = {"fraud": {"fine": 40.0}, "fine": {"fraud": 1.0}}
    assert told(HingedClassifier(configuration={"costs": costs}), EVERY_FORTIETH) == []
