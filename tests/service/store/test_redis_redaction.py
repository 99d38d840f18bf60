from __future__ import annotations

import random
import threading
import time
from contextlib import closing, contextmanager, suppress
from functools import partial
from types import SimpleNamespace

import pytest
from redis_server import RedisServer, newer_executable
from running import ended, eventually, wait_for_children

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Event, Fenced, OutcomeUnknown
from hinged.service.store.redis import RedisStore, rewriting, scripts
from hinged.service.store.redis import store as module

CREATED = Event("created", b"{}")
EMPTY = Event("redacted", b"")
SECRETS = ["secret-payload", "secret-id"]
SECRET = Event("learned", b"secret-payload", ("secret-id",))
OPEN = Event("learned", b"open", ("open-id",))


@pytest.fixture
def backend(on_redis):
    return on_redis


@pytest.fixture
def store(reopen):
    """With a model in it."""
    store = reopen()
    store.create("m", CREATED)
    store.append("m", 1, [OPEN, SECRET, OPEN])
    return store


def redact(store):
    store.redact("m", 4, {3: EMPTY}, ["secret-id"])


def payloads(store, model="m"):
    return [event.payload for _, event in store.read(model, 0)]


def keys(server, pattern="*"):
    with server.client() as client:
        return sorted(client.keys(pattern))


def half_way(store):
    """A redaction as it stands when its server dies after a step of the copy."""
    born = store._born("m")
    store._write("m", scripts.BEGIN_REBUILDING, born, 4, "half")
    assert store._copy("m", scripts.COPY, born, 4, "half", 0, 3, 2**20, 3, 0) == [3, 0]


def interrupted(store, monkeypatch, script, by):
    """Let `by` happen once, right before the next time that `script` is run."""
    write = store._write

    def interrupt_first(model, asked, *arguments, **options):
        if asked is script:
            monkeypatch.setattr(store, "_write", write)
            by()
        return write(model, asked, *arguments, **options)

    monkeypatch.setattr(store, "_write", interrupt_first)


# -- in memory ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forget", ["redact", "trim and purge", "delete"])
def test_what_was_removed_is_in_no_key(redis_server, store, forget):
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
        store.redact("m", 4, {}, [])  # and with it the snapshot
    else:
        store.delete("m")
    assert dumped() == []


def test_a_long_log_is_copied_in_slices_and_others_get_their_turn(store):
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


# -- what is left half done -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["opening", "redaction", "purge", "deletion"])
def test_what_a_crash_left_of_a_redaction_goes_with_the_next(redis_server, store, reopen, way):
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


def test_a_server_that_was_replaced_ends_no_redaction(redis_server, store, monkeypatch):
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
    with pytest.raises(KeyError):
        redact(store)
    assert payloads(store) == [b"open"]
    assert keys(redis_server, "*:log*") == ["hinged:{m}:log"]


def test_what_is_trimmed_or_appended_during_a_redaction_is_so_after_it(store, monkeypatch):
    def change():
        store.append("m", 4, [Event("learned", b"later", ("later-id",))] * 3_000)
        store.trim("m", 2)

    interrupted(store, monkeypatch, scripts.FINISH_REBUILDING, change)
    redact(store)
    assert [at for at, _ in store.read("m", 0)] == list(range(3, 3_005))
    assert payloads(store) == [b"", b"open"] + [b"later"] * 3_000
    assert store.find("m", ["open-id", "secret-id", "later-id"]) == {"open-id": 4, "later-id": 3_004}


def test_what_is_trimmed_during_a_redaction_goes_with_the_next_purge(store, backend, monkeypatch):
    interrupted(store, monkeypatch, scripts.FINISH_REBUILDING, lambda: store.trim("m", 3))
    store.redact("m", 2, {2: EMPTY}, ["open-id"])  # by now the copy holds what is trimmed, and keeps it as streams do
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
    except StoreUnavailable:  # what came late was a beginning, which takes its turn; or it is done by now
        redact(through)
    through.append("m", 4, [OPEN])
    assert payloads(through) == [b"{}", b"open", b"", b"open", b"open"]
    assert through.find("m", ["secret-id", "open-id"]) == {"open-id": 5}


def test_a_redaction_whose_last_answer_was_lost_is_done_and_may_be_done_again(proxy, through, monkeypatch):
    through.append("m", 1, [OPEN, SECRET, OPEN])
    redact(through)  # Redis knows the scripts now
    interrupted(through, monkeypatch, scripts.FINISH_REBUILDING, proxy.lose)
    with pytest.raises(OutcomeUnknown):
        redact(through)
    redact(through)
    assert payloads(through) == [b"{}", b"open", b"", b"open"]


def test_a_copy_of_which_a_failover_forgot_a_step_is_not_put_in_place(redis_server, store, monkeypatch):
    def forget():
        with redis_server.client() as client:
            name, _ = client.hget("hinged:{m}:meta", "rebuilding").split()
            client.hset("hinged:{m}:meta", "rebuilding", f"{name} 2")
            client.xdel(f"hinged:{{m}}:log:{name}", "3-0", "4-0")

    interrupted(store, monkeypatch, scripts.FINISH_REBUILDING, forget)
    with pytest.raises(StoreUnavailable, match="rebuilt by somebody else"):
        redact(store)
    assert keys(redis_server, "*:log*") == ["hinged:{m}:log"]
    redact(store)
    assert payloads(store) == [b"{}", b"open", b"", b"open"]


def test_where_memory_does_not_suffice_for_the_copy_the_log_is_as_it_was_and_nothing_is_left(
    redis_server, store, monkeypatch
):
    with redis_server.client() as client:
        interrupted(store, monkeypatch, scripts.FINISH_REBUILDING, lambda: client.config_set("maxmemory", "1mb"))
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            redact(store)
        assert keys(redis_server, "*:log*") == ["hinged:{m}:log"]
        assert payloads(store) == [b"{}", b"open", b"secret-payload", b"open"]
        client.config_set("maxmemory", 0)
    redact(store)
    assert payloads(store) == [b"{}", b"open", b"", b"open"]


def test_a_redaction_drops_snapshots_also_where_there_is_no_memory_for_its_copy(redis_server, store):
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


def test_a_purge_where_memory_has_run_out_writes_the_files_and_names_the_log_that_it_could_not_copy(
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


def test_kill_9_of_redis_in_the_middle_leaves_the_log_old_or_new(redis_server, backend, store):
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


# -- the server's own files -----------------------------------------------------------------------------------------


def erased(server, folder_of, **options):
    """Redact and purge on `server`: what the purge said, and which secrets are left in the files."""
    with closing(RedisStore(server.url, **options)) as store:
        store.create("m", CREATED)
        store.append("m", 1, [OPEN, SECRET, OPEN])
        with server.client() as client:
            if server.config["save"]:
                client.save()
        assert set(SECRETS) <= folder_of.holding(SECRETS) or not options.get("durable", True)
        redact(store)
        return store.purge(), folder_of.holding(SECRETS)


@pytest.fixture
def files(tmp_path, on_redis):
    on_redis.folder = tmp_path / "server"
    return on_redis


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_the_files_of_a_newer_server_are_written_anew(tmp_path, files, policy):
    with RedisServer(tmp_path / "server", newer_executable(), appendfsync=policy, save="3600 1") as server:
        assert erased(server, files) == ([], set())


def test_a_server_that_keeps_rdb_files_writes_the_next(tmp_path, files):
    with RedisServer(tmp_path / "server", save="3600 1") as server:
        assert erased(server, files) == ([], set())
        assert (tmp_path / "server" / "dump.rdb").exists()


def test_an_rdb_file_that_somebody_had_made_is_made_again(redis_server, store, backend):
    with redis_server.client() as client:
        client.save()
    assert (redis_server.folder / "dump.rdb").exists()
    redact(store)
    assert store.purge() == []
    assert backend.holding(SECRETS) == set()


def test_no_file_is_made_where_none_was(tmp_path, files):
    with RedisServer(tmp_path / "server", appendonly="no") as server:
        assert erased(server, files, durable=False) == ([], set())
        assert [path.name for path in (tmp_path / "server").iterdir()] == ["redis.log"]


@pytest.mark.parametrize("command", ["BGREWRITEAOF", "BGSAVE"])
def test_what_redis_is_writing_already_is_waited_for_and_written_again(tmp_path, files, command):
    with (
        RedisServer(tmp_path / "server", save="3600 1", rdb_key_save_delay=100_000) as server,
        closing(RedisStore(server.url)) as store,
        server.client() as client,
    ):
        store.create("m", CREATED)
        store.append("m", 1, [OPEN, SECRET, OPEN])
        client.execute_command(command)  # takes half a second: it shows what was before
        redact(store)
        assert store.purge() == []
        assert files.holding(SECRETS) == set()


@pytest.fixture
def slow(tmp_path, files):  # noqa: ARG001  whose folder this is
    """A server that takes a while for its files, with a store."""
    with (
        RedisServer(tmp_path / "server", rdb_key_save_delay=100_000) as server,
        closing(RedisStore(server.url)) as store,
    ):
        store.create("m", CREATED)
        store.append("m", 1, [OPEN, SECRET, OPEN])
        yield server, store


@contextmanager
def purging(server, store):
    """In the middle of a purge; behind it, how the purge ended is in the list."""
    outcome = []

    def purge():
        try:
            outcome.append(store.purge())
        except StoreUnavailable as error:
            outcome.append(error.message)

    thread = threading.Thread(target=purge)
    thread.start()
    with server.client() as client:
        while not client.info("persistence")["aof_rewrite_in_progress"]:
            time.sleep(0.001)
    yield outcome
    thread.join()


def test_a_purge_in_which_redis_died_is_not_done(slow):
    server, store = slow
    redact(store)
    with purging(server, store) as outcome:
        server.kill()
    assert "went away while it was to write its files anew" in outcome[0]
    server.start()


def test_a_purge_during_which_redis_was_started_again_is_not_done_though_that_reports_no_failure(slow, monkeypatch):
    looked, again = threading.Event(), threading.Event()

    def until_told(_):
        looked.set()
        again.wait()

    monkeypatch.setattr(rewriting, "time", SimpleNamespace(monotonic=time.monotonic, sleep=until_told))
    server, store = slow
    redact(store)
    with purging(server, store) as outcome:
        looked.wait()
        (writer,) = wait_for_children(server.process.pid, 1)
        server.kill()
        eventually(lambda: ended(writer))  # it keeps the dead server's connections open
        server.start()
        with server.client() as client:
            assert client.info("persistence")["aof_last_bgrewrite_status"] == "ok"
        again.set()
    assert outcome == [f"Redis at 127.0.0.1:{server.port} was started again before it had written its files anew"]


def test_a_file_that_a_killed_redis_left_is_told_of_until_somebody_says_that_it_is_gone(slow, files):
    server, store = slow

    def left():
        return b"".join(path.read_bytes() for path in server.folder.glob("temp-*"))

    while b"secret-payload" not in left():
        for path in server.folder.glob("temp-*"):
            path.unlink()
        with purging(server, store):
            (writer,) = wait_for_children(server.process.pid, 1)
            time.sleep(0.2)  # unless it has done much, the process that writes does not outlive it: then once more
            server.kill()
            eventually(partial(ended, writer))
        server.start()
    redact(store)
    for _ in range(2):
        (told,) = store.purge()
        assert told == (
            f"Redis at 127.0.0.1:{server.port} was stopped while it wrote its files anew: a file temp-* that this left "
            "in its folder may hold what was removed. Remove it, then the key hinged:{-}:rewriting."
        )
    assert files.holding(SECRETS) == set(SECRETS)
    for left in server.folder.glob("temp-*"):
        left.unlink()
    assert files.holding(SECRETS) == set()
    with server.client() as client:
        client.delete("hinged:{-}:rewriting")
    assert store.purge() == []


def test_a_server_that_died_in_a_purge_leaves_no_such_word_where_redis_lived_on(slow):
    server, store = slow
    with purging(server, store), closing(RedisStore(server.url)) as heir:
        redact(heir)
        assert heir.purge() == []


@pytest.mark.usefixtures("store")
def test_what_the_servers_user_may_not_do_is_told(redis_server, backend):
    with redis_server.client() as client:
        client.execute_command("ACL", "SETUSER", "most", "on", ">word", "+@all", "-bgrewriteaof", "-bgsave", "~*")
        client.save()
    name = f"Redis at 127.0.0.1:{redis_server.port}"
    with closing(RedisStore(f"redis://most:word@127.0.0.1:{redis_server.port}")) as few:
        redact(few)
        aof, rdb = few.purge()
    assert aof.startswith(f"{name} did not rewrite its append-only file: ")
    assert "permission" in aof
    assert rdb.startswith(f"{name} did not write its RDB file anew: ")
    assert "permission" in rdb
    assert backend.holding(SECRETS) == set(SECRETS)


@pytest.mark.usefixtures("store")
def test_a_server_that_does_not_say_what_it_keeps_is_told_of(redis_server):
    name = f"Redis at 127.0.0.1:{redis_server.port}"
    with redis_server.client() as client:
        client.execute_command("ACL", "SETUSER", "half", "on", ">word", "+@all", "-config", "~*")
        client.execute_command("ACL", "SETUSER", "blind", "on", ">word", "+@all", "-info", "~*")
    with closing(RedisStore(f"redis://half:word@127.0.0.1:{redis_server.port}", durable=False)) as half:
        (told,) = half.purge()
    assert told == f"{name} does not show its configuration: if it keeps an RDB file, that was not written anew."
    with closing(RedisStore(f"redis://blind:word@127.0.0.1:{redis_server.port}", durable=False)) as blind:
        (told,) = blind.purge()
    assert told.startswith(f"{name} does not say which files it keeps, they may hold what was removed: ")


def test_a_file_that_could_not_be_written_is_told_of(redis_server, store):
    with redis_server.client() as client:
        client.save()
        redact(store)
        (redis_server.folder / "dump.rdb").unlink()
        (redis_server.folder / "dump.rdb").mkdir()  # nothing can be put in its place
        (told,) = store.purge()
        assert told == f"Redis at 127.0.0.1:{redis_server.port} did not write its RDB file anew: see its log."


def test_a_server_that_is_away_is_told_of(redis_server, store):
    redis_server.kill()
    with pytest.raises(StoreUnavailable):
        store.purge()
    redis_server.start()
    assert store.purge() == []


def test_replicas_are_told_of(tmp_path, redis_server, store):
    with (
        RedisServer(tmp_path / "replica", replicaof=f"127.0.0.1 {redis_server.port}"),
        redis_server.client() as client,
    ):
        while client.info("replication")["connected_slaves"] < 1:
            time.sleep(0.01)
        told = store.purge()
    assert told[-1:] == [
        f"Redis at 127.0.0.1:{redis_server.port} has replicas (1), whose own files were not written anew."
    ]


def test_on_a_cluster_every_master_writes_its_files_anew(cluster, on_redis):
    names = [f"model{n}" for n in range(8)]
    on_redis.folder = cluster.nodes[0].folder.parent
    with closing(RedisStore(cluster.url)) as store:
        for name in names:
            store.create(name, CREATED)
            words = Event("learned", f"secret-{name}".encode(), (f"secret-id-{name}",))
            store.append(name, 1, [OPEN, words, OPEN])
        assert all(keys(node, "*:log") for node in cluster.nodes)
        secrets = [word for name in names for word in (f"secret-{name}", f"secret-id-{name}")]
        assert on_redis.holding(secrets) == set(secrets)
        for name in names:
            store.redact(name, 4, {3: EMPTY}, [f"secret-id-{name}"])
            assert payloads(store, name) == [b"{}", b"open", b"", b"open"]
        assert store.purge() == []
        assert on_redis.holding(secrets) == set()
        with cluster.nodes[1].client() as client:
            client.execute_command("ACL", "SETUSER", "default", "-bgrewriteaof")
            try:
                (told,) = store.purge()
            finally:
                client.execute_command("ACL", "SETUSER", "default", "+@all")
        assert told.startswith(f"Redis at 127.0.0.1:{cluster.nodes[1].port} did not rewrite its append-only file: ")


def test_the_steps_of_a_copy_are_as_large_as_they_may_be():
    places = {at: (b"kind", bytes(2**19), 0) for at in (2, 3, 4, 2_000)}
    packed = module._next(places, [*places], 0, 5_000)
    assert (packed[0], packed[3], packed[4::4]) == (3, 2, [2, 3])
    packed = module._next(places, [*places], 3, 5_000)
    assert (packed[0], packed[3], packed[4::4]) == (1_003, 1, [4])
    packed = module._next(places, [*places], 1_003, 1_500)
    assert packed == [1_500, module.BATCH_BYTES, module.BATCH_EVENTS, 0]
