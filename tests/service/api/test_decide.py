"""Decisions by costs, by every way that they are asked for: by HTTP, by a frame, and for rows as bytes."""

from functools import partial

import httpx
import pytest

from hinged import Client, HingedError
from tests.helpers import payments as of_payments
from tests.helpers.http_client import refusal
from tests.helpers.payments import BODY, COSTS
from tests.helpers.server import RunningServer

stream = partial(of_payments.stream, share=0.1)


@pytest.fixture(scope="module")
def payments(ask):
    """A model with costs that has learned 500 payments."""
    model = ask.new_model(**BODY, costs=COSTS)
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(500))
    return model


def cost(truth, decision):
    return 2 if decision == "ask" else COSTS[truth].get(decision, float(truth != decision))


def test_each_decision_has_the_lowest_expected_cost(ask, payments):
    X, _ = stream(200, seed=1)
    with Client(ask.url) as client:
        results = client.decide(payments.name, [{"x": x} for x in X], probabilities=True)["results"]
        some = client.decide(payments.name, {"x": X[0]}, probabilities=["fraud"])["results"][0]
    assert {result["decision"] for result in results} == {"ok", "fraud", "ask"}
    for result in results:
        chances = result["probabilities"]
        expected = {d: sum(p * cost(t, d) for t, p in chances.items()) for d in ("ok", "fraud")}
        least = min(2, *expected.values())
        assert result["cost"] == pytest.approx(least)
        assert result["reason"] == "cost"
        if result["decision"] == "ask":
            assert result["probability"] is None
        else:
            assert expected[result["decision"]] == pytest.approx(least)
            assert result["probability"] == chances[result["decision"]]
        assert ("question" in result) == (result["decision"] == "ask")
    assert some["probabilities"] == {"fraud": results[0]["probabilities"]["fraud"]}


def test_frames_rows_and_requests_get_the_same_decisions(ask, payments):
    X, _ = stream(60, seed=2)
    told = [{"x": x} for x in X.tolist()]
    with Client(ask.url) as client, client.stream(payments.name) as frames:
        found = [frames.decide(told).result()["results"], client.decide(payments.name, told)["results"]]
        alone = [client.decide(payments.name, one)["results"][0] for one in told[:10]]
    for results in found:
        for result in results:
            result.pop("question", None)
    assert found[0] == found[1]
    assert [one["decision"] for one in alone] == [one["decision"] for one in found[0][:10]]


def test_a_question_waits_in_the_pool_and_its_label_teaches(ask, payments):
    X, _ = stream(300, seed=3)
    with Client(ask.url) as client:
        told = [{"id": f"q{k}", "x": x} for k, x in enumerate(X.tolist())]
        results = client.decide(payments.name, told)["results"]
        asked = [result["id"] for result in results if result["decision"] == "ask"]
        assert asked
        assert all(result["question"] == result["id"] for result in results if result["decision"] == "ask")
        waiting = {each["id"] for each in client.candidates(payments.name, n=1_000)["candidates"]}
        assert waiting & {each["id"] for each in told} <= set(asked)
        before = client.model(payments.name)
        assert client.example(payments.name, asked[0])["label"] is None
        client.learn(payments.name, [{"id": asked[0], "y": "ok"}])
        other = next(result["id"] for result in results if result["decision"] != "ask")
        client.learn(payments.name, [{"id": other, "y": "ok"}])  # a decided example waits for its label, too
        after = client.model(payments.name)
        assert after["pool"]["size"] == before["pool"]["size"] - 1
        assert after["examples"] == before["examples"] + 2
        sources = [after["metrics"]["sources"].get("queried", {}), before["metrics"]["sources"].get("queried", {})]
        assert sources[0]["predicted"] == sources[1].get("predicted", 0) + 1
        xs = {each["id"]: each["x"] for each in told}
        with pytest.raises(HingedError, match=r"the pool has .* with another x"):
            client.decide(payments.name, [{"id": asked[1], "x": xs[given]} for given in asked[2:12]])


def test_a_refused_question_is_named_by_its_row_in_the_request(ask, payments):
    X, _ = stream(300, seed=4)
    told = [{"id": f"row{k}", "x": x} for k, x in enumerate(X.tolist())]
    with Client(ask.url) as client:
        decisions = [
            result["decision"] for result in client.decide(payments.name, [{"x": e["x"]} for e in told])["results"]
        ]
        first = next(k for k, decision in enumerate(decisions) if decision != "ask")
        row = next(k for k in range(first, 300) if decisions[k] == "ask")
        client.offer(payments.name, {**told[row], "x": [x + 1 for x in told[row]["x"]]})
        with pytest.raises(
            HingedError, match=rf"^examples\[{row}\]: the pool has 'row{row}' with another x"
        ) as refused:
            client.decide(payments.name, told)
        assert refused.value.details == {"index": row, "id": f"row{row}"}
        client.forget(payments.name, f"row{row}")
        with pytest.raises(HingedError, match=rf"^examples\[{row}\]: the example with id 'row{row}' was forgotten"):
            client.decide(payments.name, told)


def test_decisions_need_costs_and_costs_come_and_go_by_patch(ask):
    model = ask.new_model(**BODY)
    path = f"{model.path}/decide"
    said = refusal(ask("POST", path, json={"x": [0, 1]}), 409, "conflict")["message"]
    assert "has no costs" in said
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(300))
        before = client.model(model.name)
        assert "decisions" not in before["metrics"]
        changed = client.change_model(model.name, costs=COSTS)
        assert "certificate" in changed  # in place, without retraining
        assert client.model(model.name)["configuration"]["costs"] == COSTS
        (result,) = client.decide(model.name, {"x": [0.1, 0.1]})["results"]
        assert result["decision"] in ("ok", "fraud", "ask")
        assert result["reason"] == "cost"  # the examples before the costs tell the probabilities
        X, y = stream(200, seed=5)
        client.learn_rows(model.name, X, y)
        told = client.model(model.name)["metrics"]
        assert told["decisions"]["examples"] == 200
        assert told["decisions"]["cost"] < told["decisions"]["always"]["ok"]
        assert told["classes"]["fraud"]["long"]["share"] == pytest.approx(0.1, abs=0.05)
        client.change_model(model.name, costs=None)
        assert "decisions" not in client.model(model.name)["metrics"]
    refusal(ask("POST", path, json={"x": [0, 1]}), 409, "conflict")


def test_before_there_are_probabilities_a_person_is_asked(ask):
    asking, deciding = ask.new_model(**BODY, costs=COSTS), ask.new_model(**BODY, costs={"fraud": {"ok": 50}})
    for model, wanted in ((asking, ("ask", 2.0)), (deciding, (None, None))):
        (result,) = ask("POST", f"{model.path}/decide", json={"id": "first", "x": [0, 1]}).json()["results"]
        assert (result["decision"], result["cost"], result["reason"]) == (*wanted, "unknown")
        assert result["probability"] is None
    deciding.learn({"x": [0, 1], "y": "ok"}, {"x": [1, 0], "y": "fraud"})
    (result,) = ask("POST", f"{deciding.path}/decide", json={"x": [0, 1]}).json()["results"]
    assert (result["decision"], result["reason"]) == ("ok", "unknown")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"costs": {}}, "costs must name the costs of at least one true class"),
        ({"costs": {"ask": 2}}, "costs must name the costs of at least one true class"),
        ({"costs": {"fraud": 50}}, '"fraud" must be an object of decisions and their costs'),
        ({"costs": {"fraud": {"ok": -1}}}, '"fraud", "ok" must be a cost from 0 to 1e15'),
        ({"costs": {"fraud": {"ok": True}}}, '"fraud", "ok" must be a cost from 0 to 1e15'),
        ({"costs": {"fraud": {"ok": 1}, "ask": "2"}}, '"ask" must be a cost from 0 to 1e15'),
        ({"costs": {"f": {str(k): 1 for k in range(1_025)}}}, "at most 1024 costs are allowed"),
        ({"watch": "fraud"}, "watch must be a list of classes"),
        ({"watch": ["a", "a"]}, "watch must be at most 8 different classes"),
        ({"watch": [f"c{k}" for k in range(9)]}, "watch must be at most 8 different classes"),
    ],
)
def test_invalid_costs_are_refused(ask, part, said):
    answer = ask("PUT", "/models/refused", json=BODY | part)
    assert said in refusal(answer, 422, "invalid")["message"]


@pytest.mark.parametrize("body", [{"x": [0, 1], "explain": 1}, {"x": [0]}, {}, {"examples": []}])
def test_an_invalid_body_is_refused_and_nothing_is_asked(ask, body):
    model = ask.new_model(**BODY, costs=COSTS)
    refusal(ask("POST", f"{model.path}/decide", json=body), 422, "invalid")
    assert model.figures()["pool"]["size"] == 0


def test_many_rows_are_decided_and_asked_at_once(ask):
    model = ask.new_model(**BODY, costs={"fraud": {"ok": 50}, "ask": 0})
    X, y = stream(300)
    with Client(ask.url) as client:
        client.learn_rows(model.name, X, y)
        body = {"examples": [{"x": x} for x in stream(5_000, seed=9)[0].tolist()]}
        results = httpx.post(f"{ask.url}{model.path}/decide", json=body, timeout=120).json()["results"]
        assert len(results) == 5_000
        asked = {result["question"] for result in results if result["decision"] == "ask"}
        assert len(asked) > 4_000
        assert client.model(model.name)["pool"]["size"] == len(asked)


def test_prometheus_has_the_figures_of_watched_classes_and_the_cost(ask, payments):
    text = ask("GET", "/metrics").text
    assert f'hinged_class_average_precision{{class="fraud",model="{payments.name}"}}' in text
    assert f'hinged_decision_cost{{model="{payments.name}"}}' in text


def test_questions_figures_and_decisions_survive_a_kill(tmp_path):
    X, y = stream(400)
    probe = [{"id": f"p{k}", "x": x} for k, x in enumerate(stream(100, seed=4)[0].tolist())]
    with RunningServer(tmp_path / "data") as server:
        with Client(server.url) as client:
            client.create_model("m", **BODY, costs=COSTS, labels={"pending_durable": True})
            client.learn_rows("m", X[:200], y[:200])
            client.change_model("m", costs={**COSTS, "ask": 1})
            client.learn_rows("m", X[200:], y[200:])
            decided = client.decide("m", probe)["results"]
            told = client.model("m")
        server.kill()
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        client.wait_until_ready()
        again = client.model("m")
        assert again["metrics"] == told["metrics"]
        assert again["pool"]["size"] == sum(result["decision"] == "ask" for result in decided)
        assert client.decide("m", probe)["results"] == decided
        asked = next(result["id"] for result in decided if result["decision"] == "ask")
        client.wait(client.forget("m", asked))
        with pytest.raises(HingedError, match="was forgotten"):
            client.decide("m", [one for one in probe if one["id"] == asked])
