"""Requests, handshakes and frames that mean no good: each is answered in the one shape, and the server goes on.

What the server logs of them is no error of its own, so its log stays free of errors and tracebacks.
"""

import contextlib
import itertools
import json
import re
import socket
import struct

import pytest
from asking import BASE, Asking
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from running import PATIENCE_S, RunningServer

from hinged.service.edge.keys import create_key

HEAD_BYTES_MAX = 2**16
BODY_BYTES_MAX = 200_000
FRAME_BYTES_MAX = 1000
LINES = {"host": "localhost", "accept": "*/*"}

often = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Guarded:
    """A server with keys, and what a request to it brings that is let in."""

    def __init__(self, running, keys):
        self.running = running
        self.port = running.port
        self.keys = keys

    def bearer(self, name="admin"):
        return {"authorization": f"Bearer {self.keys[name]}"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / "keys.json"
    keys = {"admin": create_key(path, "me", "admin"), "other": create_key(path, "other", "admin", ["other-*"])}
    limits = {"body_bytes_max": BODY_BYTES_MAX, "frame_bytes_max": FRAME_BYTES_MAX, "streams_max": 20}
    with RunningServer(folder / "data", keys_file=path, **limits) as running:
        guarded = Guarded(running, keys)
        with Asking(running.url) as ask:
            assert ask("PUT", "/models/m", json=BASE, headers=guarded.bearer()).status_code == 201
        yield guarded
        with Asking(running.url) as ask:
            assert ask("GET", "/readyz").status_code == 200
        log = running.log.read_text()
        assert "Traceback" not in log
        assert " ERROR " not in log


def head(method, path, headers):
    """The bytes of a head."""
    pairs = headers.items() if isinstance(headers, dict) else headers
    lines = [f"{method} {path} HTTP/1.1".encode(), *(_bytes(name) + b": " + _bytes(value) for name, value in pairs)]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _bytes(text):
    return text if isinstance(text, bytes) else text.encode()


class Line:
    """A connection on which answers are read as they come."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data, splits=()):
        """Send in pieces, as far as the server takes them."""
        edges = [0, *sorted({round(split * len(data)) for split in splits}), len(data)]
        with contextlib.suppress(ConnectionError):
            for start, end in itertools.pairwise(edges):
                self.socket.sendall(data[start:end])

    def _more(self):
        part = self.socket.recv(65536)
        self.got += part
        return bool(part)

    def take(self, size):
        while len(self.got) < size:
            assert self._more(), self.got
        taken, self.got = self.got[:size], self.got[size:]
        return taken

    def answer(self):
        """The next answer: status, headers and body."""
        while b"\r\n\r\n" not in self.got:
            assert self._more(), self.got
        told, _, self.got = self.got.partition(b"\r\n\r\n")
        first, *lines = told.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = b"" if first.split()[1] == "101" else self.take(int(headers["content-length"]))
        return int(first.split()[1]), headers, body

    def refused(self, status, code):
        """The message of the next answer, which refuses in the one shape."""
        got, headers, body = self.answer()
        assert got == status, body
        return _message(headers, body, code)

    def ended(self):
        """Whether nothing more comes."""
        return not self.got and not self._more()


def _message(headers, body, code):
    assert headers["content-type"] == "application/json"
    found = json.loads(body)
    assert list(found) == ["error"]
    assert list(found["error"]) in (["code", "message"], ["code", "message", "details"])
    assert found["error"]["code"] == code, found
    assert "\n" not in found["error"]["message"]
    return found["error"]["message"]


# -- heads

splits = st.lists(st.floats(0, 1), max_size=6)


@st.composite
def heads(draw):
    """Headers of many sizes: few long ones, many short ones, long names, much white space."""
    shape = draw(st.sampled_from(["long", "many", "name", "space"]))
    size = draw(st.integers(0, 3 * HEAD_BYTES_MAX) | st.integers(HEAD_BYTES_MAX - 200, HEAD_BYTES_MAX + 200))
    match shape:
        case "long":
            return [("x-a", "v" * size)]
        case "many":
            return [(f"x-{k}", "v") for k in range(size // 10)]
        case "name":
            return [("x" * (size or 1), "v")]
    return [("x-a", " " * size + "v")]


@often
@given(more=heads(), where=splits)
@example(more=[(f"x-{k:04}", "v") for k in range(9000)], where=[])
@example(more=[("x-a", "v" * (HEAD_BYTES_MAX - 67))], where=[])
@example(more=[("x-a", "v" * (HEAD_BYTES_MAX - 68))], where=[0.5])
def test_a_head_has_at_most_64_kib_however_it_comes(guarded, more, where):
    asked = head("GET", "/healthz", [*LINES.items(), *more])
    with Line(guarded.port) as line:
        line.send(asked, where)
        if len(asked) <= HEAD_BYTES_MAX:
            assert line.answer()[0] == 200
        else:
            assert "65536 bytes" in line.refused(400, "bad_request")
            assert line.ended()


def test_the_limit_of_a_head_is_exact(guarded):
    rest = HEAD_BYTES_MAX - len(head("GET", "/healthz", LINES | {"x": ""}))
    for size, status in ((rest, 200), (rest + 1, 400)):
        with Line(guarded.port) as line:
            line.send(head("GET", "/healthz", LINES | {"x": "v" * size}))
            assert line.answer()[0] == status


@often
@given(more=heads(), size=st.integers(0, BODY_BYTES_MAX), where=splits)
@example(more=[(f"x-{k:04}", "v") for k in range(9000)], size=0, where=[])
def test_nor_has_the_head_behind_another_request_more(guarded, more, size, where):
    """The body before it counts for nothing."""
    first = head("POST", "/models/m/predict", LINES | {"content-length": str(size)}) + b" " * size
    second = head("GET", "/healthz", [*LINES.items(), *more])
    told = sum(len(name) + len(value.strip()) for name, value in [*LINES.items(), *more])
    with Line(guarded.port) as line:
        line.send(first + second, where)
        line.refused(401, "unauthenticated")
        status, headers, body = line.answer()
        if len(second) <= HEAD_BYTES_MAX:
            assert status == 200
        elif told > HEAD_BYTES_MAX or status != 200:  # of white space alone some more may pass
            assert status == 400
            _message(headers, body, "bad_request")


def test_what_stands_behind_a_chunked_body_is_no_header(guarded):
    chunked = LINES | {"content-type": "application/json", "transfer-encoding": "chunked"}
    with Line(guarded.port) as line:
        body = b'9\r\n{"x":[0,1\r\n2\r\n]}\r\n0\r\n' + head("", "", guarded.bearer()).partition(b"\r\n")[2]
        line.send(head("POST", "/models/m/predict", chunked) + body)
        line.refused(401, "unauthenticated")


# -- hosts

names = st.sampled_from(
    ["localhost", "LocalHost", "127.0.0.1", "[::1]", "::1", "evil", "evil.example", "", "l\u043ecalhost"]
)
ports = st.sampled_from(["", ":", ":80", ":8000", ":8x", ":-1", ":80:80"])
odd = st.sampled_from(
    ["", "", "", "@", "@evil", "evil", "%00", "%", " ", " evil", "/", "?", "#", ",", "[", "]", "\\", "\t", "é", "."]
)
hosts = st.builds("".join, st.tuples(odd, names, odd, ports, odd)) | st.text(max_size=20)
ALLOWED = re.compile(r"[ \t]*(localhost|127\.0\.0\.1|\[::1\])(:[0-9]*)?[ \t]*", re.ASCII)


@often
@given(host=hosts)
@example(host="localhost:80@evil")
@example(host="[::1]evil")
@example(host="[::1]:80evil")
@example(host="[::1")
@example(host="localhost:")
@example(host="[::1]:8000")
@example(host="\xa0localhost")
def test_a_host_is_one_of_those_allowed_and_nothing_else(guarded, host):
    with Line(guarded.port) as line:
        line.send(head("GET", "/healthz", {"host": host.replace("\r", "").replace("\n", "")}))
        if ALLOWED.fullmatch(host.lower()) and "\u212a" not in host:
            assert line.answer()[0] == 200
        else:
            line.refused(400, "bad_request")


# -- bodies

CHUNKED = {"content-type": "application/json", "transfer-encoding": "chunked"}
WRONG_CHUNKS = [
    b"zz\r\n{}\r\n0\r\n\r\n",
    b"-1\r\n{}\r\n0\r\n\r\n",
    b"2\r\n{}0\r\n\r\n",
    b"1\r\n{}\r\n0\r\n\r\n",
    b"2\n{}\r\n0\r\n\r\n",
    b" 2\r\n{}\r\n0\r\n\r\n",
    b"\r\n{}\r\n0\r\n\r\n",
    b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n",
    b"0x2\r\n{}\r\n0\r\n\r\n",
    b"2\r\n{}\r\n0\r\nx\r\n\r\n",
    b"2\r\n{}\r\n0\r\nx : y\r\n\r\n",
    b"2;\x00\r\n{}\r\n0\r\n\r\n",
    b"2\r\n{}\r\n0\r\nx-a: " + b"v" * 2 * HEAD_BYTES_MAX + b"\r\n\r\n",
    b"2\r\n{}\r\n0\r\n" + b"x-a: b\r\n" * HEAD_BYTES_MAX + b"\r\n",
    b"2;" + b"x" * 2 * HEAD_BYTES_MAX + b"\r\n{}\r\n0\r\n\r\n",
]
ROUTES = [
    ("POST", "/models/m/learn"),
    ("POST", "/models/m/predict"),
    ("POST", "/models/m/finish"),
    ("PUT", "/models/n"),
]


@pytest.mark.parametrize("body", WRONG_CHUNKS, ids=itertools.count())
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_body_of_malformed_chunks_is_400_and_the_connection_ends(guarded, method, path, body):
    asked = head(method, path, LINES | guarded.bearer() | CHUNKED)
    with Line(guarded.port) as line:
        line.send(asked + body)
        assert line.refused(400, "bad_request")
        assert line.ended()
    with Line(guarded.port) as line:  # and when the application waits for it
        line.send(asked)
        line.send(body)
        assert line.refused(400, "bad_request")
        assert line.ended()


@often
@given(
    body=st.lists(
        st.sampled_from([b"2\r\n", b"{}", b"0\r\n", b"\r\n", b"11\r\n", b"z", b";a=b", b"\n", b"x: y\r\n"]), max_size=8
    ),
    route=st.sampled_from([*ROUTES, ("GET", "/models"), ("DELETE", "/models/absent"), ("GET", "/nothing")]),
    where=splits,
)
def test_whatever_chunks_come_there_is_one_answer_in_the_one_shape(guarded, body, route, where):
    sent = b"".join(body) + b"\r\n" + b"!" * 40 + b"\r\n\r\n"  # which ends it one way or the other
    with Line(guarded.port) as line:
        line.send(head(*route, LINES | guarded.bearer() | CHUNKED) + sent, where)
        status, headers, got = line.answer()
        if status >= 400:
            assert status in (400, 404, 422)
            _message(headers, got, {400: "bad_request", 404: "not_found", 422: "invalid"}[status])
        if b"0\r\n\r\n" not in sent:
            assert line.ended()


def test_what_cannot_be_understood_waits_for_the_answers_before_it(guarded):
    body = b'{"examples": [{"id": "before", "x": [0, 1], "y": "up"}]}'
    given_length = {"content-type": "application/json", "content-length": str(len(body))}
    with Line(guarded.port) as line:
        line.send(head("POST", "/models/m/learn", LINES | guarded.bearer() | given_length) + body + b"\x16\x03\x01")
        status, _, got = line.answer()
        assert status == 200
        assert json.loads(got)["results"][0]["id"] == "before"
        line.refused(400, "bad_request")
        assert line.ended()


@pytest.mark.parametrize("more", [{}, {"connection": "close"}])
def test_who_sends_all_of_a_body_that_is_too_long_reads_the_refusal(guarded, more):
    size = 30_000_000
    asked = LINES | guarded.bearer() | {"content-type": "application/json", "content-length": str(size)} | more
    with Line(guarded.port) as line:
        line.socket.sendall(head("POST", "/models/m/learn", asked))
        for _ in range(300):
            line.socket.sendall(b" " * (size // 300))
        assert str(size) in line.refused(413, "body_too_large")


def test_who_sends_all_of_what_is_no_http_reads_the_refusal(guarded):
    with Line(guarded.port) as line:
        for _ in range(100):
            line.socket.sendall(b"\x00" * 100_000)
        line.refused(400, "bad_request")


@often
@given(data=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: f"GET /{text} HTTP/1.1\r\n".encode()))
def test_whatever_comes_is_answered_in_the_one_shape_or_not_at_all(guarded, data):
    with Line(guarded.port) as line:
        line.send(data)
        line.socket.shutdown(socket.SHUT_WR)
        while not line.ended():
            status, headers, body = line.answer()
            if status >= 400:
                _message(headers, body, json.loads(body)["error"]["code"])


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
    ({}, "/models/m/stream/", 404, "not_found"),
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
def test_a_handshake_is_refused_in_the_one_shape(guarded, changes, path, status, code):
    with Line(guarded.port) as line:
        line.send(head("GET", path, handshake(guarded, changes)))
        assert line.refused(status, code)
        assert line.ended()


@pytest.mark.parametrize("method", ["POST", "PUT", "HEAD", "OPTIONS"])
def test_a_handshake_by_another_method_is_refused_in_the_one_shape(guarded, method):
    with Line(guarded.port) as line:
        line.send(head(method, STREAM, handshake(guarded, {})))
        assert line.refused(400, "bad_request")
        assert line.ended()


def test_a_socket_too_many_is_refused_in_the_one_shape(guarded):
    with contextlib.ExitStack() as opened:
        for _ in range(21):
            line = opened.enter_context(Line(guarded.port))
            line.send(head("GET", STREAM, handshake(guarded, {})))
            if line.socket.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL) != b"HTTP/1.1 101":
                break
        assert line.refused(429, "queue_full")
        assert line.ended()


def test_a_socket_behind_a_request_under_way_is_refused_in_the_one_shape(guarded):
    with Line(guarded.port) as line:
        line.send(head("GET", "/healthz", LINES) + head("GET", STREAM, handshake(guarded, {})))
        assert line.answer()[0] == 200
        line.refused(400, "bad_request")
        assert line.ended()


# -- frames

TEXT, BYTES, CONTINUED, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
KNOWN_CODES = {1000, 1002, 1007, 1009}


def frame(data, opcode=TEXT, fin=True, reserved=0, masked=True):
    """The bytes of a frame, masked as a client's."""
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
    """An open WebSocket, a byte at a time."""

    def __init__(self, guarded):
        super().__init__(guarded.port)
        self.send(head("GET", STREAM, handshake(guarded, {})))
        status, _, body = self.answer()
        while status == 429:  # the server has not seen yet that those before are gone
            self.socket.close()
            super().__init__(guarded.port)
            self.send(head("GET", STREAM, handshake(guarded, {})))
            status, _, body = self.answer()
        assert status == 101, body

    def hear(self):
        """The next frame: opcode and data."""
        first, size = self.take(2)
        assert first & 0x70 == 0
        if size >= 126:
            (size,) = struct.unpack("!H" if size == 126 else "!Q", self.take(2 if size == 126 else 8))
        return first & 0x0F, self.take(size)

    def until_end(self):
        """What is answered until an answer with the ref "end", or the code with which the socket is closed."""
        answers = []
        while True:
            opcode, data = self.hear()
            if opcode == CLOSE:
                return answers, int.from_bytes(data[:2], "big")
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
def test_what_breaks_the_protocol_closes_the_socket_with_its_code_after_what_came_before(guarded, data, code):
    with Frames(guarded) as line:
        before = [fine({"op": "predict", "ref": str(k), "x": [0, 1]}) for k in range(3)]
        line.send(b"".join(before))
        assert [json.loads(line.hear()[1])["ref"] for _ in range(3)] == ["0", "1", "2"]
        line.send(data if code == 1007 else data + b"\x00" * 100_000)  # which breaks it anew
        answers, closed = line.until_end()
        assert closed == code
        assert answers == []
        assert line.ended()


def test_what_came_before_a_fault_is_done(guarded):
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
def test_bytes_that_are_no_frame_get_an_error_and_the_socket_stays_open(guarded, data):
    with Frames(guarded) as line:
        line.send(frame(data, BYTES) + END)
        (answer, last), closed = line.until_end()
        assert closed is None
        assert answer["error"]["code"] == "invalid"
        assert last["ok"]


def test_a_frame_in_many_fragments_is_one(guarded):
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


@often
@given(sent=st.lists(bits | st.just(END), max_size=8), where=splits)
def test_whatever_frames_come_are_answered_or_the_socket_is_closed_with_a_code(guarded, sent, where):
    with Frames(guarded) as line:
        line.send(b"".join(sent) + frame(b"", CONTINUED) + END, where)
        answers, closed = line.until_end()
        assert all(answer["ok"] or answer["error"]["code"] in ("invalid", "body_too_large") for answer in answers)
        assert closed is None or closed in KNOWN_CODES or 3000 <= closed < 5000 or 1000 <= closed <= 1014


def test_a_socket_lives_longer_than_a_request_may_take(tmp_path):
    with RunningServer(tmp_path / "data", request_s=0.5) as running, Asking(running.url) as ask:
        ask.new_model("m")
        with Frames(Guarded(running, {"admin": "none"})) as first, Line(running.port) as idle:
            idle.refused(408, "request_timeout")  # the time of what came later is over
            first.send(END)
            ((answer,), closed) = first.until_end()
            assert closed is None
            assert answer["ok"]
