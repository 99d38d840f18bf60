"""The output of the commands. Users' data cannot control the terminal: no escape sequences or direction marks are
printed.
"""

from __future__ import annotations

import csv
import io
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KEPT = "\n\t"
"""Control characters that are harmless on a terminal."""


def printable(text: str) -> str:
    """Return text in which a visible sign replaces each control character."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in KEPT else "\N{REPLACEMENT CHARACTER}" for c in text)


def write(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Write text to stdout or stderr. A terminal gets printable text; a file or a pipe gets the text unchanged."""
    stream = sys.stderr if err else sys.stdout
    click.echo(printable(text) if stream.isatty() else text, err=err, nl=nl)  # noqa: TID251  here alone


class CsvTable:
    """Writes CSV with a header, in parts."""

    def __init__(self, columns: Sequence[str], delimiter: str = ",") -> None:
        self._columns, self._delimiter = columns, delimiter
        self._begun = False

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write more rows. Write the header before the first row."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, delimiter=self._delimiter, lineterminator="\n")
        if not self._begun:
            writer.writeheader()
        self._begun = True
        writer.writerows(rows)
        write(text.getvalue(), nl=False)


class PlainConsole(Console):
    """A console that renders only printable text."""

    def render_str(self, text: str, **options: Any) -> Any:
        """Render text without control characters."""
        return super().render_str(printable(text), **options)
