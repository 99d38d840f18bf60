from hinged import Client
from tests.helpers.fixtures import server_with, speaking

real = server_with()  # the fixture `server` answers by a script
client = speaking(Client, "real")
