"""Check how tests start servers and wait for their ends."""

import platform
import subprocess
import sys

import pytest

from tests.helpers import server, zygote


@pytest.mark.parametrize("test", ["first", "second"])
def test_the_server_of_each_test_is_forked(tmp_path, test):
    with server.RunningServer(tmp_path / test) as running:
        assert zygote.read_at_start(running.env) == zygote.read_at_start(zygote.BEGUN)
        assert isinstance(running.process, zygote.Forked) == bool(server.forked)


def test_a_process_has_not_ended_before_its_last_thread():
    """The first thread of a killed process may end long before its other threads."""
    program = """if True:
        import ctypes, sys, threading
        threading.Thread(target=sys.stdin.read).start()
        ctypes.CDLL(None).syscall(60 if sys.argv[1] == "x86_64" else 93, 0)  # exit of this thread
    """
    running = subprocess.Popen([sys.executable, "-c", program, platform.machine()], stdin=subprocess.PIPE)
    server.eventually(lambda: server.state_of(running.pid)[0] == "Z")
    assert not server.ended(running.pid)
    running.stdin.close()
    server.eventually(lambda: server.ended(running.pid))
    running.wait()
