"""Several servers (nodes) that share a Redis, each in a process of its own."""

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
    """`count` servers in `folder` on a Redis of their own."""

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
        """The server with this URL."""
        return next(server for server in self.servers if server.url == url)

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
    """Send a request to a server, which may pass it on; return the response."""
    return httpx.request(method, server.url + path, timeout=PATIENCE_S, verify=PLAIN, **request)


def make(server, name):
    """Create a model on a server; return its name."""
    answer = ask(server, "PUT", f"/models/{name}", json=BASE)
    assert answer.status_code == 201, answer.text
    return name
