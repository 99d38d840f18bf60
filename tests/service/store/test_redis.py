from __future__ import annotations

import logging
import re
import subprocess
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from proxy import Proxy
from redis_server import PASSWORD, RedisServer, newer_executable
from running import eventually

from hinged.service.errors import StoreUnavailable
from hinged.service.settings import Settings
from hinged.service.store.base import (
    SNAPSHOT_CHUNK_BYTES,
    Damaged,
    Event,
    Fenced,
    OutcomeUnknown,
    PositionTaken,
)
from hinged.service.store.choice import open_store
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore

CREATED = Event("created", b"{}")
ONE = Event("learned", b"1", ("a",))


@pytest.fixture
def backend(on_redis):
    return on_redis


@pytest.fixture
def model(store):
    store.create("m", CREATED)
    return "m"


def payloads(store, model):
    return [event.payload for _, event in store.read(model, 0)]


def keys(server, pattern="*"):
    with server.client() as client:
        return sorted(client.keys(pattern))


# -- what is promised -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("appendonly", "no", "appendonly is no and must be yes"),
        ("appendfsync", "everysec", "appendfsync is everysec and must be always"),
        ("appendfsync", "no", "appendfsync is no and must be always"),
        ("no_appendfsync_on_rewrite", "yes", "no-appendfsync-on-rewrite is yes and must be no"),
        ("maxmemory_policy", "allkeys-lru", "maxmemory-policy is allkeys-lru and must be noeviction"),
    ],
)
def test_a_server_that_could_lose_what_it_acknowledges_is_refused(tmp_path, caplog, name, value, words):
    caplog.set_level(logging.INFO)
    with RedisServer(tmp_path, **{name: value}) as server:
        with pytest.raises(StoreUnavailable, match=words) as refused:
            RedisStore(server.url)
        assert "HINGED_DURABILITY=relaxed" in refused.value.message
        assert PASSWORD not in refused.value.message
        with closing(RedisStore(server.url, durable=False)) as store:
            store.create("m", CREATED)
            assert store.end("m") == 1
    assert "may be lost by a crash of Redis" in caplog.text


def test_the_log_says_what_is_promised(caplog, reopen):
    caplog.set_level(logging.INFO)
    reopen()
    assert "every acknowledged write is fsynced by Redis (appendfsync always)" in caplog.text


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_where_the_server_can_say_that_a_write_is_fsynced_the_store_waits_for_that(tmp_path, caplog, policy):
    caplog.set_level(logging.INFO)
    with RedisServer(tmp_path, newer_executable(), appendfsync=policy) as server:
        with closing(RedisStore(server.url)) as store:
            store.create("m", CREATED)
            with server.client() as client:
                before = client.info("commandstats")["cmdstat_waitaof"]["calls"]
                store.append("m", 1, [ONE])
                assert client.info("commandstats")["cmdstat_waitaof"]["calls"] > before
            store.put_snapshot("m", 2, b"state")
        server.kill()
        server.start()
        with closing(RedisStore(server.url)) as store:
            assert payloads(store, "m") == [b"{}", b"1"]
            assert store.get_snapshot("m", 2) == b"state"
    assert f"(appendfsync {policy}, WAITAOF)" in caplog.text


def test_a_write_that_is_not_fsynced_in_time_is_of_unknown_outcome_until_it_is(tmp_path):
    with (
        RedisServer(tmp_path, newer_executable(), appendfsync="everysec") as server,
        closing(RedisStore(server.url, timeout_s=60.0)) as store,
    ):
        store.create("m", CREATED)
        with server.client() as client:
            client.config_set("appendfsync", "no")  # no fsync comes, however long anybody waits
            store._nodes._wait_ms = 1
            with pytest.raises(OutcomeUnknown, match="has not written to disk within 1 ms"):
                store.append("m", 1, [ONE])
            with pytest.raises(OutcomeUnknown):
                store.end("m")
            client.config_set("appendfsync", "everysec")
        store._nodes._wait_ms = 48_000
        assert store.end("m") == 2
        assert store.append("m", 2, [ONE]) == 3


def test_a_server_that_came_back_with_another_configuration_gets_no_writes(redis_server, store, model):
    redis_server.stop()
    redis_server.config["appendfsync"] = "everysec"
    redis_server.start()
    with pytest.raises(StoreUnavailable, match="appendfsync is everysec") as refused:
        store.append(model, 1, [ONE])
    assert not isinstance(refused.value, OutcomeUnknown)
    redis_server.stop()
    redis_server.config["appendfsync"] = "always"
    redis_server.start()
    assert store.append(model, 1, [ONE]) == 2


# -- how it is reached ----------------------------------------------------------------------------------------------


def test_the_settings_choose_the_store(tmp_path, redis_server):
    with closing(open_store(Settings(data_dir=tmp_path / "embedded"))) as store:
        assert isinstance(store, SQLiteStore)
    with closing(open_store(Settings(store=redis_server.url, redis_namespace="mine"))) as store:
        store.create("m", CREATED)
    assert {key.split(":")[0] for key in keys(redis_server)} == {"mine"}


@pytest.mark.parametrize("url", ["http://127.0.0.1", "nothing", "redis://:secret@127.0.0.1:port", "redis://:secret@:0"])
def test_a_url_that_makes_no_sense_is_refused_without_its_password(url):
    with pytest.raises(StoreUnavailable) as refused:
        open_store(Settings(store=url))
    assert "secret" not in refused.value.message
    assert "secret" not in repr(Settings(store=url))


def test_namespaces_do_not_see_each_other(redis_server, store, model):
    with closing(RedisStore(redis_server.url, namespace="other")) as other:
        assert other.models() == []
        other.create(model, Event("created", b"other"))
        other.delete(model)
    assert payloads(store, model) == [b"{}"]


def test_a_wrong_password_is_refused(redis_server):
    with pytest.raises(StoreUnavailable, match=r"(?i)invalid username-password|WRONGPASS"):
        RedisStore(f"redis://:wrong@127.0.0.1:{redis_server.port}")


def test_a_user_with_the_rights_that_the_documents_name_can_do_everything(redis_server):
    document = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    rights = " ".join(re.search(r"The user needs `([^`]*)`", document).group(1).split())
    with redis_server.client() as client:
        client.execute_command("ACL", "SETUSER", "hinged", "on", ">word", *rights.replace(" +waitaof", "").split())
    with closing(RedisStore(f"redis://hinged:word@127.0.0.1:{redis_server.port}")) as store:
        store.create("m", CREATED)
        store.append("m", 1, [ONE, ONE])
        store.put_snapshot("m", 2, b"state")
        assert store.get_snapshot("m", 2) == b"state"
        assert store.find("m", ["a"]) == {"a": 3}
        store.trim("m", 2)
        store.redact("m", 3, {3: CREATED}, ["a"])
        assert payloads(store, "m") == [b"{}"]
        assert store.purge() == []
        store.delete("m")


def test_a_user_who_may_not_see_the_configuration_is_refused(redis_server):
    with redis_server.client() as client:
        client.execute_command("ACL", "SETUSER", "half", "on", ">word", "+@all", "-config", "~*")
    with pytest.raises(StoreUnavailable, match="does not show its configuration"):
        RedisStore(f"redis://half:word@127.0.0.1:{redis_server.port}")


def test_tls(tmp_path):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    with RedisServer(tmp_path / "redis") as server:
        tls = {"tls-auth-clients": "no", "tls-cert-file": tmp_path / "cert.pem", "tls-key-file": tmp_path / "key.pem"}
        with server.client() as client:
            for name, value in tls.items():
                client.config_set(name, str(value))
            with Proxy(0) as unused:
                port = unused.port
            client.config_set("tls-port", port)
        with closing(RedisStore(f"rediss://:{PASSWORD}@127.0.0.1:{port}?ssl_ca_certs={tmp_path}/cert.pem")) as store:
            store.create("m", CREATED)
            assert store.models() == ["m"]
        with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
            RedisStore(f"rediss://:{PASSWORD}@127.0.0.1:{port}")


# -- one writer -----------------------------------------------------------------------------------------------------


def test_who_opens_the_store_takes_it_over_and_the_other_writes_no_more(redis_server):
    told = []
    with closing(RedisStore(redis_server.url, on_fenced=told.append)) as first:
        first.create("m", CREATED)
        first.put_snapshot("m", 1, b"state")
        with closing(RedisStore(redis_server.url)) as second:
            for write in (
                lambda: first.append("m", 1, [ONE]),
                lambda: first.create("n", CREATED),
                lambda: first.put_snapshot("m", 1, b"other"),
                lambda: first.trim("m", 1),
                lambda: first.redact("m", 1, {1: ONE}, []),
                lambda: first.delete("m"),
            ):
                with pytest.raises(Fenced, match="another server has taken over the store"):
                    write()
            assert len(told) == 1
            assert second.models() == ["m"]
            assert second.append("m", 1, [ONE]) == 2
            assert second.get_snapshot("m", 1) == b"state"
            assert first.end("m") == 2


def test_a_server_that_was_replaced_cannot_bring_back_what_its_heir_deleted(redis_server):
    with closing(RedisStore(redis_server.url)) as first:
        first.create("m", CREATED)
        with closing(RedisStore(redis_server.url)) as second:
            second.delete("m")
            with pytest.raises(Fenced):
                first._write("m", scripts_create(), "born", 1, 0, 0, lasting=True)
            assert second.models() == []
    assert keys(redis_server, "*:meta") == []


def scripts_create():
    from hinged.service.store.redis.scripts import CREATE  # noqa: PLC0415

    return CREATE


def test_of_two_stores_that_write_without_a_pause_one_writes(redis_server):
    with closing(RedisStore(redis_server.url)) as first:
        first.create("m", CREATED)
        acknowledged = {"first": [], "second": []}

        def write(name, store):
            try:
                while len(acknowledged[name]) < 3_000:
                    end = store.end("m")
                    try:
                        acknowledged[name].append(store.append("m", end, [Event("learned", name.encode())]))
                    except PositionTaken:
                        continue
            except Fenced:
                pass

        writing = threading.Thread(target=write, args=("first", first))
        writing.start()
        eventually(lambda: acknowledged["first"])
        with closing(RedisStore(redis_server.url)) as second:
            acknowledged["second"].append(second.append("m", second.end("m"), [Event("learned", b"second")]))
            writing.join()
            second.append("m", second.end("m"), [Event("learned", b"second")])
            written = {at: event.payload for at, event in second.read("m", 1)}
    assert acknowledged["first"]
    assert all(written[at] == b"first" for at in acknowledged["first"])
    assert max(acknowledged["first"]) < min(acknowledged["second"])


def test_an_epoch_is_higher_than_all_before_whatever_the_clock_says(redis_server, model):
    with redis_server.client() as client:
        client.set("hinged:{m}:fence", 8_000_000_000_000_000)  # the list has forgotten a clock that was far ahead
    with closing(RedisStore(redis_server.url)) as later:
        assert later.append(model, 1, [ONE]) == 2
        with redis_server.client() as client:
            assert client.get("hinged:{-}:epoch") == client.get("hinged:{m}:fence") == "8000000000000001"
        with closing(RedisStore(redis_server.url)) as last:
            assert last.append(model, 2, [ONE]) == 3
            with pytest.raises(Fenced):
                later.append(model, 3, [ONE])


# -- what goes wrong on the way -------------------------------------------------------------------------------------


def test_an_answer_that_does_not_come_in_time_is_not_awaited(redis_server, proxy):
    with closing(RedisStore(redis_server.url)) as store:
        store.create("m", CREATED)
    opened = []

    def hasty():  # which may itself take longer than that
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
    """How many scripts Redis was asked for by name."""
    with redis_server.client() as client:
        return client.info("commandstats")["cmdstat_evalsha"]["calls"]


def test_an_append_that_arrives_after_it_was_given_up_is_refused(redis_server, proxy, through):
    through.append("m", 1, [CREATED])  # Redis knows the script now
    proxy.keep()
    with pytest.raises(OutcomeUnknown):
        through.append("m", 2, [Event("learned", b"late")])
    assert through.end("m") == 2
    before = calls(redis_server)
    proxy.deliver()
    assert calls(redis_server) == before + 1  # it did arrive, and was refused
    with redis_server.client() as client:
        assert client.xlen("hinged:{m}:log") == 2
    assert through.append("m", 2, [Event("learned", b"next")]) == 3
    assert payloads(through, "m") == [b"{}", b"{}", b"next"]


def test_an_append_that_lasts_although_its_answer_was_lost_is_found(proxy, through):
    through.append("m", 1, [CREATED])  # Redis knows the script now
    proxy.lose()
    with pytest.raises(OutcomeUnknown):
        through.append("m", 2, [ONE])
    assert through.end("m") == 3
    assert through.find("m", ["a"]) == {"a": 3}


def test_an_append_that_was_given_up_reaches_no_later_model_of_the_name(redis_server, proxy, through):
    through.append("m", 1, [CREATED])  # Redis knows the script now
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


def test_a_cut_connection_costs_one_request_at_most(proxy, through):
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


def test_a_server_out_of_memory_writes_nothing_and_goes_on_when_it_has_some(redis_server, store, model):
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


def test_where_memory_has_run_out_the_store_opens_trims_deletes_and_so_makes_room(redis_server, store, model, reopen):
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
        eventually(lambda: client.info("memory")["used_memory"] <= 4 * 2**20)  # freed beside
        assert store.append(model, 9, [ONE]) == 10


def test_where_memory_has_run_out_the_outcome_of_an_append_is_found_all_the_same(redis_server, proxy, through):
    through.append("m", 1, [CREATED])
    proxy.lose()
    with pytest.raises(OutcomeUnknown):
        through.append("m", 2, [ONE])
    with redis_server.client() as client:
        client.config_set("maxmemory", "1mb")
    assert through.end("m") == 3


# -- what stands on disk --------------------------------------------------------------------------------------------


def test_of_a_torn_log_what_is_whole_is_kept_and_no_append_by_half(redis_server, store, model, reopen):
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


def test_a_snapshot_that_lacks_a_chunk_is_damaged(redis_server, store, model):
    store.put_snapshot(model, 1, bytes(2 * SNAPSHOT_CHUNK_BYTES + 1))
    (key,) = keys(redis_server, "*snapshots:*")
    with redis_server.client() as client:
        client.hdel(key, 1)
    with pytest.raises(Damaged, match="snapshot of m at position 1"):
        store.get_snapshot(model, 1)


@pytest.mark.parametrize("record", ["", "name", "name 1 99 00", "name -1 x 00", "name 1 5 00", "\xff"])
def test_a_snapshot_whose_record_makes_no_sense_is_damaged(redis_server, store, model, record):
    store.put_snapshot(model, 1, b"state")
    with redis_server.client() as client:
        name = client.hget("hinged:{m}:snapshots", 1).split()[0]
        client.hset("hinged:{m}:snapshots", 1, record.replace("name", name).encode("latin-1"))
    with pytest.raises(Damaged, match="snapshot of m at position 1"):
        store.get_snapshot(model, 1)


def test_an_event_that_is_gone_or_not_ours_is_damage(redis_server, store, model):
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


def test_nothing_is_left_of_a_model_but_its_fence_for_a_day(redis_server, store, model):
    store.append(model, 1, [ONE])
    store.put_snapshot(model, 2, b"state")
    store.delete(model)
    assert keys(redis_server) == ["hinged:{-}:epoch", "hinged:{m}:fence"]
    with redis_server.client() as client:
        assert 0 < client.ttl("hinged:{m}:fence") <= 86_400


def test_what_a_crash_left_of_a_snapshot_is_removed_at_the_next_opening_or_snapshot(redis_server, store, model, reopen):
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
    write = store._write_snapshot

    def trim_first(*arguments, **options):
        monkeypatch.setattr(store, "_write_snapshot", write)
        store.trim(model, 3)
        write(*arguments, **options)

    monkeypatch.setattr(store, "_write_snapshot", trim_first)
    with pytest.raises(StoreUnavailable, match="the log was trimmed"):
        store.put_snapshot(model, 2, b"holds what must be forgotten")
    assert store.snapshots(model) == []


# -- a cluster ------------------------------------------------------------------------------------------------------


def test_on_a_cluster_models_lie_in_all_parts_and_do_what_they_do_elsewhere(cluster):
    names = [f"model{n}" for n in range(12)]
    with closing(RedisStore(cluster.url)) as first:
        for name in names:
            first.create(name, CREATED)
            first.append(name, 1, [ONE, Event("learned", name.encode(), ("b",))])
            first.put_snapshot(name, 2, name.encode() * 3)
        with closing(RedisStore(cluster.url)) as store:
            assert store.models() == sorted(names)
            for name in names:
                with pytest.raises(Fenced):
                    first.append(name, 3, [ONE])
                assert payloads(store, name) == [b"{}", b"1", name.encode()]
                assert store.find(name, ["a", "b", "c"]) == {"a": 2, "b": 3}
                assert store.get_snapshot(name, 2) == name.encode() * 3
                store.trim(name, 2)
                assert store.append(name, 3, [ONE]) == 4
                assert store.end(name) == 4
            assert all(keys(node, "*:log") for node in cluster.nodes)
            for name in names:
                store.delete(name)
            assert store.models() == []
    assert not any(keys(node, "*:meta") for node in cluster.nodes)


def test_a_model_is_found_where_the_cluster_has_moved_it(cluster):
    with closing(RedisStore(cluster.url)) as store:
        store.create("moves", CREATED)
        (old,) = (node for node in cluster.nodes if keys(node, "*{moves}:log"))
        new = next(node for node in cluster.nodes if node is not old)
        with old.client() as here, new.client() as there:
            slot = here.execute_command("CLUSTER", "KEYSLOT", "{moves}")
            there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", here.execute_command("CLUSTER", "MYID"))
            new_id = there.execute_command("CLUSTER", "MYID")
            here.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", new_id)
            found = here.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100)
            here.execute_command("MIGRATE", "127.0.0.1", new.port, "", 0, 5000, "AUTH", PASSWORD, "KEYS", *found)
            with pytest.raises(StoreUnavailable) as refused:  # on the move
                store.append("moves", 1, [ONE])
            assert not isinstance(refused.value, OutcomeUnknown)
            for client in (there, here):
                client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", new_id)
        assert store.append("moves", 1, [ONE]) == 2
        assert payloads(store, "moves") == [b"{}", b"1"]
        assert keys(new, "*{moves}:log")
        store.delete("moves")


def test_a_cluster_that_could_lose_what_it_acknowledges_is_refused_with_the_reason(cluster):
    with cluster.nodes[0].client() as client:
        client.config_set("appendfsync", "everysec")
        try:
            with pytest.raises(StoreUnavailable, match="appendfsync is everysec and must be always"):
                RedisStore(cluster.url)
        finally:
            client.config_set("appendfsync", "always")


# -- a failover -----------------------------------------------------------------------------------------------------


def test_a_failover_can_lose_the_last_acknowledged_events_and_the_next_append_says_so(tmp_path):
    with (
        RedisServer(tmp_path / "master", repl_diskless_sync_delay=0) as master,
        Proxy(master.port) as way,
        Proxy(master.port) as replication,
    ):
        with (
            RedisServer(tmp_path / "replica", replicaof=f"127.0.0.1 {replication.port}") as replica,
            closing(RedisStore(f"redis://:{PASSWORD}@127.0.0.1:{way.port}")) as store,
            replica.client() as at_replica,
            master.client() as at_master,
        ):
            store.create("m", CREATED)
            store.append("m", 1, [ONE])
            while at_master.wait(1, 1000) < 1 or not at_replica.exists("hinged:{m}:meta"):
                time.sleep(0.01)
            replication.swallow()
            assert store.append("m", 2, [Event("learned", b"lost")]) == 3
            master.kill()
            at_replica.replicaof("NO", "ONE")
            way.target = replica.port
            way.cut()
            with pytest.raises(PositionTaken, match="ends at 2, not at 3"):
                store.append("m", 3, [ONE])
            assert payloads(store, "m") == [b"{}", b"1"]
        del replica.config["replicaof"]
        with replica, closing(RedisStore(replica.url)) as store:  # a new start goes on from there
            assert store.append("m", 2, [ONE]) == 3
