"""Division of a store: each owner's part is a folder or a namespace whose name says how many parts there are."""

from __future__ import annotations

import re
from pathlib import Path

from hinged.service.errors import Invalid

FOLDER = re.compile(r"worker-[0-9]+-of-([0-9]+)")
ANOTHER_WAY = "to change that, back the models up and restore them into another store"


def name_of(number: int, division: int) -> str:
    """The name of a part. A model's owner follows from these names (peers/ring.py)."""
    return f"worker-{number}-of-{division}"


def division_of(folder: Path) -> int | None:
    """The number of processes that divide a data folder; 0 if it is not divided, None if it holds no store.

    Invalid if it holds parts of several divisions, or a whole store beside parts.
    """
    found = [FOLDER.fullmatch(entry.name) for entry in folder.iterdir()] if folder.is_dir() else []
    counts = sorted({int(each[1]) for each in found if each} | ({0} if (folder / "hinged.db").exists() else set()))
    if len(counts) > 1:
        told = " and ".join(f"one divided by {count}" if count else "one not divided" for count in counts)
        raise Invalid(f"{folder} holds several stores: {told}; leave one of them there")
    return counts[0] if counts else None


def check_processes(what: Path | str, division: int, processes: int) -> None:
    """Raise Invalid if fewer processes will run than the store has owners."""
    if processes < division:
        raise Invalid(
            f"HINGED_PROCESSES must be at least {division}, the parts of {what}, got {processes}; {ANOTHER_WAY}"
        )
