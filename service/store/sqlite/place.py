"""Whether a SQLite file is still what it was: a process can go on writing to one that was removed, moved or cut.

All of that would be lost with the process. So the file and its write-ahead log are looked up by name before and after
each commit, which takes a few microseconds. Nothing is acknowledged while another file stands there, or none, or one
that is shorter than SQLite has made it.

How long both are at least stands in the index of the write-ahead log, a file that all connections share. What SQLite
itself does to the lengths, for this process or for another, it writes there first:

offset  in the index, https://www.sqlite.org/walformat.html section 2.1; of the machine's byte order
0       48 bytes that are written as a whole, and then again behind themselves
12      u8   1 once all of this holds
14      u16  bytes of a page; 1 for 65,536
16      u32  frames of the log that count: a page each, behind 24 bytes of its own
20      u32  pages of the database
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
"""How often the lengths are looked up anew because SQLite changed them meanwhile; then the next look must tell."""

Identity = tuple[int, int]
"""Device and number of a file."""
UNTOLD_BYTES = 2**62
"""More than any database has: its length is told from the first commit on."""


class FileReplaced(StoreUnavailable):
    """The file that is open has no name any more, or another one, or has lost its end."""


class Lengths(NamedTuple):
    """How many bytes the log has at least, and the database once all of the log has come to it."""

    log: int
    database: int


class DatabaseFile:
    """A database file that exists, and its write-ahead log once there is one. Any thread may ask."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)
        self._log = f"{file}-wal"
        self._index = f"{file}-shm"
        self._opened, self._longest = _look(self._file)
        self._log_opened: Identity | None = None
        self._guard = Lock()  # of the index, while it is read, and of what was noted
        # Never closed while SQLite has the file: that would take away the locks which the process has on it.
        self._index_opened: int | None = None
        self._told = False

    def note_log(self) -> None:
        """Whoever writes has the write-ahead log open now."""
        if self._log_opened is not None:
            return
        with self._guard:
            if self._index_opened is not None and not self._has_index():
                os.close(self._index_opened)
                self._index_opened = None
            if self._index_opened is None:
                with suppress(OSError):  # it is gone, and so is the log
                    self._index_opened = os.open(self._index, os.O_RDONLY)
            self._log_opened, _ = _look(self._log)

    def forget_log(self) -> None:
        """Whoever writes lets go of it: who closes the file last removes it."""
        with self._guard:
            self._log_opened = None

    def close(self) -> None:
        """All connections are closed."""
        with self._guard:
            # One that another program has open stays so here, too.
            if self._index_opened is not None and not self._has_index():
                os.close(self._index_opened)
                self._index_opened = None

    def check(self) -> None:
        """FileReplaced unless the files are those that were opened, and no shorter than SQLite has left them."""
        with self._guard:
            there = self._is_there()
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
            # A database that is shorter than it was may have been packed by another program.
            if log_size >= least.log and (size >= self._longest or size >= least.database):
                self._longest = size
                return True
            if self._least() == least:
                return False
        return True

    def _least(self) -> Lengths | None:
        """How long the files are at least; None where that is just being written."""
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
        """Whether the index that is open here is the one that SQLite has."""
        assert self._index_opened is not None  # noqa: S101  whoever asks has seen it
        found = os.fstat(self._index_opened)
        return (found.st_dev, found.st_ino) == _look(self._index)[0]


def _look(path: str) -> tuple[Identity | None, int]:
    """What tells a file from every other one, None if there is none; and its bytes."""
    try:
        found = os.stat(path)  # noqa: PTH116  four times a commit, and a Path takes five times as long
    except OSError:
        return None, 0
    return (found.st_dev, found.st_ino), found.st_size
