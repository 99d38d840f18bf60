"""The client's address: the server believes a proxy that the settings name, and no other sender."""

import httpx
import pytest

from hinged.service.edge.keys import create_key
from hinged.service.settings import Settings
from tests.helpers.server import PATIENCE_S, PLAIN, RunningServer, eventually

UNKNOWN = "a key that is not known, from "
FORGED = {"authorization": "Bearer nobody", "x-forwarded-for": "203.0.113.7"}
NAMES = [f"m{k}" for k in range(8)]
"""Names of models. Each of the two processes owns some of the models."""


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("proxies", "seen"),
    [
        ("", "127.0.0.1"),
        ("127.0.0.1", "203.0.113.7"),
        ("192.0.2.0/24,127.0.0.0/8", "203.0.113.7"),
        ("::1", "127.0.0.1"),
    ],
)
def test_the_log_has_the_clients_address(tmp_path, processes, proxies, seen):
    create_key(tmp_path / "keys.json", "admin", "admin")
    more = {"keys_file": tmp_path / "keys.json", "processes": processes, "proxies": proxies}
    with RunningServer(tmp_path / "data", **more) as server:
        for name in NAMES:
            answer = httpx.get(f"{server.url}/models/{name}", headers=FORGED, timeout=PATIENCE_S, verify=PLAIN)
            assert answer.status_code == 401
        eventually(lambda: server.log.read_text().count(UNKNOWN) == len(NAMES))
        assert server.log.read_text().count(UNKNOWN + seen) == len(NAMES)


def test_an_invalid_address_of_a_proxy_is_refused_at_the_start(tmp_path):
    code, said = RunningServer(tmp_path / "data", proxies="127.0.0.1,proxy.example").run()
    assert code == 1
    assert "HINGED_PROXIES" in said
    assert "'proxy.example'" in said
    assert Settings(proxies=("10.0.0.0/8",)).proxies == ("10.0.0.0/8",)
