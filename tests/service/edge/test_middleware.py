import re
import socket

import httpx
import pytest

from hinged.service.app import create_app
from hinged.service.edge.serving import make_server
from hinged.service.edge.streams import Streams
from hinged.service.settings import Settings
from tests.helpers.http_client import BASE, Asking, example, refusal
from tests.helpers.server import PATIENCE_S, RunningServer


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A server that has another name, and lets a page of another origin write."""
    folder = tmp_path_factory.mktemp("elsewhere")
    settings = {
        "allowed_hosts": "kernel.example, 127.0.0.1",
        "allowed_origins": "https://app.example, http://other.example:81/",
    }
    with RunningServer(folder / "data", **settings) as running, Asking(running.url) as asking:
        yield asking


def raw(url, text):
    """Return the status of the answer to exactly these bytes."""
    parts = httpx.URL(url)
    with socket.create_connection((parts.host, parts.port), timeout=PATIENCE_S) as connection:
        connection.sendall(text.replace("\n", "\r\n").encode())
        return int(re.match(rb"HTTP/1.1 (\d+)", connection.recv(4096))[1])


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8000", "[::1]", "[::1]:8000"])
def test_the_names_of_this_machine_are_allowed(ask, host):
    assert ask("GET", "/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["kernel.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "", "evil:80"],
)
def test_any_other_host_is_refused_on_every_route(ask, host):
    for method, path in (("POST", "/healthz"), ("GET", "/models"), ("POST", "/learn"), ("GET", "/nothing")):
        error = refusal(ask(method, path, headers={"host": host}), 400, "bad_request")
        assert "HINGED_ALLOWED_HOSTS" in error["message"]


def test_a_request_without_a_host_is_refused(server):
    assert raw(server.url, "GET /models HTTP/1.0\n\n") == 400
    assert raw(server.url, "GET /models HTTP/1.0\nHost: localhost\n\n") == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"])
def test_probes_accept_any_host(server, ask, path):
    for host in ("10.1.2.3:8000", "hinged.example", "evil:80", "no name at all", ""):
        assert ask("GET", path, headers={"host": host}).status_code == 200
    assert raw(server.url, f"GET {path} HTTP/1.0\n\n") == 200


def test_the_setting_names_the_hosts(elsewhere):
    assert elsewhere("GET", "/models", headers={"host": "Kernel.Example:443"}).status_code == 200
    refusal(elsewhere("GET", "/models", headers={"host": "localhost"}), 400, "bad_request")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "http://[", "nonsense", ""]
)
def test_a_foreign_page_may_not_write(ask, origin):
    model = ask.new_model()
    for method, path, body in (
        ("PUT", "/models/foreign", BASE),
        ("DELETE", model.path, None),
        ("POST", f"{model.path}/learn", example([0, 1], "up")),
        ("POST", f"{model.path}/predict", {"x": [0, 1]}),
        ("POST", f"{model.path}/finish", None),
        ("POST", "/learn", example([0, 1], "up")),
    ):
        refusal(ask(method, path, json=body, headers={"origin": origin}), 403, "forbidden")
    refusal(ask("GET", "/models/foreign"), 404, "not_found")
    assert model.figures()["position"] == 1


def test_a_foreign_page_may_read_because_the_browser_hides_the_answer(ask):
    answer = ask("GET", "/models", headers={"origin": "https://evil.example"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_this_server_may_write(ask):
    model = ask.new_model()
    for origin, host in ((ask.url, None), ("http://localhost:8000", "localhost:8000")):
        headers = {"origin": origin} | ({"host": host} if host else {})
        answer = ask("POST", f"{model.path}/learn", json=example([0, 1], "up"), headers=headers)
        assert answer.status_code == 200


def test_the_setting_names_the_origins_that_may_write(elsewhere):
    model = elsewhere.new_model("written-from-afar")
    for origin in ("https://app.example", "HTTPS://APP.example", "http://other.example:81"):
        answer = elsewhere("POST", f"{model.path}/learn", json=example([0, 1], "up"), headers={"origin": origin})
        assert answer.status_code == 200
    for origin in ("http://app.example", "https://app.example:444", "http://other.example"):
        answer = elsewhere("POST", f"{model.path}/learn", json=example([0, 1], "up"), headers={"origin": origin})
        refusal(answer, 403, "forbidden")


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json", "*/*"]
)
def test_a_body_of_another_content_type_is_refused(ask, content_type):
    model = ask.new_model()
    headers = {} if content_type is None else {"content-type": content_type}
    for method, path in (("PUT", model.path), ("POST", f"{model.path}/learn"), ("POST", f"{model.path}/predict")):
        answer = ask(method, path, content=b'{"x": [0, 1], "y": 1}', headers=headers)
        error = refusal(answer, 415, "unsupported_media_type")
        assert "application/json" in error["message"]
    assert model.figures()["position"] == 1


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON", "application/json; charset=utf-8"])
def test_json_is_json_with_any_parameter(ask, content_type):
    model = ask.new_model()
    answer = ask(
        "POST", f"{model.path}/learn", content=b'{"x": [0, 1], "y": 1}', headers={"content-type": content_type}
    )
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/nothing", "/nothing/", "/models//", "/models/a/b", "/models/a/learn//", "//learn"])
def test_an_unknown_path_is_not_found(ask, path):
    for method in ("GET", "POST", "PUT", "DELETE"):
        error = refusal(ask(method, f"{ask.url}{path}"), 404, "not_found")
        assert "route" in error["message"]


def test_a_slash_at_the_end_changes_nothing(ask):
    model = ask.new_model()
    assert ask("GET", "/models/").json() == ask("GET", "/models").json()
    assert ask("POST", f"{model.path}/learn/", json=example([0, 1], "up")).status_code == 200
    assert ask("GET", f"{model.path}/").json()["examples"] == 1
    assert ask("GET", f"{model.path}/queries/?n=1").status_code == 200


@pytest.mark.parametrize("path", ["/ui", "/docs"])
def test_a_page_with_a_slash_redirects_to_the_page_that_its_links_assume(ask, path):
    answer = ask("GET", f"{path}/")
    assert answer.status_code == 307
    assert httpx.URL(f"{ask.url}{path}/").join(answer.headers["location"]).path == path


def test_the_root_redirects_a_browser_to_the_page_and_answers_a_program(ask):
    answer = ask("GET", "/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert answer.status_code == 307
    assert httpx.URL(f"{ask.url}/").join(answer.headers["location"]).path == "/ui"
    links = ask("GET", "/").json()
    assert links["name"] == "hinged"
    for name in ("page", "docs", "openapi", "models", "ready", "metrics"):
        assert ask("GET", links[name]).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("GET", "/queries?stratgy=random", "unknown query parameter 'stratgy', did you mean 'strategy'?"),
        ("GET", "/queries?n=1&annotater=a&n=2", "'annotater'; allowed are n, strategy"),
        ("GET", "/predict?x=[0,1]&y=1", "'y'; allowed are x"),
        ("POST", "/learn?dry_run=1", "'dry_run'; this route has none"),
        ("POST", "/finish?now", "unknown query parameter 'now'"),
    ],
)
def test_an_unknown_query_parameter_is_refused(ask, method, path, message):
    model = ask.new_model()
    error = refusal(ask(method, f"{model.path}{path}", json=example([0, 1], "up")), 422, "invalid")
    assert message in error["message"]
    assert model.figures()["examples"] == 0


def test_probes_and_pages_accept_any_query(ask):
    for path in ("/healthz?t=1", "/readyz?verbose", "/ui?utm_source=mail", "/docs?v=2"):
        assert ask("GET", path).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/models", {"GET"}),
        ("POST", "/models/a", {"PUT", "GET", "PATCH", "DELETE"}),
        ("GET", "/models/a/learn", {"POST"}),
        ("DELETE", "/models/a/predict", {"GET", "POST"}),
        ("GET", "/models/a/finish", {"POST"}),
        ("GET", "/learn", {"POST"}),
        ("PUT", "/predict", {"GET", "POST"}),
        ("OPTIONS", "/learn", {"POST"}),
        ("POST", "/healthz", {"GET"}),
        ("POST", "/readyz", {"GET"}),
    ],
)
def test_an_unknown_method_is_refused_with_the_allowed_methods(ask, method, path, allowed):
    answer = ask(method, path)
    refusal(answer, 405, "method_not_allowed")
    assert {part.strip() for part in answer.headers["allow"].split(",")} == allowed


def test_the_server_is_alive_and_ready(ask):
    assert ask("GET", "/healthz").json() == {"status": "ok"}
    assert ask("GET", "/readyz").json()["status"] == "ready"


def test_idle_connections_are_kept_longer_than_clients_keep_them(tmp_path):
    """If the server closes a connection just when a client sends its next request, the client sees a reset."""
    settings = Settings(data_dir=tmp_path)
    server = make_server(create_app(settings), Streams(1), settings)
    assert server.config.timeout_keep_alive > 10 * httpx.Limits().keepalive_expiry
