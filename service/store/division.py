"""Division of a store. The part of each owner is a folder or a namespace, and its name says how many parts
there are.
"""

from __future__ import annotations

import re
from pathlib import Path

from hinged.service.errors import Invalid

FOLDER = re.compile(r"worker-[0-9]+-of-([0-9]+)")
ANOTHER_WAY = "to change that, back the models up and restore them into another store"


def name_of(number: int, division: int) -> str:
    """Return the name of a part. The names of the parts determine each model's owner (peers/ring.py)."""
    return f"worker-{number}-of-{division}"


def division_of(folder: Path) -> int | None:
    """Return the number of processes that divide a data folder; 0 if it is not divided, None if it contains no store.

    Raise Invalid if the folder contains parts of several divisions, or both a whole store and parts.
    """
    found = [FOLDER.fullmatch(entry.name) for entry in folder.iterdir()] if folder.is_dir() else []
    counts = sorted({int(each[1]) for each in found if each} | ({0} if (folder / "hinged.db").exists() else set()))
    if len(counts) > 1:
        told = " and ".join(f"one divided by {count}" if count else "one not divided" for count in counts)
        raise Invalid(f"{folder} holds several stores: {told}; leave one of them there")
    return counts[0] if counts else None


def check_processes(what: Path | str, division: int, processes: int) -> None:
    """Raise Invalid if the server has fewer processes than the store has owners."""
    if processes < division:
        raise Invalid(
            f"HINGED_PROCESSES must be at least {division}, the parts of {what}, got {processes}; {ANOTHER_WAY}"
        )
