"""What starts the tests' servers."""

import pytest
import running
import zygote
from running import RunningServer


@pytest.mark.parametrize("test", ["first", "second"])
def test_the_server_of_each_test_is_forked(tmp_path, test):
    with RunningServer(tmp_path / test) as server:
        assert isinstance(server.process, zygote.Forked) == bool(running.forked)
