from tests.helpers.fixtures import server_with, speaking
from tests.helpers.http_client import Asking

server = server_with("session")  # has default settings, and serves all tests that need no server of their own
ask = speaking(Asking, scope="session")
