"""RouteTable: a route answers in the same way whether it is found by look-up or by the router. Every declared operation
has a route.
"""

import asyncio
import json
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI, Query

from hinged.client import AsyncClient, HingedError
from hinged.operations import DECLARED, ExampleOperations, LabelOperations, ModelOperations
from hinged.operations.base import Call, Operation
from hinged.service.api import ROUTES
from hinged.service.api.openapi import document
from hinged.service.api.serving import Group, RouteTable
from hinged.service.app import create_app
from hinged.service.edge.access import Access
from hinged.service.edge.keys import create_key
from hinged.service.edge.middleware import JSON
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
    ("/models/{model}/learn", LEARN, {}),
    ("/models/m/{model}", LEARN, {}),
    ("/models/m/learn\n", LEARN, {}),
]


async def asked(app, key, method, path, body, headers):
    """Return the status, type and body of an answer, and what the metrics counted."""
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
        while not app.state.registry.ready:  # noqa: ASYNC110  poll, as a client does
            await asyncio.sleep(0.05)
        assert (await asked(app, key, "PUT", "/models/m", BASE, {}))[0] == 201
        found = [await asked(app, key, "POST", *request) for request in REQUESTS]
        counted, _ = app.state.exposition.text()
    kept = [line for line in counted.decode().splitlines() if line.startswith("hinged_requests_total")]
    return found, sorted(kept)


def test_routes_found_by_look_up_or_by_the_router_answer_and_count_alike(tmp_path):
    both = []
    for way in ("short", "long"):
        folder = tmp_path / way
        folder.mkdir()
        key = create_key(folder / "keys.json", "ann", "admin")
        with pytest.MonkeyPatch.context() as patch:
            if way == "long":
                patch.setattr(RouteTable, "find", lambda *_: None)
            both.append(asyncio.run(answers(folder, key)))
    for request, short, long in zip(REQUESTS, both[0][0], both[1][0], strict=True):
        assert short == long, request
    assert both[0][1] == both[1][1]
    assert {status for status, _, _ in both[0][0]} >= {200, 401, 403, 404, 409, 415, 422}


def test_an_unexpected_error_is_logged_and_answered_in_the_usual_shape(tmp_path, monkeypatch, caplog):
    async def broken(**_):
        raise RuntimeError("a secret")

    monkeypatch.setattr(ROUTES.find("POST", "/predict").route, "endpoint", broken)
    app = create_app(Settings(data_dir=tmp_path / "data"))

    async def ask_once():
        async with app.router.lifespan_context(app):
            return await asked(app, "", "POST", "/predict", {"x": [1.0]}, {})

    status, media_type, body = asyncio.run(ask_once())
    assert (status, media_type) == (500, b"application/json")
    assert json.loads(body)["error"]["code"] == "internal_error"
    assert b"secret" not in body
    assert "a secret" in caplog.text


# -- declared and served ----------------------------------------------------------------------------------------------


def served(*operations):
    """Return a group that serves these operations."""
    group = Group()
    for each in operations:

        @group.serves(each)
        async def handler(request):
            pass

    return group


def test_a_declared_operation_without_a_route_is_refused():
    with pytest.raises(ValueError, match=r"no route serves Operation\(GET /overview\)"):
        RouteTable([served(ModelOperations.models)], [ModelOperations.models, ModelOperations.overview])


def test_two_routes_for_the_same_requests_are_refused():
    again = Operation("GET", "/models", role="admin")
    with pytest.raises(ValueError, match="two routes serve GET /models"):
        RouteTable([served(ModelOperations.models, again)], [])


def test_operations_with_quick_ways_are_found_by_look_up():
    quick = [each for each in DECLARED if each.small or each.replicas]
    assert ExampleOperations.learn in quick
    for each in quick:
        path = each.path_for(**dict.fromkeys(each.parameters, "m"))
        assert ROUTES.find(each.method, path).route.operation is each


def test_an_operation_with_several_ways_needs_a_handling():
    for each in (ExampleOperations.learn, LabelOperations.query):
        with pytest.raises(ValueError, match="in several ways: declare handling="):
            served(each)


class Greeting:
    """A part of a client. The operation of this part is declared only here."""

    @Operation("GET", "/models/{model}/greeting", role="reader").asked
    def greeting(self, model: str, *, to: str = "you") -> Call[dict[str, str]]:  # noqa: ARG002
        return Call(query={"to": to})


class Greeted(AsyncClient, Greeting):
    pass


def test_a_new_operation_takes_only_a_declaration_and_a_handler(tmp_path):
    group = Group("models")

    @group.serves(Greeting.greeting)
    async def greet(model: str, to: Annotated[str, Query(max_length=3, description="whom")] = "all"):
        """Greet."""
        return JSON({model: to})

    key = create_key(tmp_path / "keys.json", "ann", "reader", ("m",))
    app = FastAPI()
    app.state.access = Access(Settings(data_dir=tmp_path, keys_file=tmp_path / "keys.json"))
    app.router.routes.extend(RouteTable([group], [Greeting.greeting]).all)

    async def ask(given, **named):
        async with Greeted("http://server", key=given, tries_max=1) as client:
            client._http = httpx.AsyncClient(transport=httpx.ASGITransport(app), headers=client._http.headers)
            return await client.greeting(**named)

    def refusal(given, **named):
        with pytest.raises(HingedError) as caught:
            asyncio.run(ask(given, **named))
        return caught.value.code, caught.value.message

    assert asyncio.run(ask(key, model="m")) == {"m": "you"}
    assert refusal(key, model="m", to="everybody") == ("invalid", "query.to: String should have at most 3 characters")
    assert refusal(key, model="n")[0] == "forbidden"
    assert refusal("hinged_nobody", model="m")[0] == "unauthenticated"
    described = document(app, group.routes)["paths"]["/models/{model}/greeting"]["get"]
    assert described["summary"] == "Greet"
    assert described["tags"] == ["models"]
    assert {"200", "401", "403", "404", "422", "500"} <= described["responses"].keys()
