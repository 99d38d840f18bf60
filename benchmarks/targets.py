"""Targets beside what was found, as lines of a table. Not a program."""

from typing import NamedTuple

import numpy as np


class Line(NamedTuple):
    """A target: its number, what is asked of what, what was found, and whether that is enough (None: not known)."""

    target: str
    what: str
    asked: str
    found: str
    met: bool | None


def middle(found, name=None):
    """The median of figures, or of one figure of records."""
    return float(np.median([getattr(f, name) if name else f for f in found]))


def span(found, digits=2, name=None):
    """Least to most of the same."""
    figures = [getattr(f, name) if name else f for f in found]
    return f"{min(figures):.{digits}f} to {max(figures):.{digits}f}"


def print_table(parts, options):
    """The lines of these parts, functions of the options, as they come."""
    print("| target | | asked | found | |\n|---|---|---|---|---|")
    for part in parts:
        for line in part(options):
            print(f"| {' | '.join(line[:-1])} | {'yes' if line.met else 'no'} |", flush=True)
