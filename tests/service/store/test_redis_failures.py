"""Redis is unavailable, slow or out of memory, or contains the remains of a torn log or of a crash."""

from __future__ import annotations

from contextlib import closing, suppress

import pytest

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import SNAPSHOT_CHUNK_BYTES, Damaged, Event, OutcomeUnknown
from hinged.service.store.redis import RedisStore
from tests.helpers.redis_server import PASSWORD
from tests.helpers.server import eventually
from tests.helpers.store_events import CREATED, ONE, keys, payloads


@pytest.fixture
def backend(on_redis):
    return on_redis


# -- failures on the way --------------------------------------------------------------------------------------------


def test_the_store_does_not_wait_for_an_answer_beyond_the_timeout(redis_server, proxy):
    with closing(RedisStore(redis_server.url)) as store:
        store.create("m", CREATED)
    opened = []

    def hasty():  # the connection itself may take longer than the timeout
        with suppress(StoreUnavailable):
            opened.append(RedisStore(f"redis://:{PASSWORD}@127.0.0.1:{proxy.port}", timeout_s=0.4))
        return opened

    eventually(hasty)
    with closing(opened[0]) as store:
        proxy.hold()
        with pytest.raises(StoreUnavailable):
            store.append("m", 1, [ONE])
        proxy.deliver()


def calls(redis_server):
    """Return how many scripts Redis has run by their hash."""
    with redis_server.client() as client:
        return client.info("commandstats")["cmdstat_evalsha"]["calls"]


def test_an_append_that_arrives_after_it_was_given_up_is_refused(redis_server, proxy, through):
    through.append("m", 1, [CREATED])  # now Redis knows the script
    proxy.keep()
    with pytest.raises(OutcomeUnknown):
        through.append("m", 2, [Event("learned", b"late")])
    assert through.end("m") == 2
    before = calls(redis_server)
    proxy.deliver()
    assert calls(redis_server) == before + 1  # the append arrived, and was refused
    with redis_server.client() as client:
        assert client.xlen("hinged:{m}:log") == 2
    assert through.append("m", 2, [Event("learned", b"next")]) == 3
    assert payloads(through, "m") == [b"{}", b"{}", b"next"]


def test_an_append_that_lasted_although_its_answer_was_lost_is_found(proxy, through):
    through.append("m", 1, [CREATED])  # now Redis knows the script
    proxy.lose()
    with pytest.raises(OutcomeUnknown):
        through.append("m", 2, [ONE])
    assert through.end("m") == 3
    assert through.find("m", ["a"]) == {"a": 3}


def test_an_append_that_was_given_up_reaches_no_later_model_of_the_name(redis_server, proxy, through):
    through.append("m", 1, [CREATED])  # now Redis knows the script
    proxy.keep()
    with pytest.raises(OutcomeUnknown):
        through.append("m", 2, [Event("learned", b"late")])
    through.delete("m")
    through.create("m", CREATED)
    through.append("m", 1, [ONE])
    before = calls(redis_server)
    proxy.deliver()
    assert calls(redis_server) == before + 1
    assert payloads(through, "m") == [b"{}", b"1"]


def test_a_cut_connection_costs_at_most_one_request(proxy, through):
    end = 1
    for _ in range(5):
        proxy.cut()
        try:
            end = through.append("m", end, [ONE])
        except OutcomeUnknown:
            end = through.end("m")
        end = through.append("m", end, [ONE])
    assert end >= 6


def test_a_server_that_is_down_is_unavailable_and_takes_writes_when_it_is_back(redis_server, store, model):
    redis_server.kill()
    for call in (store.models, lambda: store.end(model), lambda: store.append(model, 1, [ONE])):
        with pytest.raises(StoreUnavailable) as refused:
            call()
        assert not isinstance(refused.value, OutcomeUnknown)
    redis_server.start()
    assert store.append(model, 1, [ONE]) == 2


def test_a_server_out_of_memory_writes_nothing_and_goes_on_once_it_has_some(redis_server, store, model):
    with redis_server.client() as client:
        client.config_set("maxmemory", "1mb")
        with pytest.raises(StoreUnavailable, match="maxmemory") as refused:
            store.append(model, 1, [ONE] * 5)
        assert not isinstance(refused.value, OutcomeUnknown)
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            store.put_snapshot(model, 1, b"state")
        assert store.end(model) == 1
        assert store.snapshots(model) == []
        client.config_set("maxmemory", 0)
    assert store.append(model, 1, [ONE]) == 2


def test_without_free_memory_the_store_still_opens_trims_and_deletes(redis_server, store, model, reopen):
    store.append(model, 1, [Event("learned", bytes(2**20), (f"id{n}",)) for n in range(8)])
    store.create("n", CREATED)
    store.append("n", 1, [Event("learned", bytes(2**20)) for n in range(8)])
    store.put_snapshot("n", 9, bytes(2**20))
    with redis_server.client() as client:
        client.config_set("maxmemory", "4mb")
        store = reopen()
        for name, end in (model, 9), ("n", 9):
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                store.append(name, end, [ONE])
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            store.create("o", CREATED)
        store.trim(model, 8)
        assert [at for at, _ in store.read(model, 0)] == [9]
        assert store.find(model, ["id0", "id7"]) == {"id7": 9}
        store.delete("n")
        assert store.models() == [model]
        assert client.smembers("hinged:{-}:models") == {model}
        eventually(lambda: client.info("memory")["used_memory"] <= 4 * 2**20)  # Redis frees memory in the background
        assert store.append(model, 9, [ONE]) == 10


def test_without_free_memory_the_outcome_of_an_append_is_still_found(redis_server, proxy, through):
    through.append("m", 1, [CREATED])
    proxy.lose()
    with pytest.raises(OutcomeUnknown):
        through.append("m", 2, [ONE])
    with redis_server.client() as client:
        client.config_set("maxmemory", "1mb")
    assert through.end("m") == 3


# -- the files on disk ----------------------------------------------------------------------------------------------


def test_a_torn_log_keeps_its_whole_appends_and_no_half_append(redis_server, store, model, reopen):
    for n in range(1, 20, 2):
        store.append(model, n, [Event("learned", b"first of two"), Event("learned", b"second of two")])
    reopen.close()
    redis_server.kill()
    (path,) = redis_server.log_files()
    content = path.read_bytes()
    ends = set()
    for cut in range(len(content) - 1, content.rindex(b"first of two") - 400, -37):
        path.write_bytes(content[:cut])
        redis_server.start()
        with closing(RedisStore(redis_server.url)) as opened:
            ends.add(opened.end(model))
            assert payloads(opened, model) == [b"{}"] + [b"first of two", b"second of two"] * (opened.end(model) // 2)
        redis_server.kill()
    assert ends == {17, 19}
    redis_server.start()


def test_a_snapshot_without_a_chunk_is_damaged(redis_server, store, model):
    store.put_snapshot(model, 1, bytes(2 * SNAPSHOT_CHUNK_BYTES + 1))
    (key,) = keys(redis_server, "*snapshots:*")
    with redis_server.client() as client:
        client.hdel(key, 1)
    with pytest.raises(Damaged, match="snapshot of m at position 1"):
        store.get_snapshot(model, 1)


@pytest.mark.parametrize("record", ["", "name", "name 1 99 00", "name -1 x 00", "name 1 5 00", "\xff"])
def test_a_snapshot_with_an_invalid_record_is_damaged(redis_server, store, model, record):
    store.put_snapshot(model, 1, b"state")
    with redis_server.client() as client:
        name = client.hget("hinged:{m}:snapshots", 1).split()[0]
        client.hset("hinged:{m}:snapshots", 1, record.replace("name", name).encode("latin-1"))
    with pytest.raises(Damaged, match="snapshot of m at position 1"):
        store.get_snapshot(model, 1)


def test_a_missing_or_foreign_event_is_damage(redis_server, store, model):
    store.append(model, 1, [ONE, ONE])
    with redis_server.client() as client:
        client.xdel("hinged:{m}:log", "2-0")
    with pytest.raises(Damaged, match="event 2 of m is missing"):
        list(store.read(model, 1))
    with redis_server.client() as client:
        client.xadd("hinged:{m}:log", {"theirs": 1}, id="4-0")
        client.hset("hinged:{m}:meta", "end", 4)
    with pytest.raises(Damaged, match="event 4 of m fails its checksum"):
        list(store.read(model, 3))


def test_a_deleted_model_leaves_only_its_fence_for_a_day(redis_server, store, model):
    store.append(model, 1, [ONE])
    store.put_snapshot(model, 2, b"state")
    store.delete(model)
    assert keys(redis_server) == ["hinged:{-}:epoch", "hinged:{m}:fence"]
    with redis_server.client() as client:
        assert 0 < client.ttl("hinged:{m}:fence") <= 86_400


def test_an_unfinished_snapshot_is_removed_at_the_next_opening_or_snapshot(redis_server, store, model, reopen):
    def cut_off():
        born = store._born(model)
        from hinged.service.store.redis.scripts import ADD_CHUNK, BEGIN_SNAPSHOT  # noqa: PLC0415

        store._write(model, BEGIN_SNAPSHOT, born, "half", 1)
        store._write(model, ADD_CHUNK, born, "half", 0, b"chunk")
        assert keys(redis_server, "*snapshots*") == ["hinged:{m}:snapshots", "hinged:{m}:snapshots:half"]

    cut_off()
    store = reopen()
    assert keys(redis_server, "*snapshots*") == []
    cut_off()
    store.put_snapshot(model, 1, b"")
    assert store.snapshots(model) == [1]
    assert keys(redis_server, "*snapshots*") == ["hinged:{m}:snapshots"]


def test_a_trim_drops_older_snapshots_that_are_being_written(store, model, monkeypatch):
    store.append(model, 1, [ONE, ONE])
    from hinged.service.store.redis.scripts import ADD_CHUNK  # noqa: PLC0415

    write = store._write

    def trim_first(model, script, *arguments, **options):
        if script is ADD_CHUNK:
            monkeypatch.setattr(store, "_write", write)
            store.trim(model, 3)
        return write(model, script, *arguments, **options)

    monkeypatch.setattr(store, "_write", trim_first)
    with pytest.raises(StoreUnavailable, match="the log was trimmed"):
        store.put_snapshot(model, 2, b"holds what must be forgotten")
    assert store.snapshots(model) == []
