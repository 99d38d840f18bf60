"""The output of the commands. Users' data cannot control the terminal: no escape sequences or direction marks are
printed.
"""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Console

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


class PlainConsole(Console):
    """A console that renders only printable text."""

    def render_str(self, text: str, **options: Any) -> Any:
        """Render text without control characters."""
        return super().render_str(printable(text), **options)
