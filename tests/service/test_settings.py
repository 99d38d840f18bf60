import pytest

from hinged.service.settings import Settings


@pytest.mark.parametrize(
    ("value", "names"), [("a.example", ("a.example",)), ("a.example, ::1,", ("a.example", "::1")), ("*", ("*",))]
)
def test_lists_in_the_environment_are_split_at_commas(monkeypatch, value, names):
    monkeypatch.setenv("HINGED_ALLOWED_HOSTS", value)
    assert Settings().allowed_hosts == names


NETWORK = "0.0.0.0"  # noqa: S104


@pytest.mark.parametrize(
    ("settings", "creates"),
    [
        ({}, True),
        ({"host": "::1", "processes": 2}, True),
        ({"store": "redis://127.0.0.1"}, True),
        ({"keys_file": "keys.json"}, False),
        ({"host": NETWORK, "open": True}, False),
        ({"store": "redis://127.0.0.1", "node": "http://127.0.0.1:8000"}, False),
        ({"keys_file": "keys.json", "create": "yes"}, True),
        ({"create": "no"}, False),
        ({"create": ""}, True),
    ],
)
def test_learn_creates_models_on_a_local_server_or_when_configured(settings, creates):
    assert Settings(**settings).creates is creates
