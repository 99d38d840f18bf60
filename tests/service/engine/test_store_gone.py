"""The embedded store's files are removed from a running server."""

import os
import shutil

import pytest
from redis import Redis

from tests.helpers.http_client import BASE, Asking, example, refusal
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import RunningServer

EXAMPLES = [example([k % 5, k % 3], "ab"[k % 2], f"e{k}") for k in range(20)]


@pytest.fixture
def running(tmp_path):
    with RunningServer(tmp_path / "data", limits={"pending_flush_s": 0.05}) as running:
        yield running


@pytest.fixture
def ask(running):
    with Asking(running.url) as ask:
        yield ask


def refused_once_gone(model):
    """Check that a change is refused, and that a request that changes nothing is answered as before."""
    error = refusal(model.try_learn(EXAMPLES[10]), 503, "store_unavailable")
    assert "removed, moved or replaced" in error["message"]
    refusal(model.ask("PUT", "/models/more", json=BASE), 503, "store_unavailable")
    refusal(model.ask("POST", f"{model.path}/snapshot"), 503, "store_unavailable")
    assert model.predict([1, 1])[0]["prediction"] in "ab"
    assert model.ask("GET", f"{model.path}/export").status_code == 200  # a model in memory can be saved
    assert model.ask("GET", "/healthz").status_code == 200


def test_nothing_is_acknowledged_while_the_folder_is_away_and_the_server_goes_on_afterwards(running, ask):
    model = ask.new_model("m")
    model.learn(*EXAMPLES[:10])
    moved = running.data_dir.with_name("moved")
    running.data_dir.rename(moved)
    refused_once_gone(model)
    moved.rename(running.data_dir)
    results = model.learn(*EXAMPLES)
    assert [result["duplicate"] for result in results] == [True] * 10 + [False] * 10
    figures = model.figures()
    log = running.log.read_text()
    assert " ERROR " in log
    assert str(running.data_dir / "hinged.db") in log
    running.kill()
    running.start()
    assert ask("GET", model.path).json()["examples"] == figures["examples"] == len(EXAMPLES)


def cut_log(folder):
    os.truncate(folder / "hinged.db-wal", 0)


def cut_database(folder):
    os.truncate(folder / "hinged.db", 10_000)


@pytest.mark.parametrize("away", [shutil.rmtree, lambda folder: (folder / "hinged.db").unlink(), cut_log, cut_database])
def test_nothing_is_acknowledged_once_the_database_is_removed_or_cut(running, ask, away):
    model = ask.new_model("m")
    model.learn(*EXAMPLES[:10])
    away(running.data_dir)
    refused_once_gone(model)
    assert running.terminate() == 0


# -- a Redis that has lost its models -------------------------------------------------------------------------------


@pytest.fixture
def on_redis(tmp_path):
    """A server on Redis, and its Redis."""
    with RedisServer(tmp_path / "redis") as redis, RunningServer(tmp_path / "data", store=redis.url) as running:
        yield running, redis


def taken_out(client):
    """Empty a Redis; return its keys and values."""
    taken = client.eval(
        "local found = {} for _, key in ipairs(redis.call('KEYS', '*')) do"
        " found[#found + 1] = {key, redis.call('DUMP', key)} end redis.call('FLUSHALL') return found",
        0,
    )
    return dict(taken)


def test_a_model_that_redis_has_lost_acknowledges_nothing_until_it_is_deleted(on_redis):
    running, redis = on_redis
    with Asking(running.url) as ask, Redis.from_url(redis.url) as client:
        model, other = ask.new_model("m"), ask.new_model("other")
        for each in model, other:
            each.learn(*EXAMPLES[:10])
        lost = taken_out(client)
        for _ in range(2):
            error = refusal(model.try_learn(EXAMPLES[10]), 503, "store_unavailable")
            assert "the store has no model m" in error["message"]
            for method, path, *body in (
                ("PUT", model.path, BASE),  # the model exists only in memory
                ("POST", f"{model.path}/learn", {"id": "e3", "x": [0, 0], "y": "a"}),
                ("POST", f"{model.path}/snapshot"),
                ("POST", f"{model.path}/finish", {"epochs": 1}),
                ("POST", f"{model.path}/rollback", {"position": 2}),
                ("DELETE", f"{model.path}/examples/e3"),
                ("PUT", f"{model.path}/examples/e3", {"y": "b"}),
                ("PATCH", model.path, {"C": 3}),
                ("GET", f"{model.path}/examples"),
                ("GET", f"{model.path}/export?as_of=2"),
            ):
                answer = ask(method, path, json=body[0]) if body else ask(method, path)
                assert (answer.status_code, "the store has no model m" in answer.text) == (503, True), answer.text
        assert model.predict([1, 1])[0]["prediction"] in "ab"
        assert ask("GET", model.path).json()["examples"] == 10
        saved = ask("GET", f"{model.path}/export")
        log = running.log.read_text()
        assert log.count("acknowledges nothing") == 1
        assert "stops" not in log
        # If the store has a model again, the model continues.
        for key, held in lost.items():
            client.restore(key, 0, held)
        assert [result["duplicate"] for result in model.learn(*EXAMPLES)] == [True] * 10 + [False] * 10
        assert ask("PUT", model.path, json=BASE).status_code == 200
        # A model that stays lost can be deleted, and imported again.
        client.flushall()
        refusal(model.try_learn(example([1, 2], "a", "new")), 503, "store_unavailable")
        assert running.log.read_text().count("acknowledges nothing") == 2
        assert ask("DELETE", model.path).status_code == 200
        headers = {"content-type": "application/octet-stream"}
        made = ask("POST", f"{model.path}/import", content=saved.content, headers=headers)
        assert (made.status_code, made.json()["examples"]) == (201, 10)
        running.kill()
        running.start()
        assert [each["model"] for each in ask("GET", "/models").json()["models"]] == ["m"]
        assert ask("PUT", other.path, json=BASE).status_code == 201
