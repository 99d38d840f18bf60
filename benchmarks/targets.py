"""Targets beside what was found, as rows of a table. Not a program."""

from typing import NamedTuple

import numpy as np
from results import Table, keep

COLUMNS = ("target", "of", "asked", "found", "met")


class Line(NamedTuple):
    """A target: its number, its subject, what is asked, what was found, and whether that is enough (None: unknown)."""

    target: str
    what: str
    asked: str
    found: str
    met: bool | None


def middle(found, name=None):
    """The median of figures, or of one figure of records."""
    return float(np.median([getattr(f, name) if name else f for f in found]))


def span(found, digits=2, name=None):
    """The least and the largest of figures, or of one figure of records."""
    figures = [getattr(f, name) if name else f for f in found]
    return f"{min(figures):.{digits}f} to {max(figures):.{digits}f}"


def print_table(results, options, packages=()):
    """Print the lines of all parts as they come, and keep them.

    results: {name: parts} with the functions of the options that yield lines; each name is a file of its own.
    """
    for number, (name, parts) in enumerate(results.items()):
        table = Table(*COLUMNS, head=number == 0)
        for part in parts:
            for line in part(options):
                table.add(*line[:-1], "yes" if line.met else "no")
        keep(name, table, packages=packages)
