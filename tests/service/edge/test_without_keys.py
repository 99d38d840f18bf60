"""A server without keys does not listen to other machines, unless its settings allow it."""

import os

import pytest

from hinged.service.edge.keys import create_key
from hinged.service.settings import is_loopback
from tests.helpers.http_client import Asking
from tests.helpers.server import RunningServer


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("example", False),
    ],
)
def test_only_addresses_that_no_other_machine_reaches_are_loopback(host, loopback):
    assert is_loopback(host) is loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.invalid"])  # noqa: S104
def test_a_server_without_keys_does_not_listen_to_other_machines(tmp_path, host):
    code, words = RunningServer(tmp_path / "data", host=host).run()
    assert code == 1
    (line,) = words.splitlines()
    assert host in line
    for word in ("hinged keys create", "HINGED_KEYS_FILE", "HINGED_OPEN=yes"):
        assert word in line
    assert not (tmp_path / "data").exists()


def test_with_keys_or_when_configured_the_server_listens_to_other_machines(tmp_path):
    create_key(tmp_path / "keys.json", "a", "reader")
    for more in ({"open": "yes"}, {"keys_file": tmp_path / "keys.json"}):
        with RunningServer(tmp_path / "data", host="0.0.0.0", **more) as server, Asking(server.url) as ask:  # noqa: S104
            assert ask("GET", "/healthz").status_code == 200
            server.terminate()


@pytest.mark.parametrize("content", [None, "{"])
def test_a_key_file_that_cannot_be_read_ends_the_start(tmp_path, content):
    path = tmp_path / "keys.json"
    if content is not None:
        path.write_text(content)
    code, words = RunningServer(tmp_path / "data", keys_file=path).run()
    assert code == 1
    assert len(words.splitlines()) == 1
    assert os.fspath(path) in words
