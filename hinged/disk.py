"""Write files and folders in such a way that their contents and names survive a power cut.

A name is an entry of its folder, and reaches the disk when the folder is synced. Every rename of a file that must
survive is therefore done here. (Compiled code need not survive: `solvers/jit/cache.py` compiles a damaged file again.)
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def put_in_place(new: Path, path: Path) -> None:
    """Rename a file, or a folder of files, within its folder. The function replaces any file that had the new name.

    After a power cut, `path` is either the old file or all of `new`. Once this function has returned, it is `new`.

    Raises
    ------
    OSError
        `path` is unchanged. If `new` no longer exists, a power cut may leave either the old or the new file.
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
    """Make `folder` and its missing parents, and sync the new entries."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(exist_ok=True)
        sync_folder(part.parent)


def sync_folder(folder: Path) -> None:
    """Sync the entries of `folder`, if the operating system can open a folder for this purpose."""
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync_file(file: Path) -> None:
    descriptor = os.open(file, os.O_RDWR)  # Windows can sync only a file that is open for writing
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
