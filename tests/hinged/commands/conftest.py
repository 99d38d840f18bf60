from hinged import Client
from tests.helpers.fixtures import server_with, speaking

real = server_with()  # the fixture `server` gives scripted answers
client = speaking(Client, "real")
