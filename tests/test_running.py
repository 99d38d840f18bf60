"""The tests' servers are forked."""

import pytest

from tests.helpers import server, zygote


@pytest.mark.server
@pytest.mark.parametrize("test", ["first", "second"])
def test_the_server_of_each_test_is_forked(tmp_path, test):
    with server.RunningServer(tmp_path / test) as running:
        assert isinstance(running.process, zygote.Forked) == bool(server.forked)
