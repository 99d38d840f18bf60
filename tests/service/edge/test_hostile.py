"""Hostile requests, handshakes and frames: each gets an answer in the standard shape, and the server continues.

They are not errors of the server, so its log has no errors and no tracebacks.
"""

import itertools
import json
import re
import socket

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.guarded_server import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    LINES,
    Line,
    guarded_server,
    head,
    message_of,
    often,
    splits,
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with guarded_server(tmp_path_factory.mktemp("hostile")) as guarded:
        yield guarded


# -- heads


@st.composite
def heads(draw):
    """Draw headers of many sizes: few long headers, many short headers, long names, or much white space."""
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


@pytest.mark.long
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


@pytest.mark.long
@often
@given(more=heads(), size=st.integers(0, BODY_BYTES_MAX), where=splits)
@example(more=[(f"x-{k:04}", "v") for k in range(9000)], size=0, where=[])
def test_the_head_after_another_request_has_the_same_limit(guarded, more, size, where):
    """The body before the head does not count towards the limit."""
    first = head("POST", "/models/m/predict", LINES | {"content-length": str(size)}) + b" " * size
    second = head("GET", "/healthz", [*LINES.items(), *more])
    told = sum(len(name) + len(value.strip()) for name, value in [*LINES.items(), *more])
    with Line(guarded.port) as line:
        line.send(first + second, where)
        line.refused(401, "unauthenticated")
        status, headers, body = line.answer()
        if len(second) <= HEAD_BYTES_MAX:
            assert status == 200
        elif told > HEAD_BYTES_MAX or status != 200:  # slightly more may pass if it is only white space
            assert status == 400
            message_of(headers, body, "bad_request")


def test_a_trailer_after_a_chunked_body_is_no_header(guarded):
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
def test_only_an_allowed_host_is_accepted(guarded, host):
    with Line(guarded.port) as line:
        line.send(head("GET", "/docs", {"host": host.replace("\r", "").replace("\n", "")}))
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
def test_malformed_chunks_get_400_and_the_connection_ends(guarded, method, path, body):
    asked = head(method, path, LINES | guarded.bearer() | CHUNKED)
    with Line(guarded.port) as line:
        line.send(asked + body)
        assert line.refused(400, "bad_request")
        assert line.ended()
    with Line(guarded.port) as line:  # the same while the application waits for the body
        line.send(asked)
        line.send(body)
        assert line.refused(400, "bad_request")
        assert line.ended()


@pytest.mark.long
@often
@given(
    body=st.lists(
        st.sampled_from([b"2\r\n", b"{}", b"0\r\n", b"\r\n", b"11\r\n", b"z", b";a=b", b"\n", b"x: y\r\n"]), max_size=8
    ),
    route=st.sampled_from([*ROUTES, ("GET", "/models"), ("DELETE", "/models/absent"), ("GET", "/nothing")]),
    where=splits,
)
@example(body=[b"0\r\n", b"x: y\r\n"], route=("POST", "/models/m/learn"), where=[])  # a trailer
@example(body=[b"0\r\n", b"z", b"x: y\r\n"], route=("POST", "/models/m/learn"), where=[])  # with a long name
def test_any_chunks_get_one_answer_in_the_one_shape(guarded, body, route, where):
    sent = b"".join(body) + b"\r\n" + b"!" * 40 + b"\r\n\r\n"  # the last bytes end the body in every case
    with Line(guarded.port) as line:
        line.send(head(*route, LINES | guarded.bearer() | CHUNKED) + sent, where)
        status, headers, got = line.answer()
        if status >= 400:
            assert status in (400, 404, 422)
            message_of(headers, got, {400: "bad_request", 404: "not_found", 422: "invalid"}[status])
        if not re.search(rb"0\r\n(z*x: y\r\n)*\r\n", sent):  # after a complete body, the other bytes are answered too
            assert line.ended()


def test_a_refusal_of_malformed_data_comes_after_the_earlier_answers(guarded):
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
def test_a_client_that_sends_all_of_a_body_that_is_too_long_gets_the_refusal(guarded, more):
    size = 30_000_000
    asked = LINES | guarded.bearer() | {"content-type": "application/json", "content-length": str(size)} | more
    with Line(guarded.port) as line:
        line.socket.sendall(head("POST", "/models/m/learn", asked))
        for _ in range(300):
            line.socket.sendall(b" " * (size // 300))
        assert str(size) in line.refused(413, "body_too_large")


def test_a_client_that_sends_data_that_is_not_http_gets_the_refusal(guarded):
    with Line(guarded.port) as line:
        for _ in range(100):
            line.socket.sendall(b"\x00" * 100_000)
        line.refused(400, "bad_request")


@often
@given(data=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: f"GET /{text} HTTP/1.1\r\n".encode()))
def test_any_data_gets_an_answer_in_the_one_shape_or_none(guarded, data):
    with Line(guarded.port) as line:
        line.send(data)
        line.socket.shutdown(socket.SHUT_WR)
        while not line.ended():
            status, headers, body = line.answer()
            if status >= 400:
                message_of(headers, body, json.loads(body)["error"]["code"])
