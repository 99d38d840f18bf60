"""A server whose limits are all small. The tests check its answer at each limit."""

import concurrent.futures
import contextlib
import math
import random
import socket
import sqlite3

import httpx
import pytest

from tests.helpers.http_client import BASE, Asking, example, refusal
from tests.helpers.server import PATIENCE_S, RunningServer, eventually

SETTINGS = {
    "body_bytes_max": 200_000,
    "batch_examples_max": 3000,
    "queue_examples_max": 2,
    "models_max": 12,
    "dim_max": 10,
    "classes_max": 3,
    "points_max": 2500,
}
LIMITS = {"label_chars_max": 4, "id_chars_max": 5}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("small") / "data", limits=LIMITS, **SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def ask(small):
    with Asking(small.url) as asking:
        yield asking


@pytest.fixture
def model(ask):
    created = ask.new_model()
    yield created
    ask("DELETE", created.path)


@pytest.fixture
def busy(ask):
    """A model that works for some seconds after `finish`, and the examples of the model."""
    rng = random.Random(7)
    created = ask.new_model("busy", C=1e4)
    created.learn(*(example([rng.gauss(0, 1), rng.gauss(0, 1)], rng.random() < 0.5) for _ in range(1500)))
    yield created
    ask("DELETE", created.path)


def at_work(model):
    """Return whether the model is working. A working model answers requests for figures only between two pieces of
    work.
    """
    try:
        httpx.get(model.ask.url + model.path, timeout=httpx.Timeout(PATIENCE_S, read=0.2))
    except httpx.ReadTimeout:
        return True
    return False


@contextlib.contextmanager
def finishing(model):
    """Return a context during which the model finishes. The block must end before the model has finished."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        finished = pool.submit(model.finish)
        eventually(lambda: at_work(model) or finished.done())
        assert not finished.done()
        yield finished


@pytest.mark.long
def test_more_waiting_examples_than_the_queue_holds_are_429_with_retry_after(busy):
    with concurrent.futures.ThreadPoolExecutor(6) as pool, finishing(busy) as finished:
        waiting = [pool.submit(busy.try_learn, example([0, k], True, f"w{k}")) for k in range(6)]
        eventually(lambda: sum(future.done() for future in waiting) >= 4)
        assert not finished.done()
        refused = [future.result() for future in waiting if future.done()]
        assert len(refused) == 4
        for answer in refused:
            error = refusal(answer, 429, "queue_full")
            assert answer.headers["retry-after"] == "1"
            assert error["details"] == {"retry_after_s": 1}
    answers = [future.result() for future in waiting]
    assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429, 429, 429]
    # The server kept no part of a refused request: its ids are new, but the ids of accepted requests are not.
    for k, answer in enumerate(answers):
        (again,) = busy.learn(example([0, k], True, f"w{k}"))
        assert again["duplicate"] == (answer.status_code == 200)


@pytest.mark.long
def test_predictions_wait_neither_for_learning_nor_for_finishing(busy):
    position = busy.figures()["position"]
    with finishing(busy) as finished:
        for _ in range(5):
            answer = busy.try_predict([0, 1])
            assert answer.status_code == 200
            assert answer.json()["position"] == position
        assert not finished.done()
    assert busy.try_predict([0, 1]).json()["position"] == position + 1


def test_a_request_larger_than_the_queue_is_taken_when_nothing_waits(model):
    model.learn(*(example([math.sin(k), k % 2], k % 2) for k in range(50)))
    assert model.figures()["examples"] == 50


@pytest.mark.long
def test_a_store_that_cannot_be_written_is_503_and_nothing_is_acknowledged(small, model):
    model.learn(example([0, 1], "a", "e1"))
    before = model.figures()
    with contextlib.closing(sqlite3.connect(small.data_dir / "hinged.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # another process that locks the file
        answer = model.try_learn(example([1, 0], "b", "e2"))
        refusal(answer, 503, "store_unavailable")
        assert model.figures() == before
        assert model.predict([0, 1])[0]["prediction"] == "a"
        other.execute("ROLLBACK")
    assert model.figures() == before
    (result,) = model.learn(example([1, 0], "b", "e2"))
    assert not result["duplicate"]
    assert model.figures()["examples"] == 2


def body_of(size):
    head, tail = b'{"x": [0, 1], "y": 1', b"}"
    return head + b" " * (size - len(head) - len(tail)) + tail


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_a_body_past_the_limit_is_413_whether_its_length_is_declared_or_not(ask, model, chunked):
    headers = {"content-type": "application/json"}
    limit = SETTINGS["body_bytes_max"]
    for size, status in ((limit, 200), (limit + 1, 413)):
        body = body_of(size)
        content = iter([body[: size // 2], body[size // 2 :]]) if chunked else body
        answer = ask("POST", f"{model.path}/learn", content=content, headers=headers)
        assert answer.status_code == status
    error = refusal(answer, 413, "body_too_large")
    assert str(limit) in error["message"]
    assert model.figures()["examples"] == 1
    content = iter([body]) if chunked else body
    refusal(ask("PUT", "/models/large", content=content, headers=headers), 413, "body_too_large")


def test_a_body_declared_too_large_is_refused_before_it_is_sent(small, model):
    parts = httpx.URL(small.url)
    with socket.create_connection((parts.host, parts.port), timeout=PATIENCE_S) as connection:
        connection.sendall(
            f"POST {model.path}/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {10**12}\r\n\r\n".encode()
        )
        assert b" 413 " in connection.recv(4096)


def test_a_request_has_a_limit_of_examples(model):
    many = [example([0, 1], 1)] * (SETTINGS["batch_examples_max"] + 1)
    error = refusal(model.try_learn(*many), 422, "invalid")
    assert error["message"] == "examples: at most 3000 elements are allowed, got more"
    refusal(model.try_predict(*([[0, 1]] * 3001)), 422, "invalid")


def test_classes_of_a_model_and_lengths_of_labels_and_ids_have_limits(model):
    model.learn(*(example([k, 0], y) for k, y in enumerate(["a", "b", "cccc"])))
    error = refusal(model.try_learn(example([0, 0], "a"), example([9, 0], "d")), 422, "invalid")
    assert error["message"] == 'examples[1].y: a model may have at most 3 classes, and "d" would be another'
    refusal(model.try_learn(example([0, 0], "ddddd")), 422, "invalid")
    refusal(model.try_learn(example([0, 0], "a", "123456")), 422, "invalid")
    assert model.learn(example([0, 0], "a", "12345"))[0]["id"] == "12345"


def test_the_width_and_the_points_of_a_model_have_limits(ask):
    for changes, reason in (
        ({"features": {"type": "dense", "dim": 11}}, "features.dim must be at most 10"),
        ({"points_max": 2501}, "points_max must be at most 2500"),
        ({"classes": [1, 2, 3, 4]}, "classes must be null or list 2 to 3 labels"),
        ({"classes": ["ddddd", 1]}, "classes[0]: a label may have at most 4 characters"),
    ):
        error = refusal(ask("PUT", "/models/wide", json=BASE | changes), 422, "invalid")
        assert error["message"].startswith(reason)


def test_a_model_full_of_points_is_507_until_it_is_finished(ask):
    model = ask.new_model("full", points_max=60, when_full="refuse")
    rng = random.Random(2)
    stream = [example([rng.gauss(k % 2, 0.7), rng.gauss(0, 1)], k % 2, f"e{k}") for k in range(60)]
    model.learn(*stream)
    before = model.figures()
    more = [example([rng.gauss(k % 2, 0.7), rng.gauss(0, 1)], k % 2) for k in range(61 - before["points"])]
    error = refusal(model.try_learn(*more), 507, "model_full")
    assert f"holds {before['points']} points, of at most points_max = 60" in error["message"]
    assert model.figures() == before
    assert all(result["duplicate"] for result in model.learn(*stream))  # repeated examples add no points
    assert model.finish()["points"] < before["points"]
    model.learn(*more)
    ask("DELETE", model.path)


def test_the_server_has_a_limit_of_models(ask):
    room = SETTINGS["models_max"] - len(ask("GET", "/models").json()["models"])
    names = [ask.new_model().path for _ in range(room)]
    error = refusal(ask("PUT", "/models/one-more", json=BASE), 409, "conflict")
    assert "12 models of at most 12" in error["message"]
    assert ask("PUT", names[0], json=BASE).status_code == 200  # the model already exists
    for path in names:
        ask("DELETE", path)
