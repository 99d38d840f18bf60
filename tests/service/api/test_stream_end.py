"""The end of a WebSocket. Its model, its server, its client, silence, or the limit of streams may cause the end."""

import threading

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.helpers.http_client import Asking, example
from tests.helpers.server import PATIENCE_S, RunningServer, eventually
from tests.helpers.stream_client import closed, granted, hear_all, opened

A = example([0, 1], "up", "a")


def test_a_model_that_is_deleted_closes_its_sockets_after_what_was_acknowledged(ask):
    model = ask.new_model()
    with opened(ask.url, f"{model.path}/stream") as socket:
        granted(socket.ask("learn", **A))
        ask("DELETE", model.path)
        assert closed(socket) == (4404, f"model {model.name} was deleted")


def test_a_server_that_stops_answers_what_it_read_and_says_so(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        model = ask.new_model()
        with opened(server.url, f"{model.path}/stream") as socket:
            stop = threading.Event()
            sent = 0

            def say():
                nonlocal sent
                while not stop.is_set():
                    try:
                        socket.say("learn", **example([sent % 5, 1], "ab"[sent % 2], f"e{sent}"))
                    except ConnectionClosed:
                        return
                    sent += 1

            sender = threading.Thread(target=say)
            sender.start()
            acknowledged = [granted(socket.hear())["results"][0]["id"] for _ in range(50)]
            server.process.terminate()
            with pytest.raises(ConnectionClosed) as caught:
                hear_all(socket)
            acknowledged += [granted(frame)["results"][0]["id"] for frame in caught.value.heard]
            stop.set()
            sender.join()
            assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1012, "the server stops")
        assert server.process.wait(PATIENCE_S) is not None
        server.start()
        assert acknowledged == [f"e{k}" for k in range(len(acknowledged))]
        assert model.figures()["examples"] >= len(acknowledged)
        again = model.learn(*[example([k % 5, 1], "ab"[k % 2], f"e{k}") for k in range(len(acknowledged))])
        assert all(result["duplicate"] for result in again)


def test_an_idle_socket_is_closed_unless_it_subscribes(tmp_path):
    with RunningServer(tmp_path / "data", limits={"stream_idle_s": 0.5}) as server, Asking(server.url) as ask:
        model = ask.new_model()
        with (
            opened(server.url, f"{model.path}/stream") as idle,
            opened(server.url, f"{model.path}/stream") as subscribed,
        ):
            subscribed.ask("subscribe")
            assert closed(idle) == (4408, "no frame for 0.5 s")
            with opened(
                server.url, f"{model.path}/stream"
            ) as later:  # by then, the other socket has been silent for that long
                assert closed(later)[0] == 4408
            granted(subscribed.ask("predict", x=[0, 1]))


def test_a_vanished_client_is_noticed_and_a_client_that_waits_is_not_mistaken_for_it(tmp_path):
    limits = {"heartbeat_s": 0.3, "frames_in_flight_max": 1}
    with RunningServer(tmp_path / "data", limits=limits) as server, Asking(server.url) as ask:
        model = ask.new_model(solver="lasvm")
        model.learn(*[example([k % 100, k // 100], "ab"[(k * 7) % 3 % 2]) for k in range(3000)])
        with opened(server.url, f"{model.path}/stream") as socket:
            finishing = threading.Thread(target=model.finish)
            finishing.start()
            for k in range(20):
                socket.say("learn", **example([k, 0.5], "a", f"late{k}"))
            assert [granted(socket.hear())["results"][0]["id"] for _ in range(20)] == [f"late{k}" for k in range(20)]
            finishing.join()


def test_open_streams_have_a_limit(tmp_path):
    with RunningServer(tmp_path / "data", streams_max=2) as server, Asking(server.url) as ask:
        path = f"{ask.new_model().path}/stream"
        with opened(server.url, path), opened(server.url, path) as second:
            with pytest.raises(InvalidStatus) as caught, opened(server.url, path):
                pass
            assert caught.value.response.status_code == 429
            granted(second.ask("predict", x=[0, 1]))

        def one_more():  # succeeds when the server has noticed that the other clients have left
            try:
                with opened(server.url, path) as third:
                    return granted(third.ask("predict", x=[0, 1]))
            except InvalidStatus:
                return None

        eventually(one_more)
