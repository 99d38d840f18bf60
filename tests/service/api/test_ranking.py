"""Rank candidates, explain predictions, and find suspect labels on a real server."""

import random

import pytest

from tests.helpers.http_client import AskedModel, example, refusal
from tests.helpers.questions import line_model, named_model, taught


@pytest.fixture
def model(ask):
    return line_model(ask)


def test_ranking_puts_the_least_certain_first_and_changes_nothing(model):
    before = model.figures()
    body = {"examples": [{"id": "far", "x": [2, 0]}, {"id": "near", "x": [0.1, 0]}, {"x": [-0.6, 0]}], "n": 2}
    answer = model.ask("POST", f"{model.path}/rank", json=body).json()
    assert list(answer) == ["model", "position", "ranking"]
    assert [entry["id"] for entry in answer["ranking"]] == ["near", None]
    assert answer["ranking"][0]["score"] < answer["ranking"][1]["score"]
    labelled = {"examples": [{"id": "a", "x": [2, 0], "y": "left"}, {"id": "b", "x": [2, 0], "y": "right"}]}
    worst = model.ask("POST", f"{model.path}/rank", json={**labelled, "strategy": "gradient"}).json()["ranking"]
    assert [entry["id"] for entry in worst] == ["a", "b"]
    refusal(model.ask("POST", f"{model.path}/rank", json={**body, "strategy": "gradient"}), 422, "invalid")
    assert model.figures() == before


def test_a_prediction_is_explained_by_the_points_that_contribute_most(ask):
    model = taught(ask)
    model.learn(example([3, 3], "right", "mine"))
    model.finish()
    body = {"x": [2.9, 3], "explain": 3}
    result = model.ask("POST", f"{model.path}/predict", json=body).json()["results"][0]
    parts = result["support_vectors"]
    assert parts[0]["id"] == "mine"
    assert parts[0]["label"] == "right"
    assert parts[0]["contribution"] > 0
    assert abs(parts[0]["contribution"]) >= abs(parts[-1]["contribution"])
    whole = model.ask("POST", f"{model.path}/predict", json={**body, "explain": 1000}).json()["results"][0]
    bias = whole["scores"]["right"] - sum(p["contribution"] for p in whole["support_vectors"])
    assert abs(bias) < 2
    assert len(whole["support_vectors"]) == model.figures()["support_vectors"]
    kernel = {"type": "rbf", "gamma": 1.0}
    body_of_fogd = {"solver": "fogd", "kernel": kernel, "features": {"type": "dense", "dim": 2}}
    model.ask("PUT", f"{model.path}-fogd", json=body_of_fogd)
    fogd = AskedModel(model.ask, f"{model.name}-fogd")
    fogd.learn(example([1, 1], "a"), example([0, 1], "b"))
    refusal(fogd.ask("POST", f"{fogd.path}/predict", json=body), 422, "invalid")


def test_a_wrong_label_is_suspected(ask):
    model = ask.new_model(C=1)
    rng = random.Random(1)
    examples = [
        example([s * 2 + rng.gauss(0, 0.3), rng.gauss(0, 0.3)], "right" if s > 0 else "left")
        for _ in range(60)
        for s in (-1, 1)
    ]
    faint = {**example([2.2, 0], "left", "faint"), "weight": 0.001}  # counts too little to be worth a look
    light = {**example([2.4, 0], "left", "light"), "weight": 0.02}
    model.learn(*examples, example([2, 0], "left", "wrong"), faint, light)
    model.finish()
    found = model.ask("GET", f"{model.path}/suspects", params={"n": 5}).json()["suspects"]
    assert {suspect["id"] for suspect in found} == {"wrong", "light"}
    found = [suspect for suspect in found if suspect["id"] == "wrong"]
    assert (found[0]["label"], found[0]["prediction"], found[0]["reason"]) == ("left", "right", "contradicts")
    assert found[0]["margin"] < 0


def test_examples_that_the_ramp_set_aside_are_suspected_and_counted(ask):
    model = ask.new_model(solver="lasvm-nc", C=10, ramp_start=5, ramp_s=-0.5)
    rng = random.Random(2)
    stream = [(s, [s + rng.gauss(0, 0.3), rng.gauss(0, 0.3)]) for _ in range(200) for s in (-1, 1)]
    model.learn(*(example(x, s if k % 20 else -s) for k, (s, x) in enumerate(stream)))
    discards = model.figures()["discards"]
    assert set(discards) == {"-1", "1"}
    assert sum(d["wrong"] for d in discards.values()) > 3
    found = model.ask("GET", f"{model.path}/suspects", params={"n": 50}).json()["suspects"]
    assert {s["reason"] for s in found} <= {"contradicts", "set aside"}
    assert any(s["reason"] == "set aside" for s in found)


# -- earlier faults ---------------------------------------------------------------------------------------------------


def test_many_named_examples_are_explained_at_once(ask):
    model = named_model(ask, "explained")
    model.learn(*(example({"a": k / 10, "b": str(k % 3)}, k % 2) for k in range(40)))
    body = {"examples": [{"x": {"a": k / 7}} for k in range(500)], "explain": 2}
    results = model.ask("POST", f"{model.path}/predict", json=body).json()["results"]
    assert len(results) == 500
    assert all(len(r["support_vectors"]) == 2 for r in results)
