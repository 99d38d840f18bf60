"""Files and folders that survive a power cut, with their contents and under their names.

A name is an entry of its folder, and is on disk once the folder is synced. So every rename of a file that must last
happens here. (Compiled code need not last: `solvers/jit/cache.py` compiles a damaged file again.)
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def put_in_place(new: Path, path: Path) -> None:
    """Rename a file, or a folder of files, within its folder, replacing whatever had that name.

    After a power cut `path` is either what it was or all of `new`. Once this function has returned, it is `new`.

    Raises
    ------
    OSError
        `path` is what it was. If `new` no longer exists, a power cut may leave either of them.
    """
    if new.is_dir():
        for entry in new.iterdir():
            _sync_file(entry)
        sync_folder(new)
    else:
        _sync_file(new)
    new.replace(path)
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make `folder` and its missing parents, and sync the entries."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(exist_ok=True)
        sync_folder(part.parent)


def sync_folder(folder: Path) -> None:
    """Sync the entries of `folder`, if the system can open a folder for that."""
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync_file(file: Path) -> None:
    descriptor = os.open(file, os.O_RDWR)  # Windows syncs only a file that is open for writing
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
