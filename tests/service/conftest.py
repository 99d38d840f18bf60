import pytest

from tests.helpers.http_client import Asking
from tests.helpers.server import RunningServer


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server with every setting at its default, shared by all tests that do not need another."""
    with RunningServer(tmp_path_factory.mktemp("shared") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def ask(server):
    with Asking(server.url) as asking:
        yield asking
