import os
import signal
import socket
import subprocess
import sys
import textwrap

import pytest

from hinged.commands.child import ServerProcess, free_port
from tests.helpers.server import PATIENCE_S

# A program instead of `hinged serve`: it drains at the first signal and dies at a second signal.
CHILD = """
import signal, sys, time
def drain(number, frame):
    signal.signal(number, signal.SIG_DFL)
    time.sleep(0.3)
    print("drained after", signal.Signals(number).name, flush=True)
    sys.exit(0)
signal.signal(signal.SIGINT, drain)
signal.signal(signal.SIGTERM, drain)
print("up", flush=True)
time.sleep(600)
"""

PARENT = """
import sys, time
from hinged.commands.child import ServerProcess
server = ServerProcess([])
server._command = [sys.executable, "-c", {child!r}]
try:
    with server:
        while not server._lines:
            time.sleep(0.01)
        print(server._process.pid, flush=True)
        time.sleep(600)
except KeyboardInterrupt:
    print(server._process.returncode, server.last_output(), sep="\\n", flush=True)
"""


@pytest.mark.parametrize(("number", "passed_on"), [("SIGINT", "SIGINT"), ("SIGTERM", "SIGTERM"), ("SIGHUP", "SIGTERM")])
def test_the_parent_forwards_a_signal_once_and_reaps_the_server(number, passed_on):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(child=CHILD)], stdout=subprocess.PIPE, text=True, process_group=0
    )
    with parent:
        pid = int(parent.stdout.readline())
        # Send the signal to the whole process group, as a terminal does. The server is not in the group.
        os.killpg(parent.pid, getattr(signal, number))
        output = parent.communicate(timeout=PATIENCE_S)[0]
    assert parent.returncode == 0
    assert output.splitlines() == ["0", "up", f"drained after {passed_on}"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def started(code):
    server = ServerProcess([])
    server._command = [sys.executable, "-c", textwrap.dedent(code)]
    return server


def test_the_end_of_the_block_ends_the_server_and_restores_signal_handlers():
    before = signal.getsignal(signal.SIGINT)
    with started(CHILD) as server:
        assert server.running
    assert not server.running
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_in_the_block_ends_the_server_too():
    server = started(CHILD)
    with pytest.raises(ZeroDivisionError), server:
        raise ZeroDivisionError
    assert not server.running


def test_the_last_output_of_a_dead_server_is_kept():
    with started("for i in range(1000): print('line', i)\nraise SystemExit('boom')") as server:
        server.wait()
        lines = server.last_output().splitlines()
    assert lines[-2:] == ["line 999", "boom"]
    assert len(lines) == 30


def test_a_command_that_cannot_start_restores_signal_handlers():
    before = signal.getsignal(signal.SIGINT)
    server = ServerProcess([])
    server._command = ["/nonexistent/command"]
    with pytest.raises(FileNotFoundError), server:
        pass
    assert signal.getsignal(signal.SIGINT) is before


def test_free_port_skips_a_taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port("127.0.0.1", port) > port
    assert free_port("127.0.0.1", 0) > 0
    with pytest.raises(OSError, match="no free port"):
        free_port("192.0.2.1", 65530)
