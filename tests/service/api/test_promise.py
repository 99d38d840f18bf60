"""Promises through a real server: sets by every way, questions, late labels, changes, a kill, and forgetting."""

import numpy as np
import pytest

from hinged import Client
from tests.helpers.http_client import refusal
from tests.helpers.payments import BODY, COSTS, stream
from tests.helpers.server import RunningServer

PROMISE = {"error": 0.05}


def examples(n, seed, prefix=None):
    told = [{"x": x} for x in stream(n, seed)[0].tolist()]
    return told if prefix is None else [{"id": f"{prefix}{k}", **one} for k, one in enumerate(told)]


@pytest.fixture(scope="module")
def payments(ask):
    """A model with a promise and costs that has learned 600 payments."""
    model = ask.new_model(**BODY, promise=PROMISE, costs=COSTS)
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(600))
    return model


def test_each_prediction_has_the_set_of_the_labels_that_are_likely_enough(ask, payments):
    with Client(ask.url) as client, client.stream(payments.name) as frames:
        told = examples(200, 1)
        results = client.predict(payments.name, told)["results"]
        assert frames.predict(told).result()["results"] == results
        alone = [client.predict(payments.name, one)["results"][0] for one in told[:10]]
    assert [one["set"] for one in alone] == [one["set"] for one in results[:10]]
    assert {tuple(result["set"]) for result in results} >= {("ok",), ("fraud",)}
    assert not any("lacking" in result for result in results)
    # One threshold for both classes: a label is in the set if the other label's score is not above it.
    for label, other in (("ok", "fraud"), ("fraud", "ok")):
        inside = [result["scores"][other] for result in results if label in result["set"]]
        outside = [result["scores"][other] for result in results if label not in result["set"]]
        assert max(inside) < min(outside)


def test_rows_of_bytes_and_explained_predictions_have_the_same_sets(ask, payments):
    X, _ = stream(50, 2)
    with Client(ask.url) as client:
        rows = client.predict_rows(payments.name, X.astype(np.float32))["results"]
        plain = client.predict(payments.name, [{"x": x} for x in X.astype(np.float32).tolist()], explain=2)["results"]
    assert [one["set"] for one in rows] == [one["set"] for one in plain]


def test_a_decision_whose_set_has_no_label_or_several_is_a_question(ask, payments):
    with Client(ask.url) as client:
        results = client.decide(payments.name, examples(300, 3))["results"]
    asked = [result for result in results if result["reason"] == "promise"]
    assert asked
    for result in results:
        assert (len(result["set"]) != 1) == (result["reason"] == "promise")
        if result["reason"] == "promise":
            assert (result["decision"], result["cost"], result["probability"]) == ("ask", 2, None)
            assert result["question"]
    assert {result["reason"] for result in results} == {"promise", "cost"}


def test_without_a_cost_of_asking_decisions_keep_to_the_costs(ask):
    model = ask.new_model(**BODY, promise=PROMISE, costs={"fraud": {"ok": 50}})
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(300))
        results = client.decide(model.name, examples(100, 3))["results"]
    assert {result["reason"] for result in results} == {"cost"}
    assert {len(result["set"]) for result in results} > {1}


def test_before_enough_labels_the_set_has_all_classes_and_says_how_many_labels_are_lacking(ask):
    model = ask.new_model(**BODY, promise={"error": 0.02}, costs=COSTS, classes=["ok", "fraud"])
    with Client(ask.url) as client:
        for learned in (0, 30):
            X, y = stream(30)
            if learned:
                client.learn_rows(model.name, X, y)
            (result,) = client.predict(model.name, {"x": [0, 1]})["results"]
            assert (sorted(result["set"]), result["lacking"]) == (["fraud", "ok"], 50 if not learned else 21)
            (result,) = client.decide(model.name, {"x": [0, 1]})["results"]
            assert (result["decision"], result["reason"], result["lacking"] > 0) == ("ask", "promise", True)


def test_a_model_without_a_promise_answers_as_before(ask):
    model = ask.new_model(**BODY, costs=COSTS)
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(100))
        told = (
            client.predict(model.name, {"x": [0, 1]})["results"] + client.decide(model.name, {"x": [0, 1]})["results"]
        )
        assert not any({"set", "lacking"} & one.keys() for one in told)
        assert "promise" not in client.model(model.name)["metrics"]


def test_a_promise_comes_changes_and_goes_by_patch(ask):
    model = ask.new_model(**BODY)
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(100))
        assert "certificate" in client.change_model(model.name, promise={"error": 0.1})  # in place
        (result,) = client.predict(model.name, {"x": [0, 1]})["results"]
        assert (result["set"], result["lacking"]) == (["ok", "fraud"], 20)
        client.learn_rows(model.name, *stream(400, 1))
        figures = client.model(model.name)["metrics"]["promise"]
        assert (figures["all"]["examples"], figures["promised"], figures["lacking"]) == (380, 0.9, 0)
        assert figures["all"]["coverage"] == pytest.approx(0.9, abs=0.03)
        client.change_model(model.name, promise={"error": {"fraud": 0.1, "ok": 0.1}})
        figures = client.model(model.name)["metrics"]["promise"]
        assert (figures["all"]["examples"], figures["lacking"]) == (0, 40)
        assert client.model(model.name)["configuration"]["promise"] == {"error": {"fraud": 0.1, "ok": 0.1}}
        client.change_model(model.name, promise=None)
        assert "promise" not in client.model(model.name)["metrics"]
        assert "set" not in client.predict(model.name, {"x": [0, 1]})["results"][0]


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        (0.05, "promise must be an object with one part"),
        ({}, "promise must be an object with one part"),
        ({"error": 0.05, "level": 1}, "promise must be an object with one part"),
        ({"error": 0}, "error must be a rate from 0.001 to 0.5, got 0"),
        ({"error": True}, "error must be a rate from 0.001 to 0.5, got true"),
        ({"error": "5 %"}, 'error must be a rate from 0.001 to 0.5, got "5 %"'),
        ({"error": {}}, "error must be a rate, or an object with the rates of 1 to 32 classes"),
        ({"error": {"fraud": 0.9}}, 'error of "fraud" must be a rate from 0.001 to 0.5, got 0.9'),
        ({"error": {str(k): 0.1 for k in range(33)}}, "the rates of 1 to 32 classes"),
    ],
)
def test_invalid_promises_are_refused(ask, promise, said):
    answer = ask("PUT", "/models/refused", json={**BODY, "promise": promise})
    assert said in refusal(answer, 422, "invalid")["message"]


def test_prometheus_has_coverage_and_size(ask, payments):
    text = ask("GET", "/metrics").text
    for figure in ("coverage_ratio", "set_size"):
        assert f'hinged_promise_{figure}{{class="",model="{payments.name}"}}' in text


def test_sets_figures_and_waiting_sets_survive_a_kill_and_forgetting_leaves_nothing(tmp_path):
    X, y = stream(500)
    waiting, probe = examples(60, 8, "waits-"), examples(100, 9)
    with RunningServer(tmp_path / "data") as server:
        with Client(server.url) as client:
            client.create_model(
                "m", **BODY, promise={"error": {"fraud": 0.1, "ok": 0.05}}, labels={"pending_durable": True}
            )
            client.learn_rows("m", X[:300], y[:300])
            told = client.predict("m", waiting)["results"]
            client.learn_rows("m", X[300:], y[300:])
            sets, figures = client.predict("m", probe)["results"], client.model("m")["metrics"]["promise"]
        server.kill()
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        client.wait_until_ready()
        assert client.model("m")["metrics"]["promise"] == figures
        assert client.predict("m", probe)["results"] == sets
        client.wait(client.forget("m", "waits-0"))
        _, labels = stream(60, 8)
        late = [{**one, "y": label} for one, label in zip(waiting, labels, strict=True)][1:]
        client.learn("m", late)
        after = client.model("m")["metrics"]["promise"]
        inside = sum(label in one["set"] for one, label in zip(told[1:], labels[1:], strict=True))
        assert after["all"]["examples"] == figures["all"]["examples"] + 59
        covered = [of["all"]["coverage"] * of["all"]["examples"] for of in (figures, after)]
        assert covered[1] - covered[0] == pytest.approx(inside)
        sizes = [of["all"]["size"] * of["all"]["examples"] for of in (figures, after)]
        assert sizes[1] - sizes[0] == pytest.approx(sum(len(one["set"]) for one in told[1:]))
        client.wait(client.forget("m", "waits-1"))  # a learned example: counts stay, nothing names it
        assert client.model("m")["metrics"]["promise"] == after
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"waits-0\x00" not in content
            assert b'"waits-0"' not in content
            assert b'"waits-1"' not in content
