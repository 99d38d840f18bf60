"""The one connection that writes to a SQLite file, and the group commit in front of it.

A commit costs an fsync whatever is in it. So the thread that finds nobody writing takes all jobs that wait,
its own among them, and commits them together; whoever comes meanwhile waits for the next group. Each job runs
in a savepoint of its own and fails alone.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Condition
from typing import Any, TypeVar

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import OutcomeUnknown
from hinged.service.store.sqlite.place import DatabaseFile, FileReplaced
from hinged.service.store.sqlite.schema import TIMEOUT_S
from hinged.service.store.times import Times

READERS_S = 5.0
"""How long a purge waits for those who read the database."""
BUSY_MS = 50
"""For how long of it at a time nobody writes."""

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Job = tuple[Work[Any], "Future[Any]"]


class Writer:
    """Runs jobs on one connection, from any thread, several to a transaction."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], place: DatabaseFile) -> None:
        self._connect = connect
        self._place = place
        self._connection: sqlite3.Connection | None = None
        self._turn = Condition()
        # Guarded by _turn. Who sets _led owns the connection until it clears it.
        self._led = False
        # Threads that want the connection without a transaction. They go first: no leader takes them along,
        # and a thread that writes without a pause would keep them waiting for ever.
        self._claims = 0
        self._waiting: list[Job] = []
        self._closed = False
        self.commits = Times()

    def do(self, work: Work[T]) -> T:
        """Run `work` in a transaction; when this returns, it is on disk.

        What `work` raises undoes what it did and is raised here. StoreUnavailable if nothing was written,
        OutcomeUnknown if the commit failed.
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

    def truncate_log(self) -> None:
        """Empty the write-ahead log, in which deleted bytes live on, as far as present readers allow."""
        with self._alone():
            try:
                self._connected().execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
            except sqlite3.Error as error:
                self._disconnect()
                raise StoreUnavailable(f"the store could not empty its write-ahead log: {error}") from error
            self._place.check()  # the database is longer now, and must not become shorter

    def empty_log(self) -> list[str]:
        """The same where it may take a while, a sentence for what it did not reach. Who writes is let in meanwhile."""
        end = time.monotonic() + READERS_S
        try:
            while True:
                with self._alone():
                    connection = self._connected()
                    connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
                    ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                    connection.execute(f"PRAGMA busy_timeout={round(1000 * TIMEOUT_S)}")
                    self._place.check()
                if not busy:
                    return []
                if time.monotonic() >= end:
                    return ["The write-ahead log was not emptied: somebody reads the database."]
        except FileReplaced as error:
            return [f"The write-ahead log was not emptied: {error}."]
        except sqlite3.Error as error:
            with self._alone():
                self._disconnect()
            return [f"The write-ahead log was not emptied: {error}."]

    def close(self) -> None:
        """Wait for the group under way, then let go of the file."""
        with self._alone():
            self._closed = True
            self._disconnect()

    def _commit(self, group: list[Job]) -> None:
        """Run and commit `group`; every outcome in it is settled afterwards."""
        failure, what = StoreUnavailable, "the store did not take the write"
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            self._place.note_log()
            results = [_attempt(connection, work) for work, _ in group]
            failure, what = OutcomeUnknown, "the store failed while it committed, the write may last or not"
            with self.commits.one():
                connection.execute("COMMIT")
            self._place.check()
            for (_, outcome), (value, error) in zip(group, results, strict=True):
                if error is None:
                    outcome.set_result(value)
                else:
                    outcome.set_exception(error)
        except BaseException as error:
            # A failed commit may leave the transaction open or not. A new connection reads what stands in the
            # file; the frames of a commit that is not part of it are overwritten by the next one. A file that is
            # elsewhere stays open: it may come back.
            if not isinstance(error, FileReplaced):
                self._disconnect()
            for _, outcome in group:
                # Each thread gets an exception of its own: a traceback is written into it when it is raised.
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
                # Were this wait to be interrupted, those who stood back would wait for nobody.
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
    """Run `work` in a savepoint: its value, or its error after what it did is undone."""
    connection.execute("SAVEPOINT job")
    try:
        value = work(connection)
    except Exception as error:
        # Where SQLite has rolled back all of the transaction (disk full, I/O error), the group fails as one.
        if not connection.in_transaction:
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
