"""Forgotten data is removed from the files of SQLite, or the purge says that it was not removed."""

from __future__ import annotations

import subprocess
from contextlib import closing

import pytest

from hinged.service.store.base import Event
from hinged.service.store.sqlite import SQLiteStore, moving
from tests.faults.scene import failing_library
from tests.helpers.store_events import CREATED


@pytest.fixture
def backend(on_sqlite):
    return on_sqlite


@pytest.mark.parametrize("forget", [lambda store: store.delete("m"), lambda store: store.trim("m", 2)])
def test_forgotten_bytes_are_in_no_file_of_the_folder(folder, forget):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        store.append("m", 1, [Event("learned", b"secret" * 5000, ("secret-id",))])
        store.append("m", 2, [Event("learned", b"", ("open-id",))])
        store.put_snapshot("m", 1, b"secret" * 5000)
        forget(store)
        # Another process reads the files, because opening and closing the file here would drop SQLite's locks.
        assert subprocess.run(["grep", "-rl", "secret", folder], check=False, stdout=subprocess.PIPE).stdout == b""


FULL_DISK_AT_A_PURGE = """
import resource, signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
store.create("m", Event("created", b"{}"))
events = [Event("learned", (b"secret%d" % n) * 500, (f"secret{n}",)) for n in range(1000)]
store.append("m", 1, events)
store.redact("m", 1001, {2: Event("less", b"")}, ["secret0"])
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
(told, *_) = store.purge()
assert told.startswith("The database was not rewritten: "), told
assert [event for _, event in store.read("m", 2)] == [Event("learned", event.payload) for event in events[1:]]
assert store.find("m", ["secret0", "secret1"]) == {"secret1": 3}
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert store.purge() == []
assert store.append("m", 1001, [Event("less", b"")]) == 1002
print("good", flush=True)
signal.raise_signal(signal.SIGKILL)
"""


def test_a_purge_on_a_full_disk_says_so_and_loses_nothing(folder, backend):
    with backend.program(FULL_DISK_AT_A_PURGE) as program:
        assert program.stdout.read() == "good\n"
    assert backend.holding(["secret0", "secret1"]) == {"secret1"}
    with closing(SQLiteStore(folder)) as store:
        assert store.end("m") == 1002


def test_a_purge_under_a_reader_says_so_and_the_next_completes_it(folder, backend, monkeypatch):
    monkeypatch.setattr("hinged.service.store.sqlite.store.READERS_S", 0.2)
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        store.append("m", 1, [Event("learned", b"secret", ("secret-id",))])
        store.redact("m", 2, {2: CREATED}, ["secret-id"])
        with store._readers.lend() as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM models").fetchall()
            assert store.purge() == ["The write-ahead log was not emptied: somebody reads the database."]
            reader.execute("COMMIT")
        assert backend.holding(["secret"]) == {"secret"}
        assert store.purge() == []
        assert backend.holding(["secret"]) == set()


@pytest.mark.long
def test_writers_are_let_in_after_each_slice_of_a_purge(folder):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        for n in range(4):
            store.append("m", 10 * n + 1, [Event("learned", bytes(2**20))] * 10)
        do, slices = store._writer.do, []

        def append_after(work):
            found = do(work)
            slices.append(work)
            if len(slices) % 2:  # not after its own append
                store.append("m", store.end("m"), [Event("less", b"%d" % len(slices))])
            return found

        store._writer.do = append_after
        assert store.purge() == []
        assert len(slices) > 80  # half of them are the appends
        log = [*store.read("m", 0)]
        assert [at for at, _ in log] == [*range(1, 42 + len(slices) // 2)]
        assert [event.payload for _, event in log[41:]] == [b"%d" % n for n in range(1, len(slices), 2)]


def test_a_purge_that_was_cut_off_changes_no_answer_and_is_completed_by_the_next(folder, backend):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        for n in range(2, 12):
            store.append("m", n - 1, [Event("learned", b"secret%d " % n * 50_000, (f"secret{n}",))])
        store.put_snapshot("m", 11, b"state" * 500_000)
        log = [*store.read("m", 0)]
        store._writer.do(moving._begin)
        store._writer.do(moving._move_events)
        store._writer.do(moving._move_ids)
        store._writer.do(moving._move_chunk)
    with closing(SQLiteStore(folder)) as store:
        assert [*store.read("m", 0)] == log
        assert store.find("m", ["secret2", "secret11", "secret12"]) == {"secret2": 2, "secret11": 11}
        assert store.get_snapshot("m", 11) == b"state" * 500_000
        assert store.append("m", 11, [Event("learned", b"new", ("secret2",))]) == 12
        assert store.find("m", ["secret2"]) == {"secret2": 12}
        store.redact("m", 12, {3: CREATED, 12: CREATED}, ["secret3", "secret2"])
        store.trim("m", 1)
        assert [*store.read("m", 3)] == [*log[3:], (12, Event(CREATED.kind, CREATED.payload))]
        assert store.purge() == []
        assert store.find("m", ["secret2", "secret3", "secret4"]) == {"secret4": 4}
    assert backend.holding([f"secret{n}" for n in range(2, 12)]) == {"secret2", *(f"secret{n}" for n in range(4, 12))}


FAILING_FSYNC = """
import os, sys
from pathlib import Path
from hinged.service.errors import StoreUnavailable

fault = Path(os.environ["FAULTS"]) / "fsync"
store.create("m", Event("created", b"{}"))
store.append("m", 1, [Event("learned", b"secret%d" % n, (f"secret{n}",)) for n in range(5)])
fault.touch()
try:
    store.redact("m", 6, {2: Event("less", b"")}, ["secret0"])
    sys.exit("a redaction was acknowledged")
except StoreUnavailable:
    pass
told = store.purge()
assert told, told
fault.unlink()
assert store.end("m") == 6
old = [event.payload for _, event in store.read("m", 1)][0]
assert (old, store.find("m", ["secret0"])) in ((b"secret0", {"secret0": 2}), (b"", {})), old
store.redact("m", 6, {2: Event("less", b"")}, ["secret0"])
assert store.purge() == []
print([event.payload for _, event in store.read("m", 1)], flush=True)
"""


def test_a_redaction_that_could_not_be_fsynced_is_not_acknowledged_and_the_next_completes_it(backend, tmp_path):
    faults = tmp_path / "faults"
    faults.mkdir()
    with backend.program(FAILING_FSYNC, LD_PRELOAD=str(failing_library(tmp_path)), FAULTS=str(faults)) as program:
        assert program.stdout.read() == "[b'', b'secret1', b'secret2', b'secret3', b'secret4']\n"
    assert backend.holding([f"secret{n}" for n in range(5)]) == {f"secret{n}" for n in range(1, 5)}
