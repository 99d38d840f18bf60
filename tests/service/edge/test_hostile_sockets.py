"""Hostile handshakes and frames: each gets an answer in the standard shape, and the server continues."""

import contextlib
import itertools
import json
import socket
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.guarded_server import FRAME_BYTES_MAX, LINES, Guarded, Line, guarded_server, head, often, splits
from tests.helpers.http_client import Asking
from tests.helpers.server import RunningServer


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


TEXT, BYTES, CONTINUED, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
KNOWN_CODES = {1000, 1002, 1007, 1009}
UNSAID = 1005
"""The code that programs report for a close frame without a code (RFC 6455, 7.1.5). The server answers such a frame
with a close frame without a code."""


def frame(data, opcode=TEXT, fin=True, reserved=0, masked=True):
    """Return the bytes of a frame, masked as a client masks them."""
    first = (0x80 if fin else 0) | reserved << 4 | opcode
    size = len(data)
    if size < 126:
        sizes = bytes([size])
    elif size < 2**16:
        sizes = b"\x7e" + struct.pack("!H", size)
    else:
        sizes = b"\x7f" + struct.pack("!Q", size)
    if not masked:
        return bytes([first]) + sizes + data
    mask = b"\x01\x80\x55\xff"
    hidden = bytes(byte ^ mask[k % 4] for k, byte in enumerate(data))
    return bytes([first, sizes[0] | 0x80]) + sizes[1:] + mask + hidden


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

    def hear(self):
        """Return the opcode and the data of the next frame."""
        first, size = self.take(2)
        assert first & 0x70 == 0
        if size >= 126:
            (size,) = struct.unpack("!H" if size == 126 else "!Q", self.take(2 if size == 126 else 8))
        return first & 0x0F, self.take(size)

    def until_end(self):
        """Return the answers up to an answer with the ref "end", or the code with which the socket is closed."""
        answers = []
        while True:
            opcode, data = self.hear()
            if opcode == CLOSE:
                return answers, int.from_bytes(data[:2], "big") if data else UNSAID
            if opcode == TEXT:
                answers.append(json.loads(data))
                if answers[-1]["ref"] == "end":
                    return answers, None


END = frame(b'{"op": "predict", "ref": "end", "x": [0, 1]}')


def fine(text):
    return frame(json.dumps(text).encode())


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(b'{"op": "\xff"}'), 1007),
        (frame(b'{"op": "', fin=False) + frame(b'\xff"}', CONTINUED), 1007),
        (frame(b'{"op": "\xff"}') + frame(b'{"op": "\xff"}'), 1007),
        (frame(b'{"op": "\xff"}') + frame(b"", reserved=4), 1002),
        (frame(b"{}", reserved=4), 1002),
        (frame(b"{}", reserved=1), 1002),
        (frame(b"{}", opcode=3), 1002),
        (frame(b"{}", opcode=11), 1002),
        (frame(b"{}", masked=False), 1002),
        (frame(b"{}", CONTINUED), 1002),
        (frame(b"{", fin=False) + frame(b"}"), 1002),
        (frame(b"x" * 126, PING), 1002),
        (frame(b"", PING, fin=False), 1002),
        (frame(b"\x03", CLOSE), 1002),
        (frame(struct.pack("!H", 1005), CLOSE), 1002),
        (frame(struct.pack("!H", 1000) + b"\xff", CLOSE), 1007),
        (frame(b"x" * (2 * FRAME_BYTES_MAX + 1)), 1009),
        (frame(b"x" * FRAME_BYTES_MAX, fin=False) + frame(b"x" * (FRAME_BYTES_MAX + 1), CONTINUED), 1009),
        (frame(b"x", fin=False) + frame(b"", CONTINUED, fin=False) * 5000 + frame(b"x" * 3000, CONTINUED), 1009),
        (frame(struct.pack("!H", 1000), CLOSE), 1000),
    ],
    ids=itertools.count(),
)
def test_a_breach_of_the_protocol_closes_the_socket_with_its_code_after_earlier_frames(guarded, data, code):
    with Frames(guarded) as line:
        before = [fine({"op": "predict", "ref": str(k), "x": [0, 1]}) for k in range(3)]
        line.send(b"".join(before))
        assert [json.loads(line.hear()[1])["ref"] for _ in range(3)] == ["0", "1", "2"]
        line.send(data if code == 1007 else data + b"\x00" * 100_000)  # more bytes that break the protocol
        answers, closed = line.until_end()
        assert closed == code
        assert answers == []
        assert line.ended()


def test_frames_before_a_fault_are_handled(guarded):
    with Frames(guarded) as line:
        line.send(
            fine({"op": "learn", "ref": "1", "id": "last words", "x": [0, 1], "y": "up"}) + frame(b"", reserved=4)
        )
        assert line.until_end()[1] == 1002
    headers = guarded.bearer()
    with Asking(guarded.running.url) as ask:
        body = {"id": "last words", "x": [0, 1], "y": "up"}
        (result,) = ask("POST", "/models/m/learn", json=body, headers=headers).json()["results"]
    assert result["duplicate"]


@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b"", b"{", b"[]", b"null", b"1e999", b'{"op": 1}', b'{"ref": "r"}'], ids=repr
)
def test_a_binary_frame_that_is_invalid_gets_an_error_and_the_socket_stays_open(guarded, data):
    with Frames(guarded) as line:
        line.send(frame(data, BYTES) + END)
        (answer, last), closed = line.until_end()
        assert closed is None
        assert answer["error"]["code"] == "invalid"
        assert last["ok"]


def test_a_frame_in_many_fragments_is_joined(guarded):
    text = b'{"op": "predict", "ref": "end", "x": [0, 1]}'
    parts = [text[k : k + 1] for k in range(len(text))]
    nothing = frame(b"", CONTINUED, fin=False) * 3000
    sent = (
        frame(b"", fin=False)
        + nothing.join(frame(part, CONTINUED, fin=False) for part in parts)
        + frame(b"", CONTINUED)
    )
    with Frames(guarded) as line:
        line.send(sent)
        ((answer,), closed) = line.until_end()
        assert closed is None
        assert answer["ok"]


bits = st.builds(
    frame,
    st.binary(max_size=30)
    | st.just(b'{"op": "predict", "ref": "r", "x": [0, 1]}')
    | st.just(b"x" * 1200)
    | st.just(b"x" * 2100),
    st.sampled_from([TEXT, BYTES, CONTINUED, PING, PONG, CLOSE]) | st.integers(0, 15),
    fin=st.booleans(),
    reserved=st.sampled_from([0, 0, 0, 0, 0, 1, 4]),
    masked=st.sampled_from([True, True, True, True, False]),
)


@pytest.mark.long
@often
@example(sent=[frame(b"", CLOSE)], where=[])
@given(sent=st.lists(bits | st.just(END), max_size=8), where=splits)
def test_any_frames_are_answered_or_the_socket_is_closed_with_a_code(guarded, sent, where):
    with Frames(guarded) as line:
        line.send(b"".join(sent) + frame(b"", CONTINUED) + END, where)
        answers, closed = line.until_end()
        assert all(answer["ok"] or answer["error"]["code"] in ("invalid", "body_too_large") for answer in answers)
        assert closed is None or closed in KNOWN_CODES or 3000 <= closed < 5000 or 1000 <= closed <= 1014


def test_a_socket_lives_longer_than_a_request_may_take(tmp_path):
    with RunningServer(tmp_path / "data", request_s=0.5) as running, Asking(running.url) as ask:
        ask.new_model("m")
        with Frames(Guarded(running, {"admin": "none"})) as first, Line(running.port) as idle:
            idle.refused(408, "request_timeout")  # the time of a later connection has run out
            first.send(END)
            ((answer,), closed) = first.until_end()
            assert closed is None
            assert answer["ok"]
