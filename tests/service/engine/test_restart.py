"""Restarts: what a server still knows afterwards, and what it answers while it starts."""

import math
import signal
import time

import httpx
import pytest

from tests.helpers.fixtures import server_with, speaking
from tests.helpers.http_client import BASE, Asking, example, refusal
from tests.helpers.server import PATIENCE_S, RunningServer, ended, eventually, wait_for_children

KEPT = 10
STREAM = [example([math.sin(k), math.cos(2 * k)], k % 3, f"e{k}") for k in range(40)]
NAMELESS = [example([math.cos(k), math.sin(3 * k)], k % 3) for k in range(20)]


def stop(server):
    """Send SIGTERM; check that the server drains and ends cleanly."""
    assert server.terminate() == 0
    assert "Application shutdown complete" in server.log.read_text().rsplit("Started server process", 1)[1]


def restarted(server, **settings):
    """Stop the server cleanly and start it with these settings."""
    stop(server)
    server.env.pop("HINGED_ANSWERS_KEPT", None)
    server.env |= {f"HINGED_{name.upper()}": str(value) for name, value in settings.items()}
    return server.start()


server = server_with(snapshot_examples=15)  # the tests stop and restart it
ask = speaking(Asking)


@pytest.mark.long
def test_a_model_is_the_same_after_a_restart(server, ask):
    whole, parted = ask.new_model(), ask.new_model()
    whole.learn(*STREAM, *NAMELESS)
    first = parted.learn(*STREAM[:25], *NAMELESS)
    parted.finish()
    before, listed = parted.figures(), ask("GET", "/models").json()
    predicted = parted.predict([0, 1], [1, 1], [-1, 0.5])
    restarted(server)
    after = parted.figures()
    for model in (before, after):  # a new process starts with counts of 0 and an empty cache
        model["certificate"].pop("kernel_evaluations")
        model.pop("memory_bytes")
    assert after == before
    assert ask("GET", "/models").json() == listed
    assert parted.predict([0, 1], [1, 1], [-1, 0.5]) == predicted
    # First answers, ids and the numbering continue.
    assert parted.learn(*STREAM[:25]) == [result | {"duplicate": True} for result in first[:25]]
    assert first[25]["id"] == "@26"
    assert parted.learn(NAMELESS[0] | {"id": "@26"}) == [first[25] | {"duplicate": True}]
    assert parted.learn(example([0, 0], 0))[0]["id"] == "@46"
    refusal(parted.try_learn(STREAM[0] | {"y": 9}), 409, "conflict")
    assert ask("PUT", whole.path, json=BASE).status_code == 200


def test_learning_goes_on_as_if_there_had_been_no_restart(server, ask):
    whole, parted = ask.new_model(), ask.new_model()
    expected = whole.learn(*STREAM)
    found = parted.learn(*STREAM[:23])
    restarted(server)
    found += parted.learn(*STREAM[23:])
    assert found == expected
    assert parted.predict([0, 1], [1, 1]) == whole.predict([0, 1], [1, 1])


def test_a_deleted_model_does_not_come_back(server, ask):
    model = ask.new_model("gone")
    model.learn(*STREAM)
    ask("DELETE", model.path)
    ask.new_model("there")
    restarted(server)
    names = [entry["model"] for entry in ask("GET", "/models").json()["models"]]
    assert "there" in names
    assert "gone" not in names
    refusal(ask("GET", model.path), 404, "not_found")


def check_forgotten(model, first):
    """Check that the newest answers are kept, and that the log still contains the examples of the other ids."""
    before = model.figures()
    kept = len(STREAM) - KEPT
    again = model.learn(*STREAM)
    assert again[kept:] == [result | {"duplicate": True} for result in first[kept:]]
    for number, result in enumerate(again[:kept]):
        assert result == {"id": f"e{number}", "prediction": None, "score": None, "duplicate": True}
    for k in (0, kept - 1, kept, len(STREAM) - 1):
        for other in ({"y": 9}, {"x": [9, 9]}):
            error = refusal(model.try_learn(example([5, 5], 1, "new"), STREAM[k] | other), 409, "conflict")
            assert error["details"] == {"index": 1, "id": f"e{k}"}
    assert model.figures() == before


@pytest.mark.long
def test_an_id_is_known_for_good_even_if_its_first_answer_is_gone(server, ask):
    restarted(server, answers_kept=KEPT)
    model = ask.new_model("ring")
    first = model.learn(*STREAM)
    check_forgotten(model, first)
    restarted(server)
    check_forgotten(model, first)
    # A higher limit does not restore forgotten answers.
    restarted(server, answers_kept=1000)
    check_forgotten(model, first)
    model.learn(example([0, 0], 1))
    assert model.figures()["examples"] == len(STREAM) + 1


def test_an_id_given_by_the_server_that_is_too_old_to_compare_is_a_conflict(server, ask):
    restarted(server, answers_kept=KEPT)
    model = ask.new_model("numbers")
    model.learn(*NAMELESS)
    assert model.learn(NAMELESS[19] | {"id": "@20"})[0]["duplicate"]
    error = refusal(model.try_learn(NAMELESS[0] | {"id": "@1"}), 409, "conflict")
    assert "too long ago" in error["message"]
    assert model.figures()["examples"] == 20


def test_while_it_starts_the_server_is_alive_and_answers_503(server, ask, tmp_path, monkeypatch):
    ask.new_model("waits").learn(*STREAM)
    stop(server)
    asking = tmp_path / "asking"
    asking.touch()
    monkeypatch.setattr(server, "program", ("-m", "tests.helpers.late_server"))
    monkeypatch.setitem(server.env, "SLOW_START", str(asking))
    server.start(wait=False)
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            assert ask("GET", "/healthz").json() == {"status": "ok"}
            break
        except httpx.TransportError:
            assert time.monotonic() < end
            time.sleep(0.005)
    starting = ask("GET", "/readyz")
    asked = [
        ask("GET", "/models"),
        ask("GET", "/models/waits"),
        ask("PUT", "/models/other", json=BASE),
        ask("DELETE", "/models/waits"),
        ask("POST", "/models/waits/learn", json=example([0, 1], 1)),
        ask("POST", "/models/waits/predict", json={"x": [0, 1]}),
        ask("POST", "/models/waits/finish"),
        ask("POST", "/learn", json=example([0, 1], 1)),
        ask("GET", "/predict?x=[0,1]"),
    ]
    assert starting.status_code == 503
    assert starting.json()["status"] == "starting"
    for answer in asked:
        error = refusal(answer, 503, "unavailable")
        assert "starting" in error["message"]
    asking.unlink()
    server.wait_until_ready()
    listed = ask("GET", "/models").json()["models"]
    assert {entry["model"]: entry["examples"] for entry in listed}["waits"] == len(STREAM)


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_ends_while_it_compiles_leaves_no_process_behind(tmp_path, how):
    starting = RunningServer(tmp_path / "data")
    starting.env["NUMBA_CACHE_DIR"] = str(tmp_path / "compiled")
    starting.start(wait=False)
    compiling = wait_for_children(starting.process.pid, 2)
    eventually(lambda: any((tmp_path / "compiled").rglob("*.code")))  # the compilation has begun
    assert not any(map(ended, compiling))
    assert httpx.get(f"{starting.url}/readyz").status_code == 503
    starting.process.send_signal(how)
    assert starting.process.wait(PATIENCE_S) == (-how if how == signal.SIGKILL else 0)
    eventually(lambda: all(map(ended, compiling)))
    assert "Traceback" not in starting.log.read_text()


def test_a_data_folder_belongs_to_one_server(server):
    code, said = RunningServer(server.data_dir).run()
    assert code == 1
    assert said.count("\n") == 1
    assert "in use by another server" in said
    assert httpx.get(f"{server.url}/readyz").status_code == 200
