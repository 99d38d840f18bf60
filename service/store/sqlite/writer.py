"""The only connection that writes to a SQLite file, and the group commit in front of it.

A commit costs one fsync, whatever it contains. So a thread that finds no other thread writing takes all waiting jobs,
including its own, and commits them together. Jobs that arrive meanwhile wait for the next group. Each job runs in its
own savepoint and fails alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Condition
from typing import Any, TypeVar

from prometheus_client import Histogram

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import BOUNDS_S, OutcomeUnknown
from hinged.service.store.sqlite.place import DatabaseFile, FileReplaced
from hinged.service.store.sqlite.schema import TIMEOUT_S

BUSY_MS = 50
"""Milliseconds for which writers wait at a time until no reader uses the write-ahead log that is to be emptied."""

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Job = tuple[Work[Any], "Future[Any]"]


class Writer:
    """Runs jobs from any thread on one connection, several to a transaction."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], place: DatabaseFile) -> None:
        self._connect = connect
        self._place = place
        self._connection: sqlite3.Connection | None = None
        self._turn = Condition()
        # Guarded by _turn. The thread that sets _led owns the connection until it clears _led.
        self._led = False
        # Number of threads that need the connection without a transaction. They go first. No leader commits their work,
        # so a thread that writes without a pause would keep them waiting for ever.
        self._claims = 0
        self._waiting: list[Job] = []
        self._closed = False
        meaning = "Time of a commit, with its fsync; appends of several models may share one."
        self.commits = Histogram("hinged_store_commit_duration_seconds", meaning, buckets=BOUNDS_S, registry=None)

    def do(self, work: Work[T]) -> T:
        """Run `work` in a transaction; when this returns, its changes are on disk.

        If `work` raises an error, its changes are undone and the error is raised here. Raise StoreUnavailable if
        nothing was written, OutcomeUnknown if the commit failed.
        """
        outcome: Future[T] = Future()
        group: list[Job] = []
        with self._turn:
            self._waiting.append((work, outcome))
            while (self._led or self._claims) and not outcome.done():
                self._turn.wait()
            if not outcome.done():
                self._led = True
                group, self._waiting = self._waiting, group
        if group:
            try:
                self._commit(group)
            finally:
                self._yield_turn()
        return outcome.result()

    def truncate_log(self) -> bool:
        """Empty the write-ahead log, which still contains deleted bytes. Return false if somebody reads the database.

        Raise StoreUnavailable if that fails.
        """
        with self._alone():
            try:
                connection = self._connected()
                connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
                ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                connection.execute(f"PRAGMA busy_timeout={round(1000 * TIMEOUT_S)}")
            except sqlite3.Error as error:
                self._disconnect()
                raise StoreUnavailable(f"the store could not empty its write-ahead log: {error}") from error
            self._place.check()  # records the new length of the database
        return not busy

    def close(self) -> None:
        """Wait for the group in progress, then close the connection."""
        with self._alone():
            self._closed = True
            self._disconnect()

    def _commit(self, group: list[Job]) -> None:
        """Run and commit `group`, and set the outcome of each job."""
        failure, what = StoreUnavailable, "the store did not take the write"
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            self._place.note_log()
            results = [_attempt(connection, work) for work, _ in group]
            failure, what = OutcomeUnknown, "the store failed while it committed; the write may last or not"
            with self.commits.time():
                connection.execute("COMMIT")
            self._place.check()
            for (_, outcome), (value, error) in zip(group, results, strict=True):
                if error is None:
                    outcome.set_result(value)
                else:
                    outcome.set_exception(error)
        except BaseException as error:
            # A failed commit may leave the transaction open. A new connection reads the actual content of the file, and
            # the next commit overwrites the frames of a failed commit. If the file was moved, it stays open, because it
            # may come back.
            if not isinstance(error, FileReplaced):
                self._disconnect()
            for _, outcome in group:
                # Each thread gets its own exception object, because raising an exception writes a traceback into it.
                if not outcome.done():
                    outcome.set_exception(failure(f"{what}: {error}"))
            if not isinstance(error, sqlite3.Error | StoreUnavailable):
                raise

    def _connected(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        self._place.check()
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._place.forget_log()
            self._connection.close()
            self._connection = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._turn:
            self._claims += 1
            try:
                while self._led:
                    self._turn.wait()
                self._led = True
            finally:
                self._claims -= 1
                # If this wait is interrupted, the threads that let this thread go first must continue.
                self._turn.notify_all()
        try:
            yield
        finally:
            self._yield_turn()

    def _yield_turn(self) -> None:
        with self._turn:
            self._led = False
            self._turn.notify_all()


def _attempt(connection: sqlite3.Connection, work: Work[T]) -> tuple[T | None, Exception | None]:
    """Run `work` in a savepoint; return its value, or its error after undoing its changes."""
    connection.execute("SAVEPOINT job")
    try:
        value = work(connection)
    except Exception as error:
        # If SQLite has rolled back the whole transaction (disk full, I/O error), the whole group fails. A group also
        # fails on a connection that only reads: SQLite opens a file for reading if it cannot open it for writing.
        reads_only = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY
        if reads_only or not connection.in_transaction:
            raise
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        if isinstance(error, sqlite3.Error):
            refused = StoreUnavailable(f"the store did not take the write: {error}")
            refused.__cause__ = error
            return None, refused
        return None, error
    connection.execute("RELEASE job")
    return value, None
