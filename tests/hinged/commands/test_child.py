import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

from hinged.commands.child import ServerProcess, free_port
from tests.helpers.server import PATIENCE_S

# A program that replaces `hinged serve`: it drains at the first signal and dies at the second.
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


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_after_a_signal_the_parent_stops_and_reaps_the_server(number):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(child=CHILD)], stdout=subprocess.PIPE, text=True, process_group=0
    )
    with parent:
        pid = int(parent.stdout.readline())
        # Send the signal to the whole process group, as a terminal does. The server is not in the group.
        os.killpg(parent.pid, getattr(signal, number))
        output = parent.communicate(timeout=PATIENCE_S)[0]
    assert parent.returncode == 0
    assert output.splitlines() == ["0", "up", "drained after SIGTERM"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_second_signal_kills_a_server_that_drains():
    child = CHILD.replace("time.sleep(0.3)", "print('drains', flush=True); time.sleep(600)")
    waiting = PARENT.replace(
        "except KeyboardInterrupt:", "except KeyboardInterrupt:\n    assert 'drains' in server.last_output()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", waiting.format(child=child)], stdout=subprocess.PIPE, text=True, process_group=0
    ) as parent:
        int(parent.stdout.readline())
        parent.send_signal(signal.SIGINT)
        time.sleep(1)
        parent.send_signal(signal.SIGINT)
        output = parent.communicate(timeout=PATIENCE_S)[0]
    assert output.splitlines() == [str(-signal.SIGKILL), "up", "drains"]


def test_the_server_ends_with_a_parent_that_is_killed(tmp_path):
    parent = (
        PARENT.format(child=CHILD)
        .replace("server._command = ", "unused = ")
        .replace("ServerProcess([])", f"ServerProcess(['--port', '0', '--data-dir', {str(tmp_path)!r}])")
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        process.kill()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the server goes on")


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
