"""The SQLite file of the embedded store: how it is opened, and the tables in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from hinged.disk import sync_folder
from hinged.service.errors import StoreUnavailable

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION_ID = 0x48494E47
"""Tells a file of ours from any other database: "HING" in ASCII."""

SCHEMA_VERSION = 1
"""Kept in the file as user_version; raise it with every change of the tables."""
MOVING_VERSION = 2
"""The same while rows are in two tables, the second of which former versions do not read (moving.py)."""

TIMEOUT_S = 5.0
"""How long a connection waits for others, of other programs too."""

LOG_BYTES_KEPT = 64 * 2**20
"""What a write-ahead log that grew longer is cut to."""

SMALL_TABLES = {
    "models": """(
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: who reads a deleted model finds nothing
    name TEXT UNIQUE,                      -- NULL once deleted, until all its rows are gone
    trimmed INTEGER NOT NULL DEFAULT 0     -- events up to here are forgotten
)""",
    "snapshots": """(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    model INTEGER NOT NULL,                -- 0, which no model has, once nobody may write or read it any more
    position INTEGER NOT NULL,
    complete INTEGER NOT NULL DEFAULT 0,   -- 0 while it is written and while it is removed
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
"""Those that may grow large. Each has another of its form, `events_moving` and so on, empty unless the file is being
written anew."""
MOVING = "_moving"


def lock_folder(folder: Path) -> sqlite3.Connection:
    """Hold `folder` for this process until the connection is closed or the process dies.

    The lock is SQLite's own, on a file apart: it works on every system that SQLite does.
    """
    lock = sqlite3.connect(folder / "hinged.lock", timeout=0.0, isolation_level=None, check_same_thread=False)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise StoreUnavailable(f"the data folder {folder} is in use by another server") from error
        raise
    return lock


def connect(file: Path, *, reading: bool = False) -> sqlite3.Connection:
    """Open `file` as every connection of the store does; transactions are the caller's business. reading: alone."""
    connection = sqlite3.connect(file, timeout=TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        # FULL: a commit returns when the write-ahead log is on disk; fullfsync: on macOS too.
        connection.executescript(
            "PRAGMA synchronous=FULL; PRAGMA fullfsync=ON; PRAGMA secure_delete=ON;"
            f"PRAGMA journal_size_limit={LOG_BYTES_KEPT};" + ("PRAGMA query_only=ON;" if reading else "")
        )
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(file: Path) -> None:
    """Make the tables in a new `file`; StoreUnavailable if it is not one that this version can use."""
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
        # Where SQLite puts what is too much for its memory, in files without names: they belong on no other disk. The
        # setting is the process's.
        folder = str(file.parent.absolute()).replace("'", "''")
        connection.execute(f"PRAGMA temp_store_directory='{folder}'")
    sync_folder(file.parent)
