"""Files and folders that are to outlast a loss of power: what is in them, and that they are there under their names.

A name is an entry of a folder, and is on disk once that folder is. So everything of this package that renames what is
to last does it here. (Compiled code need not last, `solvers/jit/cache.py`: a damaged file is compiled again.)
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def put_in_place(new: Path, path: Path) -> None:
    """Give a file, or a folder of files, another name in its folder; what had that name is gone.

    Whenever power is lost, `path` is what it was, or `new` as a whole; from the return of this on it is `new`.

    Raises
    ------
    OSError
        `path` is what it was, unless `new` is there no more: then it may be either after a loss of power.
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
    """Make `folder` and what is missing above it, so that the entries last."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(exist_ok=True)
        sync_folder(part.parent)


def sync_folder(folder: Path) -> None:
    """Write the entries of `folder` to disk, where the system lets a folder be opened for that."""
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync_file(file: Path) -> None:
    descriptor = os.open(file, os.O_RDWR)  # which Windows needs, to write what is there to disk
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
