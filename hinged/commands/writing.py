"""What a command writes. Nothing that came from outside steers a terminal: no escape sequence, no mark of direction."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

KEPT = "\n\t"
"""Characters that are no signs and move a terminal's cursor no further than text does."""


def printable(text: str) -> str:
    """Text without what would steer a terminal: a sign takes the place of each such character."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in KEPT else "\N{REPLACEMENT CHARACTER}" for c in text)


def write(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Write text to stdout or stderr: to a terminal what is printable, to a file or a pipe as it is."""
    stream = sys.stderr if err else sys.stdout
    click.echo(printable(text) if stream.isatty() else text, err=err, nl=nl)  # noqa: TID251  here alone


def console() -> Console:
    """Where a command draws tables and bars."""
    from rich.console import Console  # noqa: PLC0415 - help and errors come faster without it

    class Plain(Console):
        """A console that renders what is printable of a string."""

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(printable(text), **options)

    return Plain()
