"""A server answers a byte stream like the separate requests that h11 finds in it, however the server is run."""

import json
import re
import ssl
import time
from functools import lru_cache

import httpx
import pytest
from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis.strategies import integers

from hinged.service.edge.keys import create_key
from tests.helpers.holding import held
from tests.helpers.http_client import BASE, bearer
from tests.helpers.nginx import behind_nginx
from tests.helpers.server import RunningServer
from tests.protocols.requests import OFFERS, as_h11_reads, chunked, message, sized, streams
from tests.protocols.ways import NAMES, WAYS, running

PATHS = [f"/models/{name}/predict".encode() for name in NAMES]
DELETE = b"DELETE /models/%b HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n" % NAMES[0].encode()
JSON = b"content-type: application/json"
OF_ONE_CONNECTION = {
    b"connection", b"content-length", b"expect", b"host", b"http2-settings", b"keep-alive", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
}  # fmt: skip
HANDSHAKE = (
    b"GET http://localhost HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


BEHIND_ANOTHER = b"".join(chunked(b"a" * 40, JSON, first=b"POST " + path + b" HTTP/1.1") for path in PATHS * 2)
"""Requests in a row. The body of a request arrives while the server answers the request before it."""


LAST = b"\r\n\r\nGET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


SMALL = {
    "requests": (message(b"GET /healthz HTTP/1.1") * 10_000, 10_000),
    "chunks": (message(b"POST " + PATHS[0] + b" HTTP/1.1", JSON, b"transfer-encoding: chunked",
    body=b"1\r\n \r\n" * 60_000 + b"0\r\n\r\n"), 1),
    "empty lines": (b"\r\n" * 300_000, 1),
}  # fmt: skip
"""Streams of many small parts, and the number of answers that they get before LAST."""


@lru_cache(None)
def alone_of(asked, method, target, body, headers):
    """Return the answer to a request that has its own connection."""
    lines = [name + b": " + value for name, value in headers if name.lower() not in OF_ONE_CONNECTION]
    (answer,) = asked.answers(sized(body, *lines, b"connection: close", first=b" ".join((method, target, b"HTTP/1.1"))))
    return answer


BUSY, TRIES = 503, 10
REFUSED = (400, 505)
"""The statuses of a refused request head. nginx answers 505 to a version of HTTP that it does not support."""


def check(asked, stream, at):
    """Send a stream, and compare each answer with the answer to the same request alone; return the number of answers.

    LAST follows the stream and ends the connection, so that all answers arrive.
    """
    stream += LAST
    expected, _ = as_h11_reads(stream)
    for _ in range(TRIES):
        answers = asked.answers(stream[:at], stream[at:], most=len(expected))
        if BUSY not in [status for status, _ in answers]:  # a client that gets this status asks again
            break
        time.sleep(0.1)
    if answers and (answers[-1][0] in REFUSED or len(answers) > len(expected)):
        status, body = answers.pop()  # the answer to a request with a refused head or an incomplete body
        if status < 400:  # a route that reads no body may answer, and close, before the body arrives
            assert stream.count(b"GET ") > 1
        else:
            assert asked.proxied or json.loads(body)["error"]
    for answer, (taken, headers) in zip(answers, expected, strict=False):
        handshake = taken[0] == b"GET" and dict(headers).get(b"upgrade", b"").lower() == b"websocket"
        if handshake and answer[0] in (*REFUSED, 404):
            continue  # not complete, or where there is no WebSocket; a proxy goes on with the next request
        alone = alone_of(asked, *taken, tuple(headers))
        if BUSY in (answer[0], alone[0]) and b"hinged-passed-on" in dict(headers):
            continue  # the owner answers a passed-on request; any other server answers that the client should ask again
        assert answer == alone, taken
    assert len(answers) <= len(expected)
    return len(answers)


@pytest.fixture(scope="module", params=WAYS)
def asked(request, tmp_path_factory):
    with running(request.param, tmp_path_factory.mktemp("streams")) as way:
        yield way


@pytest.mark.long
def test_an_offer_to_speak_another_protocol_changes_nothing(asked):
    for path in PATHS:
        first = b"POST " + path + b" HTTP/1.1"
        for offer in OFFERS:
            for stream in (sized(DELETE, JSON, *offer, first=first), chunked(DELETE, JSON, *offer, first=first)):
                for at in (0, len(stream) - len(DELETE) - 7, len(stream)):
                    assert check(asked, stream, at) >= 1
    for name in NAMES:
        ((status, _), _) = asked.answers(b"GET /models/%b HTTP/1.1\r\nhost: localhost\r\n\r\n" % name.encode() + LAST)
        assert status == 200


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=streams(PATHS, (JSON,)), cut=integers(0, 100))
@example(stream=message(b"GET http://localhost HTTP/1.1"), cut=50)
@example(
    stream=sized(b"", JSON, b"hinged-passed-on: http://127.0.0.1:1", first=b"POST " + PATHS[1] + b" HTTP/1.1"), cut=50
)
@example(stream=BEHIND_ANOTHER, cut=95)
@example(
    stream=sized(b"", JSON, b"connection: upgrade", b"upgrade: websocket", first=b"GET " + PATHS[1] + b" HTTP/1.1"),
    cut=0,
)
def test_any_stream_gets_the_answers_to_the_requests_that_h11_finds(asked, stream, cut):
    """cut: percentage of the stream that is sent first."""
    expected, understood = as_h11_reads(stream + LAST)
    assume(all(method != b"HEAD" for (method, _, _), _ in expected))  # an answer to HEAD has no body
    assume(understood or not asked.proxied)  # a proxy may understand and forward more than h11
    # A proxy correctly asks for the host that a target names; h11 leaves the target to the application.
    assume(not (asked.proxied and re.search(rb"(?im)^\S+ [a-z]+://(?!localhost[ :/?#])", stream)))
    event("answered", check(asked, stream, cut * len(stream) // 100))


@pytest.mark.long
@pytest.mark.parametrize("part", SMALL)
def test_many_small_parts_hold_nobody_up_and_all_are_answered(asked, part):
    stream, most = SMALL[part]
    answers, seconds = held(asked, lambda: asked.answers(stream + LAST))
    assert len(answers) in (most, most + 1) or asked.proxied  # a proxy ends a connection after 1,000 requests
    assert not seconds


@pytest.mark.parametrize(
    "target", ["http://localhost", "http://localhost?", "/models/m/stream ", "http:///", "//", "*"]
)
def test_a_handshake_with_any_target_is_answered_and_its_connection_ends(asked, target):
    for _ in range(3):
        handshake = HANDSHAKE.replace(b"http://localhost", target.encode(), 1)
        ((status, body),) = asked.answers(handshake, most=1 if asked.proxied else 2)  # a proxy keeps the connection
        assert status in {400, 404}
        assert asked.proxied or json.loads(body)["error"]["code"] in {"bad_request", "not_found"}


@pytest.mark.parametrize("upgrade", ["$upgrade", "$http_upgrade"])
def test_a_client_without_a_key_cannot_smuggle_a_request_into_a_shared_connection(tmp_path, upgrade):
    """Clients share the connections between a proxy and the server, even if the proxy forwards every upgrade offer."""
    admin = bearer(create_key(tmp_path / "keys.json", "admin", "admin"))
    offers = {"proxy_set_header Upgrade $upgrade;": f"proxy_set_header Upgrade {upgrade};"}
    offers["map $upgrade $connection_upgrade"] = f"map {upgrade} $connection_upgrade"
    with (
        RunningServer(tmp_path / "data", keys_file=tmp_path / "keys.json") as server,
        behind_nginx(tmp_path, server.port, offers.items()) as url,
        httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=tmp_path / "tls.pem")) as http,
    ):
        assert http.put("/models/victim", json=BASE, headers=admin).status_code == 201
        smuggled = b"DELETE /models/victim HTTP/1.1\r\nhost: localhost\r\nx: "
        attack = {"connection": "Upgrade", "upgrade": "h2c", "content-type": "application/json"}
        for _ in range(20):
            assert http.post("/models/victim/predict", content=smuggled, headers=attack).status_code == 401
            assert http.get("/models/victim", headers=admin).status_code == 200
