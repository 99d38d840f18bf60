"""Novelty through a real server: p-values by every way, questions, changes, a kill, and forgetting."""

import numpy as np
import pytest

from hinged import Client
from tests.helpers.http_client import refusal
from tests.helpers.payments import BODY, COSTS, stream
from tests.helpers.server import RunningServer

FAR = [[40.0, 0.0], [0.0, -55.0], [30.0, 30.0]]
LEVEL = {"level": 0.01}


def examples(X, prefix=None):
    told = [{"x": x} for x in np.asarray(X).tolist()]
    return told if prefix is None else [{"id": f"{prefix}{k}", **one} for k, one in enumerate(told)]


@pytest.fixture(scope="module")
def payments(ask):
    """A model with novelty and costs that has learned 600 payments."""
    model = ask.new_model(**BODY, novelty=LEVEL, costs=COSTS)
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(600))
    return model


def test_each_prediction_says_how_unlike_anything_seen_x_is(ask, payments):
    with Client(ask.url) as client:
        usual = [one["novelty"] for one in client.predict(payments.name, examples(stream(400, 1)[0]))["results"]]
        far = [one["novelty"] for one in client.predict(payments.name, examples(FAR))["results"]]
    assert np.mean(np.array(usual) <= 0.1) == pytest.approx(0.1, abs=0.06)
    assert max(far) == pytest.approx(1 / 513, rel=0.01)


def test_every_way_gives_the_same_p_values(ask, payments):
    X = np.vstack((stream(40, 2)[0], FAR)).astype(np.float32)
    told = examples(X)
    with Client(ask.url) as client, client.stream(payments.name) as frames:
        found = [
            client.predict(payments.name, told)["results"],
            frames.predict(told).result()["results"],
            client.predict_rows(payments.name, X)["results"],
            client.predict(payments.name, told, explain=2, intervals=True)["results"],
            [client.predict(payments.name, one)["results"][0] for one in told],
            client.decide(payments.name, told)["results"],
            frames.decide(told).result()["results"],
        ]
    p_values = [[one["novelty"] for one in results] for results in found]
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": list(X.shape), "data": X.ravel().tolist()}]}
    tensors = ask("POST", f"/v2/models/{payments.name}/infer", json=body).json()["outputs"]
    assert (tensors[-1]["name"], tensors[-1]["datatype"]) == ("novelty", "FP64")
    p_values.append(tensors[-1]["data"])
    outputs = [each["name"] for each in ask("GET", f"/v2/models/{payments.name}").json()["outputs"]]
    assert outputs[-4:] == ["novelty", "decision", "cost", "reason"]
    assert all(each == p_values[0] for each in p_values)


def test_a_prediction_without_an_id_changes_nothing(ask):
    model = ask.new_model(**BODY, novelty=LEVEL)
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(600))
        before = client.model(model.name)
        client.predict(model.name, examples(stream(300, 3)[0]))
        after = client.model(model.name)
    assert (after["position"], after["novelty"]) == (before["position"], before["novelty"])
    assert before["novelty"]["compared"] <= 512 < before["novelty"]["seen"]


def test_novel_x_are_questions_whatever_the_costs_the_promise_and_the_capacity_say(ask):
    rules = {"promise": {"error": 0.05}, "capacity": {"ask": {"most": 1, "per": "1d"}}}
    model = ask.new_model(**BODY, novelty=LEVEL, costs=COSTS, **rules)
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(600))
        results = client.decide(model.name, examples(np.vstack((FAR, stream(100, 4)[0]))))["results"]
        waiting = {each["id"] for each in client.candidates(model.name)["candidates"]}
    for one in results[:3]:
        assert (one["decision"], one["reason"], one["cost"], one["probability"]) == ("ask", "novelty", 2, None)
        assert one["question"] in waiting
    for one in results:
        assert (one["novelty"] <= 0.01) == (one["reason"] == "novelty")
    assert {one["reason"] for one in results} >= {"novelty", "cost"}


def test_a_model_that_cannot_ask_only_tells_the_p_value(ask):
    model = ask.new_model(**BODY, novelty=LEVEL, costs={"fraud": {"ok": 50}})
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(300))
        results = client.decide(model.name, examples(FAR))["results"]
    assert {one["reason"] for one in results} == {"cost"}
    assert max(one["novelty"] for one in results) <= 0.01


def test_the_first_questions_of_a_full_pool_are_the_strangest(ask):
    model = ask.new_model(**BODY, novelty=True, labels={"explore": 0})
    blind = ask.new_model(**BODY, labels={"explore": 0})
    X = np.vstack((stream(300)[0], FAR))
    with Client(ask.url) as client:
        for each in (model, blind):
            client.offer(each.name, examples(X, "c"))
        asked = client.query(model.name, n=3, annotator="ann", strategy="active", search=500)["queries"]
        random = client.query(blind.name, n=3, annotator="ann", strategy="active", search=500)["queries"]
        assert {one["id"] for one in asked} == {"c300", "c301", "c302"}
        assert {one["reason"] for one in asked} == {"novelty"}
        assert {one["reason"] for one in random} == {"random"}
        for one, label in zip(asked, ("ok", "fraud", "ok"), strict=True):
            client.learn(model.name, [{"id": one["id"], "y": label, "lease": one["lease"]}])
        (later,) = client.query(model.name, n=1, annotator="ann", strategy="active")["queries"]
        assert later["reason"] == "active"


def test_novelty_comes_changes_and_goes_by_patch(ask):
    model = ask.new_model(**BODY, costs=COSTS)
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(100))
        assert "novelty" not in client.predict(model.name, {"x": [0, 1]})["results"][0]
        assert "novelty" not in client.model(model.name)
        assert "certificate" in client.change_model(model.name, novelty=True)  # in place
        assert client.model(model.name)["configuration"]["novelty"] == {"level": 0.01}
        assert client.predict(model.name, {"x": [0, 1]})["results"][0]["novelty"] is None
        assert client.decide(model.name, {"x": FAR[0]})["results"][0]["novelty"] is None
        client.learn_rows(model.name, *stream(200, 1))
        assert client.predict(model.name, {"x": FAR[1]})["results"][0]["novelty"] <= 0.01
        seen = client.model(model.name)["novelty"]
        client.change_model(model.name, novelty={"level": 0.3})
        assert client.model(model.name)["novelty"] == seen
        client.wait(client.change_model(model.name, C=3.0))
        assert client.model(model.name)["novelty"] == {"seen": 201, "compared": 201}
        client.change_model(model.name, novelty=False)
        assert client.model(model.name, full=True)["configuration"]["novelty"] is None
        assert "novelty" not in client.predict(model.name, {"x": [0, 1]})["results"][0]


def test_named_features_get_p_values_and_a_retrained_model_keeps_its_sample(ask):
    features = {"type": "named", "warmup": 60}
    body = {**BODY, "kernel": {"type": "rbf", "gamma": "scale"}, "features": features, "novelty": True}
    model = ask.new_model(**body)
    random = np.random.default_rng(0)
    kinds = random.choice(["shop", "web"], 300).tolist()
    amounts = random.normal(50, 10, 300).tolist()
    told = [{"amount": a, "kind": k} for a, k in zip(amounts, kinds, strict=True)]
    odd = {"amount": 900.0, "kind": "web"}
    with Client(ask.url) as client:
        client.offer(model.name, [{"id": f"o{r}", "x": x} for r, x in enumerate(told[:15])])
        assert client.predict(model.name, {"x": odd})["results"][0]["novelty"] is None
        client.learn(model.name, [{"id": f"l{r}", "x": x, "y": "ab"[r % 2]} for r, x in enumerate(told[15:])])
        assert client.predict(model.name, {"x": odd})["results"][0]["novelty"] <= 0.01
        assert client.predict(model.name, {"x": told[0]})["results"][0]["novelty"] > 0.01
        seen = client.model(model.name)["novelty"]
        assert seen == {"seen": 300, "compared": seen["compared"]}
        client.wait(client.change_model(model.name, kernel={"type": "linear"}))
        assert client.model(model.name)["novelty"] == {"seen": 300, "compared": 300}
        assert client.predict(model.name, {"x": odd})["results"][0]["novelty"] <= 0.01
        client.wait(client.forget(model.name, "l5"))
        assert client.model(model.name)["novelty"] == {"seen": 300, "compared": 299}


@pytest.mark.parametrize(
    "value", [1, "yes", {}, {"level": 0}, {"level": 0.9}, {"level": True}, {"level": 0.1, "n": 5}, []]
)
def test_invalid_novelty_is_refused(ask, value):
    answer = ask("PUT", "/models/refused", json={**BODY, "novelty": value})
    said = "novelty must be true, false, or an object with a level from 0.002 to 0.5"
    message = refusal(answer, 422, "invalid")["message"]
    assert said in message
    assert message.count("got ") == 1


def test_the_sample_survives_a_kill_and_an_export_and_forgetting_leaves_no_bytes(tmp_path):
    X, y = stream(300)
    probe = examples(np.vstack((stream(50, 9)[0], FAR)))
    secret = [123456.78125, -98765.4375]
    needles = [value.tobytes() for value in np.array(secret, np.float32)] + [b"123456.78", b"the-secret"]
    with RunningServer(tmp_path / "data") as server:
        with Client(server.url) as client:
            client.create_model("m", **BODY, novelty=LEVEL, labels={"pending_durable": True})
            client.learn_rows("m", X[:200], y[:200])
            client.predict("m", examples(X[200:250], "w"))
            client.offer("m", [{"id": "the-secret", "x": secret}])
            client.learn_rows("m", X[250:], y[250:])
            found, figures = client.predict("m", probe)["results"], client.model("m")["novelty"]
        server.kill()
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        client.wait_until_ready()
        assert client.predict("m", probe)["results"] == found
        assert client.model("m")["novelty"] == figures
        assert any(needles[0] in path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
        client.wait(client.forget("m", "the-secret"))
        exported = client.export_model("m")
        assert not any(needle in exported for needle in needles)
        client.import_model("copy", exported)
        assert client.predict("copy", probe)["results"] == client.predict("m", probe)["results"]
        assert client.model("copy")["novelty"] == client.model("m")["novelty"]
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(needle in content for needle in needles), path


def test_a_rollback_brings_the_sample_back(ask):
    model = ask.new_model(**BODY, novelty=LEVEL)
    probe = examples(stream(50, 9)[0])
    with Client(ask.url) as client:
        client.learn_rows(model.name, *stream(100))
        then, found = client.model(model.name), client.predict(model.name, probe)["results"]
        client.learn_rows(model.name, *stream(100, 1))
        assert client.model(model.name)["novelty"]["seen"] == 200
        client.rollback(model.name, then["position"])
        assert client.model(model.name)["novelty"] == then["novelty"]
        assert [one["novelty"] for one in client.predict(model.name, probe)["results"]] == [
            one["novelty"] for one in found
        ]
