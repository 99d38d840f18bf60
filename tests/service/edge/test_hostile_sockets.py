"""Hostile handshakes and frames: each gets an answer in the standard shape, and the server continues."""

import contextlib
import itertools
import json
import socket

import pytest

from tests.helpers.guarded_server import FRAME_BYTES_MAX, LINES, Guarded, Line, guarded_server, head
from tests.helpers.http_client import Asking
from tests.helpers.server import RunningServer
from tests.protocols.frames import CLOSE, CONTINUED, TEXT, UNSAID, asked, frame, hear


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with guarded_server(tmp_path_factory.mktemp("hostile")) as guarded:
        yield guarded


# -- handshakes


HANDSHAKE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-version": "13",
}
STREAM = "/models/m/stream"
WRONG_HANDSHAKES = [
    ({"host": "evil.example"}, STREAM, 400, "bad_request"),
    ({"host": "localhost:80@evil"}, STREAM, 400, "bad_request"),
    ({"origin": "https://evil.example"}, STREAM, 403, "forbidden"),
    ({"authorization": "Bearer nobody"}, STREAM, 401, "unauthenticated"),
    ({"authorization": ""}, STREAM, 401, "unauthenticated"),
    ({"authorization": None}, STREAM, 401, "unauthenticated"),
    ({"authorization": "other"}, STREAM, 403, "forbidden"),
    ({}, "/models/absent/stream", 404, "not_found"),
    ({}, "/models/m/learn", 404, "not_found"),
    ({}, "/nothing", 404, "not_found"),
    ({}, "/", 404, "not_found"),
    ({}, f"{STREAM}?" + "q" * 20_000, 400, "bad_request"),
    ({"x-long": "v" * 20_000}, STREAM, 400, "bad_request"),
    ({f"x-{k}": "v" for k in range(200)}, STREAM, 400, "bad_request"),
    ({"sec-websocket-key": None}, STREAM, 400, "bad_request"),
    ({"sec-websocket-key": "short"}, STREAM, 400, "bad_request"),
    ({"sec-websocket-key": "é"}, STREAM, 400, "bad_request"),
    ({"sec-websocket-version": "12"}, STREAM, 400, "bad_request"),
    ({"sec-websocket-version": None}, STREAM, 400, "bad_request"),
]


def handshake(guarded, changes):
    headers = LINES | guarded.bearer() | HANDSHAKE | changes
    if changes.get("authorization") == "other":
        headers |= guarded.bearer("other")
    return {name: value for name, value in headers.items() if value is not None}


@pytest.mark.parametrize(("changes", "path", "status", "code"), WRONG_HANDSHAKES)
def test_an_invalid_handshake_is_refused_in_the_one_shape(guarded, changes, path, status, code):
    with Line(guarded.port) as line:
        line.send(head("GET", path, handshake(guarded, changes)))
        assert line.refused(status, code)
        assert line.ended()


@pytest.mark.parametrize("method", ["POST", "PUT", "OPTIONS"])
def test_a_handshake_by_another_method_is_answered_as_if_it_had_no_upgrade(guarded, method):
    with Line(guarded.port) as line:
        for _ in range(2):  # twice over one connection
            line.send(head(method, STREAM, handshake(guarded, {})))
            line.refused(404, "not_found")


@pytest.mark.parametrize("body", [{"content-length": "5"}, {"transfer-encoding": "chunked"}])
def test_a_handshake_with_a_body_opens_no_socket(guarded, body):
    with Line(guarded.port) as line:
        line.send(head("GET", STREAM, handshake(guarded, body)) + b"0\r\n\r\n")
        line.refused(404, "not_found")
        line.send(head("GET", "/healthz", LINES))
        assert line.answer()[0] == 200


def test_frames_that_come_with_the_handshake_are_refused_in_the_one_shape(guarded):
    with Line(guarded.port) as line:
        line.send(head("GET", STREAM, handshake(guarded, {})) + frame(b"{}"))
        assert "once the handshake" in line.refused(400, "bad_request")
        assert line.ended()


def test_one_socket_too_many_is_refused_in_the_one_shape(guarded):
    with contextlib.ExitStack() as opened:
        for _ in range(21):
            line = opened.enter_context(Line(guarded.port))
            line.send(head("GET", STREAM, handshake(guarded, {})))
            if line.socket.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL) != b"HTTP/1.1 101":
                break
        assert line.refused(429, "queue_full")
        assert line.ended()


def test_a_handshake_during_another_request_is_refused_in_the_one_shape(guarded):
    with Line(guarded.port) as line:
        line.send(head("GET", "/healthz", LINES) + head("GET", STREAM, handshake(guarded, {})))
        assert line.answer()[0] == 200
        line.refused(400, "bad_request")
        assert line.ended()


# -- frames


class Frames(Line):
    """An open WebSocket that is read a byte at a time."""

    def __init__(self, guarded):
        super().__init__(guarded.port)
        self.send(head("GET", STREAM, handshake(guarded, {})))
        status, _, body = self.answer()
        while status == 429:  # the server has not yet noticed that earlier sockets are closed
            self.socket.close()
            super().__init__(guarded.port)
            self.send(head("GET", STREAM, handshake(guarded, {})))
            status, _, body = self.answer()
        assert status == 101, body

    def until_end(self):
        """Return the answers up to an answer with the ref "end", or the code with which the socket is closed."""
        answers = []
        while True:
            opcode, data = hear(self.take)
            if opcode == CLOSE:
                return answers, int.from_bytes(data[:2], "big") if data else UNSAID
            if opcode == TEXT:
                answers.append(json.loads(data))
                if answers[-1]["ref"] == "end":
                    return answers, None


END = frame(asked(b"end"))


@pytest.mark.parametrize(
    "data",
    [
        frame(b"x" * (2 * FRAME_BYTES_MAX + 1)),
        frame(b"x" * FRAME_BYTES_MAX, fin=False) + frame(b"x" * (FRAME_BYTES_MAX + 1), CONTINUED),
        frame(b"x", fin=False) + frame(b"", CONTINUED, fin=False) * 5000 + frame(b"x" * 3000, CONTINUED),
    ],
    ids=itertools.count(),
)
def test_a_frame_that_is_much_too_long_closes_the_socket(guarded, data):
    with Frames(guarded) as line:
        line.send(data + b"\x00" * 100_000)  # more bytes that break the protocol
        assert line.until_end() == ([], 1009)
        assert line.ended()


def test_frames_before_a_fault_are_handled(guarded):
    with Frames(guarded) as line:
        learned = b'{"op": "learn", "ref": "1", "id": "last words", "x": [0, 1], "y": "up"}'
        line.send(frame(learned) + frame(b"", reserved=4))
        assert line.until_end()[1] == 1002
    headers = guarded.bearer()
    with Asking(guarded.running.url) as ask:
        body = {"id": "last words", "x": [0, 1], "y": "up"}
        (result,) = ask("POST", "/models/m/learn", json=body, headers=headers).json()["results"]
    assert result["duplicate"]


def test_a_socket_lives_longer_than_a_request_may_take(tmp_path):
    with RunningServer(tmp_path / "data", request_s=0.5) as running, Asking(running.url) as ask:
        ask.new_model("m")
        with Frames(Guarded(running, {"admin": "none"})) as first, Line(running.port) as idle:
            idle.refused(408, "request_timeout")  # the time of a later connection has run out
            first.send(END)
            ((answer,), closed) = first.until_end()
            assert closed is None
            assert answer["ok"]
