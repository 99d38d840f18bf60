from hinged import Client
from tests.helpers.fixtures import server_with, speaking

real = server_with()  # `server` is one that answers by a script
client = speaking(Client, "real")
