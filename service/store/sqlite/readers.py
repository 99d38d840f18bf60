"""A pool of connections that read a SQLite file; each connection is lent to one thread at a time."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hinged.service.store.sqlite.place import DatabaseFile

IDLE_MAX = 8
"""Most connections kept open while nobody reads."""


class ConnectionPool:
    """A pool of reading connections. With a write-ahead log, readers and the writer do not wait for each other."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], place: DatabaseFile) -> None:
        self._connect = connect
        self._place = place
        self._guard = Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for a few queries; close its cursors before the end of the block.

        SQLite's errors become Damaged if the file is malformed, and otherwise StoreUnavailable.
        """
        try:
            connection = self._take()
            try:
                yield connection
            except sqlite3.Error:
                connection.close()
                raise
            except BaseException:
                self._give_back(connection)
                raise
            self._give_back(connection)
        except sqlite3.Error as error:
            # Errors raised by Python's sqlite3 module itself have no code.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in {
                sqlite3.SQLITE_CORRUPT,
                sqlite3.SQLITE_NOTADB,
            }:
                raise Damaged(f"the store is damaged: {error}") from error
            raise StoreUnavailable(f"the store cannot be read: {error}") from error

    def close(self) -> None:
        """Close the idle connections now, and lent connections when they come back."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> sqlite3.Connection:
        with self._guard:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            self._place.check()  # data written to a file that was moved does not last
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._guard:
            if not self._closed and len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()
