"""Clients that are slow to send the head of a request or its body, or to read an answer."""

import asyncio
import json
import random
import select
import socket
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from hinged.service.edge.serving import make_server
from hinged.service.edge.streams import Streams
from hinged.service.settings import Settings
from tests.helpers.http_client import Asking, example
from tests.helpers.limits import limited
from tests.helpers.server import PATIENCE_S, RunningServer, eventually

REQUEST_S = 1.0
HEAD = "POST /models/slow/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hasty")
    with RunningServer(folder / "data", request_s=REQUEST_S, body_bytes_max=50_000_000) as running:
        with Asking(running.url) as ask:
            ask.new_model("slow")
        yield running


@pytest.fixture
def line(hasty):
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=PATIENCE_S) as connection:
        yield connection


def everything(connection):
    """Return all data until the server closes the connection."""
    got = b""
    while part := connection.recv(65536):
        got += part
    return got


def drip(connection, first, then):
    """Send a little data again and again until there is an answer. This must not give the client more time."""
    connection.sendall(first)
    while not select.select([connection], [], [], 0.02)[0]:
        connection.sendall(then)


def refused(got, status, code):
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), got
    assert b"content-type: application/json" in head
    assert b"connection: close" in head.lower()
    assert json.loads(body)["error"]["code"] == code
    return json.loads(body)["error"]["message"]


@pytest.mark.parametrize("begun", ["", "P", HEAD, HEAD + "X-Endless: " + "x" * 1000])
def test_a_head_that_does_not_come_in_time_is_408_and_the_connection_ends(line, begun):
    start = time.monotonic()
    line.sendall(begun.encode())
    refused(everything(line), 408, "request_timeout")
    assert time.monotonic() - start >= REQUEST_S - 0.1


def test_neither_dripping_headers_nor_empty_lines_gain_time(line):
    drip(line, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"X-A: b\r\n")
    refused(everything(line), 408, "request_timeout")


def test_a_second_head_on_a_connection_has_the_same_time(line):
    line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    got = b""
    while not got.endswith(b'{"status":"ok"}'):
        got += line.recv(65536)
    time.sleep(REQUEST_S / 4)  # this time must not count against the next head
    start = time.monotonic()
    line.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
    refused(everything(line), 408, "request_timeout")
    assert time.monotonic() - start >= REQUEST_S - 0.1


@pytest.mark.parametrize("told", ["Content-Length: 500\r\n\r\n", 'Transfer-Encoding: chunked\r\n\r\n5\r\n{"exa\r\n'])
def test_a_body_that_does_not_come_in_time_is_408_and_nothing_is_learned(hasty, line, told):
    line.sendall((HEAD + told).encode())
    message = refused(everything(line), 408, "request_timeout")
    assert "bytes of the body" in message
    assert httpx.get(f"{hasty.url}/models/slow").json()["examples"] == 0


def test_a_dripping_body_gains_no_time(line):
    drip(line, (HEAD + "Content-Length: 5000000\r\n\r\n").encode(), b" ")
    refused(everything(line), 408, "request_timeout")


def test_a_long_body_has_more_time_as_more_of_it_comes(line, hasty):
    with Asking(hasty.url) as ask:
        ask.new_model("patient")
    body = json.dumps({"examples": [example([0.0, 1.0], True, "a")]}).encode() + b" " * 400_000
    head = HEAD.replace("slow", "patient") + f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    line.sendall(head.encode() + body[:-1])
    time.sleep(1.5 * REQUEST_S)
    line.sendall(body[-1:])
    assert everything(line).startswith(b"HTTP/1.1 200")


@pytest.mark.long
def test_work_of_the_server_does_not_use_the_clients_time(hasty):
    rng = random.Random(7)
    with Asking(hasty.url) as ask:
        model = ask.new_model("long", C=1e4)
        model.learn(*(example([rng.gauss(0, 1), rng.gauss(0, 1)], rng.random() < 0.5) for _ in range(1500)))
        start = time.monotonic()
        model.finish()
        assert time.monotonic() - start > REQUEST_S


def test_a_head_of_any_length_does_not_fill_the_memory(line):
    line.sendall(HEAD.encode() + b"X-Endless: " + b"x" * 2**16)
    message = refused(everything(line), 400, "bad_request")
    assert "65536 bytes" in message


def test_data_that_is_not_http_is_refused_in_the_shape_of_all_errors(line):
    line.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n")
    refused(everything(line), 400, "bad_request")


@pytest.mark.long
def test_the_rest_of_a_refused_body_is_not_awaited_for_ever(line):
    line.sendall((HEAD + "Content-Length: 60000000\r\n\r\n").encode())
    assert line.recv(65536).startswith(b"HTTP/1.1 413")

    def cut_off():
        try:
            line.sendall(b" ")
        except OSError:
            return True
        return False

    eventually(cut_off)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system breaks no such connections")
def test_a_client_that_does_not_read_an_answer_is_cut_off_and_others_are_answered(hasty):
    labels = [f"{i}: {'a long label' * 15}" for i in range(200)]
    with Asking(hasty.url) as ask:
        ask.new_model("wide", classes=labels).learn(*(example([0.0, float(i)], y) for i, y in enumerate(labels)))
    body = json.dumps({"examples": [{"x": [1.0, 1.0]}] * 300}).encode()
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(("127.0.0.1", hasty.port))
        head = HEAD.replace("slow/learn", "wide/predict") + f"Content-Length: {len(body)}\r\n\r\n"
        line.sendall(head.encode() + body)
        eventually(lambda: unread_bytes(hasty.port) > 0)
        eventually(lambda: unread_bytes(hasty.port) == 0)
        assert httpx.get(f"{hasty.url}/healthz").status_code == 200


@pytest.mark.parametrize("pieces", [[70_000] * 100, [50_000]])
def test_a_client_that_reads_a_little_from_time_to_time_is_cut_off(pieces):
    """The system breaks only connections whose clients read nothing at all."""

    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        for size in pieces:
            await send({"type": "http.response.body", "body": bytes(size), "more_body": True})
        await send({"type": "http.response.body"})

    async def read_a_little():
        server = make_server(app, Streams(10), Settings(request_s=0.2))
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        mine, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with mine:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(server.protocol, theirs)
            mine.setblocking(False)
            mine.send(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            read = 0
            with suppress(ConnectionError):
                while part := await asyncio.wait_for(loop.sock_recv(mine, 500), PATIENCE_S):
                    read += len(part)
                    await asyncio.sleep(0.02)
        return read

    with limited(body_bytes_per_s=1_000_000):
        assert asyncio.run(read_a_little()) < 40_000


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_unforeseen_error(hasty):
    def cut_off():
        counted = 'hinged_requests_total{method="POST",route="/models/{model}/learn",status="400"} '
        lines = httpx.get(f"{hasty.url}/metrics").text.splitlines()
        return next((float(line.removeprefix(counted)) for line in lines if line.startswith(counted)), 0.0)

    before = cut_off()
    with socket.create_connection(("127.0.0.1", hasty.port)) as line:
        line.sendall((HEAD + 'Content-Length: 1000\r\n\r\n{"x"').encode())
    eventually(lambda: cut_off() == before + 1)
    assert "Traceback" not in hasty.log.read_text()


def unread_bytes(port):
    """Return how many bytes of answers wait in the system because their clients did not read them."""
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    of_server = [queues for _, local, _, _, queues, *_ in sockets if int(local.partition(":")[2], 16) == port]
    return sum(int(queues.partition(":")[0], 16) for queues in of_server)


def test_an_answer_comes_in_one_piece(line):
    body = json.dumps({"x": [0.0, 1.0]}).encode()
    head = HEAD.replace("slow/learn", "slow/predict") + f"Content-Length: {len(body)}\r\n\r\n"
    for _ in range(20):
        line.sendall(head.encode() + body)
        got = line.recv(65536)
        assert got.startswith(b"HTTP/1.1 200 OK")
        assert json.loads(got.partition(b"\r\n\r\n")[2])["model"] == "slow"
