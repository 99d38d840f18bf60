"""Weights of examples, by every way that examples come in."""

import json

import httpx
import numpy as np
import pytest

from hinged import Client, HingedError
from tests.helpers.server import RunningServer

BODY = {"solver": "lasvm", "kernel": {"type": "rbf", "gamma": 1}, "features": {"type": "dense", "dim": 2}, "C": 0.5}
BODY["features"]["scale"] = None


def stream(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.8 * rng.normal(size=n) > 0, "p", "n").tolist()
    return X, y, np.exp(rng.normal(size=n)).round(3).tolist()


def scores(client, model):
    probe = np.random.default_rng(1).normal(size=(5, 2))
    return [result["scores"] for result in client.predict_rows(model, probe)["results"]]


def examples_of(X, y, weights):
    return [
        {"id": f"e{k}", "x": x, "y": label, "weight": weight}
        for k, (x, label, weight) in enumerate(zip(X.tolist(), y, weights, strict=True))
    ]


@pytest.mark.long
def test_json_frames_and_bytes_teach_the_same_weights(ask):
    X, y, weights = stream(60)
    told = examples_of(X, y, weights)
    names = [ask.new_model(**BODY, classes=["n", "p"]).name for _ in range(5)]
    with Client(ask.url) as client:
        client.learn(names[0], told)
        with client.stream(names[1]) as frames:
            frames.learn(told)
        client.learn_rows(names[2], X, y, weights=weights)
        client.learn_rows(names[3], X, y)
        for example in told:  # alone, in the parts of a single example
            httpx.post(f"{ask.url}/models/{names[4]}/learn", json=example)
        found = [scores(client, name) for name in names]
    assert found[0] == found[1] == found[2] == found[4] != found[3]


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (0, "examples[1].weight: Input should be greater than 0"),
        (-1, "examples[1].weight: Input should be greater than 0"),
        ("2", "examples[1].weight: Input should be a valid number"),
        (True, "examples[1].weight: Input should be a valid number"),
        (1e20, "examples[1].weight: C times the weight of an example must be > 0 and < 1e+15"),
    ],
)
def test_an_invalid_weight_is_refused_and_nothing_changes(ask, weight, said):
    model = ask.new_model(**BODY)
    body = {"examples": [{"x": [0, 1], "y": "a"}, {"x": [1, 0], "y": "b", "weight": weight}]}
    answer = httpx.post(f"{ask.url}/models/{model.name}/learn", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith(said)
    assert model.figures()["examples"] == 0


@pytest.mark.parametrize("weights", [[1.0, np.nan], [1.0, 0.0], [np.inf, 1.0]])
def test_invalid_weights_of_rows_are_refused(ask, weights):
    model = ask.new_model(**BODY)
    with Client(ask.url) as client, pytest.raises(HingedError, match="weight: must be > 0 and finite"):
        client.learn_rows(model.name, np.eye(2), ["a", "b"], weights=weights)
    with Client(ask.url) as client, pytest.raises(ValueError, match="weights must have one entry"):
        client.learn_rows(model.name, np.eye(2), ["a", "b"], weights=[1.0])


def test_a_label_that_comes_late_brings_its_weight(ask):
    one, other = (ask.new_model(**BODY, classes=["n", "p"]).name for _ in range(2))
    X, y, weights = stream(40)
    told = examples_of(X, y, weights)
    with Client(ask.url) as client:
        client.predict(one, [{"id": e["id"], "x": e["x"]} for e in told])
        client.learn(one, [{name: e[name] for name in ("id", "y", "weight")} for e in told])
        client.learn(other, told)
        assert scores(client, one) == scores(client, other)


def test_an_answer_to_a_question_has_no_weight(ask):
    model = ask.new_model(**BODY)
    with Client(ask.url) as client:
        client.offer(model.name, [{"id": "q", "x": [0, 1]}])
        (question,) = client.query(model.name, annotator="ann")["queries"]
        answer = {"id": "q", "y": "a", "lease": question["lease"], "weight": 2}
        with pytest.raises(HingedError, match="an example with a lease has no weight"):
            client.learn(model.name, [answer])


def test_weights_stay_after_a_kill_a_correction_and_a_retraining(tmp_path):
    X, y, weights = stream(60)
    with RunningServer(tmp_path / "data") as server:
        with Client(server.url) as client:
            client.create_model("m", **BODY, classes=["n", "p"])
            client.learn("m", examples_of(X, y, weights))
            before = scores(client, "m")
        server.kill()
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        client.wait_until_ready()
        assert scores(client, "m") == before
        wrong = "n" if y[3] == "p" else "p"
        client.wait(client.correct("m", "e3", wrong))
        client.wait(client.forget("m", "e5"))
        kept = [k for k in range(60) if k != 5]
        labels = [wrong if k == 3 else y[k] for k in kept]
        client.create_model("fresh", **BODY, classes=["n", "p"])
        client.learn("fresh", examples_of(X[kept], labels, [weights[k] for k in kept]))
        assert json.dumps(scores(client, "m")) == json.dumps(scores(client, "fresh"))
