"""The command `hinged`. A user error is reported as one line on stderr."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hinged.client.client import HingedError
from hinged.commands.agents import mcp
from hinged.commands.backup import backup, restore
from hinged.commands.cluster import cluster
from hinged.commands.consume import consume
from hinged.commands.doctor import doctor
from hinged.commands.examples import correct, forget, learn, offer, suspects
from hinged.commands.keys import keys
from hinged.commands.label import label
from hinged.commands.labels import labels
from hinged.commands.lifecycle import create, delete, finish, show_model
from hinged.commands.options import (
    DIRECTORY,
    EXIT_INTERRUPTED,
    FILE,
    PARTS,
    OneLineErrors,
    SeveralLines,
    asks,
    gamma,
    of_tables,
    positive,
    sentence,
)
from hinged.commands.questions import (
    events,
    models,
    predict,
    query,
)
from hinged.commands.receipts import verify
from hinged.commands.rows import accepted, of_rows, tell_bad_rows, tell_source
from hinged.commands.snapshots import (
    export_model,
    import_model,
    rollback,
    skip,
    snapshot,
)
from hinged.commands.studio import reconcile
from hinged.commands.writing import PlainConsole, write
from hinged.extras import needed
from hinged.readers import FORMATS, TableColumns, fingerprint, open_source
from hinged.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hinged.client.client import Client


@click.group(
    cls=OneLineErrors,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Kernel machines that learn while they serve."""


@cli.command()
@click.option("--host", help="Address to listen on.  [HINGED_HOST, 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 takes a free one.  [HINGED_PORT, 8000]")
@click.option("--data-dir", type=DIRECTORY, help="Folder of the embedded store.  [HINGED_DATA_DIR, data]")
@click.option("--processes", type=click.IntRange(1, 256), help="Processes behind the port.  [HINGED_PROCESSES, 1]")
@click.option(
    "--followers",
    type=click.IntRange(0, 256),
    help="Processes that follow each model and predict.  [HINGED_FOLLOWERS, 0]",
)
@click.option(
    "--node", metavar="URL", help="Share a Redis; the URL at which other servers reach this server.  [HINGED_NODE]"
)
def serve(**options: Any) -> None:
    """Run the server until SIGINT or SIGTERM.

    Every other setting is an environment variable HINGED_*.
    """
    # Only this command imports numba.
    with needed("server", "hinged serve"):
        from pydantic import ValidationError  # noqa: PLC0415

        from hinged.service.edge.start import unknown_names  # noqa: PLC0415
        from hinged.service.errors import ServiceError  # noqa: PLC0415
        from hinged.service.peers.supervisor import supervise  # noqa: PLC0415
        from hinged.service.settings import Settings  # noqa: PLC0415

    try:
        settings = Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        raise SeveralLines("\n".join([*map(_wrong, error.errors()), *unknown_names(os.environ)])) from error
    try:
        if settings.processes > 1:  # the parent process only supervises
            supervise(settings)
        else:
            from hinged.service import app  # noqa: PLC0415

            app.serve(settings)
    except ServiceError as error:
        raise SeveralLines("\n".join([error.message, *unknown_names(os.environ)])) from error
    except MemoryError as error:
        raise click.ClickException("the system gives the server no more memory") from error


def _wrong(error: Mapping[str, Any]) -> str:
    """Return the error of a setting, without secrets and without the password in a URL."""
    name = "HINGED_" + "_".join(str(part) for part in error["loc"][:1]).upper()
    got = "" if error["type"] == "secret" else f", got {re.sub('//[^/@]*@', '//...@', repr(error['input']))}"
    return f"{name}: {error['msg']}{got}"


@cli.command()
@click.argument("file", type=FILE)
@click.option("--label", metavar="COLUMN", help="Column of the labels, or their array (.npz).")
@click.option("--weight", metavar="COLUMN", help="Column or array of the rows' weights: factors of C.")
@click.option("--labels", "labels_file", type=FILE, help="Labels of a SciPy matrix: .npy, or one label a line.")
@of_tables
@click.option("--text", "texts", multiple=True, metavar="COLUMN", help="This column holds text: learn from its words.")
@click.option("--time", "times", multiple=True, metavar="COLUMN", help="This column holds dates or times, as ISO 8601.")
@click.option(
    "--category",
    "categories",
    multiple=True,
    metavar="COLUMN",
    help="This column holds categories, even if nearly all differ.",
)
@click.option("--format", "file_format", type=click.Choice(FORMATS), help="If the suffix does not say it.")
@click.option("--zero-based", is_flag=True, help="LIBSVM indices count from 0, not 1.")
@click.option("--test", "test_file", type=FILE, help="File of the test part.")
@click.option("--model", default="replay", show_default=True, help="Model to learn; created if it does not exist.")
@click.option("--solver", help="Solver of a new model; the server's choice unless given.")
@click.option("--kernel", default="rbf", show_default=True, help="Kernel of a new model.")
@click.option(
    "--gamma",
    type=gamma,
    metavar="scale|NUMBER",
    default="scale",
    show_default=True,
    help="Width of the kernel; scale is 1 / total variance of the first examples.",
)
@click.option(
    "--scale",
    type=click.Choice(["auto", "none"]),
    help="Scale the columns of a new model, or not; auto unless gamma is a number.",
)
@click.option("--C", "C", type=positive, metavar="NUMBER", help="Cost of an error.")
@click.option("--tol", type=positive, metavar="NUMBER", help="Precision of the solver.")
@PARTS
@click.option("--batch", type=click.IntRange(1), default=100, show_default=True, help="Examples a request.")
@click.option("--limit", type=click.IntRange(1), help="Stop after that many examples.")
@click.option("--shuffle/--no-shuffle", help="Random order; holds a text file in memory.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random order.")
@click.option("--finish/--no-finish", default=True, show_default=True, help="Let the solver converge.")
@of_rows
@asks
def replay(
    client: Client,
    *,
    file: Path,
    test_file: Path | None,
    labels_file: Path | None,
    columns: TableColumns,
    form: dict[str, Any],
    bad_rows: str,
    dry_run: bool,
    **options: Any,
) -> None:
    """Stream the rows of FILE into a model, one after another.

    FILE is a table (.csv, .tsv, .jsonl, .parquet, .arrow), .npz, or LIBSVM text; text may be packed (.gz,
    .bz2). If a table holds more than numbers, the model gets named features. Each row has the same id in every
    run, so you can run an interrupted replay again and it goes on.
    """
    from hinged.commands.replay import replay as run  # noqa: PLC0415

    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) == ParameterSource.COMMANDLINE}
    bad = accepted(bad_rows, file, dry_run=dry_run)
    roles = {name: options.pop(name) for name in ("label", "weight", "texts", "times", "categories")}
    form |= {name: options.pop(name) for name in ("file_format", "zero_based")}
    try:
        read: Any = functools.partial(open_source, bad_rows=bad, **form)
        source = read(file, choice=dataclasses.replace(columns, **roles), labels_file=labels_file)
        if source.features["type"] == "text" and "kernel" not in given:
            options["kernel"] = "linear"
        held_out = source.held_out
        if test_file is not None:
            alike = TableColumns(roles["label"], named=columns.named, missing=columns.missing)
            held_out = read(test_file, choice=alike, like=source)
        if held_out is not None and held_out.features["type"] != source.features["type"]:
            raise click.ClickException(f"{held_out.name} and {source.name} do not have the same kind of features")
        if dry_run:
            tell_source(source, options["limit"], bad)
            return
        chosen = SimpleNamespace(**options, prefix=fingerprint(file), given=given)
        run(client, source, held_out, chosen, PlainConsole(), bad)
        tell_bad_rows(bad)
    except KeyboardInterrupt:
        write("interrupted; the same command goes on from here", err=True)
        sys.exit(EXIT_INTERRUPTED)


@cli.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    envvar="HINGED_PORT",
    default=8000,
    help="Port of the server.  [HINGED_PORT, 8000]",
)
@click.option(
    "--data-dir",
    type=DIRECTORY,
    envvar="HINGED_DATA_DIR",
    default=Path("data"),
    help="Folder of its data.  [HINGED_DATA_DIR, data]",
)
@click.option("--stay/--no-stay", default=True, show_default=True, help="Leave the server running.")
def demo(port: int, data_dir: Path, stay: bool) -> None:
    """Start a server and watch it learn handwritten digits."""
    from hinged.commands.demo import demo as run  # noqa: PLC0415

    try:
        run(port, data_dir, stay=stay, console=PlainConsole())
    except HingedError as error:
        raise click.ClickException(sentence(error)) from error


COMMANDS = (
    models, create, show_model, delete, learn, predict, finish, offer, query, label, labels, suspects, correct, forget,
    events, snapshot, rollback, skip, export_model, import_model, backup, restore, keys,
    verify, cluster, reconcile, doctor, consume, mcp,
)  # fmt: skip
for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command line."""
    cli(prog_name="hinged")
