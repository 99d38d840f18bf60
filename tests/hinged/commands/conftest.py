import pytest

from hinged import Client
from tests.helpers.server import RunningServer


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A real server; `server` is one that answers by a script."""
    with RunningServer(tmp_path_factory.mktemp("commands") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def client(real):
    with Client(real.url) as opened:
        yield opened
