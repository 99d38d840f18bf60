"""nginx with docker/nginx.conf in front of a real server: TLS, WebSockets, event streams, limits and logs."""

import asyncio
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from hinged import AsyncClient, Client, HingedError
from hinged.service.edge.keys import create_key
from tests.helpers.http_client import BASE, example
from tests.helpers.nginx import behind_nginx
from tests.helpers.server import RunningServer, eventually


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """The URL of a server behind nginx, nginx's folder with the certificate to trust, and the server."""
    folder = tmp_path_factory.mktemp("proxy")
    with RunningServer(folder / "data", allowed_hosts="localhost") as server, behind_nginx(folder, server.port) as url:
        yield url, folder, server


@pytest.fixture
def client(proxied, monkeypatch):
    url, folder, _ = proxied
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "tls.pem"))
    with Client(url) as client:
        yield client


@pytest.fixture
def http(proxied):
    url, folder, _ = proxied
    with httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=folder / "tls.pem")) as http:
        yield http


def test_clients_trust_only_the_certificates_that_the_machine_trusts(proxied, client, monkeypatch):
    url, _, _ = proxied

    async def models():
        async with AsyncClient(url, tries_max=1) as opened:
            return [model["model"] for model in await opened.models()]

    assert asyncio.run(models()) == [model["model"] for model in client.models()]
    monkeypatch.delenv("SSL_CERT_FILE")
    with Client(url, tries_max=1) as stranger, pytest.raises(HingedError, match="CERTIFICATE_VERIFY_FAILED"):
        stranger.models()
    with pytest.raises(HingedError, match="CERTIFICATE_VERIFY_FAILED"):
        asyncio.run(models())


def test_a_websocket_learns_and_predicts_through_the_proxy(client):
    client.create_model("sockets", **BASE)
    with client.stream("sockets") as stream:
        learned = [stream.learn([example([k % 2, k % 3], "ab"[k % 2])]) for k in range(50)]
        assert learned[-1].result()["results"][0]["prediction"] == "b"
        assert stream.predict([{"x": [0, 1]}]).result()["results"][0]["prediction"] == "a"


def test_events_come_through_the_proxy_while_the_stream_is_open(client):
    client.create_model("followed", **BASE)
    events = client.events("followed", after=0)
    assert next(events)["kind"] == "created"
    client.learn("followed", [example([0, 1], "a")])
    assert [next(events)["kind"] for _ in range(2)] == ["class_added", "learned"]
    events.close()


@pytest.mark.long
def test_the_server_limits_long_bodies_and_the_proxy_does_not(http, client):
    client.create_model("long", **BASE)
    rows = [{"id": str(k) * 20, "x": [k % 7, k % 5], "y": "ab"[k % 2]} for k in range(10_000, 19_000)]
    assert len(client.learn("long", rows)["results"]) == 9_000
    answer = http.post("/models/long/learn", content=b" " * 34_000_000, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_a_page_of_the_server_may_write_and_a_foreign_page_may_not(http, proxied):
    url, _, _ = proxied
    assert http.get("/ui").status_code == 200
    assert http.put("/models/paged", json=BASE, headers={"origin": url}).status_code == 201
    foreign = http.put("/models/other", json=BASE, headers={"origin": "https://elsewhere.example"})
    assert foreign.status_code == 403


def test_a_wrong_server_name_gets_no_answer_and_the_logs_contain_no_ticket(http, proxied):
    url, folder, _ = proxied
    with pytest.raises(ssl.SSLError), socket.create_connection(("localhost", int(url.rpartition(":")[2]))) as plain:
        ssl.create_default_context(cafile=folder / "tls.pem").wrap_socket(plain, server_hostname="elsewhere.example")
    http.get("/models?ticket=secret")
    eventually(lambda: "GET /models" in (folder / "hinged.log").read_text())
    assert "secret" not in (folder / "hinged.log").read_text() + (folder / "errors.log").read_text()


def test_the_server_logs_the_clients_real_address_and_not_a_forged_header(tmp_path):
    create_key(tmp_path / "keys.json", "admin", "admin")
    settings = {"allowed_hosts": "localhost", "keys_file": tmp_path / "keys.json", "proxies": "127.0.0.1"}
    with (
        RunningServer(tmp_path / "data", **settings) as server,
        behind_nginx(tmp_path, server.port) as url,
        httpx.Client(
            transport=httpx.HTTPTransport(
                verify=ssl.create_default_context(cafile=tmp_path / "tls.pem"), local_address="127.0.0.2"
            )
        ) as http,
    ):
        forged = {"authorization": "Bearer nobody", "x-forwarded-for": "203.0.113.7"}
        assert http.get(f"{url}/models", headers=forged).status_code == 401
        eventually(lambda: "a key that is not known, from 127.0.0.2\n" in server.log.read_text())


def test_a_client_asks_again_until_a_restarted_server_answers(client, proxied):
    server = proxied[2]
    client.create_model("patient", **BASE)
    server.terminate()
    with ThreadPoolExecutor(1) as other:
        learned = other.submit(client.learn, "patient", [example([0, 1], "a")])
        log = proxied[1] / "hinged.log"
        eventually(lambda: '"POST /models/patient/learn" 502' in log.read_text())
        server.start()
        assert learned.result()["results"][0]["duplicate"] is False
