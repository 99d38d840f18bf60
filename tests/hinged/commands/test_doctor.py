import json

import pytest

from tests.helpers.command import hinged

PARTS = {"versions", "machine", "compiled code", "disk", "settings", "server"}


def test_it_describes_the_machine_without_secrets_even_without_a_server(tmp_path):
    env = {
        "HINGED_URL": "http://ann:hidden@127.0.0.1:9",
        "HINGED_KEY": "hidden",
        "HINGED_STORE": "redis://ann:hidden@localhost",
        "HINGED_DATA_DIR": str(tmp_path),
    }
    done = hinged("doctor", "--json", env=env)
    found = json.loads(done.stdout)
    assert found.keys() == PARTS
    assert not any("error" in lines for lines in found.values())
    assert "hidden" not in done.stdout
    assert found["settings"]["HINGED_KEY"] == "set"
    assert "no server answers" in found["server"]["port"]
    assert found["disk"]["fsync"].endswith("bytes")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("env", "address"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"HINGED_PORT": "9"}, "http://127.0.0.1:9"),
        ({"HINGED_PORT": "tcp://10.0.0.1:8000"}, "http://127.0.0.1:8000"),
        ({"HINGED_PORT": "9", "HINGED_URL": "http://127.0.0.1:7"}, "http://127.0.0.1:7"),
    ],
)
def test_it_asks_the_server_that_the_settings_start(env, address):
    done = hinged("doctor", "--json", env={"HINGED_URL": "", **env})
    assert json.loads(done.stdout)["server"]["address"] == address


@pytest.mark.long
def test_it_describes_the_server(real):
    text = hinged("doctor", env={"HINGED_URL": real.url}).stdout
    assert "readyz             200" in text
    assert "s from this machine's" in text
