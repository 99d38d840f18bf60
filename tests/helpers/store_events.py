"""What tests of stores put in, and how they read it."""

from hinged.service.store.base import Event

CREATED = Event("created", b"{}")
ONE = Event("learned", b"1", ("a",))
EMPTY = Event("redacted", b"")
"""What stands in the place of a redacted one."""
SECRETS = ["secret-payload", "secret-id"]
SECRET = Event("learned", b"secret-payload", ("secret-id",))
OPEN = Event("learned", b"open", ("open-id",))


def log(store, model, after=0):
    return [(position, event.kind, event.payload) for position, event in store.read(model, after)]


def payloads(store, model="m"):
    return [event.payload for _, event in store.read(model, 0)]


def with_a_secret(store):
    store.create("m", CREATED)
    store.append("m", 1, [OPEN, SECRET, OPEN])
    return store


def redact(store):
    """Take that secret out."""
    store.redact("m", 4, {3: EMPTY}, ["secret-id"])


def now_and_reopened(store, reopen):
    yield store
    yield reopen()


def keys(server, pattern="*"):
    """Those of a Redis server."""
    with server.client() as client:
        return sorted(client.keys(pattern))
