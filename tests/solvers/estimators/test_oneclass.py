"""The one-class estimator: scikit-learn's OneClassSVM that learns and unlearns."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import check_estimator

from hinged.frames import decode, encode
from hinged.service.engine.transfer.estimators import snapshot_of
from hinged.service.settings import Settings
from hinged.sklearn import OneClassClassifier, load, to_onnx
from hinged.solvers.core.parameters import check
from hinged.solvers.estimators.files import KIND
from tests.helpers.solvers.streams import same

X = np.random.default_rng(0).standard_normal((60, 3))
BY_GAMMA = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}
"""gamma='scale' depends on the variance of X, and a repeated row changes the variance. With gamma as a number a weight
equals a repetition (below).
"""


@pytest.mark.long
def test_scikit_learn_finds_nothing_amiss():
    results = check_estimator(OneClassClassifier(), on_skip=None, on_fail=None)
    failed = {found["check_name"]: found["exception"] for found in results if found["status"] == "failed"}
    for name in failed.keys() - BY_GAMMA:
        raise AssertionError(name) from failed[name]
    assert sum(found["status"] == "passed" for found in results) > 45


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_its_attributes_are_those_of_OneClassSVM(kernel, nu):
    shared = {"kernel": kernel, "nu": nu, "coef0": 1.0, "degree": 2}
    reference, model = OneClassSVM(**shared, tol=1e-9).fit(X), OneClassClassifier(**shared).fit(X)
    scale = reference.dual_coef_.sum()  # in the scale of Schoelkopf et al., where the coefficients have the sum 1
    assert model.support_.tolist() == reference.support_.tolist()
    assert np.array_equal(model.support_vectors_, X[reference.support_])
    assert model.n_support_.tolist() == reference.n_support_.tolist()
    assert model.dual_coef_ / scale == pytest.approx(reference.dual_coef_ / scale, abs=1e-6)
    assert model.offset_ / scale == pytest.approx(reference.offset_[0] / scale, abs=1e-6)
    assert model.intercept_ / scale == pytest.approx(reference.intercept_ / scale, abs=1e-6)
    new = np.random.default_rng(1).standard_normal((30, 3))
    for method in ("decision_function", "score_samples"):
        mine, theirs = (getattr(each, method)(new) for each in (model, reference))
        assert mine / scale == pytest.approx(theirs / scale, abs=1e-6)
    assert np.array_equal(model.predict(new), reference.predict(new))
    assert np.array_equal(model.fit_predict(X), model.predict(X))


def test_unlearning_gives_the_fit_of_the_rest():
    model = OneClassClassifier(gamma=0.5, nu=0.2).partial_fit(X[:20]).partial_fit(X[20:])
    assert model.unlearn(range(0, 60, 2)) is model
    rest = OneClassClassifier(gamma=0.5, nu=0.2).fit(X[1::2])
    assert model.decision_function(X) == pytest.approx(rest.decision_function(X), abs=1e-9)
    with pytest.raises(ValueError, match="keys must be of examples held, got 0"):
        model.unlearn([1, 0])
    assert model.solver_.live == 30


def test_a_stream_in_pieces_is_the_stream_to_the_bit():
    whole, pieces = OneClassClassifier(gamma=0.5).partial_fit(X), OneClassClassifier(gamma=0.5)
    for begin in range(0, 60, 7):
        pieces.partial_fit(X[begin : begin + 7])
    assert np.array_equal(whole.decision_function(X), pieces.decision_function(X))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", [None, "auto"])
def test_a_file_or_a_pickle_goes_on_to_the_bit(form, scale, tmp_path):
    factors = np.array([1.0, 1000.0, 0.01])
    model = OneClassClassifier(nu=0.2, scale=scale).fit(form(X[:40] * factors))
    model.save(tmp_path / "m.hinged")
    for twin in (load(tmp_path / "m.hinged"), pickle.loads(pickle.dumps(model))):  # noqa: S301  it is our own
        assert type(twin) is OneClassClassifier
        assert twin.get_params() == model.get_params()
        same(twin.solver_.state(), model.solver_.state())
        assert np.array_equal(twin.p_values(form(X * factors)), model.p_values(form(X * factors)))
        mine = clone(model).fit(form(X[:40] * factors))
        for each in (mine, twin):
            each.partial_fit(form(X[40:] * factors)).unlearn([3, 50])
        assert np.array_equal(twin.decision_function(form(X * factors)), mine.decision_function(form(X * factors)))


def test_a_damaged_file_is_refused():
    facts, arrays = decode(OneClassClassifier().fit(X).to_model_file(), KIND)
    for changed, message in (
        ({**facts, "machine": {**facts["machine"], "labels": [1, 2]}}, "labels must be one for each of 1 classes"),
        ({**facts, "machine": {**facts["machine"], "solver": "exact"}}, "nu"),
        ({**facts, "parameters": {**facts["parameters"], "nu": 2.0}}, "nu must be a number > 0 and <= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            load(encode(KIND, changed, arrays))


def test_a_server_refuses_its_file_because_a_model_has_labels(tmp_path):
    with pytest.raises(ValueError, match=r"the file's solver must be one of .*, got 'one-class'"):
        snapshot_of(OneClassClassifier().fit(X).to_model_file(), Settings(data_dir=tmp_path), {})


def test_sparse_input_gives_the_bits_of_dense_input():
    Z = np.where(np.abs(X) < 0.5, 0.0, X)
    dense, csr = OneClassClassifier().fit(Z), OneClassClassifier().fit(sparse.csr_array(Z))
    assert np.array_equal(dense.decision_function(Z), csr.decision_function(sparse.csc_array(Z)))
    assert np.array_equal(csr.support_vectors_.toarray(), dense.support_vectors_)


def test_a_weight_is_a_repetition():
    weights = np.tile([0, 1, 2, 3], 15)
    weighted = OneClassClassifier(gamma=0.5, nu=0.3).fit(X, sample_weight=weights)
    repeated = OneClassClassifier(gamma=0.5, nu=0.3).fit(np.repeat(X, weights, axis=0))
    assert weighted.decision_function(X) == pytest.approx(repeated.decision_function(X), abs=1e-9)


def test_at_points_max_it_forgets_the_oldest_or_refuses():
    model = OneClassClassifier(gamma=0.5, points_max=20, when_full="remove").fit(X)
    newest = OneClassClassifier(gamma=0.5).fit(X[40:])
    assert model.decision_function(X) == pytest.approx(newest.decision_function(X), abs=1e-9)
    with pytest.raises(ValueError, match="of at most 20"):
        OneClassClassifier(points_max=20).fit(X)


def test_a_p_value_is_the_rank_among_scores_that_each_example_has_without_itself():
    model, new = OneClassClassifier(gamma=0.5, nu=0.2).fit(X), np.vstack((X[:3] + 0.01, [[9.0, 9.0, 9.0]]))
    scores = model.decision_function(new)
    known = np.array([
        OneClassClassifier(gamma=0.5, nu=0.2).fit(np.delete(X, k, axis=0)).decision_function(X[[k]])[0]
        for k in range(len(X))
    ])  # fmt: skip
    expected = [(1 + (known <= score).sum()) / 61 for score in scores]
    assert model.p_values(new) == pytest.approx(expected)
    assert expected[-1] == 1 / 61
    model.partial_fit(np.tile([[9.0, 9.0, 9.0]], (30, 1)))
    assert model.p_values(new)[-1] > 0.3  # not novel any more


def test_parameters_are_checked_and_labels_are_not_needed():
    parameters = OneClassClassifier().get_params()
    check(parameters, OneClassClassifier.rules)
    assert parameters.keys() <= OneClassClassifier.rules.keys()
    for name in parameters:
        with pytest.raises(ValueError, match=rf"^{name} must be .*, got <object object"):
            OneClassClassifier(**{name: object()}).fit(X)
    assert not hasattr(OneClassClassifier().fit(X, np.zeros(60)), "classes_")
    with pytest.raises((TypeError, ValueError), match="OneClassClassifier"):
        to_onnx(OneClassClassifier().fit(X))
