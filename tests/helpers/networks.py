"""Run servers on one machine, each in its own network namespace. A test can cut a namespace off. This needs Linux, root
and `ip`.

A bridge joins the namespaces. Redis listens on one address of the bridge, and clients send requests from another
address. No program listens on an address that two namespaces share.
"""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

from tests.helpers.nodes import Nodes
from tests.helpers.redis_server import PASSWORD, RedisServer
from tests.helpers.server import PATIENCE_S, ROOT, RunningServer

NET = f"10.{100 + os.getpid() % 100}.77"
HERE, STORE = f"{NET}.1", f"{NET}.2"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=PATIENCE_S)


class Namespace:
    """A network namespace with one address, joined to a bridge."""

    def __init__(self, number):
        self.name, self._link = f"hinged{os.getpid()}-{number}", f"h{os.getpid() % 100_000}-{number}"
        self.host = f"{NET}.{10 + number}"

    def join(self, bridge):
        ip("netns", "add", self.name)
        ip("link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("link", "set", self._link, "master", bridge, "up")
        ip("-n", self.name, "addr", "add", f"{self.host}/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")
        ip("-n", self.name, "link", "set", "lo", "up")

    def command(self, *words):
        """Return the arguments that run a command in the namespace."""
        return ["ip", "netns", "exec", self.name, *map(str, words)]

    def kill(self):
        """Send kill -9 to each process of the namespace."""
        found = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True)
        for pid in found.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def leave(self):
        with suppress(subprocess.CalledProcessError):
            self.kill()
            ip("netns", "del", self.name)

    def cut_off(self):
        """Cut the namespace off from everything."""
        ip("link", "set", self._link, "down")

    def reach_again(self):
        ip("link", "set", self._link, "up")

    def lose_store(self):
        """Cut the namespace off only from Redis. The namespace and the other servers still reach each other."""
        ip("-n", self.name, "route", "add", "blackhole", f"{STORE}/32")

    def find_store(self):
        ip("-n", self.name, "route", "del", "blackhole", f"{STORE}/32")


@contextmanager
def bridge():
    """Make a bridge with the addresses HERE and STORE; yield its name."""
    name = f"h{os.getpid() % 100_000}"
    ip("link", "add", name, "type", "bridge")
    try:
        for address in (HERE, STORE):
            ip("addr", "add", f"{address}/24", "dev", name)
        ip("link", "set", name, "up")
        yield name
    finally:
        ip("link", "del", name)


class Apart(RunningServer):
    """A server in a namespace."""

    def __init__(self, data_dir, namespace, **settings):
        super().__init__(data_dir, **settings)
        self.namespace = namespace
        self.url = f"http://{namespace.host}:{self.port}"
        self.env |= {"HINGED_HOST": namespace.host, "HINGED_OPEN": "true", "HINGED_NODE": self.url}

    def start(self, wait=True, **_):
        with self.log.open("a") as log:
            command = self.namespace.command(sys.executable, *self.program, "serve")
            self.process = subprocess.Popen(command, cwd=ROOT, env=self.env, stdout=log, stderr=log)
        if wait:
            self.wait_until_ready()
        return self


class NodesApart(Nodes):
    """Nodes, each in a network namespace of its own."""

    def __init__(self, folder, count, **settings):
        super().__init__(folder, count, **settings)
        self.redis = redis_apart(folder / "redis")

    def add(self):
        number = len(self.servers)
        namespace = Namespace(number)
        namespace.join(self._bridge)
        self._stack.callback(namespace.leave)
        self.servers.append(Apart(self.folder / f"node{number}", namespace, store=url_of(self.redis), **self._settings))
        return self.servers[-1]

    def __enter__(self):
        self._bridge = self._stack.enter_context(bridge())
        try:
            return super().__enter__()
        except BaseException:
            self._stack.close()
            raise


def redis_apart(folder):
    """Return a Redis that listens on an address of the bridge and on the loopback address."""
    return RedisServer(folder, bind=f"127.0.0.1 {STORE}")


def url_of(redis):
    """Return the URL at which servers in namespaces reach Redis."""
    return f"redis://:{PASSWORD}@{STORE}:{redis.port}"
