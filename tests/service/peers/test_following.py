"""`hinged serve --followers`: processes that answer predictions for models that another process owns."""

import json
import os
import re
import signal
import socket
import threading
import time
from contextlib import ExitStack, suppress

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from websockets.sync.client import connect

from hinged.service.edge.keys import create_key
from tests.helpers.divided_server import TWO, processes_of, standing_still
from tests.helpers.guarded_server import Line, head, splits
from tests.helpers.http_client import Asking, bearer, refusal
from tests.helpers.http_client import example as labelled
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import PATIENCE_S, PLAIN, RunningServer, eventually, is_taken, wait_for_children

OTHER = TWO[0]
"""A model of the second process. The second process also follows `m`, a model of the first process."""
LEARNED = [labelled([k / 10, k % 3], "ab"[k % 2]) for k in range(20)]


def fresh(server, method, path, **request):
    """Return an answer over a new connection, which any free process accepts."""
    return httpx.request(method, server.url + path, timeout=PATIENCE_S, verify=PLAIN, **request)


def predicted(server, query="", x=(0.3, 1.0), **more):
    return fresh(server, "POST", f"/models/m/predict{query}", json={"examples": [{"x": list(x), **more}]})


def without_owner(server):
    """Stop the owner of the model during the block, so that its follower accepts all connections."""
    return standing_still(processes_of(server)[1])


def without_follower(server):
    """Stop the follower during the block."""
    return standing_still(processes_of(server)[2])


def until_followed(server, model="m", without=without_owner):
    """Wait until the follower of a model answers with the newest state while its owner is stopped. without: stops the
    owner of this model.
    """
    newest = fresh(server, "GET", f"/models/{model}").json()["position"]

    def read():
        with without(server), httpx.Client(timeout=1.0, verify=PLAIN) as http:
            try:
                answer = http.post(f"{server.url}/models/{model}/predict", json={"examples": [{"x": [0.3, 1.0]}]})
            except httpx.TimeoutException:
                return False
            return answer.json()["position"] >= newest

    eventually(read)


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("followers")
    with ExitStack() as stack:
        store = "sqlite"
        if request.param == "redis":
            store = stack.enter_context(RedisServer(folder / "redis")).url
        with RunningServer(folder / "data", processes=2, followers=1, store=store) as server:
            yield made(server)
        assert "running task" not in server.log.read_text()  # no request is left when the server stops


def made(server):
    with Asking(server.url) as ask:
        for name in ("m", OTHER):
            ask.new_model(name).learn(*LEARNED)
    until_followed(server)
    return server


@pytest.mark.long
def test_followers_answer_like_the_owner(server):
    xs = [[k / 7, k % 5] for k in range(30)]
    body = {"examples": [{"x": x} for x in xs], "probabilities": True, "intervals": True, "explain": 2}
    with without_owner(server):
        here = fresh(server, "POST", "/models/m/predict", json=body)
        ranked = fresh(server, "POST", "/models/m/rank", json={"examples": [{"id": "r", "x": [0, 1]}, {"x": [1, 1]}]})
    caught_up = 'hinged_followed_lag_events{process="2"} 0.0'
    eventually(lambda: caught_up in fresh(server, "GET", "/metrics").text)
    with without_follower(server):
        assert fresh(server, "POST", "/models/m/predict", json=body).json() == here.json()
    assert ranked.status_code == 200
    assert len(ranked.json()["ranking"]) == 2


@pytest.mark.long
def test_followers_compare_x_with_the_sample_of_the_owner(server):
    fresh(server, "PATCH", "/models/m", json={"novelty": True})
    examples = [labelled([k * k % 41, k], "ab"[k % 2]) for k in range(40)]
    fresh(server, "POST", "/models/m/learn", json={"examples": examples})
    until_followed(server)
    body, answers = {"examples": [{"x": [k, 40 - k]} for k in range(30)]}, []
    for without in (without_owner, without_follower):
        with without(server):
            answers.append(fresh(server, "POST", "/models/m/predict", json=body).json())
    assert answers[0] == answers[1]
    assert len({result["novelty"] for result in answers[0]["results"]} - {None}) > 5
    fresh(server, "PATCH", "/models/m", json={"novelty": False})
    until_followed(server)


def test_a_learned_example_counts_whichever_process_predicts(server):
    positions = []
    for k in range(40):
        answer = fresh(server, "POST", "/models/m/learn", json={"examples": [labelled([k, 1], "ab"[k % 2])]})
        position = answer.json()["position"]
        found = predicted(server, f"?min_position={position}")
        assert found.json()["position"] >= position, found.text
        positions.append(found.json()["position"])
    assert positions == sorted(positions)
    assert refusal(predicted(server, "?min_position=1000000"), 422, "invalid")


def test_requests_that_followers_cannot_answer_are_handed_on(server):
    until_followed(server)
    answers = []

    def ask():
        answers.append(predicted(server, id=f"waits-{len(answers)}"))

    with without_owner(server):
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(0.3)
        assert not answers  # the request waits for the owner
    asking.join(PATIENCE_S)
    assert answers[0].status_code == 200, answers[0].text
    given = answers[0].json()["results"][0]["id"]
    learned = fresh(server, "POST", "/models/m/learn", json={"examples": [{"id": given, "y": "a"}]})
    assert learned.status_code == 200, learned.text


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/models/m/predict", b"{", 422, "invalid"),
        ("POST", "/models/m/predict", b'{"examples": [{"x": [1]}]}', 422, "invalid"),
        ("POST", "/models/none/predict", b'{"examples": [{"x": [1, 2]}]}', 404, "not_found"),
        ("POST", "/models/m/predict?colour=red", b'{"examples": [{"x": [1, 2]}]}', 422, "invalid"),
        ("GET", "/nowhere", b"", 404, "not_found"),
        ("DELETE", "/models/m/predict", b"", 405, "method_not_allowed"),
    ],
)
def test_only_the_owner_refuses(server, method, path, body, status, code):
    until_followed(server)
    headers = {"content-type": "application/json"} if body else {}
    for _ in range(4):
        refusal(fresh(server, method, path, content=body, headers=headers), status, code)


def through_a_follower(server, sends):
    """Return a connection that the follower accepted while the owner was stopped. `sends` is written into
    it at once.
    """
    with without_owner(server):
        line = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
        line.sendall(sends)
        eventually(lambda: is_taken(line))
    return line


def test_events_stream_through_a_follower(server):
    request = b"GET /models/m/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with through_a_follower(server, request) as line, line.makefile("rb") as lines:
        assert lines.readline().split()[1] == b"200"
        fresh(server, "POST", "/models/m/learn", json={"examples": [labelled([5, 5], "a")]})
        for text in lines:
            if text.startswith(b"data:") and json.loads(text[5:])["kind"] == "learned":
                break


def test_a_websocket_goes_through_a_follower(server):
    with (
        through_a_follower(server, b"") as line,
        connect(f"ws://localhost:{server.port}/models/m/stream", sock=line, open_timeout=PATIENCE_S) as stream,
    ):
        for k in range(5):
            stream.send(json.dumps({"op": "learn", "ref": f"r{k}", "examples": [labelled([k, 2], "b")]}))
        assert [json.loads(stream.recv(PATIENCE_S))["ref"] for _ in range(5)] == [f"r{k}" for k in range(5)]
        stream.send("no frame")
        assert "error" in json.loads(stream.recv(PATIENCE_S))


PREDICTED = json.dumps({"x": [0.3, 1.0]}).encode()
PIPELINED = [
    ("POST", "/models/m/predict", {}, PREDICTED),
    (
        "POST",
        "/models/m/predict",
        {"transfer-encoding": "chunked"},
        b"%x\r\n%b\r\n0\r\n\r\n" % (len(PREDICTED), PREDICTED),
    ),
    ("POST", "/models/m/predict", {"connection": "upgrade", "upgrade": "h2c"}, PREDICTED),
    ("POST", "/models/m/predict", {}, json.dumps({"x": [0.3, 1.0], "id": "p"}).encode()),
    ("POST", "/models/m/predict", {}, b'{"x": [0.3, 1.0], "\\u0069d": "p"}'),
    ("POST", "/models/m/predict", {}, b"{"),
    ("POST", "/models/m/rank", {}, json.dumps({"examples": [{"x": [0, 1]}, {"x": [1, 1]}]}).encode()),
    ("GET", "/v2/models/m", {}, b""),
    ("DELETE", "/models/none", {}, b""),
    ("POST", f"/models/{OTHER}/predict", {}, PREDICTED),
    ("POST", f"/models/{OTHER}/learn", {}, json.dumps({"id": "p", "x": [0.3, 1.0], "y": "a"}).encode()),
    ("GET", f"/v2/models/{OTHER}", {}, b""),
    ("GET", "/healthz", {}, b""),
]


def said(method, path, headers, body):
    lines = {"host": "localhost", "content-type": "application/json"} | headers
    if "transfer-encoding" not in headers:
        lines["content-length"] = str(len(body))
    return head(method, path, lines) + body


def told(line):
    """Return the next answer without the position, because predictions that wait for labels change the position."""
    status, _, body = line.answer()
    return status, re.sub(rb'"position":\d+', b"", body)


@pytest.fixture(scope="module")
def alone(server):
    """The answers to each of the pipelined requests when it is sent alone."""
    answers = {}
    for _ in range(2):  # examples that were learned the first time are duplicates the second time
        until_followed(server)
        until_followed(server, OTHER, without_follower)
        for k, one in enumerate(PIPELINED):
            with Line(server.port) as line:
                line.send(said(*one))
                answers[k] = told(line)
    return answers


@pytest.mark.long
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mix=st.lists(st.integers(0, len(PIPELINED) - 1), min_size=1, max_size=12), where=splits)
@example(mix=[0, 7, 0, 0, 3, 6, 0], where=[])
@example(mix=[9, 0, 3, 9, 10, 7, 11, 12, 0], where=[])
@example(mix=[0, 1, 2, 4, 0], where=[0.1, 0.2, 0.3, 0.5, 0.6, 0.9])
def test_pipelined_requests_are_answered_in_order_by_whichever_process(server, alone, mix, where):
    stream = b"".join(said(*PIPELINED[k]) for k in mix)
    with Line(server.port) as line:  # each process accepts some of the connections
        line.send(stream, where)
        for k in mix:
            assert told(line) == alone[k]
    with without_owner(server):
        line = Line(server.port)
        line.send(stream, where)
        eventually(lambda: is_taken(line.socket))
    with line:
        for k in mix:
            assert told(line) == alone[k]


def test_a_long_answer_is_read_whole_before_its_connection_is_handed_on(server):
    many = {"examples": [{"x": [k / 7, k % 5]} for k in range(10_000)], "probabilities": True}
    with through_a_follower(server, said("POST", "/models/m/predict", {}, json.dumps(many).encode())) as socket_:
        socket_.sendall(said("GET", "/models/m", {}, b""))
        time.sleep(0.3)  # now the answer is ready, and fills the system's buffer
        line = Line.__new__(Line)
        line.socket, line.got = socket_, b""
        assert len(json.loads(line.answer()[2])["results"]) == 10_000
        assert json.loads(line.answer()[2])["model"] == "m"


@pytest.mark.parametrize("name", [b'"id"', b'"\\u0069d"'])
def test_an_id_is_seen_wherever_the_body_is_cut(server, name):
    body = b'{"x": [0.3, 1.0], ' + name + b': "cut"}'
    until_followed(server)
    for at in range(body.index(name), body.index(name) + len(name) + 1):
        pieces = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:at], body[at:])) + b"0\r\n\r\n"
        with through_a_follower(server, b"") as socket_, socket_.makefile("rb") as answers:
            whole = said("POST", "/models/m/predict", {"transfer-encoding": "chunked"}, pieces)
            for byte in range(0, len(whole), 40):
                socket_.sendall(whole[byte : byte + 40])
            assert answers.readline().split()[1] == b"200"
    log = server.log.read_text()
    assert "unforeseen" not in log
    assert "could not answer" not in log


def test_requests_that_followers_answered_are_counted(server):
    def counted():
        text = fresh(server, "GET", "/metrics").text
        lines = [line.split() for line in text.splitlines() if line.startswith("hinged_requests_total")]
        return sum(float(n) for name, n in lines if 'route="/models/{model}/predict",status="200"' in name)

    before = counted()
    with without_owner(server):
        for _ in range(10):
            assert predicted(server).status_code == 200
    eventually(lambda: counted() >= before + 10)  # earlier requests may be reported only now


def test_a_killed_follower_is_restarted_and_every_request_is_answered(server):
    follower = processes_of(server)[2]
    os.kill(follower, signal.SIGKILL)
    for _ in range(20):
        assert predicted(server).status_code == 200
    eventually(lambda: fresh(server, "GET", "/readyz").status_code == 200)
    assert processes_of(server)[2] != follower
    until_followed(server)


@pytest.mark.long
def test_while_an_owner_is_away_its_followers_predict_from_everything_it_acknowledged(server):
    learned = fresh(server, "POST", "/models/m/learn", json={"examples": [labelled([3, 1], "a")]}).json()
    positions = []
    os.kill(processes_of(server)[1], signal.SIGKILL)

    def learn():
        return fresh(server, "POST", "/models/m/learn", json={"examples": [labelled([3, 1], "a", "again")]})

    def is_away():  # threads of a killed process may hold its sockets for a moment
        with suppress(httpx.TransportError):
            return learn().headers.get("retry-after") == "1"

    def back():
        answer = predicted(server)
        assert answer.status_code == 200, answer.text
        positions.append(answer.json()["position"])
        return learn().status_code == 200

    eventually(is_away)

    eventually(back)
    assert len(positions) > 1  # the owner did not answer for a while
    assert positions[-1] >= learned["position"]
    until_followed(server)


@pytest.mark.long
def test_followers_ask_for_keys_like_the_owner(tmp_path):
    with RunningServer(tmp_path / "data", processes=2) as open_server, Asking(open_server.url) as ask:
        ask.new_model("m").learn(*LEARNED)
        open_server.terminate()
    keys = tmp_path / "keys.toml"
    secret = create_key(keys, "ann", "reader", ["*"])
    with RunningServer(tmp_path / "data", processes=2, followers=1, keys_file=keys) as server:
        headers = bearer(secret)
        for _ in range(10):
            refusal(predicted(server), 401, "unauthenticated")
            answer = fresh(server, "POST", "/models/m/predict", json={"examples": [{"x": [1, 1]}]}, headers=headers)
            assert answer.status_code == 200, answer.text


@pytest.mark.long
def test_a_server_that_is_killed_while_its_processes_start_can_be_restarted_at_once(tmp_path):
    with RunningServer(tmp_path / "data", processes=2) as server:
        for _ in range(2):
            wait_for_children(server.process.pid, 2)  # the processes have the port open from the beginning
            server.kill()
            server.start()
