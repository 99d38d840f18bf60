"""No secret of the server gets out: not by an answer, an error, a metric, an export, the log, or a command."""

import re

import pytest

from hinged.operations import DECLARED
from hinged.operations.base import PARAMETER
from hinged.service.edge.keys import create_key
from tests.helpers.command import hinged
from tests.helpers.http_client import BASE, Asking, bearer, example
from tests.helpers.redis_server import PASSWORD, RedisServer
from tests.helpers.server import RunningServer

pytestmark = pytest.mark.long

TOKEN = "token-4711"  # noqa: S105  no server knows it
HOOKS_SECRET = "hooks-4711 " + "x" * 32
VALUES = {"model": "m", "example": "1", "lease": "1", "position": "1", "at": "1"}
HOOK = {"url": "http://127.0.0.1:9/", "events": ["drift"]}
BODIES = ({}, BASE, {"x": [0, 1], "y": "up"}, {"annotator": "ann"}, HOOK, {"position": 10**6}, [], {"x": {"a": "b"}})


def asked_for(ask, headers):
    """Return all that the server answers to each operation with many bodies: status, headers and body as text."""
    answers = []
    for operation in DECLARED:
        path = PARAMETER.sub(lambda found: VALUES.get(found[1], "1"), operation.path)
        if path == "/tickets" or operation.path.endswith(("/events", "/stream")):
            continue  # a ticket is for the caller; the answers of streams do not end
        for body in (None,) if operation.method == "GET" else BODIES:
            answer = ask(operation.method, path, json=body, headers=headers)
            answers.append(f"{operation.method} {path}: {answer.status_code} {answer.headers} {answer.text}")
        if operation.method in ("DELETE", "PUT"):
            ask("PUT", "/models/m", json=BASE, headers=headers)
            ask("POST", "/models/m/learn", json=example([0, 1], "up", "1"), headers=headers)
    return answers


def test_no_answer_and_no_line_of_the_log_has_a_secret(tmp_path):
    key = create_key(tmp_path / "keys.json", "ann", "admin")
    with RedisServer(tmp_path / "redis") as redis:
        settings = {
            "store": redis.url,
            "redis_timeout_s": 1,
            "keys_file": tmp_path / "keys.json",
            "labelstudio_url": "http://127.0.0.1:9",
            "labelstudio_token": TOKEN,
            "hooks_secret": HOOKS_SECRET,
            "hooks_hosts": "http://127.0.0.1:9",
            "log_requests": "yes",
        }
        with RunningServer(tmp_path / "data", **settings) as server, Asking(server.url) as ask:
            headers = bearer(key)
            assert ask("PUT", "/models/m", json=BASE, headers=headers).status_code == 201
            said = asked_for(ask, headers)
            said.append(ask("GET", "/models", headers={"authorization": f"Bearer {key}x"}).text)
            said.append(
                ask("POST", "/labelstudio/models/m/predict", json={"tasks": [], "project": "1.1"}, headers=headers).text
            )
            redis.stop()
            lost = ask("POST", "/models/m/learn", json=example([1, 0], "down", "2"), headers=headers)
            assert lost.status_code == 503
            said += [lost.text, ask("GET", "/readyz").text, ask("GET", "/metrics", headers=headers).text]
            server.terminate()
            said.append(server.log.read_text())
    assert len(said) > 100
    assert any(" 200 " in each for each in said)
    for each in said:
        assert not re.search("|".join(map(re.escape, (key, PASSWORD, TOKEN, HOOKS_SECRET))), each), each[:2000]


PASSWORDS = ("s3same", "s3same@home", "a/s3same", "s3same:6379", "%s3same", "s3same#1", "s3same?x=1")
COMMANDS = [("doctor", password) for password in PASSWORDS]
COMMANDS += [(name, PASSWORDS[k]) for name in ("serve", "restore") for k in (1, 5)]


@pytest.mark.parametrize(("command", "password"), COMMANDS)
def test_no_command_shows_the_password_of_a_store(tmp_path, command, password):
    """Passwords with characters that a URL must quote are what people forget to quote."""
    env = {
        "HINGED_DATA_DIR": str(tmp_path / "data"),
        "HINGED_STORE": f"redis://ann:{password}@127.0.0.1:9/x",
        "HINGED_PORT": "0",
    }
    done = hinged(command, *([str(tmp_path / "absent")] if command == "restore" else []), code=None, env=env)
    assert done.stdout + done.stderr
    assert "s3same" not in done.stdout + done.stderr
