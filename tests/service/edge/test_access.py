"""A server with keys: what each role may do, on which models, and how a caller proves its key."""

import asyncio
import itertools
import json

import pytest
from fastapi import FastAPI, Request, WebSocket
from starlette.responses import PlainTextResponse

from hinged.operations import STREAM, ModelOperations
from hinged.service.api.serving import Group
from hinged.service.edge.access import Access
from hinged.service.edge.keys import NOBODY_ASKED, create_key, revoke_key
from hinged.service.settings import Settings
from tests.helpers.http_client import BASE, Asking, bearer, example, refusal
from tests.helpers.server import RunningServer

ROLES = ("reader", "annotator", "writer", "admin")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with keys, its key file, and the text of a key for each role."""
    folder = tmp_path_factory.mktemp("guarded")
    path = folder / "keys.json"
    keys = {role: create_key(path, role, role) for role in ROLES}
    keys |= {f"bound {role}": create_key(path, f"bound-{role}", role, ("fraud-*", "one")) for role in ROLES}
    with RunningServer(folder / "data", keys_file=path) as server, Asking(server.url) as ask:
        yield server, ask, path, keys


@pytest.fixture(scope="module")
def ask(guarded):
    """Returns a function that sends a request as a role: `ask("reader", "GET", "/models")`."""
    _, plain, _, keys = guarded

    def ask(who, method, path, headers=None, **request):
        return plain(method, path, headers={**bearer(keys[who]), **(headers or {})}, **request)

    return ask


@pytest.fixture(scope="module")
def models(ask):
    for name in ("fraud-eu", "one", "other"):
        assert ask("admin", "PUT", f"/models/{name}", json=BASE).status_code == 201
        body = {"examples": [example([0, 1], "up"), example([1, 0], "down")]}
        assert ask("admin", "POST", f"/models/{name}/learn", json=body).status_code == 200


NEEDS = {
    ("GET", "/models"): "reader",
    ("GET", "/models/one"): "reader",
    ("POST", "/models/one/predict"): "reader",
    ("GET", "/models/one/predict?x=[0,1]"): "reader",
    ("POST", "/models/one/rank"): "reader",
    ("GET", "/models/one/suspects"): "reader",
    ("GET", "/models/one/thresholds"): "reader",
    ("GET", "/models/one/queries"): "reader",
    ("GET", "/metrics"): "reader",
    ("POST", "/tickets"): "reader",
    ("POST", "/models/one/queries"): "annotator",
    ("POST", "/models/one/queries/absent/heartbeat"): "annotator",
    ("POST", "/models/one/queries/absent/release"): "annotator",
    ("POST", "/models/one/queries/absent/skip"): "annotator",
    ("DELETE", "/models/one/queries/absent/skip"): "annotator",
    ("POST", "/models/one/pool"): "writer",
    ("POST", "/models/one/learn"): "writer",
    ("POST", "/models/one/finish"): "writer",
    ("POST", "/models/one/snapshot"): "writer",
    ("GET", "/models/one/export"): "admin",
    ("GET", "/keys"): "admin",
    ("DELETE", "/keys/absent"): "admin",
    ("POST", "/models/absent/rollback"): "admin",
    ("POST", "/models/absent/skip"): "admin",
    ("PUT", "/models/one"): "admin",
    ("DELETE", "/models/absent"): "admin",
}
BODIES = {
    "/models/one/predict": {"x": [0, 1]},
    "/models/one/rank": {"examples": [{"x": [0, 1]}]},
    "/models/one/queries": {"annotator": "ann"},
    "/models/one/pool": {"examples": [{"id": "candidate", "x": [0, 1]}]},
    "/models/one/learn": {"id": "again", "x": [0, 1], "y": "up"},
    "/models/one": BASE,
}


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(("route", "who"), list(itertools.product(NEEDS, ROLES)))
def test_a_route_accepts_its_role_and_higher_roles(ask, route, who):
    method, path = route
    body = BODIES.get(path) if method != "GET" else None
    answer = ask(who, method, path, json=body)
    if ROLES.index(who) < ROLES.index(NEEDS[route]):
        error = refusal(answer, 403, "forbidden")
        assert f"yours is {who}" in error["message"]
    else:
        assert answer.status_code == (404 if "absent" in path else 200), answer.text


@pytest.mark.usefixtures("models")
def test_without_a_key_only_health_and_the_description_answer(guarded):
    _, plain, _, _ = guarded
    for method, path in NEEDS:
        body = BODIES.get(path) if method != "GET" else None
        answer = plain(method, path, json=body)
        error = refusal(answer, 401, "unauthenticated")
        assert "Authorization: Bearer" in error["message"]
        assert answer.headers["www-authenticate"] == "Bearer"
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert plain("GET", path).status_code == 200


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Basic {key}", "{key}", "Bearer {key}x", "Bearer x{key}", "bearer {KEY}", "Bearer \xff"],
)
def test_any_credentials_but_a_known_key_are_refused(guarded, header):
    _, plain, _, keys = guarded
    text = header.format(key=keys["admin"], KEY=keys["admin"].upper())
    answer = plain("GET", "/models", headers={"authorization": text.encode("latin-1")})
    error = refusal(answer, 401, "unauthenticated")
    assert keys["admin"] not in error["message"]


def test_two_keys_at_once_are_refused(guarded):
    _, plain, _, keys = guarded
    pairs = [("authorization", f"Bearer {keys['admin']}")] * 2
    refusal(plain("GET", "/models", headers=pairs), 401, "unauthenticated")


def test_the_word_bearer_is_read_in_any_case(guarded):
    _, plain, _, keys = guarded
    answer = plain("GET", "/models", headers={"authorization": f"bEARER {keys['reader']}"})
    assert answer.status_code == 200


@pytest.mark.parametrize("name", ["key", "api_key", "access_token", "ticket", "authorization"])
def test_a_key_in_a_url_opens_nothing(guarded, name):
    _, plain, _, keys = guarded
    refusal(plain("GET", "/models", params={name: keys["admin"]}), 401, "unauthenticated")


@pytest.mark.usefixtures("models")
def test_a_bound_key_reaches_and_sees_only_its_models(ask):
    assert [m["model"] for m in ask("bound reader", "GET", "/models").json()["models"]] == ["fraud-eu", "one"]
    for path in ("/models/fraud-eu", "/models/one"):
        assert ask("bound reader", "GET", path).status_code == 200
    for path in ("/models/other", "/models/absent", "/models/fraud", "/models/ONE"):
        error = refusal(ask("bound admin", "GET", path), 403, "forbidden")
        assert "fraud-*" in error["message"]
    assert ask("bound admin", "PUT", "/models/fraud-us", json=BASE).status_code == 201
    assert ask("bound admin", "DELETE", "/models/fraud-us").status_code == 200
    refusal(ask("bound admin", "PUT", "/models/mine", json=BASE), 403, "forbidden")


def test_an_admin_creates_the_default_model_for_all_keys_that_cover_it(ask):
    body = {"examples": [example([0, 1], "up"), example([1, 0], "down")]}
    refusal(ask("writer", "POST", "/learn", json=body), 403, "forbidden")
    refusal(ask("reader", "GET", "/models/default"), 404, "not_found")
    assert ask("admin", "POST", "/learn", json=body).status_code == 200
    assert ask("writer", "POST", "/learn", json=body).status_code == 200
    assert ask("reader", "GET", "/predict?x=[0,1]").status_code == 200
    refusal(ask("bound admin", "GET", "/predict?x=[0,1]"), 403, "forbidden")
    refusal(ask("bound admin", "POST", "/predict", json={"x": [0, 1]}), 403, "forbidden")
    refusal(ask("bound admin", "POST", "/learn", json=body), 403, "forbidden")


def test_an_admin_creates_a_model_without_features_and_a_writer_sends_its_first_examples(ask):
    body = {"examples": [example([0, 1], "up"), example([1, 0], "down")]}
    for role in ("reader", "annotator", "writer"):
        refusal(ask(role, "PUT", "/models/formless", json={}), 403, "forbidden")
    assert ask("admin", "PUT", "/models/formless", json={}).status_code == 201
    refusal(ask("bound admin", "PUT", "/models/formless", json={}), 403, "forbidden")
    for role in ("reader", "annotator", "bound admin"):
        refusal(ask(role, "POST", "/models/formless/learn", json=body), 403, "forbidden")
    assert "formless" not in [m["model"] for m in ask("bound reader", "GET", "/models").json()["models"]]
    assert ask("writer", "POST", "/models/formless/learn", json=body).status_code == 200
    assert ask("admin", "DELETE", "/models/formless").status_code == 200


@pytest.mark.usefixtures("models")
def test_an_annotator_labels_examples_that_the_model_knows_and_sends_none(ask):
    ask("writer", "POST", "/models/one/pool", json={"examples": [{"id": "c1", "x": [0.5, 0.1]}]})
    ask("reader", "POST", "/models/one/predict", json={"id": "late", "x": [0.5, 0.2]})
    (query,) = ask("annotator", "POST", "/models/one/queries", json={"annotator": "ann"}).json()["queries"]
    path = "/models/one/learn"
    for known in ({"id": query["id"], "y": "up", "lease": query["lease"]}, {"id": "late", "y": "down"}):
        refusal(ask("reader", "POST", path, json=known), 403, "forbidden")
        assert ask("annotator", "POST", path, json=known).status_code == 200
    both = {"examples": [{"id": "late", "y": "down"}, {"x": [0.5, 0.3], "y": "up"}]}
    error = refusal(ask("annotator", "POST", path, json=both), 403, "forbidden")
    assert "writer" in error["message"]


def test_a_bound_key_does_not_get_figures_of_the_whole_server(ask):
    error = refusal(ask("bound admin", "GET", "/metrics"), 403, "forbidden")
    assert "all models" in error["message"]


@pytest.mark.usefixtures("models")
def test_a_refused_request_changes_nothing(ask):
    before = ask("reader", "GET", "/models/one").json()["examples"]
    for who, method, path in (
        ("annotator", "POST", "/models/one/learn"),
        ("reader", "POST", "/models/one/finish"),
        ("writer", "DELETE", "/models/one"),
    ):
        body = {"x": [0.3, 0.1], "y": "up"} if path.endswith("learn") else None
        refusal(ask(who, method, path, json=body), 403, "forbidden")
    assert ask("reader", "GET", "/models/one").json()["examples"] == before


def test_keys_can_be_made_and_revoked_while_the_server_runs(guarded):
    _, plain, path, _ = guarded
    text = create_key(path, "guest", "reader")
    assert plain("GET", "/models", headers=bearer(text)).status_code == 200
    revoke_key(path, "guest")
    refusal(plain("GET", "/models", headers=bearer(text)), 401, "unauthenticated")


def test_an_invalid_key_file_lets_nobody_in_and_the_log_says_why(guarded):
    server, plain, path, keys = guarded
    good = path.read_bytes()
    path.write_bytes(b"{")
    try:
        refusal(plain("GET", "/models", headers=bearer(keys["admin"])), 503, "unavailable")
        assert plain("GET", "/healthz").status_code == 200
    finally:
        path.write_bytes(good)
    assert plain("GET", "/models", headers=bearer(keys["admin"])).status_code == 200
    assert "is not a valid key file" in server.log.read_text()


@pytest.mark.usefixtures("models")
def test_neither_keys_nor_examples_are_logged(guarded, ask):
    server, plain, _, keys = guarded
    ask("writer", "POST", "/models/one/learn", json={"id": "secret-id", "x": [0.123456, 0.5], "y": "secret-y"})
    plain("GET", "/models", headers=bearer("hinged_wrong"), params={"x": "secret-query"})
    log = server.log.read_text()
    assert "a key that is not known" in log
    for word in (*keys.values(), "hinged_wrong", "0.123456", "secret"):
        assert word not in log


def test_hosts_and_origins_are_checked_with_a_key_too(ask):
    refusal(ask("admin", "GET", "/models", headers={"host": "evil.example"}), 400, "bad_request")
    foreign = {"origin": "https://evil.example"}
    refusal(ask("admin", "POST", "/tickets", headers=foreign), 403, "forbidden")
    refusal(ask("admin", "PUT", "/models/x", json=BASE, headers=foreign), 403, "forbidden")


def test_a_page_of_another_origin_can_neither_read_an_answer_nor_ask_whether_it_may(ask):
    for headers in ({"origin": "https://evil.example"}, {}):
        answer = ask("admin", "GET", "/models", headers=headers)
        assert not [name for name in answer.headers if name.startswith("access-control")]
    asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answer = ask("admin", "OPTIONS", "/models/one/learn", headers=asked)
    refusal(answer, 405, "method_not_allowed")
    assert not [name for name in answer.headers if name.startswith("access-control")]


# -- tickets


@pytest.mark.usefixtures("models")
def test_a_ticket_opens_one_get_with_the_rights_of_its_key(guarded, ask):
    _, plain, _, _ = guarded
    ticket = ask("bound reader", "POST", "/tickets").json()
    assert list(ticket) == ["ticket", "expires_at"]
    found = plain("GET", "/models", params={"ticket": ticket["ticket"]})
    assert [m["model"] for m in found.json()["models"]] == ["fraud-eu", "one"]
    error = refusal(plain("GET", "/models", params={"ticket": ticket["ticket"]}), 401, "unauthenticated")
    assert ticket["ticket"] not in error["message"]


def test_a_ticket_opens_no_write(guarded, ask):
    _, plain, _, _ = guarded
    ticket = ask("admin", "POST", "/tickets").json()["ticket"]
    for method, path in (("POST", "/tickets"), ("DELETE", "/models/one"), ("PUT", "/models/one")):
        refusal(plain(method, path, params={"ticket": ticket}), 401, "unauthenticated")


def test_a_ticket_dies_with_its_key(guarded):
    _, plain, path, _ = guarded
    text = create_key(path, "leaving", "admin")
    ticket = plain("POST", "/tickets", headers=bearer(text)).json()["ticket"]
    revoke_key(path, "leaving")
    refusal(plain("GET", "/models", params={"ticket": ticket}), 401, "unauthenticated")


def small_app(settings):
    """Return the server's access control in front of two routes that return the caller's key."""
    group = Group()

    @group.opens(STREAM)
    async def stream(model, socket: WebSocket):  # noqa: ARG001
        await socket.accept()
        await socket.send_text(socket.state.caller.name)
        await socket.close()

    @group.serves(ModelOperations.models)
    async def models(request: Request):
        return PlainTextResponse(request.state.caller.name)

    app = FastAPI()
    app.state.access = Access(settings)
    app.router.routes.extend(group.routes)
    return app


def asked(app, kind, path, query="", headers=None):
    """Return the application's answer to one request: (the status of a refusal or None, all text that was sent)."""
    sent = []

    async def receive():
        return {"type": "websocket.connect"} if kind == "websocket" else {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    scope = {
        "type": kind,
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
        "extensions": {"websocket.http.response": {}},
        "app": app,
    }
    asyncio.run(app(scope, receive, send))
    statuses = [message["status"] for message in sent if "status" in message]
    text = "".join(message.get("text") or message.get("body", b"").decode() for message in sent)
    return (statuses[0] if statuses else None), text


def test_a_websocket_is_opened_by_a_key_or_ticket_and_refused_in_the_shape_of_all_errors(tmp_path):
    key = create_key(tmp_path / "keys.json", "ann", "admin", ("m",))
    app = small_app(Settings(data_dir=tmp_path, keys_file=tmp_path / "keys.json"))
    assert asked(app, "websocket", "/models/m/stream", headers=bearer(key)) == (None, "ann")
    ticket = app.state.access._tickets.issue(app.state.access.keyring.find(key))
    assert asked(app, "websocket", "/models/m/stream", f"ticket={ticket}") == (None, "ann")
    for path, query, headers, status, code in (
        ("/models/m/stream", f"ticket={ticket}", {}, 401, "unauthenticated"),
        ("/models/m/stream", "", {}, 401, "unauthenticated"),
        ("/models/n/stream", "", bearer(key), 403, "forbidden"),
    ):
        got, text = asked(app, "websocket", path, query, headers)
        assert got == status
        assert json.loads(text)["error"]["code"] == code


def test_without_keys_a_ticket_is_still_accepted_and_checked(tmp_path):
    app = small_app(Settings(data_dir=tmp_path))
    ticket = app.state.access._tickets.issue(NOBODY_ASKED)
    assert asked(app, "http", "/models") == (200, "everyone")
    assert asked(app, "http", "/models", f"ticket={ticket}") == (200, "everyone")
    assert asked(app, "http", "/models", f"ticket={ticket}")[0] == 401
