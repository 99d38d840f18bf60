import pytest

from hinged.service.settings import Settings


@pytest.mark.parametrize(
    ("value", "names"), [("a.example", ("a.example",)), ("a.example, ::1,", ("a.example", "::1")), ("*", ("*",))]
)
def test_lists_in_the_environment_are_split_at_commas(monkeypatch, value, names):
    monkeypatch.setenv("HINGED_ALLOWED_HOSTS", value)
    assert Settings().allowed_hosts == names
