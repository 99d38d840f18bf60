"""Targets and results as rows of a table. Not a program."""

from typing import NamedTuple

import numpy as np
from results import Table, keep

COLUMNS = ("target", "of", "asked", "found", "met")


class Line(NamedTuple):
    """A target: its number, its subject, the target value, the result, and whether it is met (None: unknown)."""

    target: str
    what: str
    asked: str
    found: str
    met: bool | None


def middle(found, name=None):
    """Return the median of numbers, or of one field of records."""
    return float(np.median([getattr(f, name) if name else f for f in found]))


def span(found, digits=2, name=None):
    """Return the minimum and the maximum of numbers, or of one field of records."""
    figures = [getattr(f, name) if name else f for f in found]
    return f"{min(figures):.{digits}f} to {max(figures):.{digits}f}"


def print_table(results, options, packages=()):
    """Print the lines of all parts one by one, and save them.

    results: {name: parts}, where parts are functions of the options that yield lines. Each name is saved in its own
    file.
    """
    for number, (name, parts) in enumerate(results.items()):
        table = Table(*COLUMNS, head=number == 0)
        for part in parts:
            for line in part(options):
                table.add(*line[:-1], "yes" if line.met else "no")
        keep(name, table, packages=packages)
