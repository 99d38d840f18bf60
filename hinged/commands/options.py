"""Parts that the commands share: one-line errors, option types, and the client."""

from __future__ import annotations

import functools
import json
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import httpx

from hinged.client.client import Client, HingedError
from hinged.commands.writing import write
from hinged.extras import Lacking
from hinged.readers import ReadError, TableColumns, UnreadableRow
from hinged.readers.dates import CHOICES
from hinged.readers.table import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable


EXIT_INTERRUPTED = 130
# click 8.2 and later raise this error in order to show the help of a group that was called without a command.
NO_ARGUMENTS = getattr(click.exceptions, "NoArgsIsHelpError", ())

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DIRECTORY = click.Path(file_okay=False, path_type=Path)


OMITTING = {
    "bad_rows": "; --bad-rows skip omits such rows",
    "dead_letters": "; --dead-letter TOPIC publishes such messages and goes on",
}
"""The end of an error about a bad row, by the parameter of the command that omits such rows."""


class OneLineErrors(click.Group):
    """A command group that prints each error in one line, without click's usage text."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit."""
        extra["standalone_mode"] = False
        try:
            sys.exit(super().main(*args, **extra))
        except click.Abort:
            sys.exit(EXIT_INTERRUPTED)
        except Lacking as error:
            write(str(error), err=True)
            sys.exit(1)
        except click.ClickException as error:
            if isinstance(error, NO_ARGUMENTS):
                write(error.format_message(), err=True)
                sys.exit(error.exit_code)
            context = getattr(error, "ctx", None)
            path = context.command_path if context else "hinged"
            message = error.format_message()
            write(f"{path}: {message if isinstance(error, SeveralLines) else one_line(message)}", err=True)
            sys.exit(error.exit_code)


class SeveralLines(click.ClickException):
    """An error that quotes lines of other output. The line breaks of the quoted output are kept."""


def one_line(message: str) -> str:
    """Return a message on one line."""
    return " ".join(message.split())


def part(text: str) -> tuple[str, Any]:
    """Parse the value of --set: NAME=VALUE. A value that is not JSON is a string."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.BadParameter(f"expected NAME=VALUE, found {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


PARTS = click.option(
    "--set",
    "parts",
    type=part,
    multiple=True,
    metavar="NAME=VALUE",
    help="Another part of a new model's configuration, its value as JSON. May be given several times.",
)


def positive(text: str) -> float:
    """Parse a number > 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise click.BadParameter(f"expected a number > 0, found {text!r}")
    return number


def gamma(text: str) -> float | str:
    """Parse the value of --gamma: a number, or "scale", which "auto" means too."""
    return "scale" if text in {"scale", "auto"} else positive(text)


def of_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for the roles of a table's columns, as the argument `columns`, and for the form of
    CSV, as `form`.
    """

    @functools.wraps(command)
    def with_columns(
        *args: Any, id_name: Any, features: Any, drop: Any, named: Any, delimiter: Any, decimal: Any, dates: Any,
        missing: Any, **options: Any,
    ) -> None:  # fmt: skip
        columns = TableColumns(None, id_name, features, drop, named, dates=dates, missing=missing)
        command(*args, columns=columns, form={"delimiter": delimiter, "decimal": decimal}, **options)

    found: Callable[..., None] = with_columns
    for option in reversed(
        [
            click.option("--id", "id_name", metavar="COLUMN", help="Column or array of the examples' ids."),
            click.option(
                "--features",
                multiple=True,
                metavar="COLUMN",
                help="Use only these features. May be given several times.",
            ),
            click.option(
                "--drop", multiple=True, metavar="COLUMN", help="Leave a column out. May be given several times."
            ),
            click.option(
                "--named/--numbers",
                "named",
                default=None,
                help="Named features, or rows of numbers.  [found from FILE]",
            ),
            click.option(
                "--delimiter", type=delimiter, help="Character between the fields of CSV.  [found from the header]"
            ),
            click.option(
                "--decimal",
                type=click.Choice([".", ","]),
                help="Character before the decimals of a number in CSV.  [found from the first rows]",
            ),
            click.option(
                "--dates",
                type=click.Choice(CHOICES),
                help="The part that comes first in dates such as 01.05.2026; or leave them texts.  [found from the "
                "first rows]",
            ),
            click.option(
                "--missing",
                type=missing,
                default=MISSING,
                metavar="TEXT,TEXT",
                help="Texts that count as missing, beside empty fields.  [NA,N/A,n/a,NaN,nan,NULL,null,<NA>]",
            ),
        ]
    ):
        found = option(found)
    return found


def delimiter(text: str) -> str:
    """Parse the value of --delimiter: one character, or `tab`."""
    found = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(found) != 1:
        raise click.BadParameter(f"expected one character or tab, found {text!r}")
    return found


def missing(texts: str | frozenset[str]) -> frozenset[str]:
    """Parse the value of --missing: texts, with a comma between two. An empty text is always missing."""
    return texts if isinstance(texts, frozenset) else frozenset(["", *(text.strip() for text in texts.split(","))])


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option --url, and a Client with the key of HINGED_KEY as its first argument. Print a refusal
    in one line.
    """

    @click.option(
        "--url",
        default="http://127.0.0.1:8000",
        envvar="HINGED_URL",
        show_default=True,
        help="The server; also HINGED_URL. Set its key in HINGED_KEY.",
    )
    @click.pass_context
    @functools.wraps(command)
    def connected(context: click.Context, /, *, url: str, **options: Any) -> None:
        try:
            # The key is not an option, because every user of the machine can see the arguments of a process.
            client = Client(url, key=os.environ.get("HINGED_KEY") or None)
        except ValueError as error:
            hint = "HINGED_KEY" if str(error).startswith("key ") else "'--url'"
            raise click.BadParameter(str(error), ctx=context, param_hint=hint) from error
        with client:
            try:
                command(client, **options)
            except HingedError as error:
                raise click.ClickException(sentence(error)) from error
            except ReadError as error:
                raise unread(error) from error

    return connected


def unread(error: Exception) -> click.ClickException:
    """Return the error of a file that cannot be read. Of a bad row it names the option that omits such rows."""
    given = click.get_current_context().params if isinstance(error, UnreadableRow) else {}
    hint = next((hint for name, hint in OMITTING.items() if name in given), "")
    return click.ClickException(f"{error}{hint}")


def sentence(error: HingedError) -> str:
    """Return a refusal as one line."""
    details = "".join(f", {name} {value}" for name, value in error.details.items())
    hint = "; set HINGED_KEY to a key of this server" if error.status == httpx.codes.UNAUTHORIZED else ""
    return f"{error.message} ({error.code}{details}){hint}".replace("\n", " ")
