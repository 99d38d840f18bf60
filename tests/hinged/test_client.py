import itertools
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from hinged import Client, HingedError


def error(code, message="no", **details):
    return {"error": {"code": code, "message": message, **({"details": details} if details else {})}}


@pytest.fixture
def client(server):
    with Client(server.url, timeout_s=5.0) as opened:
        yield opened


def test_every_call_is_the_route_that_it_names(server, client):
    server.answer = lambda _method, path, _body: (200, {"models": ["m"]} if path == "/models" else {"a": 1})
    features = {"type": "dense", "dim": 1}
    assert client.create_model("m", features=features, C=2.0) == {"a": 1}
    assert client.models() == ["m"]
    assert client.model("m") == {"a": 1}
    client.learn("m", [{"id": "1", "x": [1.0], "y": True}])
    client.predict("m", [{"id": "2", "x": [1.0]}])
    client.finish("m")
    client.delete_model("m")
    assert server.requests == [
        ("PUT", "/models/m", {"features": features, "C": 2.0}),
        ("GET", "/models", None),
        ("GET", "/models/m", None),
        ("POST", "/models/m/learn", {"examples": [{"id": "1", "x": [1.0], "y": True}]}),
        ("POST", "/models/m/predict", {"examples": [{"id": "2", "x": [1.0]}]}),
        ("POST", "/models/m/finish", None),
        ("DELETE", "/models/m", None),
    ]


def test_a_model_name_cannot_leave_its_place_in_the_path(server, client):
    client.model("a/b?c#d e")
    assert server.requests[0][1] == "/models/a%2Fb%3Fc%23d%20e"


def test_arrays_and_their_scalars_are_sent_as_numbers(server, client):
    sparse = {"indices": np.array([1, 5]), "values": np.array([0.5, 2.0], dtype=np.float32)}
    client.learn(
        "m",
        [
            {"id": "a", "x": np.array([1, 2], dtype=np.uint8), "y": np.int64(7)},
            {"id": "b", "x": [np.float32(0.5), np.float64(0.25)], "y": np.bool_(True)},
            {"id": "c", "x": sparse, "y": np.str_("z")},
        ],
    )
    assert server.requests[0][2]["examples"] == [
        {"id": "a", "x": [1, 2], "y": 7},
        {"id": "b", "x": [0.5, 0.25], "y": True},
        {"id": "c", "x": {"indices": [1, 5], "values": [0.5, 2.0]}, "y": "z"},
    ]


def test_what_json_cannot_say_is_refused_before_anything_is_sent(server, client):
    with pytest.raises(ValueError, match="JSON"):
        client.learn("m", [{"x": [float("nan")], "y": 1}])
    with pytest.raises(TypeError, match="object"):
        client.learn("m", [{"x": [object()], "y": 1}])
    assert server.requests == []


def test_examples_without_an_id_are_given_different_ones(server, client):
    example = {"x": [1.0], "y": 1}
    client.learn("m", [example, example, {**example, "id": None}, {**example, "id": "mine"}])
    ids = [sent["id"] for sent in server.requests[0][2]["examples"]]
    assert ids[3] == "mine"
    assert len(set(ids)) == 4
    assert all(ids)
    assert "id" not in example


@pytest.mark.parametrize(
    "failure",
    [
        "drop",
        (429, error("queue_full"), {}),
        (503, error("unavailable"), {}),
        (503, b"<html>a proxy</html>", {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    ],
)
def test_a_passing_failure_is_tried_again_with_the_same_ids(server, client, failure):
    server.script = [failure, failure]
    client.learn("m", [{"x": [1.0], "y": 1}, {"x": [2.0], "y": 1}])
    first, second, third = server.requests
    assert first == second == third


def test_a_retry_waits_as_long_as_the_server_asks(server, client):
    server.script = [(429, error("queue_full", retry_after_s=1), {"retry-after": "1"})]
    started = time.monotonic()
    client.learn("m", [{"x": [1.0], "y": 1}])
    assert time.monotonic() - started >= 1.0


def test_tries_are_bounded_and_the_last_failure_is_raised(server):
    server.answer = lambda *_: (503, error("store_unavailable", "the disk is full", free_bytes=0))
    with Client(server.url, tries_max=3) as client, pytest.raises(HingedError) as caught:
        client.learn("m", [{"x": [1.0], "y": 1}])
    assert len(server.requests) == 3
    failure = caught.value
    assert (failure.status, failure.code, failure.message) == (503, "store_unavailable", "the disk is full")
    assert failure.details == {"free_bytes": 0}


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 415, 422, 500, 507])
def test_a_refusal_is_raised_at_once_with_all_that_it_says(server, client, status):
    server.script = [(status, error("a_code", "a sentence", index=3), {})]
    with pytest.raises(HingedError, match="a sentence") as caught:
        client.predict("m", [{"x": [1.0]}])
    assert len(server.requests) == 1
    assert (caught.value.status, caught.value.code) == (status, "a_code")
    assert caught.value.details == {"index": 3}


@pytest.mark.parametrize(
    "answer",
    [
        (200, b"<html>hello</html>", {}),
        (200, b"[1]", {}),
        (404, b"no", {}),
        (500, {"error": "text"}, {}),
        (307, b"", {"location": "/elsewhere"}),
    ],
)
def test_what_is_no_hinged_server_is_named_so(server, client, answer):
    server.script = [answer]
    with pytest.raises(HingedError, match="no JSON of a hinged server") as caught:
        client.model("m")
    assert (caught.value.code, caught.value.status) == ("unexpected_answer", answer[0])


def test_no_server_is_an_error_without_a_status(free_url):
    with Client(free_url, tries_max=2) as client:
        with pytest.raises(HingedError, match="no answer from") as caught:
            client.models()
        assert (caught.value.status, caught.value.code) == (None, "unreachable")
        with pytest.raises(HingedError) as caught:
            client.ready()
        assert caught.value.code == "unreachable"


def test_a_delete_whose_answer_was_lost_is_done_when_tried_again(server, client):
    there = {"m"}

    def answer(_method, _path, _body):
        if not there:
            return 404, error("not_found")
        there.clear()
        return 200, {}

    server.answer = answer
    server.script = ["lose"]
    client.delete_model("m")
    assert len(server.requests) == 2
    with pytest.raises(HingedError):
        client.delete_model("m")


def test_ready_tells_a_starting_server_from_a_ready_one(server, client):
    server.script = [(503, error("unavailable"), {})]
    assert client.ready() is False
    assert client.ready() is True
    server.script = [(404, error("not_found"), {})]
    with pytest.raises(HingedError):
        client.ready()


def test_waiting_ends_when_the_server_is_ready_or_the_time_is_up(server, client, free_url):
    server.script = [(503, error("unavailable"), {})] * 2
    client.wait_until_ready(5.0)
    assert len(server.requests) == 3
    with Client(free_url) as nowhere, pytest.raises(HingedError, match="waited") as caught:
        nowhere.wait_until_ready(0.3)
    assert caught.value.code == "not_ready"


def test_proxies_of_the_environment_are_not_asked_for_this_machine(server, free_url, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", free_url)
    monkeypatch.setenv("ALL_PROXY", free_url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with Client(server.url) as client:
        assert client.ready()


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://a", "http://", "http://a:b"])
def test_a_url_that_cannot_be_one_is_refused(url):
    with pytest.raises(ValueError, match=r"(?i)url"):
        Client(url)


def test_one_client_serves_many_threads(server, client):
    count = itertools.count()
    server.answer = lambda *_: (200, {"n": next(count)})
    threads = [threading.Thread(target=client.model, args=("m",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 8


def test_importing_the_client_needs_no_numpy_and_no_server():
    code = "import sys, hinged; print(*sorted(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"numpy", "numba", "service"}.isdisjoint(result.stdout.split())
