import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

from hinged.sklearn import BSCAClassifier, ExactSVMClassifier, LASVMClassifier, SMOClassifier

EXACT = {"tol": 1e-6, "precision": "float64"}


def blobs(n=80, classes=2, seed=0):
    return make_blobs(n, centers=[[0, 0], [2, 0], [0, 2]][:classes], cluster_std=0.7, random_state=seed)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(
    "model", [SMOClassifier(**EXACT), LASVMClassifier(epochs=5, seed_max=1000, **EXACT), ExactSVMClassifier()]
)
def test_the_attributes_are_those_of_SVC(model, kernel):
    X, y = blobs()
    reference = SVC(kernel=kernel, tol=1e-6).fit(X, y)
    model.set_params(kernel=kernel).fit(X, y)
    assert np.array_equal(np.sort(model.support_), np.sort(reference.support_))
    assert np.array_equal(model.n_support_, reference.n_support_)
    assert model.intercept_ == pytest.approx(reference.intercept_, abs=1e-3)
    assert model.classes_.tolist() == reference.classes_.tolist()
    assert model.n_features_in_ == reference.n_features_in_
    mine, theirs = (np.argsort(m.support_) for m in (model, reference))
    assert model.dual_coef_.shape == reference.dual_coef_.shape
    assert model.dual_coef_[:, mine] == pytest.approx(reference.dual_coef_[:, theirs], abs=2e-3)
    assert model.support_vectors_[mine] == pytest.approx(reference.support_vectors_[theirs])
    if kernel == "linear":
        assert model.coef_.shape == reference.coef_.shape
        assert model.coef_ == pytest.approx(reference.coef_, abs=1e-3)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_coef_makes_the_decision_values(classes, form):
    X, y = blobs(classes=classes)
    model = LASVMClassifier(kernel="linear", precision="float64", random_state=0).fit(form(X), y)
    assert model.coef_.shape == (1 if classes == 2 else 3, 2)
    made = X @ model.coef_.T + model.intercept_
    assert model.decision_function(form(X)).reshape(made.shape) == pytest.approx(made)


def test_coef_of_another_kernel_is_an_AttributeError_that_says_why():
    X, y = blobs()
    model = LASVMClassifier().fit(X, y)
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match="coef_ needs kernel='linear'"):
        _ = model.coef_


def test_support_tells_the_rows_of_X_and_counts_on_in_further_batches():
    X, y = blobs(120)
    model = LASVMClassifier(random_state=0, precision="float64").partial_fit(X[:50], y[:50], classes=[0, 1])
    assert np.array_equal(model.support_vectors_, X[model.support_])
    assert (y[model.support_] == (model.dual_coef_[0] > 0)).all()
    model.partial_fit(X[50:], y[50:])
    assert model.support_.max() >= 50
    assert np.array_equal(model.support_vectors_, X[model.support_])
    shuffled = LASVMClassifier(random_state=0, epochs=3, precision="float64").fit(X, y)
    assert np.array_equal(shuffled.support_vectors_, X[shuffled.support_])


def test_a_merged_point_is_no_row_of_X():
    X, y = blobs(200)
    model = BSCAClassifier(budget=20, precision="float64", random_state=0).fit(X, y)
    own = model.support_ >= 0
    assert not own.all()
    assert np.array_equal(model.support_vectors_[own], X[model.support_[own]])


def test_steps_are_counted():
    X, y = blobs()
    model = LASVMClassifier(random_state=0).fit(X, y)
    assert isinstance(model.n_iter_, int)
    assert 0 < model.n_iter_ < LASVMClassifier(random_state=0, tol=1e-6).fit(X, y).n_iter_


@pytest.mark.parametrize("name", ["support_", "coef_", "n_iter_", "intercept_", "dual_coef_", "solver_"])
def test_there_are_no_attributes_before_fit(name):
    assert not hasattr(LASVMClassifier(kernel="linear"), name)
    with pytest.raises(NotFittedError):
        getattr(LASVMClassifier(), name)
