from tests.helpers.fixtures import server_with, speaking
from tests.helpers.http_client import Asking

server = server_with("session")  # with every setting at its default, for all tests that need no other
ask = speaking(Asking, scope="session")
