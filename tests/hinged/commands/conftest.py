import pytest
from running import RunningServer

from hinged import Client


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A real server; `server` is one that answers by a script."""
    with RunningServer(tmp_path_factory.mktemp("commands") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def client(real):
    with Client(real.url) as opened:
        yield opened
