"""SQLite's file is removed, moved or replaced while the store is open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Event, OutcomeUnknown
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.store_events import CREATED


def remove_database(folder):
    (folder / "hinged.db").unlink()


def remove_log(folder):
    (folder / "hinged.db-wal").unlink()


def remove_all(folder):
    shutil.rmtree(folder)


def put_a_copy(folder):
    shutil.copy(folder / "hinged.db", folder / "copy")
    (folder / "copy").rename(folder / "hinged.db")


def put_another_log(folder):
    (folder / "new").write_bytes(b"")
    (folder / "new").rename(folder / "hinged.db-wal")


def move_folder(folder):
    folder.rename(folder.with_name("moved"))


def move_folder_and_begin_anew(folder):
    move_folder(folder)
    SQLiteStore(folder).close()


def cut_database(folder):
    cut(folder / "hinged.db", 0.5)


def cut_log(folder):
    cut(folder / "hinged.db-wal", 0)


def cut_the_end_of_the_log(folder):
    cut(folder / "hinged.db-wal", 0.9)


def cut(file, share):
    """Cut off the end of a file without opening the file here: closing it would drop this process's locks."""
    os.truncate(file, int(share * file.stat().st_size))


def cut_both(folder):
    cut_database(folder)
    cut_log(folder)


CUT = [cut_database, cut_log, cut_the_end_of_the_log, cut_both]
AWAY = [
    *CUT,
    remove_database,
    remove_log,
    remove_all,
    put_a_copy,
    put_another_log,
    move_folder,
    move_folder_and_begin_anew,
]


@pytest.mark.parametrize("away", AWAY)
def test_nothing_is_acknowledged_once_the_file_was_taken_away(folder, away):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        store.append("m", 1, [Event("learned", b"a", ("a",))])
        away(folder)
        for _ in range(2):
            for change in (
                lambda: store.append("m", 2, [Event("learned", b"b")]),
                lambda: store.create("other", CREATED),
                lambda: store.put_snapshot("m", 2, b"state"),
                lambda: store.trim("m", 1),
                lambda: store.redact("m", 2, {2: Event("learned", b"c")}, ["a"]),
                lambda: store.delete("m"),
                lambda: store.end("m"),
                lambda: store.find("m", ["a"]),
                lambda: list(store.read("m", 0)),
            ):
                with pytest.raises(StoreUnavailable, match="removed, moved or replaced while the server ran"):
                    change()
        assert all("removed, moved or replaced" in told for told in store.purge())
        assert store.purge()
        if away in CUT:
            file = folder / "hinged.db"
            sizes = [Path(f"{file}{suffix}").stat().st_size for suffix in ("", "-wal")]
            with pytest.raises(StoreUnavailable):
                store.append("m", 2, [Event("learned", bytes(2**20))])
            assert sizes == [Path(f"{file}{suffix}").stat().st_size for suffix in ("", "-wal")]


@pytest.mark.parametrize("away", AWAY)
def test_a_write_in_progress_when_the_file_is_taken_away_is_not_acknowledged(folder, away):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        with pytest.raises(OutcomeUnknown, match="removed, moved or replaced while the server ran"):
            store._writer.do(lambda _: away(folder))
        with pytest.raises(StoreUnavailable):
            store.end("m")


def test_a_file_that_is_taken_away_is_logged_as_an_error_once(folder, caplog):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        for _ in range(2):
            move_folder(folder)
            for _ in range(3):
                with pytest.raises(StoreUnavailable):
                    store.append("m", 1, [Event("learned", b"a")])
            folder.with_name("moved").rename(folder)
            assert store.end("m") == 1
        assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
        assert str(folder / "hinged.db") in caplog.text


OTHERS = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1], isolation_level=None) as other:
    for statement in sys.argv[2:]:
        print(other.execute(statement).fetchall(), flush=True)
    input()
"""


def test_changes_by_another_program_that_follows_sqlites_rules_are_no_loss(folder):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        end = store.append("m", 1, [Event("learned", bytes(10_000))] * 500)
        store.trim("m", 400)
        store.purge()
        for statements in (
            ["PRAGMA wal_checkpoint(TRUNCATE)"],
            ["SELECT count(*) FROM events"],
            ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"],
            ["VACUUM", "PRAGMA wal_checkpoint(RESTART)"],
        ):
            command = [sys.executable, "-c", OTHERS, folder / "hinged.db", *statements]
            sizes = []
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
                for _ in statements:
                    assert other.stdout.readline()
                    sizes.append((folder / "hinged.db").stat().st_size)
                    assert store.end("m") == end
                end = store.append("m", end, [Event("learned", b"more")])
                other.communicate("\n")
            end = store.append("m", end, [Event("learned", bytes(10_000))] * 50)
        assert min(sizes) < 2_500_000  # 5 MB before
    with closing(SQLiteStore(folder)) as store:
        assert len(list(store.read("m", 0))) == end - 400


def test_readers_and_writers_are_not_mistaken_for_a_loss_while_sqlite_restarts_and_cuts_its_log(folder):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        stop, seen = threading.Event(), []

        def look():
            while not stop.is_set():
                seen.append(store.end("m"))

        with ThreadPoolExecutor(2) as pool:
            looking = [pool.submit(look) for _ in range(2)]
            try:
                end = 1
                for n in range(300):
                    end = store.append("m", end, [Event("learned", bytes(1000 * (n % 40)))])
                    if n % 7 == 0:
                        store._writer.truncate_log()
            finally:
                stop.set()
            for each in looking:
                each.result()
        assert seen


STEPS = [
    "append",
    "append",
    "append",
    "read",
    "snapshot",
    "fail",
    "trim",
    "trim",
    "away",
    "back",
    "cut",
    "cut",
    "whole",
]


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    history=st.lists(st.sampled_from(STEPS), min_size=10, max_size=25),
    shares=st.lists(st.tuples(st.sampled_from(["", "-wal"]), st.floats(0, 1)), min_size=1, max_size=2),
)
@example(history=["append", "append", "trim", "cut", "append"], shares=[("", 1.0)])
@example(history=["append", "append", "trim", "cut", "read"], shares=[("", 0.5)])
def test_acknowledged_events_are_in_the_folder_however_often_it_is_taken_away_or_cut(history, shares):
    with tempfile.TemporaryDirectory() as parent:
        folder, moved, kept = (Path(parent) / name for name in ("data", "moved", "kept"))
        with closing(SQLiteStore(folder)) as store:
            store.create("m", CREATED)
            end, whole, trimmed = 1, True, 0

            def mend():
                for file in kept.iterdir():  # in other processes, because closing the files here would drop the locks
                    subprocess.run(["cp", file, folder], check=True)
                shutil.rmtree(kept)

            for step in history:
                there = folder.exists()
                match step:
                    case "away" if there:
                        folder.rename(moved)
                    case "back" if not there:
                        moved.rename(folder)
                    case "cut" if there and whole:
                        kept.mkdir()
                        for suffix, share in shares:
                            file = folder / f"hinged.db{suffix}"
                            if not (kept / file.name).exists() and file.stat().st_size:
                                subprocess.run(["cp", file, kept], check=True)
                                cut(file, min(share, 0.99))
                                whole = False
                        if whole:
                            kept.rmdir()
                    case "whole" if there and not whole:
                        mend()
                        whole = True
                    case "append" | "snapshot" | "read" | "fail" | "trim":
                        good = there and whole and step != "fail"
                        with nullcontext() if good else pytest.raises(StoreUnavailable):
                            if step == "append":
                                end = store.append("m", end, [Event("learned", b"x" * 5000)])
                            elif step == "snapshot":
                                store.put_snapshot("m", end, b"state" * 1000)
                            elif step == "read":
                                assert len(list(store.read("m", 0))) == end - trimmed
                            elif step == "trim":  # a trim empties the log
                                trimmed = end // 2 if good else trimmed
                                store.trim("m", end // 2)
                            else:
                                store._writer.do(lambda connection: connection.execute("SELECT * FROM nothing"))
            if not folder.exists():
                moved.rename(folder)
            if not whole:
                mend()
        with closing(SQLiteStore(folder)) as store:
            assert store.end("m") == end
            assert len(list(store.read("m", 0))) == end - trimmed
