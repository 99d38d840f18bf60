"""Events that tests put into stores, and short forms to read them."""

from hinged.service.store.base import Event

CREATED = Event("created", b"{}")
ONE = Event("learned", b"1", ("a",))
EMPTY = Event("redacted", b"")
"""The event that replaces a redacted event."""
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
    """Redact the event SECRET at position 3, and its id."""
    store.redact("m", 4, {3: EMPTY}, ["secret-id"])


def now_and_reopened(store, reopen):
    yield store
    yield reopen()


def keys(server, pattern="*"):
    """The keys of a Redis server that match a pattern, sorted."""
    with server.client() as client:
        return sorted(client.keys(pattern))
