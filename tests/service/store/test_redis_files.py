"""The files of Redis itself during a purge, and the size of the steps of its copies."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from functools import partial
from types import SimpleNamespace

import pytest

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Event
from hinged.service.store.redis import RedisStore, rewriting
from hinged.service.store.redis.packing import BATCH_BYTES, BATCH_EVENTS
from hinged.service.store.redis.rebuilding import _next
from tests.helpers.redis_server import RedisServer, newer_executable
from tests.helpers.server import ended, eventually, wait_for_children
from tests.helpers.store_events import CREATED, EMPTY, OPEN, SECRETS, keys, payloads, redact, with_a_secret


@pytest.fixture
def backend(on_redis):
    return on_redis


@pytest.fixture
def store(reopen):
    return with_a_secret(reopen())


def erased(server, folder_of, **options):
    """Redact and purge on `server`; return the purge's answer, and the secrets that remain in the files."""
    with closing(RedisStore(server.url, **options)) as store:
        with_a_secret(store)
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
def test_a_purge_rewrites_the_files_of_a_newer_server(tmp_path, files, policy):
    with RedisServer(tmp_path / "server", newer_executable(), appendfsync=policy, save="3600 1") as server:
        assert erased(server, files) == ([], set())


def test_a_purge_makes_a_server_with_rdb_files_write_the_next(tmp_path, files):
    with RedisServer(tmp_path / "server", save="3600 1") as server:
        assert erased(server, files) == ([], set())
        assert (tmp_path / "server" / "dump.rdb").exists()


def test_a_purge_rewrites_an_rdb_file_that_was_made_by_hand(redis_server, store, backend):
    with redis_server.client() as client:
        client.save()
    assert (redis_server.folder / "dump.rdb").exists()
    redact(store)
    assert store.purge() == []
    assert backend.holding(SECRETS) == set()


def test_a_purge_creates_no_file_where_there_was_none(tmp_path, files):
    with RedisServer(tmp_path / "server", appendonly="no") as server:
        assert erased(server, files, durable=False) == ([], set())
        assert [path.name for path in (tmp_path / "server").iterdir()] == ["redis.log"]


@pytest.mark.long
@pytest.mark.parametrize("command", ["BGREWRITEAOF", "BGSAVE"])
def test_a_purge_waits_for_a_rewriting_in_progress_and_starts_another(tmp_path, files, command):
    with (
        RedisServer(tmp_path / "server", save="3600 1", rdb_key_save_delay=100_000) as server,
        closing(RedisStore(server.url)) as store,
        server.client() as client,
    ):
        with_a_secret(store)
        client.execute_command(command)  # takes half a second and writes the earlier data
        redact(store)
        assert store.purge() == []
        assert files.holding(SECRETS) == set()


@pytest.fixture
def slow(tmp_path, files):  # noqa: ARG001  the folder comes from `files`
    """A server that takes a while to write its files, with a store."""
    with (
        RedisServer(tmp_path / "server", rdb_key_save_delay=100_000) as server,
        closing(RedisStore(server.url)) as store,
    ):
        with_a_secret(store)
        yield server, store


@contextmanager
def purging(server, store):
    """Run the block during a purge. Afterwards the yielded list has the purge's result or error."""
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
    assert "went away while it was to rewrite its files" in outcome[0]
    server.start()


def test_a_purge_during_which_redis_was_restarted_is_not_done_although_redis_reports_no_failure(slow, monkeypatch):
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
        eventually(lambda: ended(writer))  # the writer keeps the dead server's connections open
        server.start()
        with server.client() as client:
            assert client.info("persistence")["aof_last_bgrewrite_status"] == "ok"
        again.set()
    assert outcome == [f"Redis at 127.0.0.1:{server.port} was restarted before it had rewritten its files"]


@pytest.mark.long
def test_a_file_left_by_a_killed_redis_is_reported_until_its_note_is_removed(slow, files):
    server, store = slow

    def left():
        return b"".join(path.read_bytes() for path in server.folder.glob("temp-*"))

    while b"secret-payload" not in left():
        for path in server.folder.glob("temp-*"):
            path.unlink()
        with purging(server, store):
            (writer,) = wait_for_children(server.process.pid, 1)
            time.sleep(0.2)  # a writer that has written little dies with its server; then the test tries again
            server.kill()
            eventually(partial(ended, writer))
        server.start()
    redact(store)
    for _ in range(2):
        (told,) = store.purge()
        assert told == (
            f"Redis at 127.0.0.1:{server.port} was stopped while it rewrote its files: a file temp-* that this left "
            "in its folder may hold what was removed. Remove it, then the key hinged:{-}:rewriting."
        )
    assert files.holding(SECRETS) == set(SECRETS)
    for left in server.folder.glob("temp-*"):
        left.unlink()
    assert files.holding(SECRETS) == set()
    with server.client() as client:
        client.delete("hinged:{-}:rewriting")
    assert store.purge() == []


def test_a_server_that_died_in_a_purge_leaves_no_note_if_redis_lived_on(slow):
    server, store = slow
    with purging(server, store), closing(RedisStore(server.url)) as heir:
        redact(heir)
        assert heir.purge() == []


@pytest.mark.usefixtures("store")
def test_a_purge_reports_what_the_redis_user_may_not_do(redis_server, backend):
    with redis_server.client() as client:
        client.execute_command("ACL", "SETUSER", "most", "on", ">word", "+@all", "-bgrewriteaof", "-bgsave", "~*")
        client.save()
    name = f"Redis at 127.0.0.1:{redis_server.port}"
    with closing(RedisStore(f"redis://most:word@127.0.0.1:{redis_server.port}")) as few:
        redact(few)
        aof, rdb = few.purge()
    assert aof.startswith(f"{name} did not rewrite its append-only file: ")
    assert "permission" in aof
    assert rdb.startswith(f"{name} did not rewrite its RDB file: ")
    assert "permission" in rdb
    assert backend.holding(SECRETS) == set(SECRETS)


@pytest.mark.usefixtures("store")
def test_a_purge_reports_a_server_that_hides_its_configuration(redis_server):
    name = f"Redis at 127.0.0.1:{redis_server.port}"
    with redis_server.client() as client:
        client.execute_command("ACL", "SETUSER", "half", "on", ">word", "+@all", "-config", "~*")
        client.execute_command("ACL", "SETUSER", "blind", "on", ">word", "+@all", "-info", "~*")
    with closing(RedisStore(f"redis://half:word@127.0.0.1:{redis_server.port}", durable=False)) as half:
        (told,) = half.purge()
    assert told == f"{name} does not show its configuration: if it keeps an RDB file, that was not rewritten."
    with closing(RedisStore(f"redis://blind:word@127.0.0.1:{redis_server.port}", durable=False)) as blind:
        (told,) = blind.purge()
    assert told.startswith(f"{name} does not say which files it keeps; they may hold what was removed: ")


def test_a_purge_reports_a_file_that_could_not_be_written(redis_server, store):
    with redis_server.client() as client:
        client.save()
        redact(store)
        (redis_server.folder / "dump.rdb").unlink()
        (redis_server.folder / "dump.rdb").mkdir()  # so that no file can replace the folder
        (told,) = store.purge()
        assert told == f"Redis at 127.0.0.1:{redis_server.port} did not rewrite its RDB file: see its log."


def test_a_purge_reports_a_server_that_is_away(redis_server, store):
    redis_server.kill()
    with pytest.raises(StoreUnavailable):
        store.purge()
    redis_server.start()
    assert store.purge() == []


def test_a_purge_reports_replicas(tmp_path, redis_server, store):
    with RedisServer(tmp_path / "replica", replicaof=f"127.0.0.1 {redis_server.port}"), redis_server.client() as client:
        while client.info("replication")["connected_slaves"] < 1:
            time.sleep(0.01)
        told = store.purge()
    assert told[-1:] == [
        f"Redis at 127.0.0.1:{redis_server.port} has replicas (1), whose own files were not rewritten."
    ]


@pytest.mark.long
def test_on_a_cluster_every_master_rewrites_its_files(cluster, on_redis):
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


def test_the_steps_of_a_copy_are_as_large_as_allowed():
    places = {at: (b"kind", bytes(2**19), 0) for at in (2, 3, 4, 2_000)}
    packed = _next(places, [*places], 0, 5_000)
    assert (packed[0], packed[3], packed[4::4]) == (3, 2, [2, 3])
    packed = _next(places, [*places], 3, 5_000)
    assert (packed[0], packed[3], packed[4::4]) == (1_003, 1, [4])
    packed = _next(places, [*places], 1_003, 1_500)
    assert packed == [1_500, BATCH_BYTES, BATCH_EVENTS, 0]
