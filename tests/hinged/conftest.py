import pytest

from tests.helpers.scripted_server import scripted
from tests.helpers.server import free_port


@pytest.fixture
def server():
    with scripted() as running:
        yield running


@pytest.fixture
def free_url():
    """Return a URL at which nothing listens."""
    return f"http://127.0.0.1:{free_port()}"
