"""Raw numbers in different units, as clients usually send them, in every kind of request."""

import numpy as np
import pytest

from hinged.client import Client
from hinged.frames import decode, encode
from hinged.service.model.events.states import ModelCreated
from hinged.service.store.base import Event
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.changes import NEEDLE, found_in, until_ended
from tests.helpers.http_client import BASE, Asking, example, refusal
from tests.helpers.server import RunningServer
from tests.helpers.states import load_model


def raw(seed, n):
    """Return columns in different units. The column with the smallest numbers determines the class."""
    random = np.random.default_rng(seed)
    Z = random.normal(size=(n, 4))
    y = np.where(Z[:, 0] + Z[:, 1] > 0, "p", "n")
    return Z * [0.001, 0.5, 300.0, 40.0] + [1.7e9, 0.0, 1e4, 0.0], y.tolist()


def share_right(results, labels):
    return np.mean([result["prediction"] == label for result, label in zip(results, labels, strict=True)])


@pytest.fixture
def own(tmp_path):
    with RunningServer(tmp_path / "data") as running, Asking(running.url) as asking:
        yield asking


def test_the_default_model_learns_raw_numbers_without_preparation(own):
    X, y = raw(0, 600)
    answer = own(
        "POST", "/learn", json={"examples": [example(x, label) for x, label in zip(X.tolist(), y, strict=True)]}
    )
    assert answer.status_code == 200, answer.text
    test, wanted = raw(1, 300)
    answer = own("POST", "/predict", json={"examples": [{"x": x} for x in test.tolist()]})
    assert share_right(answer.json()["results"], wanted) > 0.9


def test_rows_as_json_as_bytes_and_as_tensors_are_equal(ask, server):
    X, y = raw(2, 120)
    json_model, bytes_model = (
        ask.new_model(features={"type": "dense", "dim": 4}, kernel={"type": "rbf"}) for _ in "ab"
    )
    json_model.learn(*(example(x, label) for x, label in zip(X.tolist(), y, strict=True)))
    with Client(server.url) as client:
        client.learn_rows(bytes_model.name, X, y)
        as_bytes = client.predict_rows(bytes_model.name, X)["results"]
    assert json_model.predict(*X.tolist()) == as_bytes
    tensor = {"name": "x", "datatype": "FP64", "shape": list(X.shape), "data": X.tolist()}
    answer = ask("POST", f"/v2{json_model.path}/infer", json={"inputs": [tensor]})
    outputs = {output["name"]: output["data"] for output in answer.json()["outputs"]}
    assert outputs["prediction"] == [result["prediction"] for result in as_bytes]
    # The same numbers in sparse form give equal predictions.
    spelled = [{"indices": [3, 1, 0, 2], "values": [x[3], x[1], x[0], x[2]]} for x in X.tolist()]
    assert json_model.predict(*spelled) == as_bytes


def test_invalid_rows_are_refused_as_without_a_scale(ask):
    scaled = ask.new_model(features={"type": "sparse", "dim": 4}, kernel={"type": "rbf"})
    for x in (
        {"indices": [4], "values": [1]},
        {"indices": [1, 1], "values": [1, 2]},
        {"indices": [1], "values": [1, 2]},
        [1, 2, 3],
        {"indices": [1], "values": [1e101]},
    ):
        refusal(scaled.try_learn(example(x, "a")), 422, "invalid")
    scaled.learn(example({"indices": [1], "values": [1e100]}, "a"), example([0, 0, 0, 0], "b"))


def test_an_id_is_compared_by_the_numbers_as_they_came(ask):
    model = ask.new_model(features={"type": "dense", "dim": 2}, kernel={"type": "rbf"})
    model.learn(example([1e9, 1.0], "a", "one"), example([2e9, 3.0], "b", "two"))
    assert model.learn(example([1e9, 1.0], "a", "one"))[0]["duplicate"]
    refusal(model.try_learn(example([1e9 + 0.001, 1.0], "a", "one")), 409, "conflict")


def test_scales_and_gamma_survive_a_crash_a_change_and_a_challenger(tmp_path):
    X, y = raw(3, 200)
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        features = {"type": "dense", "dim": 4, "warmup": 64}
        model = ask.new_model("m", features=features, kernel={"type": "rbf"})
        model.learn(*(example(x, label, f"e{k}") for k, (x, label) in enumerate(zip(X.tolist(), y, strict=True))))
        before, gamma = model.predict(*X.tolist()), model.figures()["features"]["gamma"]
        server.kill()
        server.start()
        assert model.predict(*X.tolist()) == before
        assert ask("PUT", f"{model.path}/shadows/wide", json={"kernel": {"gamma": gamma / 10}}).status_code == 202
        answer = ask("PATCH", model.path, json={"precision": "float64"})
        assert until_ended(ask, answer.json()["job"])["state"] == "done"
        assert model.figures()["features"] == {"warmup_left": 0, "gamma": pytest.approx(gamma)}
        assert share_right(model.predict(*X.tolist()), y) > 0.9
    store = SQLiteStore(tmp_path / "data")
    try:
        folded = load_model(store, "m", cache_bytes=2**20, answers_kept=1000)
        assert folded.learner.warmup.encoder.spread.square > 0
    finally:
        store.close()


@pytest.mark.parametrize("warmup", [20, 200])
def test_a_forgotten_candidate_leaves_no_trace(tmp_path, warmup):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        model = ask.new_model("m", features={"type": "named", "warmup": warmup}, kernel={"type": "rbf"})
        candidates = [{"id": f"c{k}", "x": {"a": k, "c": "xy"[k % 2]}} for k in range(30)]
        secret = {"id": NEEDLE, "x": {"a": 3, NEEDLE: 1, "c": NEEDLE + "value"}}
        offered = {"examples": [*candidates[:5], secret, *candidates[5:]]}
        assert ask("POST", f"{model.path}/pool", json=offered).status_code == 200
        model.learn(*(example(c["x"], "ab"[k % 2], c["id"]) for k, c in enumerate(candidates[:10])))
        assert found_in(tmp_path / "data", NEEDLE.encode())
        answer = ask("DELETE", f"{model.path}/examples/{NEEDLE}")
        # Either the warm-up is over, or the candidate is removed from the warm-up.
        assert answer.status_code == (202 if warmup == 20 else 200)
        assert warmup == 200 or until_ended(ask, answer.json()["job"])["state"] == "done"
        assert found_in(tmp_path / "data", NEEDLE.encode()) == []
        assert {field["name"] for field in model.figures()["features"]["fields"]} == {"a", "c"}
        # The other candidates still count.
        assert model.figures()["features"]["warmup_left"] == max(0, warmup - 30)


def test_a_repeated_put_matches_a_model_made_with_older_defaults(tmp_path):
    named = {"kernel": {"type": "rbf", "gamma": "auto"}, "C": 1, "features": {"type": "named", "warmup": 20}}
    linear = {"kernel": {"type": "linear"}, "C": 1, "features": {"type": "dense", "dim": 2}}
    race = {"kernel": {"type": "linear"}, "features": {"type": "dense", "dim": 2}}
    bodies = {"named": named, "linear": linear, "race": race}
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        for name, body in bodies.items():
            assert ask("PUT", f"/models/{name}", json=body).status_code == 201
    store = SQLiteStore(tmp_path / "data")
    try:
        for name in bodies:
            _, record = next(store.read(name, 0))
            facts, _ = decode(record.payload, ModelCreated.KIND)
            told = facts["configuration"]
            told["features"] = {k: v for k, v in told["features"].items() if k not in ("scale", "warmup_candidates")}
            told |= {"points_max": 100_000, "when_full": "refuse"}
            for later in ("idle_max", "delta_min", "calibration", "rules"):
                told.pop(later, None)
            if name == "named":
                told["kernel"]["gamma"] = "auto"
            else:
                del told["features"]["warmup"]
            store.delete(name)
            store.create(name, Event(ModelCreated.KIND, encode(ModelCreated.KIND, facts, {})))
    finally:
        store.close()
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        for name, body in bodies.items():
            assert ask("PUT", f"/models/{name}", json=body).status_code == 200
        assert ask("GET", "/models/race").json()["configuration"]["rules"] == 1
        refusal(ask("PUT", "/models/race", json=race | {"rules": 2}), 409, "conflict")
        there = ask("GET", "/models/linear").json()["configuration"]
        assert there["features"]["scale"] is None
        assert (there["points_max"], there["when_full"], there["idle_max"]) == (100_000, "refuse", 0)
        assert (there["delta_min"], there["calibration"]) == (0, "sigmoid")
        refusal(ask("PUT", "/models/linear", json=linear | {"C": 2}), 409, "conflict")
        for said in (
            linear | {"features": linear["features"] | {"scale": "auto"}},
            linear | {"when_full": "remove"},
            linear | {"idle_max": 2000},
            linear | {"delta_min": 0.5},
            linear | {"calibration": "auto"},
        ):
            refusal(ask("PUT", "/models/linear", json=said), 409, "conflict")


def test_gamma_may_be_auto_or_scale_and_is_shown_as_scale(ask):
    for gamma in ("auto", "scale"):
        model = ask.new_model(features={"type": "dense", "dim": 2}, kernel={"type": "rbf", "gamma": gamma})
        assert model.figures()["configuration"]["kernel"]["gamma"] == "scale"
    given = ask.new_model(**{**BASE, "features": BASE["features"] | {"scale": "auto"}})
    assert given.figures()["configuration"]["features"]["scale"] == "auto"
    answer = ask("PATCH", given.path, json={"kernel": {"gamma": "auto"}})
    assert until_ended(ask, answer.json()["job"])["state"] == "done"
    assert given.figures()["configuration"]["kernel"]["gamma"] == "scale"
