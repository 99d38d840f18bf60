"""The embedded store: one SQLite file in the data folder.

Whatever could grow large (a snapshot, what is trimmed or deleted) is written or removed in slices, each in a
transaction, so that appends never wait for more than a slice. First it is made invisible, then removed; what
a crash leaves half done is removed when the store is opened.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING

from service.errors import StoreUnavailable
from service.store.base import (
    SNAPSHOT_CHUNK_BYTES,
    SNAPSHOTS_KEPT,
    Damaged,
    Event,
    OutcomeUnknown,
    PositionTaken,
    Store,
)
from service.store.checks import event_checksum, snapshot_hash
from service.store.readers import Readers
from service.store.schema import connect, lock_folder, make_folder, prepare
from service.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

BATCH_BYTES = 2**20
"""Payload that one read or one slice of a trim takes at once, bytes; at least one event."""
BATCH_EVENTS = 1_000
SLICE_IDS = 4_096
EVERYTHING = 2**62
"""A position behind all others."""
QUESTION_IDS = 500
"""Ids that one query asks for: SQLite may be built with no more than 999 parameters."""

EventRow = tuple[int, bytes, bytes, int]


class SQLiteStore(Store):
    """A store in the folder `path`, which is made if it is missing and belongs to one process at a time."""

    def __init__(self, path: Path) -> None:
        file = path / "hinged.db"
        # Snapshots that a thread is writing just now; changed by jobs and after them.
        self._in_progress: set[int] = set()
        try:
            make_folder(path)
            self._lock = lock_folder(path)
            try:
                prepare(file)
                self._writer = Writer(partial(connect, file))
                self._readers = Readers(partial(connect, file))
            except BaseException:
                self._lock.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"the store in {path} cannot be opened: {error}") from error
        # What is left over is invisible; a disk too full to remove it is no reason not to start.
        with suppress(StoreUnavailable):
            self._sweep()

    def models(self) -> list[str]:
        """Names of the models that have a log, sorted."""
        with self._readers.lend() as connection:
            rows = connection.execute("SELECT name FROM models WHERE name IS NOT NULL").fetchall()
        return sorted(name for (name,) in rows)

    def create(self, model: str, first: Event) -> None:
        """Begin a log."""

        def work(connection: sqlite3.Connection) -> None:
            if connection.execute("SELECT 1 FROM models WHERE name = ?", (model,)).fetchone():
                raise KeyError(model)
            key = connection.execute("INSERT INTO models (name) VALUES (?)", (model,)).lastrowid
            _insert(connection, key or 0, 1, [first])

        self._writer.do(work)

    def delete(self, model: str) -> None:
        """Take the name from the model, which is the end of it, then remove its rows."""

        def work(connection: sqlite3.Connection) -> None:
            if not connection.execute("UPDATE models SET name = NULL WHERE name = ?", (model,)).rowcount:
                raise KeyError(model)

        self._writer.do(work)
        try:
            self._sweep()
            self._writer.truncate_log()
        except StoreUnavailable as error:
            raise OutcomeUnknown(f"{model} is deleted, but some of its data is not yet removed: {error}") from error

    def append(self, model: str, after: int, events: Sequence[Event]) -> int:
        """Append in one transaction, together with what other models append at the same time."""

        def work(connection: sqlite3.Connection) -> int:
            key, end = _key_and_end(connection, model)
            if end != after:
                raise PositionTaken(f"the log of {model} ends at {end}, not at {after}")
            _insert(connection, key, after + 1, events)
            return after + len(events)

        return self._writer.do(work)

    def end(self, model: str) -> int:
        """Position of the last event."""
        with self._readers.lend() as connection:
            return _key_and_end(connection, model)[1]

    def read(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Events behind `after`, read a batch at a time, so that a slow caller holds no transaction open."""
        with self._readers.lend() as connection:
            key, end = _key_and_end(connection, model)
            ((trimmed,),) = connection.execute("SELECT trimmed FROM models WHERE id = ?", (key,)).fetchall()
        return self._read(model, key, max(after, trimmed), end)

    def find(self, model: str, ids: Sequence[str]) -> dict[str, int]:
        """Positions from the index."""
        found: dict[str, int] = {}
        with self._readers.lend() as connection:
            key = _key(connection, model)
            for start in range(0, len(ids), QUESTION_IDS):
                asked = ids[start : start + QUESTION_IDS]
                rows = connection.execute(
                    "SELECT ids.id, position FROM ids JOIN models ON models.id = model"  # noqa: S608 (only marks)
                    f" WHERE model = ? AND position > trimmed AND ids.id IN ({', '.join('?' * len(asked))})",
                    (key, *asked),
                )
                found.update(rows.fetchall())
        return found

    def put_snapshot(self, model: str, position: int, state: bytes) -> None:
        """Write the chunks, then make them visible, then remove what is no longer kept."""
        with suppress(StoreUnavailable):
            self._sweep()
        digest = snapshot_hash(position)
        snapshot = self._writer.do(partial(self._begin_snapshot, model, position))
        try:
            for part, start in enumerate(range(0, len(state), SNAPSHOT_CHUNK_BYTES)):
                data = memoryview(state)[start : start + SNAPSHOT_CHUNK_BYTES]
                digest.update(data)
                self._writer.do(partial(_insert_chunk, model, snapshot, part, data))
            self._writer.do(partial(_complete_snapshot, model, snapshot, digest.digest()))
        finally:
            self._in_progress.discard(snapshot)
            with suppress(StoreUnavailable):
                self._sweep()

    def snapshots(self, model: str) -> list[int]:
        """Positions, newest first."""
        with self._readers.lend() as connection:
            rows = connection.execute(
                "SELECT position FROM snapshots WHERE model = ? AND complete ORDER BY position DESC",
                (_key(connection, model),),
            ).fetchall()
        return [position for (position,) in rows]

    def get_snapshot(self, model: str, position: int) -> bytes:
        """Read the chunks in one query: a snapshot that is replaced meanwhile is read to its end."""
        state, digest, row = BytesIO(), snapshot_hash(position), None
        with self._readers.lend() as connection:
            # There is one id; ordering by it too lets the indexes give the order: no sort of the chunks.
            rows = connection.execute(
                "SELECT digest, CAST(data AS BLOB) FROM snapshots LEFT JOIN chunks ON snapshot = id"
                " WHERE model = ? AND position = ? AND complete ORDER BY id, part",
                (_key(connection, model), position),
            )
            with closing(rows):
                for row in rows:
                    chunk = row[1] or b""
                    state.write(chunk)
                    digest.update(chunk)
        if row is None:
            raise KeyError(position)
        if row[0] != digest.digest():
            raise Damaged(f"the snapshot of {model} at position {position} fails its checksum")
        return state.getvalue()

    def trim(self, model: str, through: int) -> None:
        """Forget events from the front, a slice at a time."""
        with self._readers.lend() as connection:
            key, end = _key_and_end(connection, model)
        through = min(through, end)

        def drop_snapshots(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE snapshots SET complete = 0 WHERE model = ? AND position < ? AND complete",
                (key, through),
            )

        self._writer.do(drop_snapshots)
        self._sweep()
        self._forget(key, through)
        self._writer.truncate_log()

    def close(self) -> None:
        """Wait for the write under way, then close all connections and free the folder."""
        self._writer.close()
        self._readers.close()
        self._lock.close()

    def _read(self, model: str, key: int, after: int, end: int) -> Iterator[tuple[int, Event]]:
        while after < end:
            batch = self._batch(key, after, end)
            if not batch:
                raise self._missing(model, key, after + 1)
            for position, kind, payload, checksum in batch:
                if position != after + 1:
                    raise self._missing(model, key, after + 1)
                if not _is_whole(position, kind, payload, checksum):
                    raise Damaged(f"event {position} of {model} fails its checksum")
                after = position
                yield position, Event(kind.decode(), payload)

    def _missing(self, model: str, key: int, position: int) -> Damaged:
        """Who deletes or trims while somebody reads takes the events from under him: KeyError if deleted."""
        with self._readers.lend() as connection:
            if _key(connection, model) != key:
                raise KeyError(model)
        return Damaged(f"event {position} of {model} is missing")

    def _batch(self, key: int, after: int, end: int) -> list[EventRow]:
        """Events behind `after`, as many as BATCH_BYTES and BATCH_EVENTS allow, unchecked."""
        batch: list[EventRow] = []
        size = 0
        with self._readers.lend() as connection:
            # CAST: damage may turn a value into one of another type, or text into what is not UTF-8.
            rows = connection.execute(
                "SELECT position, CAST(kind AS BLOB), CAST(payload AS BLOB), checksum FROM events"
                " WHERE model = ? AND position > ? AND position <= ? ORDER BY position LIMIT ?",
                (key, after, end, BATCH_EVENTS),
            )
            with closing(rows):
                for row in rows:
                    batch.append(row)
                    size += len(row[2] or b"")
                    if size >= BATCH_BYTES:
                        break
        return batch

    def _begin_snapshot(self, model: str, position: int, connection: sqlite3.Connection) -> int:
        inserted = connection.execute(
            "INSERT INTO snapshots (model, position) VALUES (?, ?)", (_key(connection, model), position)
        )
        snapshot = inserted.lastrowid or 0
        self._in_progress.add(snapshot)
        return snapshot

    def _sweep(self) -> None:
        """Remove what is invisible: deleted models, snapshots that are dropped or were never finished."""

        def leftovers(connection: sqlite3.Connection) -> tuple[list[int], list[int]]:
            deleted = connection.execute("SELECT id FROM models WHERE name IS NULL").fetchall()
            # A job, so that no snapshot gets complete between the query and the look at _in_progress. To the
            # snapshot of a deleted model no chunk can be added, whoever is writing it.
            dropped = connection.execute(
                "SELECT snapshots.id, name IS NULL FROM snapshots LEFT JOIN models ON models.id = model"
                " WHERE NOT complete OR name IS NULL"
            ).fetchall()
            return (
                [key for (key,) in deleted],
                [snapshot for snapshot, orphan in dropped if orphan or snapshot not in self._in_progress],
            )

        deleted, dropped = self._writer.do(leftovers)
        for snapshot in dropped:
            self._repeat(partial(_remove_chunk, snapshot))
        for key in deleted:
            self._forget(key, EVERYTHING)
            self._writer.do(partial(_remove_model, key))

    def _forget(self, key: int, through: int) -> None:
        """Remove events and index entries up to and with position `through`."""
        self._repeat(partial(_remove_events, key, through))
        start: str | None = ""
        while start is not None:
            start = self._writer.do(partial(_remove_ids, key, through, start))

    def _repeat(self, work: Callable[[sqlite3.Connection], bool]) -> None:
        """Run `work` in one transaction after the other until it says that nothing is left."""
        while self._writer.do(work):
            pass


def _key(connection: sqlite3.Connection, model: str) -> int:
    """The model's number in the file."""
    row = connection.execute("SELECT id FROM models WHERE name = ?", (model,)).fetchone()
    if row is None:
        raise KeyError(model)
    return int(row[0])


def _key_and_end(connection: sqlite3.Connection, model: str) -> tuple[int, int]:
    row = connection.execute(
        "SELECT id, max(trimmed, coalesce((SELECT max(position) FROM events WHERE model = id), 0))"
        " FROM models WHERE name = ?",
        (model,),
    ).fetchone()
    if row is None:
        raise KeyError(model)
    return row[0], row[1]


def _insert(connection: sqlite3.Connection, key: int, first: int, events: Sequence[Event]) -> None:
    """Write `events` at positions from `first` on, and their ids; an id's newest event wins."""
    numbered = list(enumerate(events, first))
    connection.executemany(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
        (
            (key, at, event.kind, event.payload, event_checksum(at, event.kind.encode(), event.payload))
            for at, event in numbered
        ),
    )
    connection.executemany(
        "INSERT OR REPLACE INTO ids VALUES (?, ?, ?)",
        ((key, name, at) for at, event in numbered for name in event.ids),
    )


def _is_whole(position: int, kind: bytes | None, payload: bytes | None, checksum: int) -> bool:
    return kind is not None and payload is not None and event_checksum(position, kind, payload) == checksum


def _insert_chunk(model: str, snapshot: int, part: int, data: memoryview, connection: sqlite3.Connection) -> None:
    inserted = connection.execute(
        "INSERT INTO chunks SELECT snapshots.id, ?, ? FROM snapshots JOIN models ON models.id = model"
        " WHERE snapshots.id = ? AND name IS NOT NULL",
        (part, data, snapshot),
    )
    if not inserted.rowcount:
        raise KeyError(model)


def _complete_snapshot(model: str, snapshot: int, digest: bytes, connection: sqlite3.Connection) -> None:
    """Make a snapshot visible and hide the one that it replaces and those behind the newest."""
    if not connection.execute(
        "UPDATE snapshots SET digest = ?, complete = 1 WHERE id = ?"
        " AND EXISTS (SELECT 1 FROM models WHERE models.id = model AND name IS NOT NULL)",
        (digest, snapshot),
    ).rowcount:
        raise KeyError(model)
    ((key, position),) = connection.execute(
        "SELECT model, position FROM snapshots WHERE id = ?", (snapshot,)
    ).fetchall()
    connection.execute(
        "UPDATE snapshots SET complete = 0 WHERE model = ? AND complete AND ("
        " (position = ? AND id <> ?) OR id NOT IN ("
        "  SELECT max(id) FROM snapshots WHERE model = ? AND complete"
        "  GROUP BY position ORDER BY position DESC LIMIT ?))",
        (key, position, snapshot, key, SNAPSHOTS_KEPT),
    )


def _remove_chunk(snapshot: int, connection: sqlite3.Connection) -> bool:
    """Remove a chunk, or the snapshot if it has none left; whether there is more."""
    removed = connection.execute(
        "DELETE FROM chunks WHERE rowid = (SELECT rowid FROM chunks WHERE snapshot = ? LIMIT 1)", (snapshot,)
    )
    if removed.rowcount:
        return True
    connection.execute("DELETE FROM snapshots WHERE id = ?", (snapshot,))
    return False


def _remove_events(key: int, through: int, connection: sqlite3.Connection) -> bool:
    """Remove the first events of a log, at most to position `through`; whether there are more to remove."""
    rows = connection.execute(
        "SELECT position, length(payload) FROM events WHERE model = ? AND position <= ? ORDER BY position LIMIT ?",
        (key, through, BATCH_EVENTS),
    ).fetchall()
    size, last = 0, None
    for last, length in rows:  # noqa: B007 (used behind the loop)
        size += length or 0
        if size >= BATCH_BYTES:
            break
    if last is None:
        return False
    connection.execute("DELETE FROM events WHERE model = ? AND position <= ?", (key, last))
    connection.execute("UPDATE models SET trimmed = ? WHERE id = ?", (last, key))
    return True


def _remove_ids(key: int, through: int, start: str, connection: sqlite3.Connection) -> str | None:
    """Of SLICE_IDS ids from `start` on, remove those up to `through`; where to go on, or None."""
    bound = connection.execute(
        "SELECT id FROM ids WHERE model = ? AND id >= ? ORDER BY id LIMIT 1 OFFSET ?", (key, start, SLICE_IDS)
    ).fetchone()
    connection.execute(
        "DELETE FROM ids WHERE model = ? AND position <= ? AND id IN"
        " (SELECT id FROM ids WHERE model = ? AND id >= ? ORDER BY id LIMIT ?)",
        (key, through, key, start, SLICE_IDS),
    )
    return bound[0] if bound else None


def _remove_model(key: int, connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM models WHERE id = ?", (key,))
