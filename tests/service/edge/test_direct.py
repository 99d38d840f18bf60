"""The short way to some routes answers as FastAPI's own."""

import asyncio
import json

import pytest

from hinged.service.api import QUICK, quick_routes
from hinged.service.app import create_app
from hinged.service.edge.direct import MODELS
from hinged.service.edge.keys import create_key
from hinged.service.settings import Settings
from tests.helpers.http_client import BASE

LEARN = {"examples": [{"id": "a", "x": [0.5, 1.0], "y": "p"}, {"id": "b", "x": [1.0, 0.5], "y": "q"}]}
REQUESTS = [
    ("/models/m/learn", LEARN, {}),
    ("/models/m/learn", LEARN, {}),
    ("/models/m/learn", {"examples": [{"x": [0.5], "y": "p"}]}, {}),
    ("/models/m/learn", {"id": "a", "x": [0.0, 1.0], "y": "p"}, {}),
    ("/models/m/learn", LEARN, {"content-type": "text/plain"}),
    ("/models/m/learn", LEARN, {"authorization": ""}),
    ("/models/m/learn", LEARN, {"host": "elsewhere.example"}),
    ("/models/m/learn", LEARN, {"origin": "http://elsewhere.example"}),
    ("/models/none/learn", LEARN, {}),
    ("/models/n o/learn", LEARN, {}),
    ("/models/m/pool", {"examples": [{"id": "c", "x": [0.0, 1.0]}]}, {}),
    ("/models/m/predict", {"x": [0.0, 1.0]}, {}),
    ("/models/m/predict", {"x": [0.0]}, {}),
    ("/predict", {"x": [0.0, 1.0]}, {}),
    ("/learn", {"x": [0.5, 1.0, 1.5], "y": "p"}, {}),
    ("/learn", {"x": [1.5, 1.0, 0.5], "y": "q"}, {}),
    ("/predict", {"x": [0.0, 1.0, 0.0]}, {}),
    ("/models//learn", LEARN, {}),
    ("/models/m/learn/", LEARN, {}),
    ("/models/m/sing", LEARN, {}),
]


async def asked(app, key, method, path, body, headers):
    """Status, type and body of an answer, and what was counted."""
    sent, data = [], json.dumps(body).encode()
    given = {"host": "localhost", "content-type": "application/json", "authorization": f"Bearer {key}", **headers}
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "scheme": "http", "http_version": "1.1",
        "client": ("127.0.0.1", 1), "server": ("localhost", 80),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip

    async def receive():
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    headers = dict(sent[0]["headers"])
    return sent[0]["status"], headers[b"content-type"], b"".join(part["body"] for part in sent[1:])


async def answers(folder, key):
    app = create_app(Settings(data_dir=folder / "data", keys_file=folder / "keys.json"))
    async with app.router.lifespan_context(app):
        while not app.state.registry.ready:  # noqa: ASYNC110  as any client does
            await asyncio.sleep(0.05)
        assert (await asked(app, key, "PUT", "/models/m", BASE, {}))[0] == 201
        found = [await asked(app, key, "POST", *request) for request in REQUESTS]
        counted, _ = app.state.exposition.text()
    kept = [line for line in counted.decode().splitlines() if line.startswith("hinged_requests_total")]
    return found, sorted(kept)


def test_both_ways_give_the_same_answers_and_counts(tmp_path):
    both = []
    for way in ("short", "long"):
        folder = tmp_path / way
        folder.mkdir()
        key = create_key(folder / "keys.json", "ann", "admin")
        with pytest.MonkeyPatch.context() as patch:
            if way == "long":
                patch.setattr("hinged.service.app.quick_routes", lambda *_: [])
            both.append(asyncio.run(answers(folder, key)))
    for request, short, long in zip(REQUESTS, both[0][0], both[1][0], strict=True):
        assert short == long, request
    assert both[0][1] == both[1][1]
    assert {status for status, _, _ in both[0][0]} >= {200, 401, 403, 404, 409, 415, 422}


def test_each_quick_route_has_a_path_that_the_short_way_finds():
    routes = quick_routes()
    assert {route.name for route in routes} == set(QUICK)
    for route in routes:
        assert route.methods == {"POST"}
        assert "{" not in route.path.removeprefix(MODELS)


def test_what_nobody_foresaw_is_logged_and_answered_in_the_one_shape(tmp_path, monkeypatch, caplog):
    async def broken(**_):
        raise RuntimeError("a secret")

    route = next(route for route in quick_routes() if route.path == "/predict")
    monkeypatch.setattr(route, "endpoint", broken)
    app = create_app(Settings(data_dir=tmp_path / "data"))

    async def ask_once():
        async with app.router.lifespan_context(app):
            return await asked(app, "", "POST", "/predict", {"x": [1.0]}, {})

    status, media_type, body = asyncio.run(ask_once())
    assert (status, media_type) == (500, b"application/json")
    assert json.loads(body)["error"]["code"] == "internal_error"
    assert b"secret" not in body
    assert "a secret" in caplog.text
