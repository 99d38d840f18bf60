"""Check that a SQLite file is still the file that was opened.

If the file was removed, moved or cut, a process can still write to it, but such writes are lost when the process ends.
So the file and its write-ahead log are looked up by name before and after each commit, which takes a few microseconds.
Nothing is acknowledged while the file is missing, has been replaced, or is shorter than SQLite has made it.

The index of the write-ahead log contains the minimum length of both files. All connections share this index. SQLite
writes each change of the lengths into the index first, whichever process makes the change:

offset  in the index, https://www.sqlite.org/walformat.html section 2.1; in the machine's byte order
0       48 bytes that are written as a whole, followed by a copy of them
12      u8   1 once these bytes are valid
14      u16  bytes per page; 1 means 65,536
16      u32  number of valid frames in the log; each has a header of 24 bytes and a page
20      u32  number of pages in the database
"""

from __future__ import annotations

import logging
import os
import struct
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from hinged.service.errors import StoreUnavailable

log = logging.getLogger(__name__)

HEADER = struct.Struct("=12x?xHII24x")
LOG_HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24
LOOKS_MAX = 100
"""Maximum number of times that the lengths are read again because SQLite changed them during the read."""

Identity = tuple[int, int]
"""Device and inode of a file."""
UNTOLD_BYTES = 2**62
"""A number of bytes that no database reaches. It is used before the first commit, when the length is unknown."""


class FileReplaced(StoreUnavailable):
    """Raised when the open file was removed, renamed, replaced or cut."""


class Lengths(NamedTuple):
    """Minimum number of bytes of the log, and of the database after the whole log is copied into the database."""

    log: int
    database: int


class DatabaseFile:
    """An existing database file with its write-ahead log, if there is one. Any thread may call the methods."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)
        self._log = f"{file}-wal"
        self._index = f"{file}-shm"
        self._opened, self._longest = _look(self._file)
        self._log_opened: Identity | None = None
        self._guard = Lock()  # guards the index during a read, and the identities of the files
        # The index is not closed while SQLite has the file open, because closing it would drop the process's locks on
        # it.
        self._index_opened: int | None = None
        self._told = False

    def note_log(self) -> None:
        """Record that the writer now has the write-ahead log open."""
        if self._log_opened is not None:
            return
        with self._guard:
            if self._index_opened is not None and not self._has_index():
                os.close(self._index_opened)
                self._index_opened = None
            if self._index_opened is None:
                with suppress(OSError):  # if the index does not exist, the log does not either
                    self._index_opened = os.open(self._index, os.O_RDONLY)
            self._log_opened, _ = _look(self._log)

    def forget_log(self) -> None:
        """Record that the writer closes the log. The last connection that closes the file removes the log."""
        with self._guard:
            self._log_opened = None

    def close(self) -> None:
        """Close the index. Call this after all connections are closed."""
        with self._guard:
            # If another program has the file open, this process keeps the index open.
            if self._index_opened is not None and not self._has_index():
                os.close(self._index_opened)
                self._index_opened = None

    def check(self) -> None:
        """Raise FileReplaced unless the files are the opened files, and at least as long as SQLite has made them. Raise
        StoreUnavailable if the index cannot be read.
        """
        with self._guard:
            try:
                there = self._is_there()
            except OSError as error:
                raise StoreUnavailable(f"the index of the write-ahead log cannot be read: {error.strerror}") from error
            told, self._told = self._told, not there
        if there:
            return
        if not told:
            log.error("%s or its -wal was cut, removed, moved or replaced: nothing is acknowledged", self._file)
        raise FileReplaced(
            "the store's file was cut, removed, moved or replaced while the server ran; nothing is acknowledged until "
            "it is back as it was, or the server is started again with what is there"
        )

    def _is_there(self) -> bool:
        for _ in range(LOOKS_MAX):
            least = self._least()
            file, size = _look(self._file)
            if file != self._opened:
                return False
            if self._log_opened is None:
                return size >= self._longest
            log_file, log_size = _look(self._log)
            if log_file != self._log_opened:
                return False
            if least is None:
                continue
            # If the database has become shorter, another program may have packed it.
            if log_size >= least.log and (size >= self._longest or size >= least.database):
                self._longest = size
                return True
            if self._least() == least:
                return False
        return True

    def _least(self) -> Lengths | None:
        """Return the minimum lengths of the files, or None while SQLite is changing them."""
        if self._index_opened is None:
            return None
        found = os.pread(self._index_opened, 2 * HEADER.size, 0)
        if len(found) < 2 * HEADER.size or found[: HEADER.size] != found[HEADER.size :]:
            return None
        holds, page_bytes, frames, pages = HEADER.unpack_from(found)
        if not holds:
            return None
        page_bytes = 2**16 if page_bytes == 1 else page_bytes
        log_bytes = LOG_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + page_bytes) if frames else 0
        return Lengths(log_bytes, pages * page_bytes if pages else UNTOLD_BYTES)

    def _has_index(self) -> bool:
        """Return whether the index that is open here is the index that SQLite uses now."""
        assert self._index_opened is not None  # noqa: S101  callers check it
        found = os.fstat(self._index_opened)
        return (found.st_dev, found.st_ino) == _look(self._index)[0]


def _look(path: str) -> tuple[Identity | None, int]:
    """Return the identity of a file, or None if it does not exist; and its size."""
    try:
        found = os.stat(path)  # noqa: PTH116  runs four times per commit, and a Path takes five times as long
    except OSError:
        return None, 0
    return (found.st_dev, found.st_ino), found.st_size
