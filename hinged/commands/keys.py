"""`hinged keys`: manage API keys in the file that the server reads."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from hinged.answers import ROLES
from hinged.commands.writing import PlainConsole, write
from hinged.extras import needed
from hinged.operations.base import EVERY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType


@contextmanager
def key_functions() -> Iterator[ModuleType]:
    """Yield the functions for the key file. Report an error of the file or of the key in one line."""
    with needed("server", "hinged keys"):  # an installation of the client alone lacks pydantic
        from hinged.service.edge import keys as functions  # noqa: PLC0415
        from hinged.service.errors import ServiceError  # noqa: PLC0415

    try:
        yield functions
    except ServiceError as error:
        raise click.ClickException(error.message) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error


def key_file(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option --file."""
    return click.option(
        "--file",
        "path",
        envvar="HINGED_KEYS_FILE",
        show_envvar=True,
        required=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="The key file. The server reads it again when it changes.",
    )(command)


@click.group(no_args_is_help=True)
def keys() -> None:
    """Make, list and revoke API keys.

    The file that the server's HINGED_KEYS_FILE names holds their digests.
    """


@keys.command()
@click.argument("name")
@click.option(
    "--role", type=click.Choice(ROLES), required=True, help="Each role may do all that the roles before it may."
)
@click.option(
    "--models",
    multiple=True,
    metavar="NAME",
    help="A model that the key is for, or a prefix: 'fraud-*'. May be given several times.  [all models]",
)
@key_file
def create(path: Path, name: str, role: str, models: tuple[str, ...]) -> None:
    """Make a key and print it. It is never shown again."""
    with key_functions() as functions:
        text = functions.create_key(path, name, ROLES[ROLES.index(role)], models or (EVERY,))
    write(text)
    write("Keep the key: it is not shown again.", err=True)


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@key_file
def list_keys(path: Path, as_json: bool) -> None:
    """List name, role and models of each key."""
    with key_functions() as functions:
        found = [key.model_dump(mode="json", exclude={"sha256"}) for key in functions.read_keys(path)]
    if as_json:
        write(json.dumps(found))
        return
    table = Table("name", "role", "models", "created at")
    for key in found:
        table.add_row(key["name"], key["role"], ", ".join(key["models"]), key["created_at"])
    PlainConsole().print(table)


@keys.command()
@click.argument("name")
@key_file
def revoke(path: Path, name: str) -> None:
    """Revoke a key, from the server's next request on."""
    with key_functions() as functions:
        functions.revoke_key(path, name)
    write(f"{name} is revoked")
