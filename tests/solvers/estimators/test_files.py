"""Estimators that are saved to files, loaded, and then learn as if uninterrupted."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs

from hinged.frames import decode, encode
from hinged.sklearn import BSCAClassifier, FOGDClassifier, LASVMClassifier, TrackingSVMClassifier, load
from hinged.solvers.estimators.files import KIND
from hinged.solvers.estimators.loading import CLASSIFIERS

ESTIMATORS = [*CLASSIFIERS.values()]


def blobs(n=150, classes=3, seed=0):
    return make_blobs(n, centers=[[0, 0], [2, 0], [0, 2]][:classes], cluster_std=0.7, random_state=seed)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_file_restores_the_estimator_and_learning_goes_on_to_the_bit(Estimator, tmp_path):
    X, y = blobs()
    model = Estimator(random_state=0).partial_fit(X[:70], y[:70], classes=[0, 1, 2])
    model.save(tmp_path / "m.hinged")
    twin = load(tmp_path / "m.hinged")
    assert type(twin) is Estimator
    assert twin.get_params() == model.get_params()
    for _ in range(2):
        assert np.array_equal(twin.decision_function(X), model.decision_function(X))
        if hasattr(model, "predict_proba"):
            assert np.array_equal(twin.predict_proba(X), model.predict_proba(X))
        model.partial_fit(X[70:], y[70:])
        twin.partial_fit(X[70:], y[70:])
    mine, other = model.solver_.state(), twin.solver_.state()
    assert all(np.array_equal(mine[name], other[name]) for name in mine)
    assert twin.to_model_file() == model.to_model_file()


@pytest.mark.parametrize(
    "model",
    [
        LASVMClassifier(C="auto"),
        LASVMClassifier(scale="auto", class_weight={"b": 3.0}),
        LASVMClassifier(C=np.float64(2.0), kernel="poly", degree=2, coef0=1.0, precision="float64"),
        TrackingSVMClassifier(algorithm="cached", kernel="linear"),
        BSCAClassifier(budget=20, epochs=2),
        FOGDClassifier(kernel="laplacian"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_scales_weights_kernels_and_races_are_written(model, form):
    X, y = blobs()
    X = X * [1.0, 1000.0] if model.scale else X
    model.fit(form(X), np.array(["a", "b", "c"])[y])
    twin = load(model.to_model_file())
    assert np.array_equal(twin.decision_function(form(X)), model.decision_function(form(X)))
    assert np.array_equal(twin.predict(form(X)), model.predict(form(X)))
    assert twin.get_params() == model.get_params()
    if not isinstance(model, FOGDClassifier):
        assert sparse.issparse(twin.support_vectors_) == (form is sparse.csr_array)
        assert np.array_equal(twin.support_, model.support_)


@pytest.mark.parametrize("labels", [[0, 1], [-1.0, 1.0], ["no", "yes"], [False, True]])
def test_labels_keep_their_type(labels):
    X, y = blobs(classes=2)
    model = LASVMClassifier().fit(X, np.array(labels)[y])
    twin = load(model.to_model_file())
    assert twin.classes_.dtype == model.classes_.dtype
    assert np.array_equal(twin.predict(X), model.predict(X))


def test_values_that_no_file_can_hold_are_refused():
    X, y = blobs()
    with pytest.raises(ValueError, match="random_state of an estimator in a file must be text, a number or"):
        LASVMClassifier(random_state=np.random.RandomState(0)).fit(X, y).to_model_file()
    with pytest.raises(ValueError, match="not fitted"):
        LASVMClassifier().to_model_file()


def test_a_file_of_another_kind_is_refused(tmp_path):
    X, y = blobs()
    data = LASVMClassifier().fit(X, y).to_model_file()
    (tmp_path / "cut").write_bytes(data[:-8])
    for source in (b"", b"xyz", b"\x80\x04K\x07.", b"%PDF-1.7" * 9):
        with pytest.raises(ValueError, match="this is no file of hinged: it begins with"):
            load(source)
    for source in (data[:4], data[:100], data[:-1] + b"\xff", tmp_path / "cut", str(tmp_path / "cut")):
        with pytest.raises(ValueError, match=r"frame|checksum|header"):
            load(source)
    with pytest.raises(FileNotFoundError):
        load(Path(tmp_path / "missing"))


def forged(data, change):
    facts, arrays = decode(data, KIND)
    change(facts, arrays)
    return encode(KIND, json.loads(json.dumps(facts)), arrays)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda facts, _: facts.update(version=2), "version 2"),
        (lambda facts, _: facts.update(estimator="os.system"), "not an estimator of hinged.sklearn"),
        (lambda facts, _: facts["parameters"].update(C="7"), "C must be a number"),
        (lambda facts, _: facts.pop("machine"), "does not fit together"),
        (lambda facts, _: facts.update(feature_names={"a": 1, "b": 2}), "feature_names must be 2 texts"),
        (lambda facts, _: facts.update(feature_names=["a"]), "feature_names must be 2 texts"),
        (lambda facts, _: facts.update(feature_names=["a", 2]), "feature_names must be 2 texts"),
        (lambda facts, _: facts["machine"].update(dim=9), "columns of dense features of width 9"),
        (lambda facts, _: facts["machine"].update(labels=[0, 1]), "labels"),
        (lambda facts, _: facts["machine"].update(labels=[0, 1, 1]), "labels must all be different"),
        (lambda facts, _: facts["machine"].update(labels=[0, 1, 0.5]), "labels must all be different"),
        (
            lambda facts, _: facts["machine"].update(labels=["a", "b", "cd"]) or facts.update(labels_type="<U1"),
            "labels",
        ),
        (
            lambda facts, _: facts["machine"].update(labels=[0.5, 1.5, 2.0]) or facts.update(labels_type="<f8"),
            "label type",
        ),
        (lambda facts, _: facts.update(labels_type="a"), "labels_type must be"),
        (lambda facts, _: facts.update(labels_type="<U99999999"), "labels_type must be"),
        (lambda facts, _: facts.update(labels_type=None), "labels_type must be"),
        (lambda facts, _: facts["machine"].update(seed=[7]), "seed must be an integer"),
        (lambda facts, _: facts["machine"].update(learned=[]), "learned must be an integer"),
        (lambda facts, _: facts["machine"].update(learned=2**65), "learned must be an integer"),
        (lambda facts, _: facts["machine"].update(learned=7), "must have learned more than"),
        (lambda facts, _: facts["machine"].update(fading="no"), "fading must be True or False"),
        (lambda facts, _: facts["machine"]["scale"].update(rest=10**400), "rest must be a number"),
        (lambda facts, _: facts["machine"]["parameters"].update(idle_max=2**65), "idle_max must be an integer"),
        (lambda facts, _: facts["machine"]["parameters"].update(second_order=[]), "second_order must be True or False"),
        (lambda _, arrays: arrays.pop("solver.alpha"), "no array alpha"),
        (lambda _, arrays: arrays.update({"heard.classes": arrays["heard.classes"] + 5}), "classes must be"),
        (lambda _, arrays: arrays.update({"scale.scale": arrays["scale.scale"] * 0.0}), "scales must be > 0"),
    ],
)
def test_a_file_that_somebody_changed_is_refused(change, problem):
    X, y = blobs()
    data = LASVMClassifier(scale="auto").fit(X, y).to_model_file()
    with pytest.raises(ValueError, match=problem):
        load(forged(data, change))
