"""The proxy of docker/nginx.conf, before a real server: TLS, WebSocket, event stream, and what it must not change."""

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from asking import BASE, example
from running import PATIENCE_S, ROOT, RunningServer, eventually, free_port, missing

from hinged import AsyncClient, Client, HingedError


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """The URL of a server behind nginx, and nginx's folder, with the certificate that clients are to trust."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or missing(
        "there is no nginx: install it (apt-get install nginx-light), then run the tests again"
    )
    folder = tmp_path_factory.mktemp("proxy")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", "proxy.key", "-out", "proxy.pem"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files]
    subprocess.run(make, cwd=folder, check=True, capture_output=True)
    port = free_port()
    with RunningServer(folder / "data", allowed_hosts="localhost") as server:
        text = (ROOT / "docker" / "nginx.conf").read_text()
        for told, here in {
            "listen 443": f"listen 127.0.0.1:{port}",
            "127.0.0.1:8000": f"127.0.0.1:{server.port}",
            "server_name kernel.example": "server_name localhost",
            "/etc/ssl/kernel.example": f"{folder}/proxy",
            "/var/log/nginx": str(folder),
            "events {}": f"events {{}}\npid {folder}/nginx.pid;\ndaemon off;\n",
        }.items():
            assert told in text
            text = text.replace(told, here)
        (folder / "nginx.conf").write_text(text)
        with (folder / "errors.log").open("w") as errors:
            command = [nginx, "-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"]
            process = subprocess.Popen(command, stdout=errors, stderr=errors)
        try:
            eventually(lambda: listens(port) or process.poll() is not None)
            assert process.poll() is None, (folder / "errors.log").read_text()
            yield f"https://localhost:{port}", folder, server
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def client(proxied, monkeypatch):
    url, folder, _ = proxied
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "proxy.pem"))
    with Client(url) as client:
        yield client


@pytest.fixture
def http(proxied):
    url, folder, _ = proxied
    with httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=folder / "proxy.pem")) as http:
        yield http


def test_clients_trust_the_certificates_of_the_machine_and_no_other(proxied, client, monkeypatch):
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


def test_a_websocket_learns_and_predicts_through_it(client):
    client.create_model("sockets", **BASE)
    with client.stream("sockets") as stream:
        learned = [stream.learn([example([k % 2, k % 3], "ab"[k % 2])]) for k in range(50)]
        assert learned[-1].result()["results"][0]["prediction"] == "b"
        assert stream.predict([{"x": [0, 1]}]).result()["results"][0]["prediction"] == "a"


def test_events_come_through_it_while_the_stream_is_open(client):
    client.create_model("followed", **BASE)
    events = client.events("followed", after=0)
    assert next(events)["kind"] == "created"
    client.learn("followed", [example([0, 1], "a")])
    assert [next(events)["kind"] for _ in range(2)] == ["class_added", "learned"]
    events.close()


def test_long_bodies_reach_the_servers_own_limit(http, client):
    client.create_model("long", **BASE)
    rows = [{"id": str(k) * 20, "x": [k % 7, k % 5], "y": "ab"[k % 2]} for k in range(10_000, 19_000)]
    assert len(client.learn("long", rows)["results"]) == 9_000
    answer = http.post("/models/long/learn", content=b" " * 34_000_000, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_a_page_of_the_server_may_write_and_another_may_not(http, proxied):
    url, _, _ = proxied
    assert http.get("/ui").status_code == 200
    assert http.put("/models/paged", json=BASE, headers={"origin": url}).status_code == 201
    foreign = http.put("/models/other", json=BASE, headers={"origin": "https://elsewhere.example"})
    assert foreign.status_code == 403


def test_another_name_gets_no_answer_and_no_ticket_is_logged(http, proxied):
    url, folder, _ = proxied
    with pytest.raises(ssl.SSLError), socket.create_connection(("localhost", int(url.rpartition(":")[2]))) as plain:
        ssl.create_default_context(cafile=folder / "proxy.pem").wrap_socket(plain, server_hostname="elsewhere.example")
    http.get("/models?ticket=secret")
    eventually(lambda: "GET /models" in (folder / "hinged.log").read_text())
    assert "secret" not in (folder / "hinged.log").read_text() + (folder / "errors.log").read_text()


def test_while_the_server_is_started_anew_a_client_asks_again_until_it_is_there(client, proxied):
    server = proxied[2]
    client.create_model("patient", **BASE)
    server.terminate()
    with ThreadPoolExecutor(1) as other:
        learned = other.submit(client.learn, "patient", [example([0, 1], "a")])
        log = proxied[1] / "hinged.log"
        eventually(lambda: '"POST /models/patient/learn" 502' in log.read_text())
        server.start()
        assert learned.result()["results"][0]["duplicate"] is False
