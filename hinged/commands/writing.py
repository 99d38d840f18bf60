"""Output of the commands. Data of users cannot control the terminal: no escape sequences, no direction marks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

KEPT = "\n\t"
"""Control characters that are safe on a terminal."""


def printable(text: str) -> str:
    """Return text with a visible sign instead of each control character."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in KEPT else "\N{REPLACEMENT CHARACTER}" for c in text)


def write(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Write text to stdout or stderr: printable text to a terminal, the text as it is to a file or a pipe."""
    stream = sys.stderr if err else sys.stdout
    click.echo(printable(text) if stream.isatty() else text, err=err, nl=nl)  # noqa: TID251  here alone


def console() -> Console:
    """The console on which commands draw tables and bars."""
    from rich.console import Console  # noqa: PLC0415 - help and errors come faster without it

    class Plain(Console):
        """A console that renders only printable text."""

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(printable(text), **options)

    return Plain()
