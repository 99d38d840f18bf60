"""The store on Redis: how durable its server must be, how the store is reached, and which server writes."""

from __future__ import annotations

import logging
import re
import threading
from contextlib import closing
from pathlib import Path

import pytest

from hinged.service.errors import StoreUnavailable
from hinged.service.settings import Settings
from hinged.service.store.base import Event, Fenced, OutcomeUnknown, PositionTaken
from hinged.service.store.choice import open_store
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.certificates import self_signed
from tests.helpers.http_client import Asking, example
from tests.helpers.redis_server import PASSWORD, RedisServer, newer_executable
from tests.helpers.server import PATIENCE_S, RunningServer, eventually
from tests.helpers.store_events import CREATED, ONE, keys, payloads
from tests.helpers.tcp_proxy import Proxy


@pytest.fixture
def backend(on_redis):
    return on_redis


# -- promises -------------------------------------------------------------------------------------------------------


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
def test_a_server_that_could_lose_acknowledged_writes_is_refused(tmp_path, caplog, name, value, words):
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
def test_the_store_waits_for_an_fsync_if_the_server_can_report_it(tmp_path, caplog, policy):
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


def test_a_write_that_is_not_fsynced_in_time_is_of_unknown_outcome(tmp_path):
    with (
        RedisServer(tmp_path, newer_executable(), appendfsync="everysec") as server,
        closing(RedisStore(server.url, timeout_s=60.0)) as store,
    ):
        store.create("m", CREATED)
        with server.client() as client:
            client.config_set("appendfsync", "no")  # no fsync will ever happen
            store._nodes._wait_ms = 1
            with pytest.raises(OutcomeUnknown, match="has not written to disk within 1 ms"):
                store.append("m", 1, [ONE])
            with pytest.raises(OutcomeUnknown):
                store.end("m")
            client.config_set("appendfsync", "everysec")
        store._nodes._wait_ms = 48_000
        assert store.end("m") == 2
        assert store.append("m", 2, [ONE]) == 3


def test_a_server_that_comes_back_with_another_configuration_gets_no_writes(redis_server, store, model):
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


# -- connections ----------------------------------------------------------------------------------------------------


def test_the_settings_choose_the_store(tmp_path, redis_server):
    with closing(open_store(Settings(data_dir=tmp_path / "embedded"))) as store:
        assert isinstance(store, SQLiteStore)
    with closing(open_store(Settings(store=redis_server.url, redis_namespace="mine"))) as store:
        store.create("m", CREATED)
    assert {key.split(":")[0] for key in keys(redis_server)} == {"mine"}


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1", "nothing", "redis://:hunter2@127.0.0.1:port", "redis://:hunter2@:0"]
)
def test_an_invalid_url_is_refused_without_showing_its_password(url):
    with pytest.raises(StoreUnavailable) as refused:
        open_store(Settings(store=url))
    assert "hunter2" not in refused.value.message
    assert "hunter2" not in repr(Settings(store=url))


def test_namespaces_do_not_see_each_other(redis_server, store, model):
    with closing(RedisStore(redis_server.url, namespace="other")) as other:
        assert other.models() == []
        other.create(model, Event("created", b"other"))
        other.delete(model)
    assert payloads(store, model) == [b"{}"]


def test_a_wrong_password_is_refused(redis_server):
    with pytest.raises(StoreUnavailable, match=r"(?i)invalid username-password|WRONGPASS"):
        RedisStore(f"redis://:wrong@127.0.0.1:{redis_server.port}")


def test_a_user_with_the_documented_rights_can_do_everything(redis_server):
    document = (Path(__file__).parents[3] / "docs" / "reference" / "settings.md").read_text()
    rights = " ".join(re.search(r"`(\+@read [^`]*)`", document).group(1).split())
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
    certificate, key = self_signed(tmp_path, "IP:127.0.0.1")
    with RedisServer(tmp_path / "redis") as server:
        tls = {"tls-auth-clients": "no", "tls-cert-file": certificate, "tls-key-file": key}
        with server.client() as client:
            for name, value in tls.items():
                client.config_set(name, str(value))
            with Proxy(0) as unused:
                port = unused.port
            client.config_set("tls-port", port)
        with closing(RedisStore(f"rediss://:{PASSWORD}@127.0.0.1:{port}?ssl_ca_certs={certificate}")) as store:
            store.create("m", CREATED)
            assert store.models() == ["m"]
        with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
            RedisStore(f"rediss://:{PASSWORD}@127.0.0.1:{port}")


# -- one writer -----------------------------------------------------------------------------------------------------


def test_opening_the_store_takes_it_over_and_fences_the_other_server(redis_server):
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


def test_a_server_whose_store_was_taken_over_ends_and_should_not_be_restarted(redis_server, tmp_path):
    with RunningServer(tmp_path / "one", store=redis_server.url) as first, Asking(first.url) as ask:
        model = ask.new_model("m")
        with RunningServer(tmp_path / "two", store=redis_server.url) as second:
            assert model.try_learn(example([0, 1], "a")).status_code == 503
            assert first.process.wait(PATIENCE_S) == 0
            assert "another server has taken over the store" in first.log.read_text()
            assert second.terminate() == 0


def test_a_replaced_server_cannot_bring_back_a_model_that_its_successor_deleted(redis_server):
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


def test_of_two_stores_that_write_without_a_pause_only_one_writes(redis_server):
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
        client.set("hinged:{m}:fence", 8_000_000_000_000_000)  # the list has lost an epoch of a fast clock
    with closing(RedisStore(redis_server.url)) as later:
        assert later.append(model, 1, [ONE]) == 2
        with redis_server.client() as client:
            assert client.get("hinged:{-}:epoch") == client.get("hinged:{m}:fence") == "8000000000000001"
        with closing(RedisStore(redis_server.url)) as last:
            assert last.append(model, 2, [ONE]) == 3
            with pytest.raises(Fenced):
                later.append(model, 3, [ONE])
