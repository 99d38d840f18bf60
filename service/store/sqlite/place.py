"""Whether a SQLite file is still where it was opened: a process can go on writing to one that was removed or moved.

All of that would be lost with the process. So the file and its write-ahead log are looked up by name before and after
each commit, which takes a few microseconds, and nothing is acknowledged while another file stands there, or none.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from hinged.service.errors import StoreUnavailable

log = logging.getLogger(__name__)

Identity = tuple[int, int]
"""Device and number of a file."""


class Elsewhere(StoreUnavailable):
    """The file that is open has no name any more, or another one."""


class Place:
    """A database file that exists, and its write-ahead log once there is one. Any thread may ask."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)
        self._log = f"{file}-wal"
        self._opened = _identity(self._file)
        self._log_opened: Identity | None = None
        self._told = False

    def note_log(self) -> None:
        """Whoever writes has the write-ahead log open now."""
        if self._log_opened is None:
            self._log_opened = _identity(self._log)

    def forget_log(self) -> None:
        """Whoever writes lets go of it: who closes the file last removes it."""
        self._log_opened = None

    def check(self) -> None:
        """Elsewhere unless the files are those that were opened."""
        log_opened = self._log_opened
        if _identity(self._file) == self._opened and (log_opened is None or _identity(self._log) == log_opened):
            self._told = False
            return
        if not self._told:
            self._told = True
            log.error("%s or its -wal was removed, moved or replaced: nothing is acknowledged any more", self._file)
        raise Elsewhere(
            "the store's file was removed, moved or replaced while the server ran; nothing is acknowledged until it is "
            "back in its place, or the server is started again with what is there"
        )


def _identity(path: str) -> Identity | None:
    """What tells a file from every other one, None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  four times a commit, and a Path takes five times as long
    except OSError:
        return None
    return found.st_dev, found.st_ino
