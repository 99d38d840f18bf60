"""The decisions of `hinged cluster start`, and the server of an actor. tests/faults/ray_nodes.py tests with Ray
itself.
"""

import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner

from hinged.commands.cli import cli
from hinged.commands.raycluster import (
    ClusterStart,
    ServerActor,
    address_of,
    changes,
    environment_of,
    server_name,
    settings_of,
)
from tests.helpers.nodes import CONFIGURATION
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import PATIENCE_S, ROOT, ended, eventually, free_port

WANTED = ClusterStart("redis://r", 8000, 10.0, {"HINGED_NODE_TTL_S": "1"})


def test_each_node_gets_a_server_and_servers_of_lost_nodes_are_dropped():
    nodes = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
    assert changes(nodes, ["controller"]) == (["n1", "n2"], [])
    assert changes(nodes, ["controller", server_name("n2"), server_name("n3")]) == (["n1"], ["n3"])


def test_a_server_gets_the_settings_of_the_cluster_and_its_own_address():
    assert settings_of(WANTED, "10.0.0.1") == {
        "HINGED_NODE_TTL_S": "1",
        "HINGED_STORE": "redis://r",
        "HINGED_HOST": "10.0.0.1",
        "HINGED_PORT": "8000",
        "HINGED_NODE": "http://10.0.0.1:8000",
    }
    assert address_of("fd00::1", 8000) == "http://[fd00::1]:8000"


def test_settings_that_differ_by_server_are_not_taken_from_the_starter():
    given = {"HINGED_KEY": "k", "HINGED_PORT": "1", "HINGED_NODE": "http://a", "HINGED_PROCESSES": "2", "PATH": "/"}
    assert environment_of(given) == {"HINGED_KEY": "k"}


def test_a_missing_ray_is_reported_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for command in ("start", "stop"):
        done = CliRunner().invoke(
            cli, ["cluster", command, "--ray", "auto", *["--store", "redis://r"][: 2 * (command == "start")]]
        )
        assert done.exit_code == 1
        assert 'pip install "hinged[ray]"' in done.output


@pytest.fixture
def redis(tmp_path):
    with RedisServer(tmp_path / "redis") as redis:
        yield redis


@pytest.mark.long
def test_the_server_of_an_actor_serves_until_it_stops(redis):
    actor = ServerActor(settings_of(ClusterStart(redis.url, free_port(), 1.0, {}), "127.0.0.1"))
    try:
        url = actor.url()
        assert httpx.put(f"{url}/models/m", json=CONFIGURATION, timeout=PATIENCE_S).status_code == 201
        assert httpx.get(f"{url}/cluster", timeout=PATIENCE_S).json()["models"][0]["owner"] == url
    finally:
        actor.stop()
    assert ended(actor.pid())


def test_a_bound_process_ends_with_its_parent(redis):
    settings = settings_of(ClusterStart(redis.url, free_port(), 1.0, {}), "127.0.0.1")
    script = (
        "import sys, time\n"
        "from hinged.commands.raycluster import ServerActor\n"
        f"print(ServerActor({settings!r}).pid(), flush=True)\n"
        "time.sleep(1000)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with parent:
        pid = int(parent.stdout.readline())
        assert not ended(pid)
        parent.kill()
    eventually(lambda: ended(pid))
