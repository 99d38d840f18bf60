import asyncio
import inspect
import itertools
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from hinged import AsyncClient, Client, HingedError
from hinged.client import exchange
from hinged.client.routes import Routes
from tests.helpers.certificates import self_signed
from tests.helpers.scripted_server import scripted
from tests.helpers.server import eventually


def error(code, message="no", **details):
    return {"error": {"code": code, "message": message, **({"details": details} if details else {})}}


class Awaited:
    """An AsyncClient with blocking methods. This class lets each test check both clients."""

    def __init__(self, *args, **options):
        self._runner = asyncio.Runner()
        self._client = AsyncClient(*args, **options)

    def __getattr__(self, name):
        method = getattr(self._client, name)

        async def awaited(*args, **options):
            return await method(*args, **options)

        return lambda *args, **options: self._runner.run(awaited(*args, **options))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._runner.run(self._client.aclose())
        self._runner.close()


@pytest.fixture(params=[Client, Awaited])
def kind(request):
    return request.param


@pytest.fixture
def client(server, kind):
    with kind(server.url, timeout_s=60.0) as opened:
        yield opened


QUERY = {"annotator": "ann", "n": 2, "lease_s": 60, "search": 50, "request_id": "r"}
CALLS = {
    "create_model": ({"features": {"type": "dense", "dim": 1}, "C": 2.0}, "PUT", "/models/m", {
        "features": {"type": "dense", "dim": 1}, "C": 2.0}),
    "model": ({}, "GET", "/models/m", None),
    "delete_model": ({}, "DELETE", "/models/m", None),
    "learn": ({"examples": [{"id": "1", "x": [1.0], "y": True}]}, "POST", "/models/m/learn", {
        "examples": [{"id": "1", "x": [1.0], "y": True}]}),
    "predict": (
        (asked := {"examples": [{"x": [1.0]}], "explain": 2, "probabilities": True, "intervals": ["a"],
                   "conformal": "full"}), "POST", "/models/m/predict", asked),
    "decide": ({"examples": [{"id": "a", "x": [1.0]}]}, "POST", "/models/m/decide", {
        "examples": [{"id": "a", "x": [1.0]}]}),
    "rank": ({"examples": [{"id": "a", "x": [1.0]}], "n": 1}, "POST", "/models/m/rank", {
        "examples": [{"id": "a", "x": [1.0]}], "n": 1, "strategy": "active"}),
    "suspects": ({}, "GET", "/models/m/suspects?n=10", None),
    "snapshot": ({}, "POST", "/models/m/snapshot", None),
    "rollback": ({"position": 7}, "POST", "/models/m/rollback", {"position": 7}),
    "skip_event": ({"position": 7}, "POST", "/models/m/skip", {"position": 7}),
    "add_hook": ({"url": "https://a", "events": ["drift"]}, "POST", "/models/m/hooks", {
        "url": "https://a", "events": ["drift"]}),
    "alerts": ({"n": 5, "order": "best"}, "GET", "/models/m/alerts?n=5&order=best", None),
    "acknowledge": ({"ids": "a/1"}, "POST", "/models/m/alerts/acknowledge", {"ids": ["a/1"]}),
    "hooks": ({}, "GET", "/models/m/hooks", None),
    "head": ({}, "GET", "/models/m/head", None),
    "proofs": ({"first": 3}, "GET", "/models/m/proofs?first=3", None),
    "remove_hook": ({"hook": "h/1"}, "DELETE", "/models/m/hooks/h%2F1", None),
    "reconcile": ({"project": 3}, "POST", "/labelstudio/models/m/reconcile", {"project": 3}),
    "finish": ({"epochs": 2}, "POST", "/models/m/finish", {"epochs": 2}),
    "offer": ({"examples": [{"id": "a", "x": [1.0]}]}, "POST", "/models/m/pool", {
        "examples": [{"id": "a", "x": [1.0]}]}),
    "query": (QUERY, "POST", "/models/m/queries", QUERY | {"strategy": "active"}),
    "queries": ({"n": 3, "strategy": "random"}, "GET", "/models/m/queries?n=3&strategy=random", None),
    "heartbeat": ({"lease": "l/1", "lease_s": 5.0}, "POST", "/models/m/queries/l%2F1/heartbeat", {"lease_s": 5.0}),
    "release": ({"lease": "l1"}, "POST", "/models/m/queries/l1/release", {}),
    "skip": ({"lease": "l1", "whom": "all"}, "POST", "/models/m/queries/l1/skip", {"for": "all"}),
    "unskip": ({"lease": "l1"}, "DELETE", "/models/m/queries/l1/skip", None),
    "forget_answer": ({"example": "a/1", "annotator": "ann"}, "DELETE", "/models/m/answers/a%2F1?annotator=ann", None),
    "forget": ({"example": "a/1"}, "DELETE", "/models/m/examples/a%2F1", None),
    "correct": ({"example": "a", "y": True}, "PUT", "/models/m/examples/a", {"y": True}),
    "change_model": ({"C": 2}, "PATCH", "/models/m", {"C": 2}),
    "move": ({"to": "http://b"}, "POST", "/cluster/models/m/move", {"to": "http://b"}),
    "history": ({"after": 7}, "GET", "/models/m/history?from=7", None),
    "candidates": ({"n": 5}, "GET", "/models/m/pool?n=5", None),
    "answers": ({"annotator": "ann"}, "GET", "/models/m/answers?annotator=ann&n=50", None),
    "examples": ({"n": 5, "label": "a b", "until": "2026-05-01"}, "GET",
                 "/models/m/examples?to=2026-05-01&label=a+b&n=5", None),
    "change_answer": ({"example": "a/1", "annotator": "ann", "y": 1}, "PUT", "/models/m/answers/a%2F1", {
        "annotator": "ann", "y": 1}),
    "example": ({"example": "a/1"}, "GET", "/models/m/examples/a%2F1", None),
    "certificate": ({}, "GET", "/models/m/certificate", None),
    "columns": ({}, "GET", "/models/m/columns", None),
    "thresholds": ({"label": "a b", "beta": 2}, "GET", "/models/m/thresholds?class=a+b&beta=2", None),
    "leave_one_out": ({}, "GET", "/models/m/loo", None),
    "shadows": ({}, "GET", "/models/m/shadows", None),
    "challenge": ({"shadow": "s", "C": 2}, "PUT", "/models/m/shadows/s", {"C": 2}),
    "retire": ({"shadow": "s"}, "DELETE", "/models/m/shadows/s", None),
    "promote": ({"shadow": "s"}, "POST", "/models/m/shadows/s/promote", None),
}  # fmt: skip
OF_KEYS = {"key", "keys", "create_key", "revoke_key", "ticket"}
ON_THE_SERVER = OF_KEYS | {"cluster", "job", "models", "overview", "metrics", "ready", "wait_until_ready"}
OF_ROWS = {"learn_rows", "predict_rows", "offer_rows"}
OF_FILES = {"export_model", "import_model", "upload"}
WAITING = {"wait"}
ELSEWHERE = {"dataframe"}  # test_dataframe.py


def test_this_file_calls_every_method_of_the_client():
    named = {name for name, _ in inspect.getmembers(Routes, inspect.isfunction) if not name.startswith("_")}
    assert named == set(CALLS) | ON_THE_SERVER | OF_ROWS | OF_FILES | WAITING | ELSEWHERE


@pytest.mark.parametrize("name", CALLS)
def test_each_method_of_a_model_sends_the_request_of_its_route(server, client, name):
    arguments, *request = CALLS[name]
    server.answer = lambda *_: (200, {"a": 1})
    assert getattr(client, name)("m", **arguments) == {"a": 1}
    assert server.requests == [tuple(request)]


def test_each_method_of_the_server_sends_the_request_of_its_route(server, client):
    server.answer = lambda _method, path, _body: (200, b"text" if path == "/metrics" else {"models": ["m"]})
    assert client.models() == ["m"]
    assert client.ticket() == {"models": ["m"]}
    assert client.metrics() == "text"
    assert client.overview() == client.key() == client.keys() == {"models": ["m"]}
    assert client.create_key("ann", "reader", ["m-*"]) == client.revoke_key("ann/1") == {"models": ["m"]}
    paths = [("GET", "/models"), ("POST", "/tickets"), ("GET", "/metrics")]
    paths += [("GET", path) for path in ("/overview", "/key", "/keys")]
    made = "POST", "/keys", {"name": "ann", "role": "reader", "models": ["m-*"]}
    removed = "DELETE", "/keys/ann%2F1", None
    assert server.requests == [*((*request, None) for request in paths), made, removed]


def test_learned_rows_are_told_after_each_request_even_if_the_server_takes_fewer(server, client):
    refused = {"error": {"code": "too_large", "message": "the body is too large"}}
    server.script[:] = [(413, refused, {}), *[(200, {"results": [{}, {}]}, {})] * 2]
    told = []
    answer = client.learn_rows("m", [[1.0], [2.0], [3.0], [4.0]], ["a", "b", "a", "b"], progress=told.append)
    assert told == [2, 4]
    assert len(answer["results"]) == 4


def test_wait_returns_when_the_job_of_a_change_has_ended(server, client):
    job = {"job": "/jobs/m.6", "state": "running", "progress": 0.5}
    server.script[:] = [
        (200, job, {}), (200, job | {"state": "done"}, {}), (200, job | {"state": "failed", "error": "full"}, {})
    ]  # fmt: skip
    assert client.wait({"certificate": {}}) == {"certificate": {}}
    assert client.wait({"job": "/jobs/m.6"})["state"] == "done"
    assert server.requests == [("GET", "/jobs/m.6", None)] * 2
    with pytest.raises(HingedError, match="full"):
        client.wait({"job": "/jobs/m.6"})
    server.answer = lambda *_: (200, job)
    assert client.job("m.6") == client.job("/jobs/m.6") == job
    with pytest.raises(HingedError, match="50%"):
        client.wait({"job": "/jobs/m.6"}, timeout_s=0.0)


def test_a_model_travels_as_the_bytes_of_a_file(server, client):
    types = []
    server.heard = lambda headers: types.append(headers.get("content-type"))
    server.answer = lambda *_: (200, b"\x00\xff")
    assert client.export_model("m", as_of=3) == b"\x00\xff"
    server.answer = lambda *_: (201, {"model": "m"})
    assert client.import_model("m", b"7") == {"model": "m"}
    assert server.requests == [("GET", "/models/m/export?as_of=3", None), ("POST", "/models/m/import", 7)]
    assert types == [None, "application/octet-stream"]


@pytest.mark.parametrize("answer", ["lose", (503, error("unavailable"), {})])
def test_requests_that_a_retry_could_spoil_are_sent_once(server, client, answer):
    for call in (
        lambda: client.rollback("m", 3), lambda: client.import_model("m", b"7"), lambda: client.skip_event("m")
    ):  # fmt: skip
        server.script[:] = [answer]
        before = len(server.requests)
        with pytest.raises(HingedError):
            call()
        assert len(server.requests) == before + 1


def test_parameters_that_are_not_given_are_not_sent(server, client):
    client.finish("m")
    client.heartbeat("m", "l")
    client.predict("m", [{"x": [1.0]}])
    assert [body for _, _, body in server.requests] == [None, {}, {"examples": [{"x": [1.0]}]}]


def test_a_model_name_is_quoted_in_the_path(server, client):
    client.model("a/b?c#d e")
    assert server.requests[0][1] == "/models/a%2Fb%3Fc%23d%20e"


def test_arrays_and_numpy_scalars_are_sent_as_numbers(server, client):
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


def test_values_that_json_lacks_are_refused_before_anything_is_sent(server, client):
    with pytest.raises(ValueError, match="must be a finite number"):
        client.learn("m", [{"x": [float("nan")], "y": 1}])
    with pytest.raises(TypeError, match="object"):
        client.learn("m", [{"x": [object()], "y": 1}])
    assert server.requests == []


def test_examples_without_an_id_get_different_ids(server, client):
    example = {"x": [1.0], "y": 1}
    client.learn("m", [example, example, {**example, "id": None}, {**example, "id": "mine"}])
    ids = [sent["id"] for sent in server.requests[0][2]["examples"]]
    assert ids[3] == "mine"
    assert len(set(ids)) == 4
    assert all(ids)
    assert "id" not in example


def test_predictions_and_examples_without_x_get_no_id(server, client):
    client.predict("m", [{"x": [1.0]}])
    client.learn("m", [{"id": "a", "y": 1, "lease": "l"}, {"y": 1}])
    assert server.requests[0][2]["examples"] == [{"x": [1.0]}]
    assert server.requests[1][2]["examples"] == [{"id": "a", "y": 1, "lease": "l"}, {"y": 1}]


def test_a_retried_query_sends_the_same_request_id(server, client):
    server.script = ["lose"]
    client.query("m", annotator="ann")
    client.query("m", annotator="ann")
    first, again, other = (body["request_id"] for _, _, body in server.requests)
    assert first == again != other


@pytest.mark.parametrize(("name", "answer"), [("release", {"released": True}), ("skip", {"skipped": "me"})])
def test_a_retried_release_of_a_lease_succeeds_if_the_first_try_released_it(server, client, name, answer):
    server.script = ["lose", (404, error("not_found"), {})]
    assert getattr(client, name)("m", "l") == answer
    server.script = [(404, error("not_found"), {})]
    with pytest.raises(HingedError):
        getattr(client, name)("m", "l")


def test_a_key_is_sent_as_a_header_and_never_in_a_url(server, kind):
    heard = []
    server.heard = heard.append
    with kind(server.url, key="hinged_abc") as client:
        client.model("m")
    with kind(server.url) as client:
        client.model("m")
    assert [headers.get("authorization") for headers in heard] == ["Bearer hinged_abc", None]
    assert "hinged_abc" not in str(server.requests)


@pytest.mark.parametrize("key", ["", "a b", "a\nb", "schl\u00fcssel"])
def test_an_impossible_key_is_refused_and_not_shown(kind, key):
    with pytest.raises(ValueError, match="key must be") as caught:
        kind(key=key)
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize("url", ["http://ann:secret@127.0.0.1:1", "http://secret@127.0.0.1:1"])
def test_a_url_with_a_password_is_refused_and_not_shown(kind, url):
    with pytest.raises(ValueError, match="password") as caught:
        kind(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "failure",
    [
        "drop",
        (429, error("queue_full"), {}),
        (503, error("unavailable"), {}),
        (503, b"<html>a proxy</html>", {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    ],
)
def test_a_request_is_retried_with_the_same_ids_after_a_temporary_failure(server, client, failure, caplog):
    caplog.set_level("INFO", "hinged.client")
    server.script = [failure, failure]
    client.learn("m", [{"x": [1.0], "y": 1}, {"x": [2.0], "y": 1}])
    first, second, third = server.requests
    assert first == second == third
    assert [
        record.getMessage().partition(" in ")[0] for record in caplog.records if record.name == "hinged.client"
    ] == ["POST /models/m/learn is sent again"] * 2


def test_a_retry_waits_as_long_as_the_server_asks(server, client):
    server.script = [(429, error("queue_full", retry_after_s=1), {"retry-after": "1"})]
    started = time.monotonic()
    client.learn("m", [{"x": [1.0], "y": 1}])
    assert time.monotonic() - started >= 1.0


def test_tries_are_limited_and_the_last_failure_is_raised(server, kind):
    server.answer = lambda *_: (503, error("store_unavailable", "the disk is full", free_bytes=0))
    with kind(server.url, tries_max=3) as client, pytest.raises(HingedError) as caught:
        client.learn("m", [{"x": [1.0], "y": 1}])
    assert len(server.requests) == 3
    failure = caught.value
    assert (failure.status, failure.code, failure.message) == (503, "store_unavailable", "the disk is full")
    assert failure.details == {"free_bytes": 0}


@pytest.mark.parametrize("state", ["compiling", "loading"])
def test_a_client_waits_for_a_model_that_compiles_or_loads_beyond_its_tries(server, kind, state):
    server.script = [(503, error("unavailable", state=state), {})] * 4 + ["drop"]
    with kind(server.url, tries_max=2) as client:
        client.learn("m", [{"x": [1.0], "y": 1}])
    assert len(server.requests) == 6


@pytest.mark.long
def test_a_client_with_one_try_does_not_wait_for_a_model_and_no_client_waits_for_ever(server, kind, monkeypatch):
    server.answer = lambda *_: (503, error("unavailable", state="compiling"))
    with kind(server.url, tries_max=1) as client, pytest.raises(HingedError) as caught:
        client.model("m")
    assert caught.value.details == {"state": "compiling"}
    monkeypatch.setattr(exchange, "COMING_S", 2.0)
    with kind(server.url, tries_max=2) as client, pytest.raises(HingedError):
        client.model("m")
    assert len(server.requests) > 3


def test_servers_that_name_each_other_as_the_owner_are_asked_again(server, client):
    redirect = 307, b"", {"location": f"{server.url}/models/m/learn"}  # as while a model is on its way
    server.script = [redirect] * (exchange.HOPS_MAX + 1)
    server.answer = lambda *_: (200, {"position": 1, "results": []})
    assert client.learn("m", [{"id": "a", "x": [1.0], "y": 1}])["position"] == 1
    assert len({str(body) for _, _, body in server.requests}) == 1


def test_an_owner_that_ends_in_a_handshake_is_asked_again(server, kind):
    with socket.create_server(("127.0.0.1", 0)) as owner, kind(server.url) as client:
        redirect = 307, b"", {"location": f"https://127.0.0.1:{owner.getsockname()[1]}/models/m"}
        server.heard = lambda headers: server.script.insert(0, redirect) if "prefer" in headers else None

        def hang_up():
            for _ in range(2):
                connection = owner.accept()[0]
                connection.recv(4096)  # otherwise the client would see a reset
                connection.close()

        ending = threading.Thread(target=hang_up, daemon=True)
        ending.start()
        assert [client.model("m") for _ in range(2)] == [{}] * 2
        ending.join(5)
        assert not ending.is_alive()


@pytest.mark.parametrize("trusted", [True, False])
def test_an_owner_with_tls_is_asked_unless_its_certificate_is_not_trusted(server, kind, tmp_path, monkeypatch, trusted):
    certificate = self_signed(tmp_path, "IP:127.0.0.1")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with scripted(certificate) as owner, kind(server.url) as client:
        redirect = 307, b"", {"location": f"{owner.url}/models/m"}
        server.heard = lambda headers: server.script.insert(0, redirect) if "prefer" in headers else None
        assert [client.model("m") for _ in range(3)] == [{}] * 3
        eventually(lambda: (len(owner.requests), owner.failed) == ((3, 0) if trusted else (0, 1)))
        assert len(server.requests) == (1 if trusted else 4)
        (owner if trusted else server).script = [(503, error("unavailable"), {})]  # the model may have another owner
        client.model("m")
        eventually(lambda: owner.failed == (0 if trusted else 2))


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 415, 422, 500, 507])
def test_a_refusal_is_raised_at_once_with_all_its_details(server, client, status):
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
def test_an_answer_that_is_not_from_a_hinged_server_is_reported_as_such(server, client, answer):
    server.script = [answer]
    with pytest.raises(HingedError, match="not JSON of a hinged server") as caught:
        client.model("m")
    assert (caught.value.code, caught.value.status) == ("unexpected_answer", answer[0])


def test_a_missing_server_is_an_error_without_a_status(free_url, kind):
    with kind(free_url, tries_max=2) as client:
        with pytest.raises(HingedError, match="no answer from") as caught:
            client.models()
        assert (caught.value.status, caught.value.code) == (None, "unreachable")
        with pytest.raises(HingedError) as caught:
            client.ready()
        assert caught.value.code == "unreachable"


def test_a_retried_delete_succeeds_if_the_first_answer_was_lost(server, client):
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


def test_ready_is_false_while_a_server_starts(server, client):
    server.script = [(503, error("unavailable"), {})]
    assert client.ready() is False
    assert client.ready() is True
    server.script = [(404, error("not_found"), {})]
    with pytest.raises(HingedError):
        client.ready()


def test_waiting_ends_when_the_server_is_ready_or_the_time_is_up(server, client, free_url, kind):
    server.script = [(503, error("unavailable"), {})] * 2
    client.wait_until_ready(5.0)
    assert len(server.requests) == 3
    with kind(free_url) as nowhere, pytest.raises(HingedError, match="waited") as caught:
        nowhere.wait_until_ready(0.3)
    assert caught.value.code == "not_ready"


def test_proxies_of_the_environment_are_not_used_for_this_machine(server, free_url, kind, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", free_url)
    monkeypatch.setenv("ALL_PROXY", free_url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with kind(server.url) as client:
        assert client.ready()


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://a", "http://", "http://a:b"])
def test_an_invalid_url_is_refused(url, kind):
    with pytest.raises(ValueError, match=r"(?i)url"):
        kind(url)


def test_one_client_serves_many_threads(server):
    count = itertools.count()
    server.answer = lambda *_: (200, {"n": next(count)})
    with Client(server.url) as client:
        threads = [threading.Thread(target=client.model, args=("m",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(server.requests) == 8


@pytest.mark.long
def test_an_async_client_sends_many_requests_at_once_and_waits_without_blocking(server):
    asked, together = itertools.count(), threading.Barrier(8)
    server.heard = lambda _: next(asked) < 8 and together.wait(60)  # the server answers when it has all eight
    server.script = [(503, error("unavailable"), {"retry-after": "1"})] * 8

    async def ask():
        async with AsyncClient(server.url) as client:
            return await asyncio.gather(*(client.model(name) for name in names))

    names = [f"m{k}" for k in range(8)]
    started = time.monotonic()
    assert asyncio.run(ask()) == [{}] * 8
    assert time.monotonic() - started >= 1.0
    paths = [path for _, path, _ in server.requests]
    assert sorted(paths) == sorted([f"/models/{name}" for name in names] * 2)


def test_importing_the_client_needs_no_numpy_and_no_server():
    code = "import sys; from hinged import Client; print(*sorted(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"numpy", "numba", "hinged.service"}.isdisjoint(result.stdout.split())


@pytest.mark.long
def test_importing_estimators_or_the_server_does_not_import_the_client():
    code = "import sys, hinged.sklearn, hinged.service.app; print('httpx' in sys.modules, hinged.Client.__name__)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "Client"]
