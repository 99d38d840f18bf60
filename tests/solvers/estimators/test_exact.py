"""The exact estimator's p-values."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

from hinged.sklearn import ExactSVMClassifier

X, NUMBERS = make_classification(
    140, 6, n_informative=4, n_classes=3, n_clusters_per_class=1, class_sep=0.6, random_state=0
)
Y = np.array(["no", "yes", "maybe"])[NUMBERS]


@pytest.mark.parametrize("scale", [None, "auto"])
def test_p_values_are_in_the_order_of_the_classes(scale):
    some = ["no", "yes"]
    known = np.isin(Y, some)
    model = ExactSVMClassifier(C=2.0, gamma=0.2, scale=scale).fit(X[known][:70], Y[known][:70])
    asked = X[known][70:80]
    found = model.p_values(asked)
    assert found.shape == (10, 2)
    scaled = model._scaled(np.vstack((X[known][:70], asked)))
    for row, p in enumerate(found):
        for label, value in zip(model.classes_, p, strict=True):
            together = np.vstack((scaled[:70], scaled[70 + row]))
            labels = np.append(Y[known][:70], label)
            y = np.where(labels == label, 1, -1)
            strange = 1.0 - y * SVC(C=2.0, gamma=model.solver_.kernel.gamma, tol=1e-10).fit(
                together, y
            ).decision_function(together)
            assert value == pytest.approx((strange >= strange[-1] - 1e-5)[labels == label].mean(), abs=1e-9)


def test_sets_of_several_classes_contain_the_class_as_often_as_promised():
    model = ExactSVMClassifier(C=1.0, gamma=0.2).partial_fit(X[:60], Y[:60], classes=["maybe", "no", "yes"])
    model.partial_fit(X[60:100], Y[60:100])
    before = model.decision_function(X)
    sets = model.p_values(X[100:]) > 0.2
    own = np.searchsorted(model.classes_, Y[100:])
    assert 0.65 < sets[np.arange(40), own].mean() < 1
    assert 0.8 < sets.sum(axis=1).mean() < 2
    assert model.decision_function(X).tobytes() == before.tobytes()


def test_before_a_fit_there_are_no_p_values():
    with pytest.raises(NotFittedError):
        ExactSVMClassifier().p_values(X)
