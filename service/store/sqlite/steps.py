"""The steps of the embedded store, each in one transaction or one query: each function gets the connection for it.

A model is known by its number in the file, `key`: a later model of the same name has another number. A row of a large
table may be in the second table of the same form instead (moving.py).
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import SNAPSHOTS_KEPT, NoModel
from hinged.service.store.checks import event_checksum
from hinged.service.store.sqlite.schema import MOVING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence

    from hinged.service.store.base import Event

BATCH_BYTES = 2**20
"""Payload read, removed or replaced at once, in bytes; at least one event. A larger value delays appends."""
BATCH_EVENTS = 1_000  # most events in a batch or slice
SLICE_IDS = 4_096  # most ids in a slice
QUESTION_IDS = 500
"""Most ids in one query, because SQLite may be built with at most 999 parameters."""

NewRow = tuple[str, bytes, int, int]
"""Kind, payload, checksum and position."""


def both(table: str) -> tuple[str, str]:
    """The tables in which a row may be, first the table that it leaves: read in this order, no row is missed."""
    return f"{table}{MOVING}", table


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """Read one state of the file with several queries."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def from_both(query: str, table: str) -> str:
    """A query, with {} for a table's name, over both tables of that form."""
    return " UNION ALL ".join(query.format(name) for name in both(table))


def key_of(connection: sqlite3.Connection, model: str) -> int:
    """The model's number in the file."""
    row = connection.execute("SELECT id FROM models WHERE name = ?", (model,)).fetchone()
    if row is None:
        raise NoModel(model)
    return int(row[0])


def key_and_end(connection: sqlite3.Connection, model: str) -> tuple[int, int]:
    """The model's number and the position of its last event."""
    row = connection.execute(
        "SELECT id, max(trimmed, coalesce((SELECT max(position) FROM events WHERE model = id), 0),"
        " coalesce((SELECT max(position) FROM events_moving WHERE model = id), 0)) FROM models WHERE name = ?",
        (model,),
    ).fetchone()
    if row is None:
        raise NoModel(model)
    return row[0], row[1]


def insert(connection: sqlite3.Connection, key: int, first: int, events: Sequence[Event]) -> None:
    """Write `events` from position `first` on, and their ids; an id refers to its newest event."""
    numbered = list(enumerate(events, first))
    connection.executemany(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
        (
            (key, at, event.kind, event.payload, event_checksum(at, event.kind.encode(), event.payload))
            for at, event in numbered
        ),
    )
    ids = [(key, name, at) for at, event in numbered for name in event.ids]
    if ids:
        connection.executemany("INSERT OR REPLACE INTO ids VALUES (?, ?, ?)", ids)


def carried(connection: sqlite3.Connection, key: int, through: int, ids: Sequence[str]) -> dict[int, list[str]]:
    """The ids among `ids` that the index has at positions up to `through`, by position."""
    carried: dict[int, list[str]] = defaultdict(list)
    for start in range(0, len(ids), QUESTION_IDS):
        asked = ids[start : start + QUESTION_IDS]
        for table in both("ids"):
            rows = connection.execute(
                f"SELECT position, id FROM {table} WHERE model = ? AND position <= ?"  # noqa: S608 (only marks)
                f" AND id IN ({', '.join('?' * len(asked))})",
                (key, through, *asked),
            )
            for position, name in rows.fetchall():
                carried[position].append(name)
    return carried


def slices(events: Mapping[int, Event], carried: Mapping[int, list[str]]) -> Iterator[tuple[list[NewRow], list[str]]]:
    """Slices of events to write and ids to remove. An event with more ids than a slice holds comes with the last."""
    rows: list[NewRow] = []
    names: list[str] = []
    size = 0
    for at in sorted({*events, *carried}):
        mine = carried.get(at, [])
        if len(names) + len(mine) > SLICE_IDS or len(rows) == BATCH_EVENTS or size >= BATCH_BYTES:
            yield rows, names
            rows, names, size = [], [], 0
        while len(mine) > SLICE_IDS:
            yield [], mine[:SLICE_IDS]
            mine = mine[SLICE_IDS:]
        names += mine
        if at in events:
            kind, payload = events[at].kind, events[at].payload
            rows.append((kind, payload, event_checksum(at, kind.encode(), payload), at))
            size += len(payload)
    yield rows, names


def replace(key: int, through: int, rows: list[NewRow], names: list[str], connection: sqlite3.Connection) -> None:
    """Replace the events that are there by `rows`, and remove `names` up to `through`."""
    for table in both("events"):
        connection.executemany(
            f"UPDATE {table} SET kind = ?, payload = ?, checksum = ? WHERE position = ? AND model = ?",  # noqa: S608
            ((*row, key) for row in rows),
        )
    for table in both("ids"):
        connection.executemany(
            f"DELETE FROM {table} WHERE model = ? AND id = ? AND position <= ?",  # noqa: S608
            ((key, name, through) for name in names),
        )


def drop_snapshots(key: int, before: int, connection: sqlite3.Connection) -> None:
    """Take snapshots, complete or not, from the model, so that nobody can read them or go on writing them."""
    connection.execute("UPDATE snapshots SET complete = 0, model = 0 WHERE model = ? AND position < ?", (key, before))


def dropped(connection: sqlite3.Connection, model: str, key: int) -> Exception:
    """The error for a snapshot that was dropped while it was written, with or without its model."""
    with suppress(NoModel):
        if key_of(connection, model) == key:
            return StoreUnavailable(
                f"a snapshot of {model} was dropped while it was written: the log was trimmed or redacted"
            )
    return NoModel(model)


def insert_chunk(
    model: str, key: int, snapshot: int, part: int, data: memoryview, connection: sqlite3.Connection
) -> None:
    """Write a part of a snapshot, while the snapshot has a model."""
    inserted = connection.execute(
        "INSERT INTO chunks SELECT snapshots.id, ?, ? FROM snapshots JOIN models ON models.id = model"
        " WHERE snapshots.id = ? AND name IS NOT NULL",
        (part, data, snapshot),
    )
    if not inserted.rowcount:
        raise dropped(connection, model, key)


def complete_snapshot(model: str, key: int, snapshot: int, digest: bytes, connection: sqlite3.Connection) -> None:
    """Make a snapshot visible; hide the snapshot that it replaces, and snapshots older than the newest."""
    if not connection.execute(
        "UPDATE snapshots SET digest = ?, complete = 1 WHERE id = ?"
        " AND EXISTS (SELECT 1 FROM models WHERE models.id = model AND name IS NOT NULL)",
        (digest, snapshot),
    ).rowcount:
        raise dropped(connection, model, key)
    ((position,),) = connection.execute("SELECT position FROM snapshots WHERE id = ?", (snapshot,)).fetchall()
    connection.execute(
        "UPDATE snapshots SET complete = 0 WHERE model = ? AND complete AND ("
        " (position = ? AND id <> ?) OR id NOT IN ("
        "  SELECT max(id) FROM snapshots WHERE model = ? AND complete"
        "  GROUP BY position ORDER BY position DESC LIMIT ?))",
        (key, position, snapshot, key, SNAPSHOTS_KEPT),
    )


def remove_chunk(snapshot: int, connection: sqlite3.Connection) -> bool:
    """Remove a chunk, or the snapshot if it has no chunk left; return whether there is more."""
    for table in both("chunks"):
        removed = connection.execute(
            f"DELETE FROM {table} WHERE rowid = (SELECT rowid FROM {table} WHERE snapshot = ? LIMIT 1)",  # noqa: S608
            (snapshot,),
        )
        if removed.rowcount:
            return True
    connection.execute("DELETE FROM snapshots WHERE id = ?", (snapshot,))
    return False


def remove_events(key: int, through: int, connection: sqlite3.Connection) -> bool:
    """Remove a slice of the first events of a log, up to `through`; return whether there may be more."""
    lengths = "SELECT position, length(payload) FROM {} WHERE model = ?1 AND position <= ?2"
    last = last_of_slice(
        connection.execute(f"{from_both(lengths, 'events')} ORDER BY position LIMIT ?3", (key, through, BATCH_EVENTS))
    )
    if last is None:
        return False
    for table in both("events"):
        connection.execute(f"DELETE FROM {table} WHERE model = ? AND position <= ?", (key, last))  # noqa: S608
    connection.execute("UPDATE models SET trimmed = ? WHERE id = ?", (last, key))
    return True


def last_of_slice(rows: sqlite3.Cursor, bytes_max: int = BATCH_BYTES) -> int | None:
    """The number of the last row in the first slice of rows (number, bytes); None if there are no rows."""
    size, last = 0, None
    for last, length in rows.fetchall():  # noqa: B007 (used after the loop)
        size += length or 0
        if size >= bytes_max:
            break
    return last


def remove_ids(table: str, key: int, through: int, start: str, connection: sqlite3.Connection) -> str | None:
    """Among SLICE_IDS ids of a table from `start` on, remove ids up to `through`; return where to go on, or None."""
    bound = connection.execute(
        f"SELECT id FROM {table} WHERE model = ? AND id >= ? ORDER BY id LIMIT 1 OFFSET ?",  # noqa: S608
        (key, start, SLICE_IDS),
    ).fetchone()
    connection.execute(
        f"DELETE FROM {table} WHERE model = ? AND position <= ? AND id IN"  # noqa: S608
        f" (SELECT id FROM {table} WHERE model = ? AND id >= ? ORDER BY id LIMIT ?)",
        (key, through, key, start, SLICE_IDS),
    )
    return bound[0] if bound else None


def remove_model(key: int, connection: sqlite3.Connection) -> None:
    """Remove a model that has no rows left."""
    connection.execute("DELETE FROM models WHERE id = ?", (key,))
