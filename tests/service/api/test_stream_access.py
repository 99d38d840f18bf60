"""Access to the WebSocket of a model: which keys may open it, and which frames they may send."""

import json

import pytest
from websockets.exceptions import InvalidStatus

from hinged.service.edge.keys import create_key, revoke_key
from tests.helpers.http_client import BASE, Asking, bearer, example
from tests.helpers.server import RunningServer
from tests.helpers.stream_client import closed, granted, opened, refused

A = example([0, 1], "up", "a")


@pytest.fixture
def model(ask):
    return ask.new_model()


def test_a_socket_of_an_unknown_model_is_refused_in_the_shape_of_all_errors(ask):
    with pytest.raises(InvalidStatus) as caught, opened(ask.url, "/models/absent/stream"):
        pass
    assert caught.value.response.status_code == 404
    assert json.loads(caught.value.response.body)["error"]["code"] == "not_found"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1"])
def test_a_foreign_page_may_not_open_a_socket(ask, model, origin):
    with pytest.raises(InvalidStatus) as caught, opened(ask.url, f"{model.path}/stream", origin=origin):
        pass
    assert caught.value.response.status_code == 403


def test_a_page_of_this_server_may_open_a_socket(ask, model):
    with opened(ask.url, f"{model.path}/stream", origin=ask.url) as socket:
        granted(socket.ask("predict", x=[0, 1]))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    path = folder / "keys.json"
    keys = {role: create_key(path, role, role) for role in ("reader", "annotator", "writer", "admin")}
    with RunningServer(folder / "data", keys_file=path) as server, Asking(server.url) as ask:
        header = bearer(keys["admin"])
        assert ask("PUT", "/models/m", json=BASE, headers=header).status_code == 201
        yield server, ask, path, keys


def with_key(key):
    return {"additional_headers": bearer(key)}


FRAMES = {
    "predict": ("reader", {"x": [0, 1]}),
    "subscribe": ("reader", {}),
    "query": ("annotator", {"annotator": "ann"}),
    "pool": ("writer", {"examples": [{"id": "c", "x": [0, 1]}]}),
    "learn": ("writer", A),
}


@pytest.mark.parametrize("role", ["reader", "annotator", "writer", "admin"])
def test_a_frame_needs_the_role_of_its_route(guarded, role):
    server, _, _, keys = guarded
    roles = list(keys)
    with opened(server.url, "/models/m/stream", **with_key(keys[role])) as socket:
        for op, (least, body) in FRAMES.items():
            answer = socket.ask(op, **body)
            while "event" in answer:
                answer = socket.hear()
            if roles.index(role) < roles.index(least):
                assert f"yours is {role}" in refused(answer, "forbidden")["message"]
            else:
                granted(answer)
            if op == "subscribe":
                break
        for op in ("query", "pool", "learn"):
            least, body = FRAMES[op]
            if roles.index(role) < roles.index(least):
                refused(socket.ask(op, **body), "forbidden")


def test_a_browser_opens_a_socket_with_a_ticket_once_and_the_ticket_is_not_logged(guarded):
    server, ask, _, keys = guarded
    ticket = ask("POST", "/tickets", headers=bearer(keys["reader"])).json()["ticket"]
    with opened(server.url, "/models/m/stream", f"?ticket={ticket}", origin=server.url) as socket:
        granted(socket.ask("predict", x=[0, 1]))
        refused(socket.ask("learn", **A), "forbidden")
    for query in (f"?ticket={ticket}", "", f"?key={keys['admin']}"):
        with pytest.raises(InvalidStatus) as caught, opened(server.url, "/models/m/stream", query):
            pass
        assert caught.value.response.status_code == 401
    assert ticket not in server.log.read_text()
    assert keys["admin"] not in server.log.read_text()


def test_a_key_that_is_revoked_closes_its_sockets(guarded):
    server, _, path, _ = guarded
    with opened(server.url, "/models/m/stream", **with_key(create_key(path, "leaving", "writer"))) as socket:
        granted(socket.ask("predict", x=[0, 1]))
        revoke_key(path, "leaving")
        refused(socket.ask("learn", **A), "unauthenticated")
        assert closed(socket)[0] == 4401
