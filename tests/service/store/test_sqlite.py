"""The store on SQLite: its folder, its commits, and the effects of crashes, a full disk and damage."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import SNAPSHOT_CHUNK_BYTES, Damaged, Event, NoModel, OutcomeUnknown, PositionTaken
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.server import eventually
from tests.helpers.store_events import CREATED


@pytest.fixture
def backend(on_sqlite):
    return on_sqlite


def sql(folder, statement):
    """Run a statement on the file of a closed store."""
    with closing(sqlite3.connect(folder / "hinged.db", isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


def test_missing_folders_are_created(tmp_path):
    with closing(SQLiteStore(tmp_path / "a" / "b")) as store:
        store.create("m", CREATED)
    assert (tmp_path / "a" / "b" / "hinged.db").exists()


def test_a_path_that_cannot_be_a_folder_is_named_in_the_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"the store in .*file.* cannot be opened"):
        SQLiteStore(tmp_path / "file")


def test_a_second_store_on_the_folder_is_refused(folder):
    with closing(SQLiteStore(folder)), pytest.raises(StoreUnavailable, match="in use by another server"):
        SQLiteStore(folder)
    SQLiteStore(folder).close()


def test_a_second_process_on_the_folder_is_refused_until_the_first_dies(folder, backend):
    with backend.program("print('ready', flush=True)\nimport time\ntime.sleep(60)") as program:
        assert program.stdout.readline() == "ready\n"
        with pytest.raises(StoreUnavailable, match="in use by another server"):
            SQLiteStore(folder)
        program.kill()
        program.wait()
        SQLiteStore(folder).close()


@pytest.fixture
def read_only(monkeypatch):
    """Return a function after which SQLite opens files only for reading, as it does if no descriptor is left."""
    connect = sqlite3.connect
    return lambda: monkeypatch.setattr(
        sqlite3, "connect", lambda file, **more: connect(f"file:{file}?mode=ro", uri=True, **more)
    )


def test_a_connection_that_only_reads_takes_no_write_and_is_replaced(folder, read_only, monkeypatch):
    with closing(SQLiteStore(folder)) as store:
        store._writer._disconnect()  # as after a failed commit
        read_only()
        with pytest.raises(StoreUnavailable, match="readonly"):
            store.create("m", CREATED)
        monkeypatch.undo()
        assert store.models() == []
        store.create("m", CREATED)
        assert store.models() == ["m"]


def test_a_lock_that_was_only_opened_for_reading_is_no_lock(folder, read_only):
    SQLiteStore(folder).close()
    read_only()
    with pytest.raises(StoreUnavailable, match="cannot be opened: attempt to write a readonly database"):
        SQLiteStore(folder)


def test_an_unknown_schema_version_is_refused_and_left_as_it_is(folder):
    SQLiteStore(folder).close()
    sql(folder, "PRAGMA user_version=99")
    with pytest.raises(StoreUnavailable, match="schema version 99, this server knows 1"):
        SQLiteStore(folder)
    assert sql(folder, "PRAGMA user_version") == [(99,)]


def test_a_database_of_another_program_is_refused(folder):
    folder.mkdir()
    sql(folder, "CREATE TABLE theirs (x)")
    with pytest.raises(StoreUnavailable, match="not a database of this server"):
        SQLiteStore(folder)
    (folder / "hinged.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        SQLiteStore(folder)


def test_every_commit_reaches_the_disk_and_deletes_overwrite(folder):
    with closing(SQLiteStore(folder)) as store, store._readers.lend() as reader:
        store.create("m", CREATED)
        for connection in (reader, store._writer._connection):
            settings = {
                name: connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "secure_delete")
            }
            assert settings == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1}


def test_waiting_appends_are_one_commit(folder):
    with closing(SQLiteStore(folder)) as store:
        for n in range(8):
            store.create(f"m{n}", CREATED)
        statements = []
        store._writer._connection.set_trace_callback(statements.append)
        held, release = threading.Event(), threading.Event()

        def hold(_):
            held.set()
            release.wait()

        def append(n):
            # The seventh append expects a wrong end of the log. The eighth names a model that does not exist.
            return store.append("none" if n == 7 else f"m{n}", 1 + (n == 6), [CREATED])

        with ThreadPoolExecutor(9) as pool:
            first = pool.submit(store._writer.do, hold)
            held.wait()
            others = [pool.submit(append, n) for n in range(8)]
            eventually(lambda: len(store._writer._waiting) == 8)
            release.set()
            first.result()
            assert [other.result() for other in others[:6]] == [2] * 6
            with pytest.raises(PositionTaken):
                others[6].result()
            with pytest.raises(NoModel):
                others[7].result()
        assert statements.count("COMMIT") == 2
        assert [store.end(f"m{n}") for n in range(8)] == [2] * 6 + [1, 1]


def test_a_failed_commit_fails_all_appends_in_it_and_the_store_goes_on(folder):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)

        def violate(connection):
            # A deferred constraint is SQLite's own way to make COMMIT itself fail.
            connection.execute("PRAGMA defer_foreign_keys=ON")
            connection.execute("INSERT INTO child VALUES (1)")

        def constrain(connection):
            connection.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
            connection.execute("CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")

        store._writer.do(constrain)
        store._writer._connection.execute("PRAGMA foreign_keys=ON")
        with pytest.raises(OutcomeUnknown, match="FOREIGN KEY constraint failed"):
            store._writer.do(violate)
        assert store.end("m") == 1
        assert store.append("m", 1, [CREATED]) == 2


BLOCKING = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("blocked", flush=True)
time.sleep(60)
"""


def test_a_write_blocked_by_another_program_is_unavailable_and_not_unknown(folder):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        store._writer._connection.execute("PRAGMA busy_timeout=50")
        blocking = subprocess.Popen([sys.executable, "-c", BLOCKING, folder / "hinged.db"], stdout=subprocess.PIPE)
        with blocking:
            blocking.stdout.readline()
            with pytest.raises(StoreUnavailable, match="locked") as caught:
                store.append("m", 1, [CREATED])
            assert not isinstance(caught.value, OutcomeUnknown)
            assert store.end("m") == 1
            blocking.kill()
        assert store.append("m", 1, [CREATED]) == 2


# A limit on a file's length simulates a full disk. It needs no special rights and fails in the same calls.
FULL_DISK = """
import resource, signal
from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import OutcomeUnknown

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
store.create("m", Event("created", b"{}"))
store.put_snapshot("m", 1, b"kept")
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
end = 1
failures = []
while len(failures) < 3:
    try:
        end = store.append("m", end, [Event("learned", b"%d" % end * 5000, (str(end),))])
    except StoreUnavailable as error:
        failures.append(type(error).__name__)
        assert str(error)
        lasting = store.end("m")
        assert lasting == end or isinstance(error, OutcomeUnknown), (lasting, end)
        end = lasting
assert end > 10
try:
    store.put_snapshot("m", 2, bytes(8 * 2**20))
    raise SystemExit("a snapshot was acknowledged")
except StoreUnavailable:
    assert store.snapshots("m") == [1]
assert store.get_snapshot("m", 1) == b"kept"
assert [position for position, _ in store.read("m", 0)] == list(range(1, end + 1))
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

assert store.append("m", end, [Event("learned", b"%d" % end * 5000, (str(end),))]) == end + 1
store.put_snapshot("m", 3, b"3")
print(end + 1, flush=True)
signal.raise_signal(signal.SIGKILL)
"""


def test_a_full_disk_loses_nothing_acknowledged_and_the_store_goes_on_when_there_is_room(folder, backend):
    with backend.program(FULL_DISK) as program:
        end = int(program.stdout.read())
    with closing(SQLiteStore(folder)) as store:
        assert store.end("m") == end
        assert [event.payload for _, event in store.read("m", 1)] == [b"%d" % n * 5000 for n in range(1, end)]
        assert store.find("m", ["1", f"{end - 1}"]) == {"1": 2, f"{end - 1}": end}
        assert store.snapshots("m") == [3, 1]
    assert sql(folder, "SELECT count(*) FROM chunks") == [(2,)]


def test_an_unfinished_snapshot_is_removed_at_the_next_start(folder, backend):
    body = f"store.create('m', Event('created', b''))\nstore.put_snapshot('m', 1, bytes({2**28}))"
    with backend.program(body) as program:
        log = folder / "hinged.db-wal"
        eventually(lambda: log.exists() and log.stat().st_size > 3 * SNAPSHOT_CHUNK_BYTES)
        program.kill()
    assert sql(folder, "SELECT count(*) > 0 FROM chunks") == [(1,)]
    assert sql(folder, "SELECT complete FROM snapshots") == [(0,)]
    SQLiteStore(folder).close()
    assert sql(folder, "SELECT * FROM chunks") == sql(folder, "SELECT * FROM snapshots") == []


def test_an_unfinished_deletion_is_completed_at_the_next_start(folder):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", Event("created", b"", ("a",)))
        store.put_snapshot("m", 1, b"state")
    # The state after the first transaction of a deletion.
    sql(folder, "UPDATE models SET name = NULL")
    with closing(SQLiteStore(folder)) as store:
        assert store.models() == []
    for table in ("models", "events", "ids", "snapshots", "chunks"):
        assert sql(folder, f"SELECT * FROM {table}") == []  # noqa: S608 (names from above)


def test_a_damaged_index_or_page_is_an_error_and_no_answer(folder):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        store.append("m", 1, [Event("learned", b"x" * 1000)] * 100)
    content = bytearray((folder / "hinged.db").read_bytes())
    # The second half of the pages is overwritten.
    middle = len(content) // 2
    (folder / "hinged.db").write_bytes(content[:middle] + b"\xa5" * (len(content) - middle))
    with closing(SQLiteStore(folder)) as store, pytest.raises(Damaged):
        list(store.read("m", 0))


def test_ids_left_of_an_unfinished_trim_are_not_found_and_removed_by_the_next(folder):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", Event("created", b"", ("a",)))
        store.append("m", 1, [Event("learned", b"", ("b",)), Event("learned", b"", ("c",))])
    # The state after the events are removed but before the ids are removed.
    sql(folder, "DELETE FROM events WHERE position <= 2")
    sql(folder, "UPDATE models SET trimmed = 2")
    with closing(SQLiteStore(folder)) as store:
        assert store.find("m", ["a", "b", "c"]) == {"c": 3}
        store.trim("m", 2)
    assert sql(folder, "SELECT id FROM ids") == [("c",)]
    sql(folder, "INSERT INTO ids SELECT id, 'b', 2 FROM models")
    with closing(SQLiteStore(folder)) as store:
        assert store.purge() == []
    assert sql(folder, "SELECT id FROM ids") == [("c",)]


def test_refused_reads_leave_no_connection_behind(folder):
    with closing(SQLiteStore(folder)) as store:
        for _ in range(20):
            with pytest.raises(NoModel):
                store.end("m")
        assert len(store._readers._idle) == 1
