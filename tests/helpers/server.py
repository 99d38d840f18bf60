"""A real server in its own process. Tests send requests to it, stop it and kill it."""

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
"""Seconds that a test waits for something that must happen. The value is far too long on purpose: the machine may be
busy."""
PORTS = random.SystemRandom()  # unseeded: Hypothesis sets one seed in all processes, which would then draw equal ports
RESERVED = 100
"""Number of its newest ports that a process keeps reserved, so that no other process draws them."""
_reserved = deque()
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""An empty TLS context for httpx clients of plain HTTP. Without it each client spends 20 ms reading the
certificates."""
forked = None
"""The function that forks a server's process (zygote.py). Tests set it. Benchmarks do not, so they start each server
afresh."""


def missing(what):
    """Skip a test because something is missing; in CI the test fails."""
    import pytest  # noqa: PLC0415  benchmarks start servers, too

    if os.environ.get("HINGED_CI"):
        pytest.fail(what)
    pytest.skip(what)


def free_port(*above):
    """Return a free port. The ports that lie `above` it by these numbers are free as well.

    The port stays free until it is used, even a second later. It is below the range that the system uses for
    connections. No other process of the tests gets the port from this function.
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
    """Release all reserved ports except the newest `but` ports."""
    while len(_reserved) > but:
        _reserved.popleft().close()


def _bound(kind, port):
    """Return a socket bound to this port of the loopback address. A datagram socket reserves the port without blocking
    a server.
    """
    bound = socket.socket(type=kind)
    try:
        bound.bind(("127.0.0.1", port))
    except OSError:
        bound.close()
        raise
    return bound


def ended(pid):
    """Return whether a process has ended, even if its parent has not read its exit code yet.

    If other threads still run, they have the files and locks of the process, although it is a zombie already.
    """
    try:
        state, threads = state_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z" and threads <= 1


def state_of(pid):
    """Return the state of a process as a letter, and the number of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[17])


def wait_for_children(pid, count, seconds=PATIENCE_S):
    """Wait until a process has at least `count` child processes; return their pids."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
        # `ps` itself may be one of the child processes.
        children = [int(child) for child in found.stdout.split() if not ended(child)]
        if len(children) >= count:
            return children
        time.sleep(0.05)
    raise RuntimeError(f"process {pid} has not started {count} processes after {seconds} s")


def eventually(true):
    """Wait until a function returns a true value."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_taken(line):
    """Return whether a server has accepted this connection. Until then the system shows no inode for the other end."""
    table = Path("/proc/net/tcp").read_text().splitlines()[1:]
    remote = f":{line.getsockname()[1]:04X}"
    return any(row.split()[9] != "0" for row in table if row.split()[2].endswith(remote))


class RunningServer:
    """Runs `hinged serve` on a folder. The settings are HINGED_* without the prefix, in lower case.

    program: what Python runs instead of `hinged`. limits: replacements for limits of service/limits.py, in lower case.
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
        with self.log.open("a") as log:
            self.process = forked(self.program, self.env, self.log) if forked and not from_nothing else None
            self.process = self.process or subprocess.Popen(
                [sys.executable, *self.program, "serve"],
                cwd=ROOT, env=self.env, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
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

    def prefer(self):
        """Let the system run the server's threads before the threads of the tests, if this user may ask for it.

        Linux shares the cores between sessions, and a server is a session of its own.
        """
        with suppress(OSError):
            Path(f"/proc/{self.process.pid}/autogroup").write_text("-20")

    def run(self):
        """Start a server that should end on its own; return its exit code and its log."""
        self.log = self.log.with_suffix(".said")  # another server may use the same folder
        self.log.unlink(missing_ok=True)
        self.start(wait=False)
        return self.process.wait(PATIENCE_S), self.log.read_text()

    def kill(self):
        """Send kill -9, so that the process ends at once. Its child processes notice this, and end too: until then one
        of them could still answer for the next server.
        """
        children = wait_for_children(self.process.pid, 0) if "HINGED_PROCESSES" in self.env else []
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        eventually(lambda: all(map(ended, children)))

    def kill_all(self):
        """Send kill -9 to the server and to all its child processes."""
        children = wait_for_children(self.process.pid, 0)
        self.kill()
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: all(map(ended, children)))

    def terminate(self):
        """Send SIGTERM; return the exit code once the server has drained."""
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


def is_compiling(answer):
    """Return whether an answer says that the model's solver is still being compiled."""
    return '"state":"compiling"' in answer.text.replace(" ", "")


def until_compiled(url, names):
    """Wait until the solvers of these models are compiled."""
    for name in names:
        while is_compiling(httpx.get(f"{url}/models/{name}", timeout=60, verify=PLAIN)):
            time.sleep(0.2)
