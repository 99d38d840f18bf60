"""A real server in a process of its own, to be asked, stopped and killed."""

import atexit
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections import deque
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300
"""How long a test waits for what must come. So long that it is no measure of anything: the machine may be busy."""
PORTS = random.SystemRandom()  # not of a seed, which Hypothesis makes the same in all processes
RESERVED = 100
"""How many of the ports that were given last no other process is given."""
_reserved = deque()
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For httpx, where all is plain HTTP: by itself each of its clients reads the machine's certificates, for 20 ms."""
forked = None
"""Where a server's process comes from, if not from nothing (zygote.py): the tests set it, benchmarks do not."""
unmarked = False
"""Whether a test runs that does not say, by the marker `server`, that it starts one (tests/conftest.py)."""


def about_to_start():
    """Refuse to start a process for a test that has not said so: `make quick` would run it."""
    assert not unmarked, "a test that starts a server, a Redis or a terminal says so: @pytest.mark.server"


def missing(what):
    """Skip the test that lacks something; in CI it fails."""
    import pytest  # noqa: PLC0415  benchmarks start servers, too

    if os.environ.get("HINGED_CI"):
        pytest.fail(what)
    pytest.skip(what)


def free_port(*above):
    """A port on which nothing listens, nor on those so far above it. It stays free until it is used: it is below those
    that the system gives to whoever names none, above all to the connections of the tests beside this one; and who asks
    here in another process is not given it either, though it may be a second until it is listened on.
    """
    while True:
        port = PORTS.randrange(10_000, 22_000)
        with ExitStack() as taken:
            try:
                for far in (0, *above):
                    taken.enter_context(_bound(socket.SOCK_STREAM, port + far)).close()
                    taken.enter_context(_bound(socket.SOCK_DGRAM, port + far))
            except OSError:
                continue
            _reserved.append(taken.pop_all())
            _let_go(RESERVED)
            return port


@atexit.register
def _let_go(but=0):
    """Any process may be given again what was reserved here, but for the newest."""
    while len(_reserved) > but:
        _reserved.popleft().close()


def _bound(kind, port):
    """A socket that has this port of the loopback address. Those of datagrams are in nobody's way."""
    bound = socket.socket(type=kind)
    try:
        bound.bind(("127.0.0.1", port))
    except OSError:
        bound.close()
        raise
    return bound


def ended(pid):
    """Whether a process runs no more, though perhaps nobody asked for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for_children(pid, count, seconds=PATIENCE_S):
    """The processes that this one started, once there are so many."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
        # `ps` itself may be one of them.
        children = [int(child) for child in found.stdout.split() if not ended(child)]
        if len(children) >= count:
            return children
        time.sleep(0.05)
    raise RuntimeError(f"process {pid} has not started {count} others after {seconds} s")


def eventually(true):
    """Wait until something is true."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_taken(line):
    """Whether somebody has accepted this connection: until then its other end has no inode."""
    table = Path("/proc/net/tcp").read_text().splitlines()[1:]
    remote = f":{line.getsockname()[1]:04X}"
    return any(row.split()[9] != "0" for row in table if row.split()[2].endswith(remote))


class RunningServer:
    """`hinged serve` on a folder; settings as HINGED_* without the prefix, in lower case.

    program: what Python runs in the place of `hinged`. limits: others than those of service/limits.py, in lower case.
    """

    def __init__(self, data_dir, program=("-m", "hinged"), limits=None, **settings):
        self.program = ("-m", "tests.helpers.limits") if limits else program
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data_dir = Path(data_dir)
        self.log = Path(data_dir).with_suffix(".log")
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("HINGED_")},
            **{f"HINGED_{k.upper()}": str(v) for k, v in settings.items()},
            "HINGED_DATA_DIR": str(data_dir),
            "HINGED_PORT": str(self.port),
        }
        if limits:
            self.env["PYTEST_LIMITS"] = json.dumps(limits)
        self.process = None

    def start(self, wait=True, *, from_nothing=False):
        about_to_start()
        with self.log.open("a") as log:
            self.process = forked(self.program, self.env, self.log) if forked and not from_nothing else None
            self.process = self.process or subprocess.Popen(
                [sys.executable, *self.program, "serve"], cwd=ROOT, env=self.env, stdout=log, stderr=log
            )
        if wait:
            self.wait_until_ready()
        return self

    def wait_until_ready(self, seconds=PATIENCE_S):
        end = time.monotonic() + seconds
        with httpx.Client(timeout=PATIENCE_S, verify=PLAIN) as http:
            while time.monotonic() < end:
                if (code := self.process.poll()) is not None:
                    raise RuntimeError(f"the server ended with {code}: {self.log.read_text()[-2000:]}")
                try:
                    if http.get(f"{self.url}/readyz").status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                time.sleep(0.05)
        raise RuntimeError(f"the server is not ready after {seconds} s: {self.log.read_text()[-2000:]}")

    def run(self):
        """What the process says that is expected to end by itself: its exit code and its words."""
        self.log = self.log.with_suffix(".said")  # another server may be on the same folder
        self.log.unlink(missing_ok=True)
        self.start(wait=False)
        return self.process.wait(PATIENCE_S), self.log.read_text()

    def kill(self):
        """kill -9: nothing of the process gets to run."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def kill_all(self):
        """The same of all its processes, where it has several."""
        children = wait_for_children(self.process.pid, 0)
        self.kill()
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: all(map(ended, children)))

    def terminate(self):
        """SIGTERM; returns the exit code once it has drained."""
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


def is_compiling(answer):
    """Whether a model is not there yet, as the machine's compile cache lacked its solver."""
    return '"state":"compiling"' in answer.text.replace(" ", "")


def until_compiled(url, names):
    """Wait until these models take requests."""
    for name in names:
        while is_compiling(httpx.get(f"{url}/models/{name}", timeout=60, verify=PLAIN)):
            time.sleep(0.2)
