"""Rewrite the database file a slice at a time, while other threads write.

SQLite overwrites a removed row, and fills an empty page with zeros (`secure_delete`). But a page in use may keep copies
of rows that have moved to another page. So a purge gives each large table's name to a new table and moves the rows over
from the old table. Once the old table is empty, each of its pages has been filled with zeros. Until then a row is in
either table, and readers look into both (steps.py). After a crash, the next purge goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hinged.service.store.sqlite.schema import (
    MOVING,
    MOVING_VERSION,
    SCHEMA_VERSION,
    SMALL_TABLES,
    SNAPSHOTS_INDEX,
    TABLES,
)
from hinged.service.store.sqlite.steps import BATCH_EVENTS, SLICE_IDS, last_of_slice

if TYPE_CHECKING:
    import sqlite3

    from hinged.service.store.sqlite.writer import Writer


MOVED_BYTES = 2**18
"""Payload of a slice, in bytes. It is written twice: as data in the new table, as zeros in the old."""


def move_all(writer: Writer) -> None:
    """Move all rows, first those that an earlier purge has left. A writer's error loses nothing; the next purge goes
    on.
    """
    if writer.do(_is_moving):
        _move_rest(writer)
    writer.do(_begin)
    _move_rest(writer)


def _move_rest(writer: Writer) -> None:
    for move in (_move_events, _move_ids, _move_chunk):
        while writer.do(move):
            pass
    writer.do(_end)


def _is_moving(connection: sqlite3.Connection) -> bool:
    ((version,),) = connection.execute("PRAGMA user_version")
    return bool(version == MOVING_VERSION)


def _begin(connection: sqlite3.Connection) -> None:
    for name, columns in TABLES.items():
        connection.execute(f"DROP TABLE {name}{MOVING}")
        connection.execute(f"ALTER TABLE {name} RENAME TO {name}{MOVING}")
        connection.execute(f"CREATE TABLE {name} {columns}")
    connection.execute(f"PRAGMA user_version={MOVING_VERSION}")


def _end(connection: sqlite3.Connection) -> None:
    """Drop the tables that are empty now, with their last pages; move the small tables at once."""
    for name, columns in TABLES.items():
        connection.execute(f"DROP TABLE {name}{MOVING}")
        connection.execute(f"CREATE TABLE {name}{MOVING} {columns}")
    for name, columns in SMALL_TABLES.items():
        connection.execute(f"ALTER TABLE {name} RENAME TO {name}{MOVING}")
        connection.execute(f"CREATE TABLE {name} {columns}")
        connection.execute(f"INSERT INTO {name} SELECT * FROM {name}{MOVING}")  # noqa: S608
        # Numbers of removed rows must not be used again.
        connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        connection.execute("UPDATE sqlite_sequence SET name = ? WHERE name = ?", (name, f"{name}{MOVING}"))
        connection.execute(f"DROP TABLE {name}{MOVING}")
    connection.execute(SNAPSHOTS_INDEX)
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _move_events(connection: sqlite3.Connection) -> bool:
    """Move a slice of events; return whether there was any."""
    last = last_of_slice(
        connection.execute("SELECT rowid, length(payload) FROM events_moving ORDER BY rowid LIMIT ?", (BATCH_EVENTS,)),
        MOVED_BYTES,
    )
    if last is None:
        return False
    connection.execute("INSERT INTO events SELECT * FROM events_moving WHERE rowid <= ? ORDER BY rowid", (last,))
    connection.execute("DELETE FROM events_moving WHERE rowid <= ?", (last,))
    return True


def _move_ids(connection: sqlite3.Connection) -> bool:
    """Move a slice of ids, except ids that have come again; return whether there was any."""
    connection.execute("INSERT OR IGNORE INTO ids SELECT * FROM ids_moving ORDER BY model, id LIMIT ?", (SLICE_IDS,))
    return bool(
        connection.execute(
            "DELETE FROM ids_moving WHERE (model, id) IN (SELECT model, id FROM ids_moving ORDER BY model, id LIMIT ?)",
            (SLICE_IDS,),
        ).rowcount
    )


def _move_chunk(connection: sqlite3.Connection) -> bool:
    """Move a part of a snapshot; return whether there was any."""
    first = "rowid = (SELECT min(rowid) FROM chunks_moving)"
    connection.execute(f"INSERT INTO chunks SELECT * FROM chunks_moving WHERE {first}")  # noqa: S608
    return bool(connection.execute(f"DELETE FROM chunks_moving WHERE {first}").rowcount)  # noqa: S608
