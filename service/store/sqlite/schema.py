"""The SQLite file of the embedded store: how to open it, and its tables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from hinged.disk import sync_folder
from hinged.service.errors import StoreUnavailable

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION_ID = 0x48494E47
"""Identifies a file of this store: "HING" in ASCII. A file with another number is refused."""

SCHEMA_VERSION = 1
"""Version of the tables, stored in the file as user_version. Raise it with every change of the tables."""
MOVING_VERSION = 2
"""Version while rows are in two tables. Earlier releases cannot read the second table (moving.py)."""

TIMEOUT_S = 5.0
"""Seconds that a connection waits for other connections, including connections of other programs."""

LOG_BYTES_KEPT = 64 * 2**20
"""A write-ahead log that is longer than this many bytes is cut to this length."""

SMALL_TABLES = {
    "models": """(
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: who reads a deleted model finds nothing
    name TEXT UNIQUE,                      -- NULL once deleted, until all its rows are gone
    trimmed INTEGER NOT NULL DEFAULT 0     -- events up to here are forgotten
)""",
    "snapshots": """(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    model INTEGER NOT NULL,                -- 0 once dropped: no model has number 0
    position INTEGER NOT NULL,
    complete INTEGER NOT NULL DEFAULT 0,   -- 0 while it is written or removed
    digest BLOB                            -- BLAKE2b of position and state
)""",
}
SNAPSHOTS_INDEX = "CREATE INDEX snapshots_of_model ON snapshots (model, position)"
TABLES = {
    "events": """(
    model INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload BLOB NOT NULL,
    checksum INTEGER NOT NULL,             -- CRC-32 of position, kind and payload
    UNIQUE (model, position)
)""",
    "ids": """(
    model INTEGER NOT NULL,
    id TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (model, id)                -- short rows, found by their key alone
) WITHOUT ROWID""",
    "chunks": """(
    snapshot INTEGER NOT NULL,
    part INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (snapshot, part)
)""",
}
"""The tables that may become large. Each has a second table of the same form, for example `events_moving`, which is
empty unless the file is being rewritten."""
MOVING = "_moving"


def lock_folder(folder: Path) -> sqlite3.Connection:
    """Lock `folder` for this process until the connection is closed or the process dies.

    The lock is SQLite's own lock on a separate file, so it works on every system on which SQLite works.
    """
    lock = sqlite3.connect(folder / "hinged.lock", timeout=0.0, isolation_level=None, check_same_thread=False)
    try:
        lock.execute("PRAGMA journal_mode=MEMORY")
        lock.execute("BEGIN EXCLUSIVE")
        # This fails if SQLite could open the file only for reading, because then the lock would exclude nobody. The
        # transaction never ends, so nothing is written.
        lock.execute("PRAGMA user_version=1")
    except sqlite3.Error as error:
        lock.close()
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise StoreUnavailable(f"the data folder {folder} is in use by another server") from error
        raise
    return lock


def connect(file: Path, *, reading: bool = False) -> sqlite3.Connection:
    """Open `file` with the settings of all connections of the store; the caller manages transactions. reading: only
    read.
    """
    connection = sqlite3.connect(file, timeout=TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        # FULL: a commit returns when the write-ahead log is on disk. fullfsync: the same on macOS.
        connection.executescript(
            "PRAGMA synchronous=FULL; PRAGMA fullfsync=ON; PRAGMA secure_delete=ON;"
            f"PRAGMA journal_size_limit={LOG_BYTES_KEPT};" + ("PRAGMA query_only=ON;" if reading else "")
        )
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(file: Path) -> None:
    """Create the tables in a new `file`. Raise StoreUnavailable if this version cannot use the file."""
    with closing(connect(file)) as connection:
        ((application,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_schema")
        if (application, version, tables) == (0, 0, 0):
            every = "".join(f"CREATE TABLE {name} {columns};\n" for name, columns in {**SMALL_TABLES, **TABLES}.items())
            connection.executescript(
                f"BEGIN IMMEDIATE; {every} {SNAPSHOTS_INDEX}; PRAGMA application_id={APPLICATION_ID};"
                f"PRAGMA user_version={SCHEMA_VERSION}; COMMIT;"
            )
        elif application != APPLICATION_ID:
            raise StoreUnavailable(f"{file} is not a database of this server")
        elif version not in (SCHEMA_VERSION, MOVING_VERSION):
            raise StoreUnavailable(
                f"{file} has schema version {version}, this server knows {SCHEMA_VERSION}: "
                "start the version of the server that wrote it, or name another data folder"
            )
        ((mode,),) = connection.execute("PRAGMA journal_mode=WAL")
        if mode != "wal":
            raise StoreUnavailable(f"{file} is on a file system without shared memory, which the store needs")
        for name, columns in TABLES.items():
            connection.execute(f"CREATE TABLE IF NOT EXISTS {name}{MOVING} {columns}")
        # SQLite puts data that exceeds its memory into unnamed files. This setting keeps these files on the same disk.
        # The setting is valid for the whole process.
        folder = str(file.parent.absolute()).replace("'", "''")
        connection.execute(f"PRAGMA temp_store_directory='{folder}'")
    sync_folder(file.parent)
