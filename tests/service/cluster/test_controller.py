"""The decisions of the controller by reported memory and load, and the key in Redis of the active controller."""

from contextlib import closing

import pytest

from hinged.service.cluster.controller import Controller
from hinged.service.store.redis.board import Board
from tests.helpers.redis_server import RedisServer

NODE = {"alive": True, "beat_age_s": 0.1, "memory_max_bytes": 2**30, "processors": 4}


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("board")) as redis:
        yield redis


@pytest.fixture
def board(redis):
    with redis.client() as client:
        client.flushall()
    with closing(Board(redis.url, name="one", ttl_s=60)) as board:
        yield board


class Servers:
    """Servers that report their memory and load, and that move models to another server on request."""

    def __init__(self, **counts):
        self.nodes = dict.fromkeys(counts, True)
        self.owners = {f"{node}{k}": node for node, count in counts.items() for k in range(count)}
        self.broken = set()

    def cluster(self):
        return {
            "nodes": [{"node": node, **NODE, "alive": alive} for node, alive in self.nodes.items()],
            "models": [
                {"model": model, "owner": owner, "state": "serving", "memory_bytes": 1000, "load": 0.0}
                for model, owner in self.owners.items()
            ],
        }

    def move(self, model, to):
        if model in self.broken:
            raise RuntimeError("no")
        self.owners[model] = to

    def controller(self, board):
        return Controller(board.hold, self.cluster, self.move)


def test_the_controller_makes_the_needed_moves_and_then_none(board):
    servers = Servers(a=12, b=12, c=0)
    found = servers.controller(board).round()
    assert {step.target for step in found.moved} == {"c"}
    counts = [list(servers.owners.values()).count(node) for node in "abc"]
    assert max(counts) - min(counts) <= 2
    again = servers.controller(board).round()
    assert (again.said, again.moved, again.waits) == ("no model needs to move", [], False)


def test_nothing_is_decided_while_a_model_loads_or_has_no_living_owner(board):
    servers = Servers(a=12, b=0)
    servers.nodes["a"] = False
    found = servers.controller(board).decide()
    assert (found.left, found.waits, found.said) == ((), True, "models without a living owner: 12")
    shown = Servers(a=12, b=0).cluster()
    del shown["models"][0]["state"]
    told = Controller(board.hold, lambda: shown, servers.move).decide()
    assert (told.left, told.waits) == ((), True)
    assert told.said == "models that are loading, or that their owner does not report: 1"


def test_one_controller_is_active_at_a_time(board, redis):
    assert board.hold()
    with closing(Board(redis.url, name="two", ttl_s=60)) as other:
        assert not other.hold()
        assert Servers(a=12, b=0).controller(other).round().said == "another controller is at work"
        board.close()
        assert other.hold()


def test_a_failed_move_is_reported_and_planned_again(board):
    servers = Servers(a=12, b=12, c=0)
    servers.broken = set(servers.owners)
    found = servers.controller(board).round()
    assert found.moved == []
    assert {error for _, error in found.failed} == {"no"}
    servers.broken.clear()
    while found.left or found.failed:
        found = servers.controller(board).round()
    assert list(servers.owners.values()).count("c") >= 6
