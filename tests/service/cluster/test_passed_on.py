"""Requests and WebSockets that a server forwards, because it does not own the model."""

import asyncio
import json
import re
import signal
import socket

import pytest
from websockets.exceptions import InvalidStatus

from hinged.client import AsyncClient, Client
from tests.helpers.http_client import example
from tests.helpers.nodes import Nodes, ask, make
from tests.helpers.server import PATIENCE_S, eventually
from tests.helpers.stream_client import closed, followed, granted, opened

BODY_BYTES_MAX = 2_000_000


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with Nodes(tmp_path_factory.mktemp("nodes"), 2, body_bytes_max=BODY_BYTES_MAX, node_ttl_s=3) as nodes:
        yield nodes


@pytest.fixture
def third(nodes):
    """A server that a test may end, and that the other servers know."""
    with nodes.add() as server:
        first = nodes.servers[0]
        eventually(lambda: server.url in [n["node"] for n in ask(first, "GET", "/cluster").json()["nodes"]])
        yield server


def make_known(server, name, asked):
    """Create a model at one server, and let another server find out which server owns the model."""
    make(server, name)
    assert ask(asked, "GET", f"/models/{name}").status_code == 200
    return name


def passed_on(server):
    """Return the number of requests that a server has forwarded."""
    (line,) = re.findall(r"^hinged_cluster_passed_on_total (.+)$", ask(server, "GET", "/metrics").text, re.MULTILINE)
    return float(line)


def request(method, path, body=b"", **headers):
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", "content-type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode() + body


def learning(name, given):
    body = json.dumps({"examples": [example([1.0, 2.0], "a", given)]}).encode()
    return request("POST", f"/models/{name}/learn", body, content_length=len(body))


class Raw:
    """A connection whose bytes a test writes itself."""

    def __init__(self, server):
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        self._came = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def send(self, data):
        self._socket.sendall(data)

    def answer(self):
        """Return the status and the JSON of the next answer, which declares its length."""
        while b"\r\n\r\n" not in self._came:
            self._read()
        head, _, self._came = self._came.partition(b"\r\n\r\n")
        length = int(dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])[b"content-length"])
        while len(self._came) < length:
            self._read()
        body, self._came = self._came[:length], self._came[length:]
        return int(head.split()[1]), json.loads(body)

    def _read(self):
        data = self._socket.recv(2**16)
        assert data, "the server hung up"
        self._came += data


def test_requests_in_one_piece_are_answered_in_order_wherever_their_models_are(here, there):
    make_known(here, "far", there)
    make_known(there, "near", here)
    names = ["far", "near", "far", "far", "near"]
    with Raw(there) as raw:
        raw.send(b"".join(request("GET", f"/models/{name}") for name in names))
        assert [raw.answer()[1]["model"] for _ in names] == names


def test_a_request_that_comes_byte_by_byte_is_passed_on_whole(here, there):
    make_known(here, "slowly", there)
    with Raw(there) as raw:
        for byte in learning("slowly", "a"):
            raw.send(bytes([byte]))
        assert raw.answer()[0] == 200
        raw.send(learning("slowly", "b"))
        assert raw.answer()[0] == 200
    assert ask(here, "GET", "/models/slowly").json()["examples"] == 2


@pytest.mark.long
def test_long_bodies_go_both_ways(here, there):
    make_known(here, "long", there)
    examples = [example([k % 97 / 97, k % 89 / 89], "ab"[k % 2], f"{k:060}") for k in range(10_000)]
    body = json.dumps({"examples": examples}).encode()
    assert 10 * 2**16 < len(body) < BODY_BYTES_MAX
    pieces = (body[at : at + 50_000] for at in range(0, len(body), 50_000))
    headers = {"content-type": "application/json"}
    assert ask(there, "POST", "/models/long/learn", content=pieces, headers=headers).status_code == 200
    again = ask(there, "POST", "/models/long/learn", content=body, headers=headers)
    assert len(again.json()["results"]) == len(examples)
    through, direct = (ask(server, "GET", "/models/long/export") for server in (there, here))
    assert through.status_code == 200
    assert through.content == direct.content


def test_a_body_that_is_too_long_is_refused_before_it_has_come(here, there):
    make_known(here, "refused", there)
    with Raw(there) as raw:
        raw.send(request("POST", "/models/refused/learn", content_length=BODY_BYTES_MAX + 1))
        assert raw.answer()[0] == 413
    assert ask(there, "GET", "/models/refused").status_code == 200


def test_nothing_is_learned_from_a_body_that_breaks_off(here, there):
    make_known(here, "broken", there)
    whole = learning("broken", "a")
    with Raw(there) as raw:
        raw.send(whole[:-5])
    with Raw(there) as raw:
        raw.send(request("POST", "/models/broken/learn", b'5\r\n{"exa\r\nno size\r\n', transfer_encoding="chunked"))
        status, answer = raw.answer()
        assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert ask(there, "GET", "/models/broken").json()["examples"] == 0


def test_a_client_that_waits_before_it_sends_a_body_gets_100_continue(here, there):
    make_known(here, "expected", there)
    body = b'{"examples": [{"x": [1.0, 2.0], "y": "a"}]}'
    with Raw(there) as raw:
        raw.send(request("POST", "/models/expected/learn", expect="100-continue", content_length=len(body)))
        assert raw._socket.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.send(body)
        assert raw.answer()[0] == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_head_of_an_answer_is_the_owners(here, there, method):
    make_known(here, f"head-{method}", there)
    through, direct = (ask(server, method, f"/models/head-{method}") for server in (there, here))
    assert through.status_code == direct.status_code
    assert sorted(name for name, _ in through.headers.multi_items()) == sorted(direct.headers)


@pytest.mark.parametrize("more", [{}, {"expect": "100-continue"}, {"transfer_encoding": "chunked"}])
def test_a_small_body_is_passed_on_once_it_is_whole(here, there, more):
    name = f"held-{''.join(more)}"
    make_known(here, name, there)
    body = b'{"examples": [{"x": [1.0, 2.0], "y": "a"}]}'
    if "transfer_encoding" in more:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        more = more | {"content_length": len(body)}
    before = passed_on(there)
    with Raw(there) as raw:
        raw.send(request("POST", f"/models/{name}/learn", **more))
        for byte in body[:-1]:
            raw.send(bytes([byte]))
        assert passed_on(there) == before
        if "expect" in more:
            assert raw._socket.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.send(body[-1:])
        assert raw.answer()[0] == 200
        raw.send(learning(name, "next"))  # over the same connection
        assert raw.answer()[0] == 200
    assert passed_on(there) == before + 2
    assert ask(here, "GET", f"/models/{name}").json()["examples"] == 2


def test_an_owner_that_ends_before_it_answers_leaves_the_outcome_unknown(here, third):
    make_known(third, "ended", here)
    examples = [example([k / 7, k % 5], "ab"[k % 2], f"{k:060}") for k in range(1_000)]
    body, before = json.dumps({"examples": examples}).encode(), passed_on(here)
    whole = request("POST", "/models/ended/learn", body, content_length=len(body))
    with Raw(here) as raw:
        raw.send(whole[:-5])
        eventually(lambda: passed_on(here) > before)
        third.kill()
        status, answer = raw.answer()
    assert (status, answer["error"]["code"]) == (503, "unavailable")
    assert "a retry with the same ids is safe" in answer["error"]["message"]


def test_an_event_stream_ends_in_order_when_the_server_in_between_stops(there, third):
    make_known(there, "streamed", third)
    with followed(third.url, "/models/streamed/events?from=0") as stream:
        assert stream.event()["event"] == "created"
        third.process.terminate()
        assert stream.event() is None
    third.process.wait(PATIENCE_S)


# -- WebSockets ------------------------------------------------------------------------------------------------------


def test_a_websocket_is_passed_on(here, there):
    make_known(here, "talked", there)
    with opened(there.url, "/models/talked/stream") as socket:
        examples = [example([k / 100, 1.0], "ab"[k % 2], f"{k:060}") for k in range(1000)]
        assert len(granted(socket.ask("learn", examples=examples))["results"]) == 1000
        refs = [socket.say("predict", examples=[{"x": [0.5, 1.0]}]) for _ in range(50)]
        assert [socket.hear()["ref"] for _ in refs] == refs
        socket.raw(json.dumps({"op": "predict", "ref": "bytes", "examples": [{"x": [0.5, 1.0]}]}).encode())
        assert socket.hear()["ref"] == "bytes"
    assert ask(here, "GET", "/models/talked").json()["examples"] == 1000


def test_what_a_client_sends_before_it_leaves_is_done(here, there):
    make_known(here, "hurried", there)
    with opened(there.url, "/models/hurried/stream") as socket:
        for k in range(200):
            socket.say("learn", examples=[example([k / 100, 1.0], "ab"[k % 2], f"{k}")])
    eventually(lambda: ask(here, "GET", "/models/hurried").json()["examples"] == 200)


def test_a_handshake_is_refused_by_the_server_that_it_concerns(here, there):
    make_known(here, "shaken", there)
    with pytest.raises(InvalidStatus) as refused, opened(there.url, "/models/shaken/other"):
        pass
    assert refused.value.response.status_code == 404
    evil = {"origin": "http://evil.example"}
    with pytest.raises(InvalidStatus) as refused, opened(there.url, "/models/shaken/stream", **evil):
        pass
    assert refused.value.response.status_code == 403
    with opened(there.url, "/models/shaken/stream", origin=there.url) as socket:
        assert granted(socket.ask("learn", examples=[example([1.0, 1.0], "a")]))


def test_a_client_that_prefers_it_is_redirected_to_open_a_socket(here, there):
    make_known(here, "preferred", there)
    handshake = {
        "connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
        "sec-websocket-key": "x3JJHMbDL1EzLkh9GBhXDw==", "prefer": "redirect",
    }  # fmt: skip
    answer = ask(there, "GET", "/models/preferred/stream", headers=handshake)
    assert (answer.status_code, answer.headers["location"]) == (307, f"{here.url}/models/preferred/stream")
    with Client(there.url) as client, client.stream("preferred") as stream:
        assert stream.learn([{"x": [2.0, 1.0], "y": "b"}]).result()["position"]
        assert stream._socket.remote_address[1] == here.port


async def _asynchronous(url, port):
    async with AsyncClient(url) as client, client.stream("both") as stream:
        assert (await (await stream.learn([{"x": [2.0, 1.0], "y": "b"}])))["position"]
        assert stream._socket.remote_address[1] == port


def test_the_asynchronous_client_reaches_the_owner_too(here, there):
    make_known(here, "both", there)
    asyncio.run(_asynchronous(there.url, here.port))


def test_the_socket_of_a_moved_model_is_closed_with_service_restart(here, there):
    make_known(here, "wandering", there)
    with opened(there.url, "/models/wandering/stream") as through, opened(here.url, "/models/wandering/stream") as own:
        granted(through.ask("learn", examples=[example([1.0, 1.0], "a", "one")]))
        assert ask(there, "POST", "/cluster/models/wandering/move", json={"to": there.url}).status_code == 200
        assert closed(through) == closed(own) == (1012, "model wandering goes to another server")
    with opened(here.url, "/models/wandering/stream") as socket:
        assert granted(socket.ask("learn", examples=[example([1.0, 1.0], "a", "one")]))["results"]


def test_a_socket_is_closed_with_service_restart_when_its_owner_is_gone(here, third):
    make_known(third, "killed", here)
    with opened(here.url, "/models/killed/stream") as socket:
        granted(socket.ask("learn", examples=[example([1.0, 1.0], "a")]))
        third.kill()
        code, reason = closed(socket)
    assert (code, reason) == (1012, f"the server at {third.url} is gone; the model comes back")


@pytest.mark.long
def test_a_socket_is_closed_with_service_restart_when_its_owner_gives_no_sign_of_life(here, third):
    make_known(third, "asleep", here)
    with opened(here.url, "/models/asleep/stream") as socket:
        granted(socket.ask("learn", examples=[example([1.0, 1.0], "a")]))
        third.process.send_signal(signal.SIGSTOP)
        try:
            assert closed(socket)[0] == 1012
        finally:
            third.process.send_signal(signal.SIGCONT)


def test_a_socket_is_closed_with_service_restart_when_the_server_in_between_stops(here, third):
    make_known(here, "between", third)
    with opened(third.url, "/models/between/stream") as socket:
        granted(socket.ask("learn", examples=[example([1.0, 1.0], "a")]))
        third.process.terminate()
        assert closed(socket) == (1012, "the server stops")
        third.process.wait(PATIENCE_S)


@pytest.mark.long
def test_a_handshake_is_refused_and_may_be_repeated_when_the_owner_cannot_be_reached(here, third):
    make_known(third, "away", here)
    third.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(InvalidStatus) as refused, opened(here.url, "/models/away/stream"):
            pass
        assert refused.value.response.status_code == 503
        assert refused.value.response.headers["retry-after"] == "1"
    finally:
        third.process.send_signal(signal.SIGCONT)
