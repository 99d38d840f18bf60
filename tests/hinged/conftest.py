import threading

import pytest

from tests.helpers.scripted_server import ScriptedServer
from tests.helpers.server import free_port


@pytest.fixture
def server():
    with ScriptedServer() as scripted:
        thread = threading.Thread(target=scripted.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield scripted
        scripted.shutdown()
        thread.join()


@pytest.fixture
def free_url():
    """Return a URL at which nothing listens."""
    return f"http://127.0.0.1:{free_port()}"
