"""The model of Redis and a real Redis get the same commands, and must give the same answers and hold the same data."""

from contextlib import ExitStack, closing, suppress
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Damaged, Event
from hinged.service.store.redis import claims, scripts
from hinged.service.store.redis.nodes import Nodes
from hinged.service.store.redis.shared import SharedRedisStore
from tests.helpers.redis_server import RedisServer

SCRIPTS = {
    each.sha: each.text
    for room in (claims, scripts)
    for each in vars(room).values()
    if isinstance(each, scripts.Script)
}
UNORDERED = {claims.BEAT.sha, scripts.OPEN.sha}  # scripts whose answers list a set
STEPS = (
    "create", "append", "append", "append", "find", "read", "put", "get", "trim", "redact", "claim", "release",
    "delete", "beat", "end", "give_up", "secret", "late",
)  # fmt: skip


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


class Pair:
    """A real Redis and a model. Commands go to both; Redis's clock is replaced, because no two clocks are the same."""

    def __init__(self):
        from tests.seeds.redis_model import RedisModel  # noqa: PLC0415  it needs lupa

        self.model = RedisModel(lambda: 0.0)
        self.count = 0

    def converse(self, usual):
        def both(nodes, connection, command, *, wait):
            command, unordered = self._timed(command)
            try:
                real = usual(nodes, connection, command, wait=wait)
            except StoreUnavailable:
                self.refuses(command)
                raise
            assert _plain(self.model.execute(*command), unordered) == _plain(real, unordered), command
            return real

        return both

    def refuses(self, command):
        """Check that the model refuses a command, too."""
        with pytest.raises(Exception, match=r"^(ERR|WRONGTYPE)"):
            self.model.execute(*command)

    def _timed(self, command):
        """Return a command whose script takes the time from the number of commands so far, and whether its answer is
        unordered.
        """
        if command[0] != "EVALSHA":
            return command, command[0] == "SMEMBERS"
        self.count += 1
        now = f"{{'1700000000', '{self.count}'}}"
        return ("EVAL", SCRIPTS[command[1]].replace("redis.call('TIME')", now), *command[2:]), command[1] in UNORDERED

    def compare(self, client):
        """Compare the data."""
        keys = set(client.keys())
        assert keys == self.model.data.keys()
        for key in keys:
            assert (client.pttl(key) > 0) == (key in self.model.expires), key
            held = self.model.data[key]
            match client.type(key):
                case b"string":
                    assert client.get(key) == held
                case b"hash":
                    assert client.hgetall(key) == held
                case b"set":
                    assert client.smembers(key) == held
                case b"zset":
                    assert dict(client.zrange(key, 0, -1, withscores=True)) == held
                case b"stream":
                    entries = [(b"%d-0" % at, dict(zip(f[::2], f[1::2], strict=True))) for at, f in held.items()]
                    assert client.xrange(key) == entries
                    assert client.xinfo_stream(key)["last-generated-id"] == b"%d-0" % held.last


def _plain(answer, unordered):
    if isinstance(answer, list):
        parts = [_plain(part, unordered) for part in answer]
        return sorted(parts) if unordered and all(isinstance(part, bytes) for part in parts) else parts
    return answer.encode() if isinstance(answer, str) else answer


def do(store, other, step, model, number):
    end = 0
    with suppress(StoreUnavailable, KeyError):
        end = store.end(model)
    events = [Event("kind", b"%d" % number * (k + 1), (f"id{number % 7}", f"more{k}")) for k in range(number % 3 + 1)]
    at = number % (end + 1)
    match step:
        case "create":
            store.create(model, events[0])
        case "append":
            store.append(model, end, events)
        case "late":
            store.append(model, at, events)
        case "find":
            store.find(model, [f"id{number % 7}", "none"])
        case "read":
            list(store.read_around(model, at))
        case "put":
            store.put_snapshot(model, at, b"state%d" % number)
        case "get":
            for position in store.snapshots(model):
                store.get_snapshot(model, position)
        case "trim":
            store.trim(model, at)
        case "redact":
            store.redact(model, at, {at: Event("less", b"")} if at else {}, [f"id{number % 7}"])
        case "claim":
            store.claim(model, store.owner(model).epoch)
        case "release":
            store.release(model, other)
        case "delete":
            store.delete(model)
        case "beat":
            store.beat("{}", number % 2 * 1_700_000_000_000_000)
        case "give_up":
            store._unknown[model] = number
            store._give_up(model)
        case "secret":
            store.secret()


step = st.tuples(st.booleans(), st.sampled_from(STEPS), st.sampled_from(["m", "n"]), st.integers(0, 1000))


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(step, min_size=5, max_size=40))
def test_the_model_answers_as_redis_does_and_holds_the_same(redis, steps):
    pair = Pair()
    with Redis.from_url(redis.url) as client:
        client.flushall()
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(Nodes, "_converse", pair.converse(Nodes._converse)))
            a, b = (
                stack.enter_context(closing(SharedRedisStore(redis.url, address=address, ttl_s=9.0)))
                for address in ("http://a", "http://b")
            )
            a.create("m", Event("first", b"1"))
            for first, *what in steps:
                store, other = (a, "http://b") if first else (b, "http://a")
                with suppress(StoreUnavailable, KeyError, Damaged, ValueError):
                    do(store, other, *what)
            pair.compare(client)
