"""The embedded store: one SQLite file in the data folder.

Data that may be large is written or removed in slices: a snapshot, or trimmed, redacted or deleted rows. Each slice is
one transaction, so an append never waits for more than one slice. Data is first made invisible and then removed. When
the store is opened, it removes what a crash has left. A purge rewrites all remaining data in the same way (moving.py).
The transactions are in steps.py.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing, suppress
from functools import partial
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING

from hinged.disk import make_folder
from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import (
    MISSING,
    SNAPSHOT_CHUNK_BYTES,
    SPOILED,
    Damaged,
    Event,
    NoModel,
    OutcomeUnknown,
    PositionTaken,
    Room,
    Store,
)
from hinged.service.store.checks import (
    check_places,
    event_checksum,
    snapshot_hash,
    sound,
)
from hinged.service.store.sqlite import steps
from hinged.service.store.sqlite.moving import move_all
from hinged.service.store.sqlite.place import DatabaseFile
from hinged.service.store.sqlite.readers import ConnectionPool
from hinged.service.store.sqlite.schema import connect, lock_folder, prepare
from hinged.service.store.sqlite.steps import BATCH_BYTES, BATCH_EVENTS, QUESTION_IDS
from hinged.service.store.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

READERS_S = 5.0
"""Seconds that a purge waits for readers of the database. Between two attempts, other threads may write."""
EVERYTHING = 2**62
"""A position after all events."""

EventRow = tuple[int, bytes, bytes, int]
"""Position, kind, payload and checksum."""


class SQLiteStore(Store):
    """A store in the folder `path`. The folder is created if it is missing, and belongs to one process at a time.

    reading: only read, in a process that is not the owner.
    """

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        file = self._file = path / "hinged.db"
        # Snapshots that a thread is writing now. Jobs add snapshots; other code removes them afterwards.
        self._in_progress: set[int] = set()
        self._purging = Lock()
        self._lock: sqlite3.Connection | None = None
        opening = partial(connect, file, reading=reading)
        try:
            if not reading:
                make_folder(path)
                self._lock = lock_folder(path)
            try:
                if not reading:
                    prepare(file)
                self._place = place = DatabaseFile(file)
                self._writer = Writer(opening, place)
                self.commits = self._writer.commits
                self._readers = ConnectionPool(opening, place)
            except BaseException:
                self._unlock()
                raise
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"the store in {path} cannot be opened: {error}") from error
        if reading:
            return
        # Leftovers are invisible. So the server can start even if the disk is too full to remove them.
        with suppress(StoreUnavailable):
            self._sweep()

    def models(self) -> list[str]:
        """Return the sorted names of the models that have a log."""
        with self._readers.lend() as connection:
            rows = connection.execute("SELECT name FROM models WHERE name IS NOT NULL").fetchall()
        return sorted(name for (name,) in rows)

    def create(self, model: str, first: Event) -> None:
        """Begin a log."""

        def work(connection: sqlite3.Connection) -> None:
            if connection.execute("SELECT 1 FROM models WHERE name = ?", (model,)).fetchone():
                raise KeyError(model)
            key = connection.execute("INSERT INTO models (name) VALUES (?)", (model,)).lastrowid
            steps.insert(connection, key or 0, 1, [first])

        self._writer.do(work)

    def delete(self, model: str) -> None:
        """Remove the name of the model, which deletes the model; then remove its rows."""

        def work(connection: sqlite3.Connection) -> None:
            if not connection.execute("UPDATE models SET name = NULL WHERE name = ?", (model,)).rowcount:
                raise NoModel(model)

        self._writer.do(work)
        try:
            self._sweep()
            self._writer.truncate_log()
        except StoreUnavailable as error:
            raise OutcomeUnknown(f"{model} is deleted, but some of its data is not yet removed: {error}") from error

    def append(self, model: str, after: int, events: Sequence[Event]) -> int:
        """Append in one transaction, together with simultaneous appends of other models."""

        def work(connection: sqlite3.Connection) -> int:
            key, end = steps.key_and_end(connection, model)
            if end != after:
                raise PositionTaken(f"the log of {model} ends at {end}, not at {after}")
            steps.insert(connection, key, after + 1, events)
            return after + len(events)

        return self._writer.do(work)

    def end(self, model: str) -> int:
        """Return the position of the last event."""
        with self._readers.lend() as connection:
            return steps.key_and_end(connection, model)[1]

    def read(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Yield the events after `after`. They are read a batch at a time, so a slow caller keeps no
        transaction open.
        """
        return sound(model, self._open_log(model, after))

    def read_around(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Do the same as `read`, but yield Lost events."""
        return self._open_log(model, after)

    def _open_log(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        with self._readers.lend() as connection:
            key, end = steps.key_and_end(connection, model)
            ((trimmed,),) = connection.execute("SELECT trimmed FROM models WHERE id = ?", (key,)).fetchall()
        return self._read(model, key, max(after, trimmed), end)

    def find(self, model: str, ids: Sequence[str]) -> dict[str, int]:
        """Return positions from the index."""
        found: dict[str, int] = {}
        with self._readers.lend() as connection:
            key = steps.key_of(connection, model)
            for start in range(0, len(ids), QUESTION_IDS):
                asked = ids[start : start + QUESTION_IDS]
                for table in steps.both("ids"):
                    rows = connection.execute(
                        f"SELECT {table}.id, position FROM {table} JOIN models ON models.id = model"  # noqa: S608
                        f" WHERE model = ? AND position > trimmed AND {table}.id IN ({', '.join('?' * len(asked))})",
                        (key, *asked),
                    )
                    for name, position in rows.fetchall():
                        found[name] = max(position, found.get(name, 0))
        return found

    def put_snapshot(self, model: str, position: int, state: bytes) -> None:
        """Write the chunks, make them visible, then remove snapshots that are no longer kept."""
        with suppress(StoreUnavailable):
            self._sweep()
        digest = snapshot_hash(position)
        key, snapshot = self._writer.do(partial(self._begin_snapshot, model, position))
        try:
            for part, start in enumerate(range(0, len(state), SNAPSHOT_CHUNK_BYTES)):
                data = memoryview(state)[start : start + SNAPSHOT_CHUNK_BYTES]
                digest.update(data)
                self._writer.do(partial(steps.insert_chunk, model, key, snapshot, part, data))
            self._writer.do(partial(steps.complete_snapshot, model, key, snapshot, digest.digest()))
        finally:
            self._in_progress.discard(snapshot)
            with suppress(StoreUnavailable):
                self._sweep()

    def snapshots(self, model: str) -> list[int]:
        """Return the positions of the snapshots, newest first."""
        with self._readers.lend() as connection:
            rows = connection.execute(
                "SELECT position FROM snapshots WHERE model = ? AND complete ORDER BY position DESC",
                (steps.key_of(connection, model),),
            ).fetchall()
        return [position for (position,) in rows]

    def get_snapshot(self, model: str, position: int) -> bytes:
        """Read the chunks in one transaction, so that a snapshot that is replaced meanwhile can be read completely."""
        state, digest = BytesIO(), snapshot_hash(position)
        with self._readers.lend() as connection, steps.reading(connection):
            snapshot = connection.execute(
                "SELECT id, digest FROM snapshots WHERE model = ? AND position = ? AND complete",
                (steps.key_of(connection, model), position),
            ).fetchone()
            if snapshot is None:
                raise KeyError(position)
            parts = steps.from_both("SELECT part, CAST(data AS BLOB) FROM {} WHERE snapshot = ?1", "chunks")
            with closing(connection.execute(f"{parts} ORDER BY part", snapshot[:1])) as rows:
                for _, chunk in rows:
                    state.write(chunk or b"")
                    digest.update(chunk or b"")
        if snapshot[1] != digest.digest():
            raise Damaged(f"the snapshot of {model} at position {position} fails its checksum")
        return state.getvalue()

    def trim(self, model: str, through: int) -> None:
        """Remove the first events, a slice at a time."""
        with self._readers.lend() as connection:
            key, end = steps.key_and_end(connection, model)
        through = min(through, end)
        self._writer.do(partial(steps.drop_snapshots, key, through))
        self._sweep()
        self._forget(key, through)
        self._writer.truncate_log()

    def redact(self, model: str, through: int, events: Mapping[int, Event], ids: Sequence[str]) -> None:
        """Drop the snapshots, then replace events a slice at a time, each together with its ids."""
        check_places(through, events)
        with self._readers.lend() as connection:
            key, end = steps.key_and_end(connection, model)
            if end < through:
                raise PositionTaken(f"the log of {model} ends at {end}, not at {through} or later")
            carried = steps.carried(connection, key, through, ids)
        slices = [*steps.slices(events, carried)]
        self._writer.do(partial(steps.drop_snapshots, key, through))
        for rows, names in slices:
            self._writer.do(partial(steps.replace, key, through, rows, names))
        self._sweep()

    def purge(self) -> list[str]:
        """Remove invisible rows and empty the write-ahead log. Move all other rows.

        Also remove ids that remain because a crash interrupted a trim.
        """
        told = []
        try:
            self._sweep()
            with self._readers.lend() as connection:
                leftover = {
                    row
                    for table in steps.both("ids")
                    for row in connection.execute(
                        f"SELECT DISTINCT models.id, trimmed FROM models JOIN {table} ON model = models.id"  # noqa: S608
                        " WHERE position <= trimmed"
                    ).fetchall()
                }
            for key, trimmed in leftover:
                self._forget(key, trimmed)
        except (StoreUnavailable, Damaged) as error:
            told.append(f"Not all that was dropped was removed: {error}.")
        with self._purging:
            try:
                move_all(self._writer)
            except (StoreUnavailable, Damaged) as error:
                told.append(f"The database was not rewritten: {error}.")
            try:
                end = time.monotonic() + READERS_S
                while not self._writer.truncate_log():
                    if time.monotonic() >= end:
                        return [*told, "The write-ahead log was not emptied: somebody reads the database."]
            except StoreUnavailable as error:
                told.append(f"The write-ahead log was not emptied: {error}.")
            return told

    def room(self) -> Room:
        """Return the size of the file and its companion files, and the free space on its disk."""
        files = [self._file.with_name(self._file.name + suffix) for suffix in ("", "-wal", "-shm")]
        used = sum(file.stat().st_size for file in files if file.exists())
        return Room(used, shutil.disk_usage(self._file.parent).free)

    def close(self) -> None:
        """Wait for the write in progress, then close all connections and release the folder."""
        self._writer.close()
        self._readers.close()
        self._place.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _read(self, model: str, key: int, after: int, end: int) -> Iterator[tuple[int, Event]]:
        while after < end:
            batch = self._batch(key, after, end)
            if not batch or batch[0][0] != after + 1:
                self._check_there(model, key)
            for position, kind, payload, checksum in batch:
                yield from ((missing, MISSING) for missing in range(after + 1, position))
                after = position
                whole = _is_whole(position, kind, payload, checksum)
                yield position, Event(kind.decode(), payload) if whole else SPOILED
            if not batch:
                yield from ((missing, MISSING) for missing in range(after + 1, end + 1))
                return

    def _check_there(self, model: str, key: int) -> None:
        """Raise NoModel if the model was deleted during a read. In that case its missing events are not damage."""
        with self._readers.lend() as connection:
            if steps.key_of(connection, model) != key:
                raise NoModel(model)

    def _batch(self, key: int, after: int, end: int) -> list[EventRow]:
        """Return events after `after`, unchecked, as many as BATCH_BYTES and BATCH_EVENTS allow."""
        batch: list[EventRow] = []
        size = 0
        with self._readers.lend() as connection:
            # CAST: damage may change a value's type, or turn text into invalid UTF-8.
            query = (
                "SELECT position, CAST(kind AS BLOB), CAST(payload AS BLOB), checksum FROM {}"
                " WHERE model = ?1 AND position > ?2 AND position <= ?3"
            )
            rows = connection.execute(
                f"{steps.from_both(query, 'events')} ORDER BY position LIMIT ?4", (key, after, end, BATCH_EVENTS)
            )
            with closing(rows):
                for row in rows:
                    batch.append(row)
                    size += len(row[2] or b"")
                    if size >= BATCH_BYTES:
                        break
        return batch

    def _begin_snapshot(self, model: str, position: int, connection: sqlite3.Connection) -> tuple[int, int]:
        key, end = steps.key_and_end(connection, model)
        if end < position:
            raise PositionTaken(f"the log of {model} ends at {end}, not at {position} or later")
        inserted = connection.execute("INSERT INTO snapshots (model, position) VALUES (?, ?)", (key, position))
        snapshot = inserted.lastrowid or 0
        self._in_progress.add(snapshot)
        return key, snapshot

    def _sweep(self) -> None:
        """Remove invisible rows: deleted models, and snapshots that were dropped or never finished."""

        def leftovers(connection: sqlite3.Connection) -> tuple[list[int], list[int]]:
            deleted = connection.execute("SELECT id FROM models WHERE name IS NULL").fetchall()
            # This runs as a job, so that no snapshot becomes complete between the query and the check of _in_progress.
            # A snapshot without a model gets no more chunks, whoever is writing it.
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
            self._repeat(partial(steps.remove_chunk, snapshot))
        for key in deleted:
            self._forget(key, EVERYTHING)
            self._writer.do(partial(steps.remove_model, key))

    def _forget(self, key: int, through: int) -> None:
        """Remove events and index entries up to and including `through`."""
        self._repeat(partial(steps.remove_events, key, through))
        for table in steps.both("ids"):
            start: str | None = ""
            while start is not None:
                start = self._writer.do(partial(steps.remove_ids, table, key, through, start))

    def _repeat(self, work: Callable[[sqlite3.Connection], bool]) -> None:
        """Run `work` in one transaction after another until it reports that nothing is left."""
        while self._writer.do(work):
            pass


def _is_whole(position: int, kind: bytes | None, payload: bytes | None, checksum: int) -> bool:
    return kind is not None and payload is not None and event_checksum(position, kind, payload) == checksum
