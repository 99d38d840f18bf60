"""Late labels: which predictions wait for labels, how long they wait, and which labels the server wants."""

import random
import time

import pytest

from tests.helpers.http_client import AskedModel, example, refusal
from tests.helpers.questions import LINEAR, label, line_model, taught
from tests.helpers.server import eventually


@pytest.fixture
def model(ask):
    return line_model(ask)


def test_a_late_label_is_learned_and_counts_with_the_earlier_prediction(ask):
    model = taught(ask)
    predicted = model.ask("POST", f"{model.path}/predict", json={"id": "late", "x": [0.2, 0]}).json()["results"][0]
    assert predicted["prediction"] == "right"
    model.learn(*(example([0.2 + k / 100, 0], "left") for k in range(8)))
    assert model.predict([0.2, 0])[0]["prediction"] == "left"
    before = model.figures()["metrics"]
    (result,) = label(model, {"id": "late", "y": "left"}).json()["results"]
    assert result["prediction"] == "right"
    assert result["score"] == predicted["scores"]["right"]
    after = model.figures()["metrics"]
    assert after["predicted"] == before["predicted"] + 1
    assert after["accuracy"] < before["accuracy"]  # the first prediction counts, and it was wrong
    (again,) = label(model, {"id": "late", "y": "left"}).json()["results"]
    assert again["duplicate"]
    refusal(label(model, {"id": "late", "y": "right"}), 409, "conflict")


def test_a_label_with_only_an_id_belongs_to_the_newest_x(model):
    for x in ([1.0, 0.0], [1.5, 0.5]):
        model.ask("POST", f"{model.path}/predict", json={"id": "moved", "x": x})
        if x[1] == 0:
            model.learn(example([2, 0], "right"))  # the waiting predictions are logged first
    label(model, {"id": "moved", "y": "right"})
    (result,) = model.learn(example([1.5, 0.5], "right", "moved"))
    assert result["duplicate"]


def test_predictions_wait_in_bounded_number_and_for_a_bounded_time(ask):
    model = ask.new_model(labels={"pending_max": 5, "pending_s": 1.0})
    body = {"examples": [{"id": f"p{k}", "x": [k, 0]} for k in range(8)]}
    model.ask("POST", f"{model.path}/predict", json=body)
    too_old = time.monotonic() + 1.01
    refusal(label(model, {"id": "p2", "y": 1}), 404, "not_found")
    assert label(model, {"id": "p3", "y": 1}).status_code == 200
    time.sleep(max(0.0, too_old - time.monotonic()))
    model.learn(example([1, 1], 0))
    refusal(label(model, {"id": "p7", "y": 1}), 404, "not_found")
    assert model.figures()["pending"] == 0


def test_a_model_may_keep_no_predictions_or_keep_them_durably(ask):
    none = ask.new_model(labels={"pending_max": 0})
    none.ask("POST", f"{none.path}/predict", json={"id": "p", "x": [1, 0]})
    refusal(label(none, {"id": "p", "y": 1}), 404, "not_found")
    durable = ask.new_model(labels={"pending_durable": True})
    position = durable.figures()["position"]
    durable.ask("POST", f"{durable.path}/predict", json={"id": "p", "x": [1, 0]})
    assert durable.figures()["position"] == position + 1
    assert label(durable, {"id": "p", "y": 1}).status_code == 200


def test_labels_are_wanted_inside_the_margin_and_within_the_budget(ask):
    model = taught(ask, kernel=LINEAR, labels={"budget": 0.2, "explore": 0.1})
    rng = random.Random(7)
    xs = [[rng.uniform(-2, 2), rng.uniform(-1, 1)] for _ in range(3000)]
    results = [r for b in range(0, 3000, 500) for r in model.predict(*xs[b : b + 500])]
    wishes = [r["label"] for r in results]
    assert 0.15 < sum(w["wanted"] for w in wishes[1000:]) / 2000 < 0.25
    assert {w["reason"] for w in wishes} == {None, "active", "explore"}
    assert all(w["wanted"] == (w["reason"] is not None) for w in wishes)
    doubtful = [w for r, w in zip(results, wishes, strict=True) if abs(r["scores"]["right"]) < 0.99]
    sure = [w for r, w in zip(results, wishes, strict=True) if abs(r["scores"]["right"]) > 1.01]
    assert {w["probability"] for w in sure} == {0.1 * 0.2}
    assert min(w["probability"] for w in doubtful) > 0.1
    # If the server wanted a label, the late label counts under the reason of that decision.
    ids = [{"id": f"w{k}", "x": x} for k, x in enumerate(xs[:200])]
    wanted = model.ask("POST", f"{model.path}/predict", json={"examples": ids}).json()["results"]
    chosen = [r for r in wanted if r["label"]["reason"] == "active"]
    label(model, *({"id": r["id"], "y": "right"} for r in chosen))
    assert model.figures()["metrics"]["sources"]["queried"]["predicted"] == len(chosen)
    explored = [r for r in wanted if r["label"]["reason"] == "explore"]
    label(model, *({"id": r["id"], "y": "right"} for r in explored))
    every = [{"id": f"w{k}", "y": "right"} for k in range(200)]  # labels that were not wanted do not count
    label(model, *every)
    estimate = model.figures()["metrics"]["estimate"]
    assert estimate["classes"]["right"]["share"]["value"] == 1.0
    assert estimate["examples"] == -(-(len(chosen) + len(explored)) // 6)


# -- earlier faults ---------------------------------------------------------------------------------------------------


def test_a_label_belongs_to_the_newest_x_of_its_id(ask):
    model = taught(ask)
    for x in ([1, 1], [2, 2]):
        position = model.figures()["position"]
        model.ask("POST", f"{model.path}/predict", json={"id": "k", "x": x})
        eventually(lambda position=position: model.figures()["position"] > position)  # the log contains it
    label(model, {"id": "k", "y": "right"})
    assert label(model, {"id": "k", "x": [2, 2], "y": "right"}).json()["results"][0]["score"] is not None
    refusal(label(model, {"id": "k", "x": [1, 1], "y": "right"}), 409, "conflict")


def test_a_prediction_expires_even_if_nothing_else_happens(ask):
    model = ask.new_model(labels={"pending_s": 0.3})
    position = model.figures()["position"]
    model.ask("POST", f"{model.path}/predict", json={"id": "k", "x": [1, 1]})
    eventually(lambda: model.figures()["position"] > position)  # the log contains it
    time.sleep(0.4)
    refusal(label(model, {"id": "k", "y": 1}), 404, "not_found")


def test_a_refused_prediction_does_not_wait_for_its_label(ask):
    body = {"solver": "fogd", "kernel": {"type": "rbf", "gamma": 1.0}, "features": {"type": "dense", "dim": 2}}
    ask("PUT", "/models/unexplained", json=body)
    model = AskedModel(ask, "unexplained")
    model.learn(example([0, 1], "a"), example([1, 0], "b"))
    answer = ask("POST", f"{model.path}/predict", json={"id": "k", "x": [1, 1], "explain": 2})
    refusal(answer, 422, "invalid")
    refusal(label(model, {"id": "k", "y": "a"}), 404, "not_found")
