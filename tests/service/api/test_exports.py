"""Exports, imports and rollbacks over HTTP."""

import json

import numpy as np
import pytest

from tests.helpers.http_client import BASE, Asking, example, refusal
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import RunningServer

STREAM = [example([np.sin(k), np.cos(2 * k)], "abc"[k % 3], f"e{k}") for k in range(60)]
POINTS = [[0, 1], [1, 1], [-1, 0.5], [0.3, -0.2]]
BINARY = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def ask(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("snapshots")
    with RedisServer(folder / "redis") as redis:
        more = {"store": redis.url} if request.param == "redis" else {}
        with RunningServer(folder / "data", answers_kept=20, **more) as server, Asking(server.url) as asking:
            asking.server = server
            yield asking


def export(model, **query):
    answer = model.ask("GET", f"{model.path}/export", params=query)
    assert answer.status_code == 200, answer.text
    return answer


def imported(ask, name, file):
    return ask("POST", f"/models/{name}/import", content=file, headers=BINARY)


def named(ask, name):
    from tests.helpers.http_client import AskedModel  # noqa: PLC0415

    return AskedModel(ask, name)


def test_an_exported_model_predicts_and_learns_on_like_the_original(ask):
    model = ask.new_model()
    model.learn(*STREAM[:40])
    model.ask("POST", f"{model.path}/pool", json={"examples": [{"id": "candidate", "x": [0.5, 0.5]}]})
    answer = export(model)
    position = model.figures()["position"]
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{model.name}-{position}.hinged"'
    made = imported(ask, f"{model.name}-copy", answer.content)
    assert made.status_code == 201, made.text
    assert {name: made.json()[name] for name in ("position", "examples")} == {"position": 1, "examples": 40}
    copy = named(ask, f"{model.name}-copy")
    assert copy.predict(*POINTS) == model.predict(*POINTS)
    assert copy.learn(*STREAM[30:]) == model.learn(*STREAM[30:])
    # Ids that the state knew are in the first event of the new log. All other ids are new.
    refusal(copy.try_learn(STREAM[25] | {"y": "a"}), 409, "conflict")
    assert copy.learn(STREAM[25], STREAM[0]) == [
        {"id": "e25", "prediction": None, "score": None, "duplicate": True},
        copy.learn(STREAM[0])[0] | {"duplicate": False},
    ]
    error = refusal(ask("POST", f"{copy.path}/finish", json={"epochs": 1}), 409, "conflict")
    assert "imported" in error["message"]
    refusal(imported(ask, copy.name, answer.content), 409, "conflict")


def test_a_model_can_be_exported_as_of_an_earlier_position(ask):
    model = ask.new_model()
    model.learn(*STREAM[:20])
    then, position = model.predict(*POINTS), model.figures()["position"]
    model.learn(*STREAM[20:])
    made = imported(ask, f"{model.name}-then", export(model, as_of=position).content)
    assert made.json()["examples"] == 20
    assert named(ask, f"{model.name}-then").predict(*POINTS) == then
    assert model.figures()["examples"] == 60
    for wrong in (0, -1, model.figures()["position"] + 1, "x"):
        refusal(ask("GET", f"{model.path}/export", params={"as_of": wrong}), 422, "invalid")
    refusal(ask("GET", "/models/absent/export"), 404, "not_found")


def test_rolled_back_and_imported_models_are_the_same_after_a_crash(ask):
    model = ask.new_model()
    model.learn(*STREAM[:20])
    then, position = model.predict(*POINTS), model.figures()["position"]
    model.learn(*STREAM[20:40])
    copy = named(ask, f"{model.name}-crash")
    assert imported(ask, copy.name, export(model).content).status_code == 201
    answer = ask("POST", f"{model.path}/rollback", json={"position": position})
    end = model.figures()["position"]
    assert answer.json() == {"model": model.name, "position": end, "rolled_back_to": position, "examples": 20}
    assert model.predict(*POINTS) == then
    for one in (model, copy):
        one.learn(*STREAM[40:])
    before = [(one.predict(*POINTS), one.figures()["metrics"]) for one in (model, copy)]
    ask.server.kill()
    ask.server.start()
    assert [(one.predict(*POINTS), one.figures()["metrics"]) for one in (model, copy)] == before
    assert not any(result["duplicate"] for result in model.learn(*STREAM[20:40]))
    assert all(result["duplicate"] for result in copy.learn(*STREAM[20:40]))
    for wrong in ({}, {"position": 0}, {"position": 1.5}, {"position": 10**6}, {"position": 1, "more": 1}):
        refusal(ask("POST", f"{model.path}/rollback", json=wrong), 422, "invalid")


def test_a_snapshot_can_be_asked_for(ask):
    model = ask.new_model()
    model.learn(*STREAM[:5])
    answer = ask("POST", f"{model.path}/snapshot")
    assert (answer.status_code, answer.json()) == (200, {"model": model.name, "position": model.figures()["position"]})
    refusal(ask("POST", "/models/absent/snapshot"), 404, "not_found")


def test_an_invalid_file_is_refused(ask):
    for file in (b"", b"hng1", b"\x00" * 100, json.dumps(BASE).encode()):
        refusal(imported(ask, "none", file), 422, "invalid")
    refusal(
        ask("POST", "/models/none/import", content=b"x", headers={"content-type": "text/plain"}),
        415,
        "unsupported_media_type",
    )
    refusal(imported(ask, ".bad", b"x"), 422, "invalid")
    refusal(ask("GET", "/models/none"), 404, "not_found")
