"""Where workers have their stores: a folder or a namespace each, whose name says how many of them there are."""

from __future__ import annotations

import re
from pathlib import Path

from hinged.service.errors import Invalid

FOLDER = re.compile(r"worker-[0-9]+-of-([0-9]+)")
ANOTHER_WAY = "to change that, back the models up and restore them into another store"


def name_of(number: int, count: int) -> str:
    """The name of a worker's place. Whose a model is follows from these names (cluster/siblings.py)."""
    return f"worker-{number}-of-{count}"


def divided_otherwise(what: Path | str, count: int, workers: int) -> Invalid:
    """The refusal of a store that so many workers divide, 0: none, where another number was asked for."""
    found = f"{count}, by which {what} is divided" if count else f"0, for {what} is not divided"
    return Invalid(f"HINGED_WORKERS must be {found}, got {workers}; {ANOTHER_WAY}")


def check_division(folder: Path, workers: int) -> None:
    """Invalid where a data folder holds the stores of another number of workers; 0: of a server without."""
    found = [FOLDER.fullmatch(entry.name) for entry in folder.iterdir()] if folder.is_dir() else []
    counts = sorted({int(each[1]) for each in found if each})
    others = [count for count in counts if count != workers]
    if others:
        raise divided_otherwise(folder, others[0], workers)
    if workers and (folder / "hinged.db").exists():
        raise divided_otherwise(folder, 0, workers)
