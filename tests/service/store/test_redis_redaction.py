"""Redactions on Redis: the copy that replaces the log, and interruptions."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing, suppress

import pytest

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Event, Fenced, NoModel, OutcomeUnknown
from hinged.service.store.redis import RedisStore, scripts
from tests.helpers.store_events import CREATED, EMPTY, OPEN, SECRET, SECRETS, keys, payloads, redact, with_a_secret


@pytest.fixture
def backend(on_redis):
    return on_redis


@pytest.fixture
def store(reopen):
    return with_a_secret(reopen())


def half_way(store):
    """Bring a redaction into the state in which its server dies after a step of the copy."""
    born = store._born("m")
    store._write("m", scripts.BEGIN_REBUILDING, born, 4, "half")
    assert store._write("m", scripts.COPY, born, 4, "half", 0, 3, 2**20, 3, 0) == ("ok", [3, 0])


def interrupted(store, monkeypatch, script, by):
    """Run `by` once, directly before the next run of `script`."""
    write = store._write

    def interrupt_first(model, asked, *arguments, **options):
        if asked is script:
            monkeypatch.setattr(store, "_write", write)
            by()
        return write(model, asked, *arguments, **options)

    monkeypatch.setattr(store, "_write", interrupt_first)


# -- in memory ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forget", ["redact", "trim and purge", "delete"])
def test_no_key_holds_what_was_removed(redis_server, store, forget):
    def dumped():
        with redis_server.client() as client:
            client.connection_pool.connection_kwargs["decode_responses"] = False
            content = b"".join([key.encode() + (client.dump(key) or b"") for key in keys(redis_server)])
        return [word for word in SECRETS if word.encode() in content]

    store.put_snapshot("m", 3, b"secret-payload")
    assert dumped() == SECRETS
    if forget == "redact":
        redact(store)
    elif forget == "trim and purge":
        store.trim("m", 3)
        assert store.purge() == []
        store.redact("m", 4, {}, [])  # also drops the snapshot
    else:
        store.delete("m")
    assert dumped() == []


@pytest.mark.long
def test_a_long_log_is_copied_in_slices_between_which_other_calls_run(store):
    store.create("other", CREATED)
    store.append("m", 4, [Event("learned", bytes(500))] * 40_000)
    redaction = threading.Thread(target=redact, args=(store,))
    waits, end = [], 1
    redaction.start()
    while redaction.is_alive():
        start = time.monotonic()
        end = store.append("other", end, [CREATED])
        waits.append(time.monotonic() - start)
    redaction.join()
    assert len(waits) > 20
    assert payloads(store)[:4] == [b"{}", b"open", b"", b"open"]


# -- interrupted by a crash -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["opening", "redaction", "purge", "deletion"])
def test_an_unfinished_copy_is_removed_by_the_next_redaction_or_opening(redis_server, store, reopen, way):
    half_way(store)
    assert keys(redis_server, "*:log*") == ["hinged:{m}:log", "hinged:{m}:log:half"]
    assert payloads(store) == [b"{}", b"open", b"secret-payload", b"open"]
    assert store.find("m", ["secret-id"]) == {"secret-id": 3}
    if way == "opening":
        reopen()
    elif way == "redaction":
        redact(store)
        assert payloads(store) == [b"{}", b"open", b"", b"open"]
    elif way == "purge":
        assert store.purge() == []
    else:
        store.delete("m")
    assert keys(redis_server, "*:log*") == ([] if way == "deletion" else ["hinged:{m}:log"])
    with redis_server.client() as client:
        assert not client.hget("hinged:{m}:meta", "rebuilding")


def test_a_replaced_server_completes_no_redaction(redis_server, store, monkeypatch):
    others = []
    interrupted(store, monkeypatch, scripts.FINISH_REBUILDING, lambda: others.append(RedisStore(redis_server.url)))
    with pytest.raises(Fenced):
        redact(store)
    with closing(others[0]) as heir:
        assert payloads(heir) == [b"{}", b"open", b"secret-payload", b"open"]
        assert keys(redis_server, "*:log*") == ["hinged:{m}:log"]
        redact(heir)
        assert payloads(heir) == [b"{}", b"open", b"", b"open"]
        assert heir.find("m", ["secret-id", "open-id"]) == {"open-id": 4}


def test_a_model_that_is_deleted_during_its_redaction_is_gone(redis_server, store, monkeypatch):
    def replace():
        store.delete("m")
        store.create("m", OPEN)

    interrupted(store, monkeypatch, scripts.FINISH_REBUILDING, replace)
    with pytest.raises(NoModel):
        redact(store)
    assert payloads(store) == [b"open"]
    assert keys(redis_server, "*:log*") == ["hinged:{m}:log"]


def test_trims_and_appends_during_a_redaction_hold_after_it(store, monkeypatch):
    def change():
        store.append("m", 4, [Event("learned", b"later", ("later-id",))] * 3_000)
        store.trim("m", 2)

    interrupted(store, monkeypatch, scripts.FINISH_REBUILDING, change)
    redact(store)
    assert [at for at, _ in store.read("m", 0)] == list(range(3, 3_005))
    assert payloads(store) == [b"", b"open"] + [b"later"] * 3_000
    assert store.find("m", ["open-id", "secret-id", "later-id"]) == {"open-id": 4, "later-id": 3_004}


def test_events_trimmed_during_a_redaction_are_removed_by_the_next_purge(store, backend, monkeypatch):
    interrupted(store, monkeypatch, scripts.FINISH_REBUILDING, lambda: store.trim("m", 3))
    store.redact("m", 2, {2: EMPTY}, ["open-id"])  # like any stream, the copy still has the trimmed event in memory
    assert [at for at, _ in store.read("m", 0)] == [4]
    assert store.purge() == []
    assert backend.holding(SECRETS) == set()


@pytest.mark.parametrize("script", [scripts.BEGIN_REBUILDING, scripts.COPY, scripts.FINISH_REBUILDING])
def test_a_step_that_arrives_late_changes_nothing(proxy, through, monkeypatch, script):
    through.append("m", 1, [OPEN, SECRET, OPEN])
    interrupted(through, monkeypatch, script, proxy.keep)
    with pytest.raises(OutcomeUnknown):
        redact(through)
    assert payloads(through) == [b"{}", b"open", b"secret-payload", b"open"]
    interrupted(through, monkeypatch, scripts.FINISH_REBUILDING, proxy.deliver)
    try:
        redact(through)
    except StoreUnavailable:  # the late step began another copy, or the redaction is done
        redact(through)
    through.append("m", 4, [OPEN])
    assert payloads(through) == [b"{}", b"open", b"", b"open", b"open"]
    assert through.find("m", ["secret-id", "open-id"]) == {"open-id": 5}


def test_a_redaction_whose_last_answer_was_lost_is_done_and_may_be_repeated(proxy, through, monkeypatch):
    through.append("m", 1, [OPEN, SECRET, OPEN])
    redact(through)  # now Redis knows the scripts
    interrupted(through, monkeypatch, scripts.FINISH_REBUILDING, proxy.lose)
    with pytest.raises(OutcomeUnknown):
        redact(through)
    redact(through)
    assert payloads(through) == [b"{}", b"open", b"", b"open"]


def test_a_copy_that_lost_a_step_in_a_failover_does_not_replace_the_log(redis_server, store, monkeypatch):
    def forget():
        with redis_server.client() as client:
            name, _ = client.hget("hinged:{m}:meta", "rebuilding").split()
            client.hset("hinged:{m}:meta", "rebuilding", f"{name} 2")
            client.xdel(f"hinged:{{m}}:log:{name}", "3-0", "4-0")

    interrupted(store, monkeypatch, scripts.FINISH_REBUILDING, forget)
    with pytest.raises(StoreUnavailable, match="rebuilt by another writer"):
        redact(store)
    assert keys(redis_server, "*:log*") == ["hinged:{m}:log"]
    redact(store)
    assert payloads(store) == [b"{}", b"open", b"", b"open"]


def test_without_memory_for_the_copy_the_log_stays_as_it_was_and_nothing_is_left(redis_server, store, monkeypatch):
    with redis_server.client() as client:
        interrupted(store, monkeypatch, scripts.FINISH_REBUILDING, lambda: client.config_set("maxmemory", "1mb"))
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            redact(store)
        assert keys(redis_server, "*:log*") == ["hinged:{m}:log"]
        assert payloads(store) == [b"{}", b"open", b"secret-payload", b"open"]
        client.config_set("maxmemory", 0)
    redact(store)
    assert payloads(store) == [b"{}", b"open", b"", b"open"]


def test_a_redaction_drops_snapshots_even_without_memory_for_its_copy(redis_server, store):
    store.put_snapshot("m", 3, bytes(2**20))
    with redis_server.client() as client:
        client.config_set("maxmemory", "1mb")
        with pytest.raises(StoreUnavailable, match="maxmemory") as refused:
            redact(store)
        assert not isinstance(refused.value, OutcomeUnknown)
        assert keys(redis_server, "*snapshots*") == []
        assert payloads(store) == [b"{}", b"open", b"secret-payload", b"open"]
        client.config_set("maxmemory", 0)
    redact(store)


def test_a_purge_without_free_memory_rewrites_the_files_and_names_the_log_that_it_could_not_copy(
    redis_server, store, backend
):
    redact(store)
    store.create("other", CREATED)
    store.append("other", 1, [Event("learned", b"trimmed-payload"), OPEN])
    store.trim("other", 2)
    with redis_server.client() as client:
        client.config_set("maxmemory", "1mb")
        (told,) = store.purge()
        assert told.startswith("The log of other may still hold what was removed: ")
        assert backend.holding(SECRETS) == set()
        client.config_set("maxmemory", 0)
    assert store.purge() == []
    assert backend.holding(["trimmed-payload"]) == set()


@pytest.mark.long
def test_kill_9_of_redis_during_a_redaction_leaves_the_log_old_or_new(redis_server, backend, store):
    rng = random.Random(5)
    words = {at: f"{rng.getrandbits(128):032x}" for at in range(5, 6_005)}
    store.append("m", 4, [Event("learned", words[at].encode() * 8, (f"{words[at]} id",)) for at in words])
    gone = [at for at in words if at % 2]
    arguments = (6_004, dict.fromkeys(gone, EMPTY), [f"{words[at]} id" for at in gone])
    for delay_s in (0.0, 0.02, 0.05, 0.1):
        redaction = threading.Thread(target=_refused_or_done, args=(store, "m", *arguments))
        redaction.start()
        time.sleep(delay_s)
        redis_server.kill()
        redaction.join()
        redis_server.start()
        now = dict(store.read("m", 4))
        assert now.keys() == words.keys()
        found = store.find("m", [f"{words[at]} id" for at in gone])
        assert {now[at] == EMPTY for at in gone} == {not found}
        assert len(found) in {0, len(gone)}
        assert all(now[at].payload == words[at].encode() * 8 for at in words if at % 2 == 0)
    store.redact("m", *arguments)
    assert store.purge() == []
    assert backend.holding([*words.values()]) == {words[at] for at in words if at not in gone}


def _refused_or_done(store, *arguments):
    with suppress(StoreUnavailable):
        store.redact(*arguments)
