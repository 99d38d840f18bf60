"""An estimator and a model on a server are interchangeable: upload, export, and further learning on either side."""

import json

import httpx
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs

from hinged import Client, HingedError
from hinged.frames import decode, encode
from hinged.sklearn import ExactSVMClassifier, HingedClassifier, LASVMClassifier, load
from hinged.solvers.estimators.files import KIND
from hinged.solvers.estimators.loading import CLASSIFIERS
from tests.helpers.fixtures import server_with, speaking

ESTIMATORS = [*CLASSIFIERS.values()]


server = server_with()
client = speaking(Client)


@pytest.fixture
def name(request):
    return f"m{abs(hash(request.node.name))}"


def blobs(n=120, classes=3, seed=0):
    return make_blobs(n, centers=[[0, 0], [2, 0], [0, 2]][:classes], cluster_std=0.7, random_state=seed)


def scores(client, name, X):
    """Return the decision values of a server, of shape (m, classes)."""
    results = client.predict(name, [{"x": row.tolist()} for row in X])["results"]
    return np.array([list(result["scores"].values()) for result in results])


def columns(model, X):
    """Return the decision values of an estimator, of shape (m, classes)."""
    values = model.decision_function(X)
    return np.column_stack((-values, values)) if values.ndim == 1 else values


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_an_estimator_becomes_a_model_and_an_estimator_again_to_the_bit(Estimator, client, name):
    X, y = blobs()
    model = Estimator(random_state=0).fit(X, y)
    made = client.upload(name, model)
    assert (made["examples"], made["classes"], made["position"]) == (120, [0, 1, 2], 1)
    assert np.array_equal(scores(client, name, X), columns(model, X))
    back = load(client.export_model(name))
    assert type(back) is Estimator
    assert np.array_equal(back.decision_function(X), model.decision_function(X))
    if hasattr(model, "support_"):
        assert np.array_equal(back.support_, model.support_)


@pytest.mark.parametrize("model", [*(Estimator() for Estimator in ESTIMATORS), LASVMClassifier(C="auto")])
def test_an_estimator_and_its_uploaded_model_continue_to_learn_the_same(model, client, name):
    X, y = blobs()
    model = clone(model).set_params(random_state=0, gamma=0.5).partial_fit(X[:60], y[:60], classes=[0, 1, 2])
    client.upload(name, model)
    client.learn(name, [{"x": row.tolist(), "y": int(label)} for row, label in zip(X[60:], y[60:], strict=True)])
    model.partial_fit(X[60:], y[60:])
    assert np.array_equal(scores(client, name, X), columns(model, X))
    assert client.model(name)["examples"] == 120


@pytest.mark.parametrize(
    ("model", "form"),
    [
        (LASVMClassifier(C="auto"), np.asarray),
        (LASVMClassifier(scale="auto", class_weight={0: 2.0}), np.asarray),
        (LASVMClassifier(scale="auto", kernel="laplacian"), sparse.csr_array),
        (LASVMClassifier(kernel="poly", degree=2, coef0=1.0, precision="float64"), np.asarray),
        (LASVMClassifier(kernel="linear", C=0.5), sparse.csr_array),
    ],
)
def test_uploads_and_exports_keep_scales_class_weights_and_kernels(model, form, client, name):
    X, y = blobs()
    X[:, 1] *= 1000.0 if model.scale else 1.0
    model.set_params(random_state=0).fit(form(X), y)
    client.upload(name, model)
    assert np.array_equal(scores(client, name, X), model.decision_function(form(X)))
    back = load(client.export_model(name))
    assert np.array_equal(back.decision_function(form(X)), model.decision_function(form(X)))
    assert (back.C, back.class_weight, back.scale) == (model.C, model.class_weight, model.scale)


@pytest.mark.parametrize("model", [LASVMClassifier(C=0.5), LASVMClassifier(C="auto"), ExactSVMClassifier(C=0.5)])
def test_uploads_keep_the_weights_of_examples_even_if_a_label_is_corrected(model, client, name):
    X, y = blobs()
    weights = 1.0 + np.arange(120) % 4
    model.set_params(random_state=0, gamma=0.5).fit(X, y, sample_weight=weights)
    client.upload(name, model)
    assert np.array_equal(scores(client, name, X), model.decision_function(X))
    key = int(np.flatnonzero(weights == 4.0)[3])
    assert model.solver_.weight_of(key) == 4.0
    corrected = client.correct(name, f"@{key + 1}", int(y[key] + 1) % 3)
    if "job" in corrected:
        client.wait(corrected)
    back = load(client.export_model(name)).solver_
    assert back.weight_of(key) == 4.0
    assert back.weight_of(key + 1) == 1.0


@pytest.mark.parametrize(("form", "x"), [("named", {"a": 1}), ("text", "words are hashed")])
def test_a_model_of_named_or_text_features_becomes_the_estimator_that_takes_them(form, x, client, name):
    client.create_model(name, kernel={"type": "linear"}, features={"type": form})
    client.learn(name, [{"x": x, "y": "b"}])
    back = load(client.export_model(name))
    assert isinstance(back, HingedClassifier)
    assert back.predict([x]).tolist() == ["b"]


@pytest.mark.parametrize("labels", [["no", "yes"], ["1", "true"], [False, True], [-1, 1], [-1.0, 1.0]])
def test_labels_are_strings_booleans_and_integers(labels, client, name):
    X, y = blobs(classes=2)
    model = LASVMClassifier(class_weight={labels[1]: 2.0}).fit(X, np.array(labels)[y])
    made = client.upload(name, model)
    assert json.dumps(made["classes"]) == json.dumps([int(n) if isinstance(n, float) else n for n in labels])
    assert np.array_equal(scores(client, name, X), columns(model, X))
    back = load(client.export_model(name))
    assert np.array_equal(back.predict(X), model.predict(X))


def test_a_model_that_the_server_trained_becomes_an_estimator(client, name):
    X, y = blobs(200)
    X[:, 0] *= 50.0
    client.create_model(name, kernel={"type": "rbf"}, features={"type": "dense", "dim": 2})
    labels = np.array(["c", "a", "b"])[y]
    client.learn(name, [{"x": row.tolist(), "y": str(label)} for row, label in zip(X, labels, strict=True)])
    model = load(client.export_model(name))
    assert (model.C, model.gamma, model.scale) == ("auto", "scale", "auto")
    named = client.predict(name, [{"x": row.tolist()} for row in X])["results"]
    assert model.classes_.tolist() == list(named[0]["scores"])
    assert np.array_equal(model.decision_function(X), scores(client, name, X))
    assert model.predict(X).tolist() == [result["prediction"] for result in named]
    model.partial_fit(X, labels)
    assert model.score(X, labels) > 0.85


def test_an_uploaded_model_works_like_any_other_model(client, name):
    X, y = blobs()
    model = LASVMClassifier(random_state=0).fit(X, y)
    client.upload(name, model)
    client.learn(name, [{"id": "new", "x": [0.0, 5.0], "y": 7}])
    assert client.model(name)["classes"] == [0, 1, 2, 7]
    assert client.learn(name, [{"id": "new", "x": [0.0, 5.0], "y": 7}])["results"][0]["duplicate"]
    client.finish(name)
    client.offer(name, [{"id": "c", "x": [1.0, 1.0]}])
    assert client.query(name, annotator="ann")["queries"][0]["id"] == "c"
    assert client.model(name)["certificate"]["kkt_violation"] < 1e-3
    client.import_model(f"{name}-copy", client.export_model(name))
    assert np.array_equal(scores(client, f"{name}-copy", X), scores(client, name, X))


def test_an_invalid_upload_is_refused_with_a_message(client, server, name):
    X, y = blobs(classes=2)
    with pytest.raises(TypeError, match=r"upload takes a fitted estimator .* last step, got int"):
        client.upload(name, 7)
    data = LASVMClassifier().fit(X, y).to_model_file()
    for forged in (data[:-1] + b"\xff", data.replace(b'"dim":2', b'"dim":3')):
        answer = httpx.post(
            f"{server.url}/models/{name}/import", content=forged, headers={"content-type": "application/octet-stream"}
        )
        assert answer.status_code == 422
        assert "checksum" in answer.json()["error"]["message"]
    with pytest.raises(HingedError):
        client.model(name)
    client.create_model(name, kernel={"type": "rbf"}, features={"type": "dense", "dim": 2})
    with pytest.raises(HingedError, match="already"):
        client.upload(name, LASVMClassifier().fit(X, y))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda facts, _: facts.update(version=2), "the file has version 2"),
        (lambda facts, _: facts["machine"].update(learned=0), "learned"),
        (lambda facts, _: facts["machine"].update(learned=2**52 + 1), "at most"),
        (lambda facts, _: facts["machine"].update(labels=[0, 0.5]), "labels are strings, integers"),
        (lambda facts, _: facts["machine"].update(labels=[0]), "1 labels do not fit 2 weights"),
        (lambda facts, _: facts["machine"].update(fading=True), "half-life"),
        (lambda facts, _: facts["machine"].update(solver="sorcery"), "solver must be one of"),
        (lambda facts, _: facts["machine"]["kernel"].pop("gamma"), "a number for gamma"),
        (lambda facts, _: facts["machine"]["parameters"].update(C=-1.0), "C"),
        (lambda facts, _: facts["machine"].update(scale={"form": "dense", "rest": 1.0}), "no array"),
        (lambda _, arrays: arrays.update({"solver.alpha": 1e9 * arrays["solver.alpha"]}), "alpha"),
        (lambda _, arrays: arrays.pop("solver.key"), "no array key"),
    ],
)
def test_a_file_with_impossible_contents_is_refused(change, problem, client, name):
    X, y = blobs(classes=2)
    facts, arrays = decode(LASVMClassifier().fit(X, y).to_model_file(), KIND)
    change(facts, arrays)
    with pytest.raises(HingedError, match=problem):
        client.import_model(name, encode(KIND, facts, arrays))
    assert name not in [model["model"] for model in client.models()]
