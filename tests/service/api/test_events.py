"""The event stream of a model, on a real server."""

import contextlib

import pytest

from hinged.service.edge.keys import create_key, revoke_key
from tests.helpers.guarded_server import Line, head
from tests.helpers.http_client import BASE, Asking, bearer, example, refusal
from tests.helpers.server import PATIENCE_S, RunningServer, eventually
from tests.helpers.stream_client import followed

A, B = example([0, 1], "up", "a"), example([1, 0], "down", "b")
LEARNED = ["class_added", "learned", "class_added", "learned"]


@pytest.fixture
def model(ask):
    return ask.new_model()


def events(stream, count):
    """Return the next events of the log. Leave out snapshots, because they may come at any moment."""
    found = []
    while len(found) < count:
        event = stream.event()
        if event["event"] != "snapshot":
            found.append(event)
    return found


def test_events_come_with_their_kind_and_their_position_as_id(ask, model):
    with followed(ask.url, f"{model.path}/events") as stream:
        model.learn(A, B)
        model.finish()
        found = events(stream, 5)
        assert [event["event"] for event in found] == [*LEARNED, "finished"]
        assert [event["id"] for event in found] == ["2", "3", "4", "5", "6"]
        for event in found:
            assert event["data"]["position"] == int(event["id"])
            assert event["data"]["kind"] == event["event"]
        at = found[1]["data"].pop("at")
        assert at.endswith("Z")
        assert found[1]["data"] == {"position": 3, "kind": "learned", "examples": 1, "learned": 1}


def test_events_come_without_a_name_if_that_is_asked_for(ask, model):
    model.learn(A, B)
    path = f"{model.path}/events?from=0"
    with followed(ask.url, path) as named, followed(ask.url, f"{path}&named=false") as nameless:
        found, told = [[stream.event() for _ in range(5)] for stream in (named, nameless)]
    assert [event.pop("event") for event in found] == ["created", *LEARNED]
    assert told == found


def test_a_snapshot_event_has_no_id(ask, model):
    model.learn(A, B)
    with followed(ask.url, f"{model.path}/events") as stream:
        model.finish()
        (finished,) = events(stream, 1)
        assert (finished["event"], finished["id"]) == ("finished", "6")
        while (snapshot := stream.event())["data"] != {"position": 6, "kind": "snapshot"}:
            assert snapshot["data"] == {"position": 5, "kind": "snapshot"}  # this snapshot was already due before
        assert (snapshot["event"], "id" in snapshot) == ("snapshot", False)


def test_a_drift_is_an_event_when_it_is_noticed(ask, model):
    with followed(ask.url, f"{model.path}/events") as stream:
        for part in range(4):
            model.learn(*[example([k % 2, 0.1 * part], "ab"[(k + (part > 1)) % 2]) for k in range(400)])
        assert model.figures()["metrics"]["drift"]["count"] >= 1
        kinds = []
        while kinds[-1:] != ["drift"]:
            kinds += [event["event"] for event in events(stream, 1)]
        assert kinds[-2] == "learned"


@pytest.mark.long
def test_a_client_that_reconnects_gets_missed_events_also_after_a_restart(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        model = ask.new_model()
        model.learn(A, B)
        with followed(server.url, f"{model.path}/events", headers={"last-event-id": "3"}) as stream:
            assert [event["id"] for event in events(stream, 2)] == ["4", "5"]
        for k in range(300):
            model.learn(example([k % 5, 1], "up"))
        server.kill()
        server.start()
        with followed(server.url, f"{model.path}/events?from=0", headers={"last-event-id": "5"}) as stream:
            model.learn(example([1, 1], "up"))
            found = events(stream, 301)
            assert [event["id"] for event in found] == [str(position) for position in range(6, 307)]
            assert found[-1]["data"]["learned"] == 303


def test_from_is_the_position_after_which_to_begin(ask, model):
    model.learn(A, B)
    with followed(ask.url, f"{model.path}/events?from=0") as stream:
        first = stream.event()
        assert (first["event"], first["id"]) == ("created", "1")
        assert first["data"]["configuration"]["kernel"] == BASE["kernel"]
        assert [event["event"] for event in events(stream, 4)] == LEARNED


def test_a_position_beyond_the_log_is_refused(ask, model):
    error = refusal(ask("GET", f"{model.path}/events?from=2"), 422, "invalid")
    assert "ends at position 1" in error["message"]
    refusal(ask("GET", f"{model.path}/events", headers={"last-event-id": "9"}), 422, "invalid")
    for bad in ("-1", "x", "1.5", ""):
        refusal(ask("GET", f"{model.path}/events?from={bad}"), 422, "invalid")
    refusal(ask("GET", f"{model.path}/events", headers={"last-event-id": "x"}), 422, "invalid")
    refusal(ask("GET", "/models/absent/events"), 404, "not_found")


def test_a_quiet_stream_has_heartbeats(tmp_path):
    with RunningServer(tmp_path / "data", limits={"heartbeat_s": 0.2}) as server, Asking(server.url) as ask:
        model = ask.new_model()
        with followed(server.url, f"{model.path}/events") as stream:
            assert [stream.block() for _ in range(4)] == [{"comment": "ping"}] * 4
            model.learn(A)
            assert stream.event()["event"] == "class_added"


def test_the_stream_of_a_model_that_is_deleted_ends(ask, model):
    with followed(ask.url, f"{model.path}/events") as stream:
        model.learn(A)
        ask("DELETE", model.path)
        assert [event["event"] for event in events(stream, 2)] == LEARNED[:2]
        assert stream.event() is None


def test_a_server_that_stops_ends_its_streams_at_once(tmp_path):
    with RunningServer(tmp_path / "data", shutdown_s=10 * PATIENCE_S) as server, Asking(server.url) as ask:
        model = ask.new_model()
        with followed(server.url, f"{model.path}/events") as stream:
            model.learn(A)
            events(stream, 2)
            server.process.terminate()
            assert stream.event() is None
            server.process.wait(PATIENCE_S)
        assert "Traceback" not in server.log.read_text()


def test_a_client_that_leaves_is_forgotten(tmp_path):
    running = RunningServer(tmp_path / "data", limits={"heartbeat_s": 0.1}, streams_max=1)
    with running as server, Asking(server.url) as ask:
        model = ask.new_model()
        for _ in range(4):
            with contextlib.ExitStack() as stack:

                def open_now(stack=stack):  # succeeds when the server has noticed that the previous stream has ended
                    with contextlib.suppress(AssertionError):
                        return stack.enter_context(followed(server.url, f"{model.path}/events"))

                eventually(open_now)
                refusal(ask("GET", f"{model.path}/events"), 429, "queue_full")
        assert "Traceback" not in server.log.read_text()


def test_a_client_that_leaves_after_it_has_sent_another_request_is_forgotten_too(tmp_path):
    running = RunningServer(tmp_path / "data", limits={"heartbeat_s": 0.1}, streams_max=1)
    with running as server, Asking(server.url) as ask:
        model = ask.new_model()
        requests = b"".join(head("GET", path, {"host": "localhost"}) for path in (f"{model.path}/events", "/healthz"))
        for _ in range(4):
            with contextlib.ExitStack() as stack:

                def open_now(stack=stack):  # succeeds when the server has noticed that the previous client has left
                    line = stack.enter_context(Line(server.port))
                    line.send(requests)
                    return line.take(len("HTTP/1.1 200")) == b"HTTP/1.1 200"

                eventually(open_now)
                refusal(ask("GET", f"{model.path}/events"), 429, "queue_full")


def test_a_stream_needs_a_key_or_a_ticket_and_ends_with_the_key(tmp_path):
    path = tmp_path / "keys.json"
    admin, reader = create_key(path, "admin", "admin"), create_key(path, "reader", "reader", ("m",))
    running = RunningServer(tmp_path / "data", keys_file=path, limits={"heartbeat_s": 0.2})
    with running as server, Asking(server.url) as ask:
        keys = bearer(admin)
        for name in ("m", "n"):
            assert ask("PUT", f"/models/{name}", json=BASE, headers=keys).status_code == 201
        own = bearer(reader)
        refusal(ask("GET", "/models/m/events"), 401, "unauthenticated")
        refusal(ask("GET", "/models/n/events", headers=own), 403, "forbidden")
        ticket = ask("POST", "/tickets", headers=own).json()["ticket"]
        with followed(server.url, f"/models/m/events?ticket={ticket}") as stream:
            ask("POST", "/models/m/learn", json=A, headers=keys)
            assert [event["event"] for event in events(stream, 2)] == LEARNED[:2]
            refusal(ask("GET", f"/models/m/events?ticket={ticket}"), 401, "unauthenticated")
            revoke_key(path, "reader")
            assert stream.event() is None
