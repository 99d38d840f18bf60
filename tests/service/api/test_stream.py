"""The WebSocket of a model, on a real server."""

import asyncio
import json
import re
import time
from socket import SO_RCVBUF, SOL_SOCKET
from socket import socket as tcp

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from tests.helpers.http_client import Asking, example
from tests.helpers.server import PATIENCE_S, RunningServer, eventually
from tests.helpers.stream_client import closed, granted, opened, refused

A, B = example([0, 1], "up", "a"), example([1, 0], "down", "b")


@pytest.fixture
def model(ask):
    return ask.new_model()


@pytest.fixture
def socket(ask, model):
    with opened(ask.url, f"{model.path}/stream") as socket:
        yield socket


# -- frames


def test_a_frame_is_answered_like_its_route(ask, socket, model):
    twin = ask.new_model()
    body = {"examples": [A, B]}
    over_http = ask("POST", f"{twin.path}/learn", json=body).json() | {"model": model.name}
    assert granted(socket.ask("learn", **body)) == over_http
    over_http = ask("POST", f"{model.path}/predict", json={"x": [0.2, 0.9]}).json()
    assert granted(socket.ask("predict", x=[0.2, 0.9])) == over_http
    assert granted(socket.ask("pool", examples=[{"id": "c", "x": [0.5, 0.5]}]))["added"] == 1
    (query,) = granted(socket.ask("query", annotator="ann"))["queries"]
    assert query["id"] == "c"
    (result,) = granted(socket.ask("learn", id="c", y="up", lease=query["lease"]))["results"]
    assert not result["duplicate"]


def test_frames_are_answered_in_order_and_a_refusal_keeps_its_place(socket):
    socket.say("learn", **A)
    socket.say("learn", x=[1], y="down")
    socket.say("nothing")
    socket.say("predict", x=[0, 1])
    socket.say("learn", **B)
    answers = [socket.hear() for _ in range(5)]
    assert [answer["ref"] for answer in answers] == ["1", "2", "3", "4", "5"]
    assert [answer["ok"] for answer in answers] == [True, False, False, True, True]
    assert "learn, predict, decide, pool, query, subscribe" in refused(answers[2], "invalid")["message"]


def test_the_errors_of_the_routes_come_as_frames_with_their_code_and_details(socket):
    granted(socket.ask("learn", **A))
    assert refused(socket.ask("learn", examples=[A, example([0, 1, 2], "up")]), "invalid")["details"] == {"index": 1}
    assert refused(socket.ask("learn", **(A | {"y": "down"})), "conflict")["details"]["id"] == "a"
    granted(socket.ask("predict", x=[0, 1]))


@pytest.mark.parametrize(
    "data",
    [
        "",
        "{",
        "nonsense",
        "[]",
        "1",
        "null",
        '"learn"',
        b"\xff\xfe",
        "{}",
        '{"op": "learn"}',
        '{"op": "learn", "ref": 1}',
        '{"op": "learn", "ref": ""}',
        json.dumps({"op": "learn", "ref": "x" * 129}),
    ],
)
def test_an_invalid_frame_gets_an_error_without_a_ref_and_the_socket_stays_open(socket, data):
    socket.raw(data)
    answer = socket.hear()
    assert answer["ref"] is None
    refused(answer, "invalid")
    granted(socket.ask("learn", **A))


def test_a_frame_that_is_too_long_is_refused_and_a_much_longer_frame_closes_the_socket(tmp_path):
    with RunningServer(tmp_path / "data", limits={"frame_bytes_max": 1000}) as server, Asking(server.url) as ask:
        model = ask.new_model()
        with opened(server.url, f"{model.path}/stream") as socket:
            answer = socket.ask("learn", **A, more="x" * 1000)
            assert "at most 1000 bytes" in refused(answer, "body_too_large")["message"]
            granted(socket.ask("learn", **A))
            socket.say("learn", more="x" * 3000)
            code, reason = closed(socket)
            assert code == 1009
            assert "2000" in reason


def test_frames_may_come_as_bytes(socket):
    socket.raw(json.dumps({"op": "learn", "ref": "r", **A}).encode())
    assert socket.hear()["ref"] == "r"


# -- many at once


def test_examples_learned_in_flight_share_appends(socket, model):
    count = 500
    for k in range(count):
        socket.say("learn", **example([k % 7, k % 3], "ab"[k % 2], f"e{k}"))
    answers = [granted(socket.hear()) for _ in range(count)]
    assert [answer["results"][0]["id"] for answer in answers] == [f"e{k}" for k in range(count)]
    figures = model.figures()
    assert figures["examples"] == count
    assert figures["position"] < count / 2  # the log has one event per micro-batch, not per example


def test_a_prediction_sees_earlier_examples_of_its_socket(ask, model):
    with opened(ask.url, f"{model.path}/stream") as socket:
        for k in range(50):
            socket.say("learn", **example([k, 0], "ab"[k % 2], f"e{k}"))
            socket.say("predict", x=[k, 0])
        for _ in range(50):
            learned, predicted = granted(socket.hear()), granted(socket.hear())
            assert predicted["position"] >= learned["position"]


def test_a_model_fed_by_a_socket_equals_one_fed_by_requests(ask, model):
    twin = ask.new_model()
    stream = [example([k % 5, k % 3], "abc"[k % 3], f"e{k}") for k in range(120)]
    with opened(ask.url, f"{model.path}/stream") as socket:
        for one in stream:
            socket.say("learn", **one)
        results = [granted(socket.hear())["results"][0] for _ in stream]
    assert results == [result for one in stream for result in twin.learn(one)]


@pytest.mark.long
def test_a_client_that_does_not_read_is_held_up_and_goes_on_later(tmp_path):
    # The connection holds 4 MB of the 13 MB of answers, and 36 MB of the 60 MB of requests.
    frames, each, blanks = 500, 100, " " * 100_000
    with RunningServer(tmp_path / "data", limits={"frames_in_flight_max": 8}) as server, Asking(server.url) as ask:
        model = ask.new_model()
        model.learn(example([0, 0], "a"), example([1, 1], "b"))

        def served():
            (count,) = re.findall(r"\nhinged_predictions_served_total\{.*\} (.*)\n", ask("GET", "/metrics").text)
            return float(count)

        def names(k):
            return [f"{k}-{'i' * 200}-{i}" for i in range(each)]

        async def stopped():
            """Wait until the server serves no more frames. Return the number of served frames."""
            before, now = -1.0, 0.0
            while now != before or not now:
                await asyncio.sleep(0.5)
                before, now = now, await asyncio.to_thread(served)
            return now

        async def converse():
            line = tcp()
            line.setsockopt(SOL_SOCKET, SO_RCVBUF, 2**16)
            line.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
            url = f"{server.url.replace('http', 'ws', 1)}{model.path}/stream"
            async with connect(url, sock=line, max_queue=1, max_size=None) as one:

                async def send():
                    for k in range(frames):
                        examples = [{"id": name, "x": [0, 1]} for name in names(k)]
                        asked = {"op": "predict", "ref": str(k), "examples": examples}
                        await one.send(json.dumps(asked) + blanks)

                sending = asyncio.create_task(send())
                assert await stopped() < 0.6 * frames * each  # the buffers are full, and memory use no longer grows
                assert not sending.done()
                for k in range(frames):
                    answer = granted(json.loads(await one.recv()))
                    assert [result["id"] for result in answer["results"]] == names(k)
                await sending

        asyncio.run(asyncio.wait_for(converse(), PATIENCE_S))
        assert served() == frames * each


def test_a_socket_waits_if_its_own_frames_fill_the_models_queue(tmp_path):
    limits = {"micro_batch_examples_max": 10}
    with RunningServer(tmp_path / "data", limits=limits, queue_examples_max=20) as server, Asking(server.url) as ask:
        model = ask.new_model()
        with opened(server.url, f"{model.path}/stream") as socket:
            for k in range(100):
                socket.say("learn", examples=[example([k, i], "ab"[i % 2], f"{k}-{i}") for i in range(9)])
            results = [granted(socket.hear())["results"] for _ in range(100)]
        assert [r["id"] for result in results for r in result] == [f"{k}-{i}" for k in range(100) for i in range(9)]


def test_examples_that_a_client_sent_before_it_left_are_learned(ask, model):
    with opened(ask.url, f"{model.path}/stream") as socket:
        for k in range(100):
            socket.say("learn", **example([k, 0], "ab"[k % 2], f"e{k}"))
    eventually(lambda: model.figures()["examples"] >= 100)
    assert model.figures()["examples"] == 100


# -- subscribing


def test_a_subscriber_gets_new_and_past_events(ask, model):
    with opened(ask.url, f"{model.path}/stream") as socket:
        assert granted(socket.ask("subscribe")) == {"model": model.name, "position": 1}
        model.learn(A, B)
        events = [socket.hear() for _ in range(4)]
        assert all(list(frame) == ["ref", "event"] and frame["ref"] == "1" for frame in events)
        told = [frame["event"] for frame in events]
        assert [e["kind"] for e in told] == ["class_added", "learned", "class_added", "learned"]
        assert [e["position"] for e in told] == [2, 3, 4, 5]
        assert told[2] == {"position": 4, "kind": "class_added", "label": "down"}
        assert (told[3]["examples"], told[3]["learned"]) == (1, 2)
    with opened(ask.url, f"{model.path}/stream") as socket:
        assert granted(socket.ask("subscribe", **{"from": 0}))["position"] == 0
        again = [socket.hear()["event"] for _ in range(5)]
        assert again[0]["kind"] == "created"
        assert again[1:] == told


def test_no_event_shows_an_example(ask, model):
    with opened(ask.url, f"{model.path}/stream") as socket:
        socket.ask("subscribe")
        socket.say("pool", examples=[{"id": "secret-1", "x": [0.123456, 0]}])
        socket.say("query", annotator="ann")
        socket.say("learn", id="secret-2", x=[0.654321, 0], y="up")
        frames = [socket.hear() for _ in range(7)]
        kinds = [frame["event"]["kind"] for frame in frames if "event" in frame]
        assert kinds == ["offered", "leased", "class_added", "learned"]
        told = json.dumps([frame for frame in frames if "event" in frame])
        for word in ("secret", "0.123456", "0.654321"):
            assert word not in told


def test_a_subscription_may_not_begin_beyond_the_log(socket):
    assert "ends at position 1" in refused(socket.ask("subscribe", **{"from": 2}), "invalid")["message"]
    refused(socket.ask("subscribe", **{"from": -1}), "invalid")
    refused(socket.ask("subscribe", since=1), "invalid")
    granted(socket.ask("subscribe", **{"from": 1}))
    refused(socket.ask("subscribe"), "conflict")


@pytest.mark.long
def test_a_subscriber_that_falls_behind_gets_an_error_and_keeps_its_socket(tmp_path):
    with RunningServer(tmp_path / "data", limits={"events_kept": 10}) as server, Asking(server.url) as ask:
        model = ask.new_model(features={"type": "dense", "dim": 1000})
        with opened(server.url, f"{model.path}/stream", max_queue=1) as socket:
            last = granted(socket.ask("subscribe"))["position"]
            for _ in range(60):  # answers that fill the connection, because the client reads nothing
                socket.say("predict", examples=[{"id": "i" * 250, "x": {"indices": [], "values": []}}] * 500)
            while f'hinged_predictions_served_total{{model="{model.name}"}} 30000.0' not in ask("GET", "/metrics").text:
                time.sleep(0.05)
            for k in range(100):
                model.learn(example([k % 3] * 1000, "ab"[k % 2]))
            answers, told = [], []  # the messages of the subscription are among the answers
            while len(answers) < 60 or not told or "event" in told[-1]:
                frame = socket.hear()
                (told if frame["ref"] == "1" else answers).append(frame)
            error = refused(told.pop(), "fell_behind")
            last = told[-1]["event"]["position"] if told else last
            assert error["details"] == {"position": last}
            granted(socket.ask("subscribe", **{"from": last}))
            assert socket.hear()["event"]["position"] == last + 1


# -- any frame


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
xs = st.lists(st.floats(-9, 9), min_size=1, max_size=3) | anything
examples = st.fixed_dictionaries(
    {"x": xs}, optional={"y": st.sampled_from(["a", "b", 1, True]) | anything, "id": anything}
)
parts = {
    "op": st.sampled_from(["learn", "predict", "decide", "pool", "query", "subscribe", "finish", ""]) | anything,
    "ref": st.just("r") | st.text(max_size=5) | anything,
    "x": xs,
    "y": st.sampled_from(["a", "b"]) | anything,
    "id": st.text(max_size=5) | anything,
    "examples": st.lists(examples, max_size=3) | anything,
    "annotator": anything,
    "n": anything,
    "from": anything,
    "more": anything,
}
frames = st.fixed_dictionaries({}, optional=parts) | anything


@pytest.fixture(scope="module")
def odd(ask):
    model = ask.new_model("odd-frames", labels={"pending_max": 0})
    with opened(ask.url, f"{model.path}/stream") as socket:
        yield model, socket


@pytest.mark.long
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=frames.map(json.dumps) | st.text(max_size=20) | st.binary(max_size=20))
def test_any_frame_is_answered_by_a_frame_and_a_refusal_changes_nothing(odd, data):
    model, socket = odd
    before = model.figures()
    socket.raw(data)
    answer = socket.hear()
    while "event" in answer:
        answer = socket.hear()
    if answer["ok"]:
        assert answer["ref"] == json.loads(data)["ref"]
    else:
        assert list(answer) == ["ref", "ok", "error"]
        assert answer["error"]["code"] in ("invalid", "conflict")
        assert model.figures() == before
