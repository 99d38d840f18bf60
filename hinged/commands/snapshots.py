"""`hinged export`, `import`, `rollback`, `skip` and `snapshot`: write, read and change the states of a model."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hinged.commands.options import FILE, asks
from hinged.commands.writing import write
from hinged.operations.snapshots import LOG_SUFFIX, SUFFIX

if TYPE_CHECKING:
    from hinged.client.client import Client

OUTPUT = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)


@click.command("export")
@click.argument("model")
@click.argument("file", type=OUTPUT, required=False)
@click.option(
    "--as-of", type=click.IntRange(1), metavar="POSITION", help="Export it as it was at this position of its log."
)
@click.option("--log", is_flag=True, help="Add the log, for hinged verify. Such a file cannot be imported.")
@asks
def export_model(client: Client, *, model: str, file: Path | None, as_of: int | None, log: bool) -> None:
    """Write MODEL to FILE, or to MODEL.hinged; - is stdout."""
    data = client.export_model(model, as_of=as_of, log=log)
    if file is None:
        file = Path(re.sub(r"[^A-Za-z0-9._-]", "_", model) + (LOG_SUFFIX if log else SUFFIX))
    if str(file) == "-":
        sys.stdout.buffer.write(data)
        return
    try:
        file.write_bytes(data)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    write(f"{file}: {len(data):,} bytes")


@click.command("import")
@click.argument("file", type=FILE)
@click.option("--model", required=True, metavar="NAME", help="Name of the new model.")
@asks
def import_model(client: Client, *, file: Path, model: str) -> None:
    """Create a model from FILE, which `hinged export` wrote."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    answer = client.import_model(model, data)
    write(f"{model}: {answer['examples']:,} examples, {len(answer['classes'])} classes")


@click.command()
@click.argument("model")
@click.argument("position", type=click.IntRange(1))
@asks
def rollback(client: Client, *, model: str, position: int) -> None:
    """Roll MODEL back to POSITION of its log. Later events no longer count."""
    answer = client.rollback(model, position)
    write(f"{model}: {answer['examples']:,} examples, position {answer['position']:,}")


@click.command()
@click.argument("model")
@click.argument("position", type=click.IntRange(1), required=False)
@asks
def skip(client: Client, *, model: str, position: int | None) -> None:
    """Set aside the event at POSITION that MODEL could not apply, and go on."""
    answer = client.skip_event(model, position)
    passed = answer["set_aside"]
    kind = f" ({passed['kind']})" if passed["kind"] else ""
    write(f"{model}: event {passed['position']:,}{kind} is set aside, position {answer['position']:,}")
    if answer["error"]:
        raise click.ClickException(f"{model} has stopped again: {answer['error']}")


@click.command()
@click.argument("model")
@asks
def snapshot(client: Client, *, model: str) -> None:
    """Make a snapshot of MODEL now."""
    write(f"{model}: snapshot at position {client.snapshot(model)['position']:,}")
