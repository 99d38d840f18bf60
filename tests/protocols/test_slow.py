"""The attacks of slowhttptest, by many clients at once: another client is answered, and nothing of the attack stays."""

import re
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.helpers.server import eventually, wait_for_children
from tests.protocols.ways import NAMES, WAYS, running

CLIENTS = 100
REQUEST_S = 1.0
FEW, PROXYS = 4, 68
"""Numbers of connections that may stay: the test's own connections, and the connections that a proxy keeps."""
LEARN = b"POST /models/%b/learn HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" % NAMES[1].encode()
ATTACKS = {
    "slow headers": (b"GET / HTTP/1.1\r\nhost: localhost\r\n", b"x: y\r\n"),
    "slow body": (LEARN + b"content-length: 5000\r\n\r\n", b" "),
    "slow chunks": (LEARN + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "slow read": (b"GET /ui/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\n", None),
    "ranges": (
        b"GET /ui/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\nrange: bytes=0-,"
        + b",".join(b"5-%d" % k for k in range(6, 1_500)) + b"\r\n\r\n", b"",
    ),
}  # fmt: skip
"""The bytes that each client sends first, and then from time to time; None if it reads a little instead."""


@pytest.fixture(scope="module", params=WAYS)
def way(request, tmp_path_factory):
    with running(request.param, tmp_path_factory.mktemp("slow"), request_s=REQUEST_S) as way:
        yield way


def taken(way):
    """Return the numbers of descriptors and threads of the server's processes, and their memory in MB."""
    pids = [way.server.process.pid, *wait_for_children(way.server.process.pid, 0)]
    said = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    threads, memory = (
        sum(int(re.search(rf"{name}:\s+(\d+)", text)[1]) for text in said) for name in ("Threads", "VmRSS")
    )
    return sum(len([*Path(f"/proc/{pid}/fd").iterdir()]) for pid in pids), threads, memory // 1024


@pytest.mark.long
@pytest.mark.parametrize("attack", ATTACKS)
def test_others_are_answered_meanwhile_and_nothing_stays(way, attack):
    first, then = ATTACKS[attack]
    for name in NAMES:
        assert way("POST", f"/models/{name}/predict", json={"x": [0, 1]}).status_code == 200
    descriptors, threads, memory = taken(way)
    descriptors += PROXYS if way.proxied else FEW
    with ExitStack() as stack:
        lines = [stack.enter_context(way.connected()) for _ in range(CLIENTS)]
        for line in lines:
            line.settimeout(0)
            line.sendall(first)
        end = time.monotonic() + 4 * REQUEST_S
        while time.monotonic() < end:
            for line in lines:
                with suppress(OSError):
                    line.recv(10) if then is None else line.sendall(then)
            for name in NAMES:
                assert way("POST", f"/models/{name}/predict", json={"x": [0, 1]}).status_code == 200
            time.sleep(0.1)
        assert taken(way)[1] <= threads + FEW
        if then and not way.proxied:  # a client that is answered may keep its connection for a while
            eventually(lambda: taken(way)[0] <= descriptors)
    eventually(lambda: taken(way)[0] <= descriptors)
    assert taken(way)[2] <= memory + 40
