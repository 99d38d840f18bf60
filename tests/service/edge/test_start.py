"""The server's messages when it starts, or the reason why it does not start."""

import os
import re
import socket
from contextlib import closing

import pytest

import hinged
from hinged.service.edge.keys import create_key
from hinged.service.edge.start import refuse_taken_address, unknown_names
from hinged.service.settings import Settings
from tests.helpers.server import RunningServer

NOT_TO_BE_SENT = "hinged: HINGED_LABELSTUDIO_TOKEN: it must be one line of ASCII, without control characters\n"


def test_a_port_in_use_is_reported_in_one_line_before_anything_else_is_done(tmp_path):
    server = RunningServer(tmp_path / "data")
    with closing(socket.create_server(("127.0.0.1", server.port))):
        code, words = server.run()
    assert code == 1
    (line,) = words.splitlines()
    assert line == (
        f"hinged: cannot listen on {server.url}: address already in use. "
        "Another port: --port or HINGED_PORT, 0 takes a free one"
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"cache_mb": "0", "node": "http://ann:secret@a", "points_maxx": "3"},
            (
                "hinged: HINGED_CACHE_MB: Input should be greater than 0, got '0'\n"
                "HINGED_NODE: String should match pattern '^https?://[^/?#@ ]+$', got 'http://...@a'\n"
                "HINGED_POINTS_MAXX is not a setting, did you mean HINGED_POINTS_MAX?\n"
            ),
        ),
        (
            {"host": "0.0.0.0", "opem": "yes"},  # noqa: S104
            r"hinged: .* HINGED_OPEN=.*\nHINGED_OPEM is not a setting, did you mean HINGED_OPEN\?\n",
        ),
        # The message for a header that cannot be sent must not contain its value.
        ({"labelstudio_token": "secret\nsecret"}, NOT_TO_BE_SENT),
        ({"labelstudio_token": "secrét"}, NOT_TO_BE_SENT),
        ({"labelstudio_token": " "}, NOT_TO_BE_SENT),
    ],
)
def test_unknown_settings_are_reported_below_the_reason_why_the_server_does_not_start(tmp_path, settings, said):
    code, words = RunningServer(tmp_path / "data", **settings).run()
    assert code == 1
    assert words == said or re.fullmatch(said, words)


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_an_address_of_another_machine_is_reported_too(host):
    with pytest.raises(Exception, match=re.escape(host)):
        refuse_taken_address(Settings(host=host, port=0))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])  # noqa: S104
def test_a_check_leaves_a_free_port_free(host):
    for _ in range(2):
        refuse_taken_address(Settings(host=host, port=0))


def test_unknown_names_that_look_like_settings_are_reported_with_the_nearest_setting():
    names = ["HINGED_POINT_MAX", "HINGED_ZEBRA", "HINGED_URL", "HINGED_KEY", "HINGED_PORT", "hinged_port", "PORT"]
    assert unknown_names(names) == [
        "HINGED_POINT_MAX is not a setting, did you mean HINGED_POINTS_MAX?",
        "HINGED_ZEBRA is not a setting",
    ]


def test_a_former_setting_is_reported_with_its_constant_value_and_the_server_starts(tmp_path):
    with RunningServer(tmp_path / "data", tickets_max=5, heartbeat_s=2.5) as server:
        log = server.log.read_text()
    assert "HINGED_TICKETS_MAX is a constant now, 10000, and no longer a setting" in log
    assert "HINGED_HEARTBEAT_S is a constant now, 15.0, and no longer a setting" in log


def test_the_first_log_lines_name_version_address_store_and_access(tmp_path):
    create_key(tmp_path / "keys.json", "ann", "admin")
    with RunningServer(tmp_path / "data", keys_file=tmp_path / "keys.json", shutdown="3") as server:
        first, second = server.log.read_text().splitlines()[:2]
    assert first.endswith(
        f"hinged {hinged.__version__} on {server.url}, store sqlite in {tmp_path / 'data'}, "
        f"1 keys in {os.fspath(tmp_path / 'keys.json')}"
    )
    assert second.endswith(
        " WARNING hinged.service.edge.start: HINGED_SHUTDOWN is not a setting, did you mean HINGED_SHUTDOWN_S?"
    )
    with RunningServer(tmp_path / "other") as server:
        assert "no keys, everyone who reaches it may do everything" in server.log.read_text().splitlines()[0]
