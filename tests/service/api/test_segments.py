"""Segments of a model on a real server: every way in, challengers, changes, forgetting, a rollback and kill -9."""

import numpy as np
import pytest

from hinged import Client
from tests.helpers.changes import NEEDLE, found_in, until_ended
from tests.helpers.http_client import AskedModel, Asking, refusal
from tests.helpers.server import RunningServer

COSTS = {"fraud": {"ok": 20}, "ok": {"fraud": 1}}
BODY = {"features": {"type": "named", "warmup": 20}, "kernel": {"type": "rbf"}, "solver": "lasvm", "C": 1}


def payments(n, seed=0, country=lambda k: ("DE", "FR", None)[k % 3], prefix="p"):
    random = np.random.default_rng(seed)
    amounts = random.normal(size=n)
    labels = np.where(amounts + 0.5 * random.normal(size=n) > 1, "fraud", "ok").tolist()
    xs = [{"amount": float(a), "country": country(k)} for k, a in enumerate(amounts)]
    return [{"id": f"{prefix}{k}", "x": x, "y": y} for k, (x, y) in enumerate(zip(xs, labels, strict=True))]


def segments_of(client, name):
    return client.model(name)["metrics"]["segments"]


def count_of(segment):
    return {each["value"]: each["examples"] for each in segment["values"]}


@pytest.fixture
def client(ask):
    with Client(ask.url) as found:
        yield found


def test_requests_frames_and_late_labels_count_alike(ask, client):
    examples = payments(300)
    models = [ask.new_model(**BODY, segments=["country"], costs=COSTS).name for _ in range(3)]
    client.learn(models[0], examples)
    with client.stream(models[1]) as frames:
        for begin in range(0, 300, 30):
            frames.learn(examples[begin : begin + 30]).result()
    client.learn(models[2], examples[:100])
    for begin in range(100, 300, 50):
        some = examples[begin : begin + 50]
        client.predict(models[2], [{"id": one["id"], "x": one["x"]} for one in some])
        client.learn(models[2], [{"id": one["id"], "y": one["y"]} for one in some])
    found = [segments_of(client, name) for name in models]
    assert found[0] == found[1]
    assert count_of(found[0]["country"]) == count_of(found[2]["country"])
    assert sum(count_of(found[2]["country"]).values()) == client.model(models[2])["metrics"]["predicted"]


def test_a_challenger_counts_its_own_predictions_and_brings_them_when_it_is_promoted(ask, client):
    model = ask.new_model(**BODY, segments=["country"])
    client.learn(model.name, payments(200))
    answer = ask("PUT", f"{model.path}/shadows/rival", json={"C": 50, "segments": ["country", "amount"]})
    assert until_ended(ask, answer.json()["job"])["state"] == "done"
    client.learn(model.name, payments(100, seed=1, prefix="q"))
    told = ask("GET", f"{model.path}/shadows").json()
    own = told["shadows"]["rival"]["metrics"]["segments"]
    assert count_of(own["country"]) == count_of(told["champion"]["metrics"]["segments"]["country"])
    assert own["amount"]["other"]["values"] > 100
    assert ask("POST", f"{model.path}/shadows/rival/promote").status_code == 200
    assert segments_of(client, model.name).keys() == {"country", "amount"}


def test_ten_thousand_values_stay_bounded(ask, client):
    model = ask.new_model(**BODY, segments=["country", "amount"])
    for begin in range(0, 10_500, 500):
        client.learn(model.name, payments(500, begin, lambda k, b=begin: "x" * 990 + f"{b + k}", f"b{begin}-"))
    found = segments_of(client, model.name)
    assert [each["value"] for each in found["country"]["values"]] == ["x" * 100]
    assert found["country"]["values"][0]["examples"] == 10_000
    assert (len(found["amount"]["values"]), found["amount"]["other"]["values"]) == (50, 9_950)


def test_what_is_no_value_of_a_record_is_refused_as_ever_and_nothing_counts(ask, client):
    model = ask.new_model(**BODY, segments=["country"])
    client.learn(model.name, payments(100))
    before = segments_of(client, model.name)
    for value in ([1], {"a": 1}):
        refusal(ask("POST", f"{model.path}/learn", json={"x": {"country": value}, "y": "ok"}), 422, "invalid")
    assert segments_of(client, model.name) == before
    refusal(ask("PATCH", model.path, json={"segments": "country"}), 422, "invalid")
    dense = {"features": {"type": "dense", "dim": 1}, "segments": ["0"]}
    refusal(ask("PUT", "/models/dense-segments", json=dense), 422, "invalid")
    assert client.model(model.name)["configuration"]["segments"] == ["country"]


def test_forgetting_and_kill_leave_the_rest_and_a_rollback_returns_to_the_earlier_figures(tmp_path):
    folder = tmp_path / "data"
    with RunningServer(folder) as server, Asking(server.url) as ask, Client(server.url) as client:
        model = ask.new_model("kept", **BODY, segments=["country"], costs=COSTS)
        examples = payments(300)
        examples[150]["x"]["country"] = NEEDLE
        client.learn("kept", examples)
        answer = ask("PUT", f"{model.path}/shadows/rival", json={"C": 50})
        assert until_ended(ask, answer.json()["job"])["state"] == "done"
        assert NEEDLE in count_of(segments_of(client, "kept")["country"])
        answer = ask("DELETE", f"{model.path}/examples/p150")
        assert until_ended(ask, answer.json()["job"])["state"] == "done"
        assert NEEDLE not in ask("GET", model.path).text + ask("GET", f"{model.path}/shadows").text
        assert found_in(folder, NEEDLE.encode()) == []
        position = client.model("kept")["position"]
        figures = segments_of(client, "kept")
        client.learn("kept", payments(100, seed=1, prefix="q"))
        later = segments_of(client, "kept")
        assert later != figures
        server.kill()
    with RunningServer(folder) as server, Asking(server.url) as ask, Client(server.url) as client:
        assert segments_of(client, "kept") == later
        answer = ask("POST", f"{AskedModel(ask, 'kept').path}/rollback", json={"position": position})
        assert answer.status_code == 200, answer.text
        assert segments_of(client, "kept") == figures
