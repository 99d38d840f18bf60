"""Several servers (nodes) that share a Redis, each in its own process."""

from contextlib import ExitStack

import httpx

from tests.helpers.http_client import BASE
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import PATIENCE_S, PLAIN, RunningServer

TTL_S = 1.0
CONFIGURATION = {
    "features": {"type": "dense", "dim": 2},
    "kernel": {"type": "rbf", "gamma": 1.0},
    "solver": "lasvm",
    "C": 1.0,
}


class Nodes:
    """`count` servers in `folder` that share one Redis, which nobody else uses."""

    def __init__(self, folder, count, **settings):
        self.folder = folder
        self.redis = RedisServer(folder / "redis")
        self._count = count
        self._settings = {"node_ttl_s": TTL_S, **settings}
        self._stack = ExitStack()
        self.servers = []

    def add(self):
        """Add a server without starting it."""
        server = RunningServer(self.folder / f"node{len(self.servers)}", store=self.redis.url, **self._settings)
        server.env["HINGED_NODE"] = server.url
        self.servers.append(server)
        return server

    def of(self, url):
        """Return the server with this URL."""
        return next(server for server in self.servers if server.url == url)

    def names(self, server):
        """Return the names of a server's processes in the cluster."""
        count = self._settings.get("processes", 1)
        return [server.url] if count == 1 else [f"{server.url}#{k}" for k in range(1, count + 1)]

    def __enter__(self):
        self._stack.enter_context(self.redis)
        for _ in range(self._count):
            self.add().start(wait=False)
            self._stack.push(self.servers[-1].__exit__)
        for server in self.servers:
            server.wait_until_ready()
        return self

    def __exit__(self, *_):
        self._stack.close()


def ask(server, method, path, **request):
    """Send a request to a server, which may forward it; return the response."""
    return httpx.request(method, server.url + path, timeout=PATIENCE_S, verify=PLAIN, **request)


def make(server, name):
    """Create a model on a server; return its name."""
    answer = ask(server, "PUT", f"/models/{name}", json=BASE)
    assert answer.status_code == 201, answer.text
    return name
