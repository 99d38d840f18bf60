"""Processes that divide a namespace of Redis."""

import os
import signal
from contextlib import closing

import pytest

from hinged.service.store.redis import RedisStore
from tests.helpers.divided_server import LEARNED, ONE, TWO, processes_of, taken_by
from tests.helpers.http_client import Asking, example, refusal
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import PATIENCE_S, RunningServer, ended, eventually
from tests.helpers.store_events import CREATED


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as redis:
        yield redis


@pytest.fixture
def divided(redis_server, request):
    """The settings of a server whose two processes divide a namespace that only this test uses."""
    return {
        "store": redis_server.url,
        "processes": 2,
        "redis_namespace": f"test-{abs(hash(request.node.name)) % 10**9}",
    }


def taught(ask):
    for name in (ONE[0], TWO[0]):
        ask.new_model(name).learn(*LEARNED)


def known(ask):
    for name in (ONE[0], TWO[0]):
        answer = ask("POST", f"/models/{name}/learn", json={"examples": [LEARNED[3]]})
        assert answer.status_code == 200, answer.text
        assert answer.json()["results"][0]["duplicate"] is True


@pytest.mark.long
def test_models_are_divided_and_come_back_after_kill_9_of_a_process_and_of_all(redis_server, divided, tmp_path):
    with RunningServer(tmp_path / "data", **divided) as server:
        with taken_by(server, 1) as ask:
            taught(ask)
            known(ask)
            assert [model["model"] for model in ask("GET", "/models").json()["models"]] == sorted((ONE[0], TWO[0]))
            os.kill(processes_of(server)[2], signal.SIGKILL)
        server.wait_until_ready()
        with Asking(server.url) as ask:
            known(ask)
        processes = processes_of(server).values()
        server.kill()
        eventually(lambda: all(map(ended, processes)))
        server.start()
        with Asking(server.url) as ask:
            known(ask)
        with redis_server.client() as redis:
            keys = redis.keys(f"{divided['redis_namespace']}:*")
        for number, name in ((1, ONE[0]), (2, TWO[0])):
            assert f"{divided['redis_namespace']}:worker-{number}-of-2:{{{name}}}:log" in keys


@pytest.mark.long
def test_a_second_server_takes_the_models_over_and_the_first_ends(divided, tmp_path):
    with RunningServer(tmp_path / "first", **divided) as first:
        with Asking(first.url) as ask:
            taught(ask)
        processes = processes_of(first).values()
        with RunningServer(tmp_path / "second", **divided) as second, Asking(second.url) as ask:
            known(ask)
            with Asking(first.url) as late:  # a write after the takeover gets an error
                refusal(
                    late("POST", f"/models/{ONE[0]}/learn", json={"examples": [example([0, 0], "a", "late")]}),
                    503,
                    "store_unavailable",
                )
            assert first.process.wait(PATIENCE_S) == 0
            eventually(lambda: all(map(ended, processes)))
            known(ask)
            refusal(ask("GET", f"/models/{ONE[0]}/examples/late"), 404, "not_found")


@pytest.mark.parametrize(("there", "processes"), [(2, 1), (3, 2)])
def test_a_namespace_with_more_owners_than_processes_is_left_alone(redis_server, divided, tmp_path, there, processes):
    options = {"namespace": divided["redis_namespace"]}
    with closing(RedisStore(redis_server.url, number=1, division=there, **options)) as store:
        store.create(ONE[0], CREATED)
    with redis_server.client() as redis:
        before = sorted(redis.keys(f"{divided['redis_namespace']}:*"))
        code, words = RunningServer(tmp_path / "data", **divided | {"processes": processes}).run()
        assert code == 1
        assert f"HINGED_PROCESSES must be at least {there}, " in words
        assert sorted(redis.keys(f"{divided['redis_namespace']}:*")) == before


def test_a_namespace_that_is_not_divided_has_one_owner_that_all_follow(divided, tmp_path):
    with RunningServer(tmp_path / "data", **divided | {"processes": 1}) as server:
        with Asking(server.url) as ask:
            taught(ask)
        assert server.terminate() == 0
    with RunningServer(tmp_path / "data", **divided | {"followers": 1}) as server:
        assert "the store is not divided, and stays so" in server.log.read_text()
        for number in (1, 2):
            with taken_by(server, number) as ask:
                known(ask)
