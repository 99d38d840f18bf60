"""SQLite's file is removed, moved or replaced while the store is open."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storing import CREATED

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Event, OutcomeUnknown
from hinged.service.store.sqlite import SQLiteStore


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


AWAY = [remove_database, remove_log, remove_all, put_a_copy, put_another_log, move_folder, move_folder_and_begin_anew]


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


@pytest.mark.parametrize("away", AWAY)
def test_what_was_being_written_when_the_file_was_taken_away_is_not_acknowledged(folder, away):
    with closing(SQLiteStore(folder)) as store:
        store.create("m", CREATED)
        with pytest.raises(OutcomeUnknown, match="removed, moved or replaced while the server ran"):
            store._writer.do(lambda _: away(folder))
        with pytest.raises(StoreUnavailable):
            store.end("m")


def test_a_file_that_is_taken_away_is_an_error_in_the_log_once(folder, caplog):
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


@settings(max_examples=30, deadline=None)
@given(history=st.lists(st.sampled_from(["append", "append", "read", "snapshot", "fail", "away", "back"]), max_size=25))
def test_what_is_acknowledged_is_in_the_folder_however_often_it_moves_away_and_comes_back(history):
    with tempfile.TemporaryDirectory() as parent:
        folder, moved = Path(parent) / "data", Path(parent) / "moved"
        with closing(SQLiteStore(folder)) as store:
            store.create("m", CREATED)
            end = 1
            for step in history:
                there = folder.exists()
                match step:
                    case "away" if there:
                        folder.rename(moved)
                    case "back" if not there:
                        moved.rename(folder)
                    case "append" | "snapshot" | "read" | "fail":
                        with nullcontext() if there and step != "fail" else pytest.raises(StoreUnavailable):
                            if step == "append":
                                end = store.append("m", end, [Event("learned", b"x" * 5000)])
                            elif step == "snapshot":
                                store.put_snapshot("m", end, b"state" * 1000)
                            elif step == "read":
                                assert len(list(store.read("m", 0))) == end
                            else:
                                store._writer.do(lambda connection: connection.execute("SELECT * FROM nothing"))
            if not folder.exists():
                moved.rename(folder)
        with closing(SQLiteStore(folder)) as store:
            assert store.end("m") == end
            assert len(list(store.read("m", 0))) == end
