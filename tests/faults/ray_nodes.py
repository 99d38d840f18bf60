"""Run servers as Ray actors, on nodes in separate network namespaces. First kill servers, then kill nodes.

    pip install 'hinged[ray]'
    python -m tests.faults.ray_nodes

The program needs Linux, root, `ip` and redis-server. It prints three durations in seconds. The first ends when every
model answers again after a server was killed; Ray restarts this server. The second ends when every model answers again
after a node was killed; other servers claim its models. The third ends when a node that joined has its share of the
models. Ray is configured to notice a dead node
within about 3 s (DETECTION); its default is half a minute.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx

from tests.helpers.networks import Namespace, bridge, redis_apart, url_of
from tests.helpers.nodes import CONFIGURATION
from tests.helpers.server import PATIENCE_S, ROOT

PORT, RAY_PORT = 8000, 6379
MODELS = [f"m{k}" for k in range(30)]
DETECTION = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_raylet_start_wait_time_s": "200",
}
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("HINGED_")},
    **DETECTION,
    "HINGED_OPEN": "true",
    "HINGED_NODE_TTL_S": "1",
    "PYTHONPATH": str(ROOT),
    "RAY_USAGE_STATS_ENABLED": "0",
}


class RayNode:
    """A node of Ray in a namespace."""

    def __init__(self, number, folder, head=None):
        self.namespace, self._folder, self._head = Namespace(number), folder, head
        self.url = f"http://{self.namespace.host}:{PORT}"
        self.process = None

    def start(self):
        where = ["--head", f"--port={RAY_PORT}"] if self._head is None else [f"--address={self._head}:{RAY_PORT}"]
        options = [f"--node-ip-address={self.namespace.host}", "--num-cpus=1", "--object-store-memory=80000000"]
        options += (
            ["--include-dashboard=false", "--disable-usage-stats", "--block"] if self._head is None else ["--block"]
        )
        with (self._folder / f"ray-{self.namespace.name}.log").open("a") as log:
            command = self.namespace.command(Path(sys.executable).parent / "ray", "start", *where, *options)
            self.process = subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=log, cwd=self._folder)

    def hinged(self, *words):
        """Run a hinged command on this node; return its output."""
        command = self.namespace.command(sys.executable, "-m", "hinged", *words)
        done = subprocess.run(
            command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=ROOT
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split()


def until(true, seconds=PATIENCE_S):
    """Wait until a condition is true; return the seconds."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds
        time.sleep(0.1)
    return round(time.monotonic() - began, 1)


def listens(host, port):
    with suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def answers(node, name):
    try:
        body = {"examples": [{"x": [0.0, 1.0]}]}
        return httpx.post(f"{node.url}/models/{name}/predict", json=body, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def until_all_answer(node):
    left = list(MODELS)

    def none_left():
        left[:] = [name for name in left if not answers(node, name)]
        return not left

    return until(none_left)


def models_of(node, url):
    shown = httpx.get(f"{node.url}/cluster", timeout=30).json()
    return [model["model"] for model in shown["models"] if model["owner"] == url]


def run(folder, stack):
    name = stack.enter_context(bridge())
    redis = stack.enter_context(redis_apart(folder / "redis"))
    head = RayNode(0, folder)
    nodes = [head, *(RayNode(number, folder, head.namespace.host) for number in (1, 2))]
    for node in nodes:
        node.namespace.join(name)
        stack.callback(node.namespace.leave)
        node.start()
        until(lambda: listens(head.namespace.host, RAY_PORT))
    found = {}
    began = time.monotonic()
    command = (
        "cluster",
        "start",
        "--ray",
        f"{head.namespace.host}:{RAY_PORT}",
        "--store",
        url_of(redis),
        "--every",
        "2",
    )
    until(lambda: len(head.hinged(*command)) == len(nodes))
    found["start_s"] = round(time.monotonic() - began, 1)
    for number, model in enumerate(MODELS):
        url = f"{nodes[number % 3].url}/models/{model}"
        assert httpx.put(url, json=CONFIGURATION, timeout=PATIENCE_S).status_code == 201
        examples = [{"id": f"e{k}", "x": [k % 7, k % 5], "y": k % 2} for k in range(20)]
        assert httpx.post(f"{url}/learn", json={"examples": examples}, timeout=PATIENCE_S).status_code == 200
    victim = nodes[2]
    servers = subprocess.run(["pgrep", "-f", "hinged.commands.bound"], capture_output=True, text=True, check=True)
    inside = subprocess.run(["ip", "netns", "pids", victim.namespace.name], capture_output=True, text=True, check=True)
    for pid in set(servers.stdout.split()) & set(inside.stdout.split()):
        os.kill(int(pid), 9)
    found["server_killed_again_s"] = until_all_answer(head)
    found["server_anew_s"] = until(lambda: answers(victim, MODELS[0]))
    victim.namespace.kill()
    found["node_killed_again_s"] = until_all_answer(head)
    victim.start()
    found["node_joined_has_a_server_s"] = until(lambda: answers(victim, MODELS[0]))
    found["node_joined_has_models_s"] = until(lambda: len(models_of(head, victim.url)) >= len(MODELS) // 5)
    found["learned_each"] = sorted(
        {httpx.get(f"{head.url}/models/{model}", timeout=30).json()["examples"] for model in MODELS}
    )
    found["stopped"] = head.hinged("cluster", "stop", "--ray", f"{head.namespace.host}:{RAY_PORT}")
    return found


def main():
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        try:
            print(json.dumps(run(Path(folder), stack), indent=2))
        except BaseException:
            for log in Path(folder).glob("ray-*.log"):
                print(log.name, log.read_text()[-3000:], sep="\n")
            raise


if __name__ == "__main__":
    main()
