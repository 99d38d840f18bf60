"""One Redis and several servers: which server writes which model."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing

import pytest

from hinged.service.cluster.known import Known
from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Fenced, PositionTaken
from hinged.service.store.redis import RedisStore, claims
from hinged.service.store.redis.shared import SharedRedisStore
from hinged.service.store.shares import OwnedElsewhere
from tests.helpers.store_events import CREATED, ONE

TTL_S = 60.0


@pytest.fixture
def join(redis_server):
    """Returns a function that opens another server on the same store by its address.

    `lost` lists the models that the server loses, and `ended` the reasons why it ends.
    """
    with ExitStack() as stack:

        def joined(address, ttl_s=TTL_S):
            lost, ended = [], []
            store = SharedRedisStore(
                redis_server.url, address=address, ttl_s=ttl_s, on_lost=lost.append, on_fenced=ended.append
            )
            store.lost, store.ended = lost, ended
            return stack.enter_context(closing(store))

        yield joined


def claim(store, model):
    return store.claim(model, store.owner(model).epoch)


def test_two_servers_each_write_a_model(join):
    a, b = join("http://a"), join("http://b")
    a.create("m", CREATED)
    b.create("n", CREATED)
    assert (a.append("m", 1, [ONE]), b.append("n", 1, [ONE])) == (2, 2)
    assert (a.models(), b.models()) == (["m"], ["n"])
    assert a.owner("n").address == "http://b"


def test_a_server_that_loses_a_model_writes_it_no_more_and_goes_on_with_its_other_models(join):
    a, b = join("http://a"), join("http://b")
    a.create("m", CREATED)
    a.create("n", CREATED)
    a.put_snapshot("m", 1, b"state")
    assert claim(b, "m")
    for write in (
        lambda: a.append("m", 1, [ONE]),
        lambda: a.put_snapshot("m", 1, b"other"),
        lambda: a.trim("m", 1),
        lambda: a.redact("m", 1, {1: ONE}, []),
        lambda: a.delete("m"),
        lambda: a.release("m", "http://c"),
    ):
        with pytest.raises(Fenced, match="another server has claimed model m"):
            write()
    assert set(a.lost) == {"m"}
    assert a.ended == []
    assert a.models() == ["n"]
    assert a.append("n", 1, [ONE]) == 2
    assert b.append("m", 1, [ONE]) == 2
    assert b.get_snapshot("m", 1) == b"state"


def test_of_many_simultaneous_claims_of_a_model_one_succeeds(join):
    join("http://first").create("m", CREATED)
    stores = [join(f"http://{n}") for n in range(6)]
    epoch, got = stores[0].owner("m").epoch, []
    claims = [threading.Thread(target=lambda s=s: got.append(s.claim("m", epoch))) for s in stores]
    for one in claims:
        one.start()
    for one in claims:
        one.join()
    assert sorted(got) == [False] * 5 + [True]


def test_of_two_servers_that_create_the_same_model_one_does(join):
    a, b = join("http://a"), join("http://b")
    a.create("m", CREATED)
    with pytest.raises(OwnedElsewhere, match="model m"):
        b.create("m", CREATED)
    assert a.append("m", 1, [ONE]) == 2
    assert b.models() == []


def test_a_released_model_is_written_by_nobody_until_it_is_claimed(join):
    a, b = join("http://a"), join("http://b")
    a.create("m", CREATED)
    a.release("m", "http://b")
    with pytest.raises(Fenced):
        a.append("m", 1, [ONE])
    assert b.owner("m").address == "http://b"
    assert claim(b, "m")
    assert b.append("m", 1, [ONE]) == 2


def test_a_deleted_model_may_be_created_anywhere(join):
    a, b = join("http://a"), join("http://b")
    a.create("m", CREATED)
    a.delete("m")
    b.create("m", CREATED)
    assert b.append("m", 1, [ONE]) == 2
    with pytest.raises(OwnedElsewhere):
        a.create("m", CREATED)


def test_a_sign_of_life_returns_the_living_servers_and_the_owners(join):
    a, b = join("http://a"), join("http://b", ttl_s=0.001)
    a.create("m", CREATED)
    told = a.beat('{"models": 1}')
    sign = told.nodes["http://a"]
    assert (sign.lives, sign.figures) == (True, '{"models": 1}')
    assert sign.age_s < 60
    assert not told.nodes["http://b"].lives
    assert told.owners["m"][1] == "http://a"
    assert told.models == {"m"}
    b.close()
    assert "http://b" not in a.beat("{}").nodes


def test_a_sign_of_life_returns_the_changes_since_an_earlier_one(join):
    a, b = join("http://a"), join("http://b")
    a.create("m", CREATED)
    whole = b.beat("{}")
    assert (whole.changed, whole.models) == (None, {"m"})
    quiet = b.beat("{}", whole.mark)
    assert (quiet.changed, quiet.owners, quiet.models) == (frozenset(), {}, frozenset())
    b.create("n", CREATED)
    a.release("m", "http://b")
    told = b.beat("{}", quiet.mark)
    assert told.changed == {"m", "n"} == told.models
    assert {name: owner for name, (_, owner) in told.owners.items()} == {"m": "http://b", "n": "http://b"}
    b.delete("n")
    gone = b.beat("{}", told.mark)
    assert (gone.changed, gone.owners, gone.models) == ({"n"}, {}, frozenset())
    assert b.beat("{}", 1).changed is None  # changes since then are no longer known


def test_the_changes_between_signs_of_life_add_up_to_everything(join):
    a, b = join("http://a"), join("http://b")
    known = Known()
    for name in ("m", "n"):
        a.create(name, CREATED)
        known.take(b.beat("{}", known.since))
    a.delete("m")
    a.release("n", "http://b")
    assert known.take(b.beat("{}", known.since)) == {"m", "n"}
    assert claim(b, "n")
    known.take(b.beat("{}", known.since))
    whole = b.beat("{}")
    assert (known.models, known.owners) == (whole.models, whole.owners)
    assert known.living() == {"http://a", "http://b"}


def test_a_redis_that_has_lost_the_last_sign_of_life_returns_everything(redis_server, join):
    a, b = join("http://a"), join("http://b")
    a.create("m", CREATED)
    mark = b.beat("{}").mark
    with redis_server.client() as client:
        before = client.hget("hinged:{-}:nodes", "http://b")
        mark = b.beat("{}", mark).mark
        a.release("m", "http://b")
        mark = b.beat("{}", mark).mark
        client.hset("hinged:{-}:nodes", "http://b", before)  # as a crash that also loses the report of the release
        client.hdel("hinged:{-}:owners", "m")
        client.delete("hinged:{-}:changes")
    told = b.beat("{}", mark)
    assert (told.changed, told.models, told.owners) == (None, {"m"}, {})
    assert b.beat("{}", told.mark).changed == frozenset()


def test_a_claim_stands_though_its_report_is_lost(join, monkeypatch):
    a, b = join("http://a"), join("http://b")
    a.create("m", CREATED)
    a.release("m", "http://b")
    call = b._nodes.call

    def lossy(script, *told, **how):
        if script is claims.SAY:
            raise StoreUnavailable("lost")
        return call(script, *told, **how)

    monkeypatch.setattr(b._nodes, "call", lossy)
    assert claim(b, "m")
    assert b.append("m", 1, [ONE]) == 2


def test_the_owners_of_many_models_are_asked_for_at_once(join):
    a = join("http://a")
    for name in ("m", "n"):
        a.create(name, CREATED)
    found = a.owners(["m", "none", "n"])
    assert found == {name: a.owner(name) for name in ("m", "none", "n")}
    assert found["m"].exists
    assert not found["none"].exists


def test_of_two_servers_under_one_address_the_later_goes_on(join):
    a = join("http://a")
    a.create("m", CREATED)
    again = join("http://a")
    with pytest.raises(Fenced, match="another server runs under the address http://a"):
        a.beat("{}")
    assert a.ended == ["another server runs under the address http://a"]
    assert claim(again, "m")
    again.beat("{}")


def test_a_server_that_takes_the_whole_store_ends_the_servers_that_share_it(redis_server, join):
    a = join("http://a")
    a.create("m", CREATED)
    with closing(RedisStore(redis_server.url)) as single:
        with pytest.raises(Fenced):
            a.beat("{}")
        with pytest.raises(Fenced):
            a.append("m", 1, [ONE])
        assert len(a.ended) == 1
        assert single.append("m", 1, [ONE]) == 2
        assert single.models() == ["m"]


def test_the_models_of_a_store_that_one_server_had_are_claimed_one_by_one(redis_server, join):
    with closing(RedisStore(redis_server.url)) as single:
        single.create("m", CREATED)
        a = join("http://a")
        found = a.owner("m")
        assert (found.address, found.exists, found.end) == ("", True, 1)
        assert claim(a, "m")
        assert a.append("m", 1, [ONE]) == 2
        with pytest.raises(Fenced, match="taken over the store"):
            single.append("m", 2, [ONE])
    with pytest.raises(PositionTaken):
        a.append("m", 1, [ONE])
