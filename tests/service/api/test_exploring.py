"""A share of the decisions for a class is not taken, so that labels come; these labels weigh 1 / share."""

import numpy as np
import pytest
from scipy.stats import binomtest

from hinged import Client
from tests.helpers.http_client import refusal
from tests.helpers.payments import BODY, COSTS, stream
from tests.helpers.server import RunningServer, eventually

SHARE = 0.2
PLAIN = {name: cost for name, cost in COSTS.items() if name != "ask"}


def payments(ask, **parts):
    """Return a model that has learned 500 payments."""
    model = ask.new_model(**BODY, costs=PLAIN, **parts)
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(500))
    return model


def told(n, seed=1, prefix="p"):
    X, y = stream(n, seed=seed)
    return [{"id": f"{prefix}{k}", "x": x} for k, x in enumerate(X.tolist())], y


def test_a_share_of_the_decisions_is_not_taken_and_the_rest_stays_as_it_was(ask):
    model = payments(ask)
    examples, _ = told(3_000)
    with Client(ask.url) as client:
        before = client.decide(model.name, examples)["results"]
        client.change_model(model.name, explore={"fraud": SHARE})
        after = client.decide(model.name, examples, probabilities=True)["results"]
        assert client.decide(model.name, examples, probabilities=True)["results"] == after
        without_id = client.decide(model.name, [{"x": one["x"]} for one in examples])["results"]
    explored = [k for k, one in enumerate(after) if one["reason"] == "explore"]
    frauds = sum(one["decision"] == "fraud" for one in before)
    assert binomtest(len(explored), frauds, SHARE).pvalue > 1e-6
    for k, (one, then) in enumerate(zip(after, before, strict=True)):
        chances = one.pop("probabilities")
        if k not in set(explored):
            assert one == then
            continue
        assert (then["decision"], one["decision"]) == ("fraud", "ok")
        assert one["probability"] == chances["ok"]
        assert one["cost"] == pytest.approx(50 * chances["fraud"])
    assert [one["decision"] for one in without_id] == [one["decision"] for one in before]


def test_the_label_of_an_explored_example_weighs_one_divided_by_the_share(ask):
    models = [payments(ask, **parts) for parts in ({"explore": {"fraud": SHARE}}, {})]
    examples, labels = told(300)
    with Client(ask.url) as client:
        results = client.decide(models[0].name, examples)["results"]
        explored = {one["id"] for one in results if one["reason"] == "explore"}
        assert len(explored) > 5
        for one, label in zip(examples, labels, strict=True):
            weight = 1 / SHARE if one["id"] in explored else 1
            client.learn(models[0].name, [{"id": one["id"], "y": label, "weight": 3}])
            client.learn(models[1].name, [{**one, "y": label, "weight": 3 * weight}])
        answers = [client.predict(model.name, [{"x": x} for x in stream(50, seed=9)[0].tolist()]) for model in models]
    scores = [[one["scores"] for one in answer["results"]] for answer in answers]
    assert scores[0] == scores[1]


def test_with_exploration_the_cost_of_decisions_is_that_of_the_whole_stream(ask):
    """Only the labels of payments that were let through come. Without exploration the figures describe only these."""
    whole, blind, explored = (payments(ask, **parts) for parts in ({}, {}, {"explore": {"fraud": SHARE}}))
    examples, labels = told(4_000, seed=3)
    with Client(ask.url) as client:
        for model in (whole, blind, explored):
            client.change_model(model.name, costs={**PLAIN, "ok": {"fraud": 11}})  # begin to count
            results = client.decide(model.name, examples)["results"]
            known = [
                {"id": one["id"], "y": y}
                for one, y in zip(results, labels, strict=True)
                if model is whole or one["decision"] == "ok"
            ]
            for begin in range(0, len(known), 500):
                client.learn(model.name, known[begin : begin + 500])
        costs = [client.model(m.name)["metrics"]["decisions"]["always"]["ok"] for m in (whole, blind, explored)]
    assert costs[1] < 0.5 * costs[0]
    assert costs[2] == pytest.approx(costs[0], rel=0.15)


def test_explored_predictions_survive_a_kill(tmp_path):
    examples, labels = told(200)
    with RunningServer(tmp_path / "a") as server, Client(server.url) as client:
        for name in ("killed", "calm"):
            parts = {"explore": {"fraud": 0.5}, "labels": {"pending_durable": True}}
            client.create_model(name, **BODY, costs=PLAIN, **parts)
            client.learn_rows(name, *stream(500))
            explored = {one["id"] for one in client.decide(name, examples)["results"] if one["reason"] == "explore"}
        assert explored
        server.kill()
        server.start()
        client.wait_until_ready(60)
        eventually(lambda: client.model("killed")["state"] == "serving")
        for name in ("killed", "calm"):
            client.learn(name, [{"id": one["id"], "y": y} for one, y in zip(examples, labels, strict=True)])
        found = [
            client.predict(name, [{"x": x} for x in stream(20, seed=9)[0].tolist()])["results"]
            for name in ("killed", "calm")
        ]
        for one, other in zip(*found, strict=True):
            assert one["scores"] == other["scores"]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"explore": {"fraud": 0}}, '"fraud" must be a share from 0.001 to 1'),
        ({"explore": {"fraud": True}}, "must be a share"),
        ({"explore": {"fraud": "0.1"}}, "must be a share"),
        ({"explore": {}}, "explore must be an object of 1 to 8 classes"),
        ({"explore": []}, "explore must be an object"),
        ({"explore": {f"c{k}": 0.1 for k in range(9)}}, "explore must be an object"),
        ({"explore": {"ask": 0.1}}, 'explore takes classes, got "ask"'),
        ({"explore": {"fraud": 0.1}, "costs": None}, "explore needs costs"),
        ({"explore": {"ok": 0.1, "fraud": 0.1}, "classes": ["ok", "fraud"]}, "must leave at least one class"),
        ({"explore": {"fraud": 0.1}, "capacity": {"fraud": {"most": 1, "per": "1d"}}}, "or a capacity, got both"),
        ({"explore": {"fraud": 0.1}, "solver": "bsca", "extra_steps": 1}, "takes no weights"),
    ],
)
def test_invalid_shares_are_refused(ask, parts, problem):
    assert (
        problem
        in refusal(ask("PUT", "/models/wrong", json={**BODY, "costs": PLAIN, **parts}), 422, "invalid")["message"]
    )


def test_shares_come_and_go_at_once_and_need_the_costs(ask):
    model = payments(ask)
    with Client(ask.url) as client:
        client.change_model(model.name, explore={"fraud": 0.5})
    refused = refusal(ask("PATCH", f"/models/{model.name}", json={"costs": None}), 422, "invalid")
    assert "explore needs costs" in refused["message"]
    assert ask("PATCH", f"/models/{model.name}", json={"costs": None, "explore": None}).status_code == 200


def test_where_every_other_class_is_limited_nothing_is_explored(ask):
    model = payments(ask, explore={"fraud": 1}, capacity={"ok": {"most": 10_000, "per": "366d"}})
    examples, _ = told(50)
    with Client(ask.url) as client:
        assert "explore" not in {one["reason"] for one in client.decide(model.name, examples)["results"]}
    assert np.isfinite(model.figures()["capacity"]["ok"]["taken"])
