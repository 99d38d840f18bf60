"""`hinged learn`, `offer`, `forget`, `correct` and `suspects`: commands for examples."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from hinged.commands.options import asks, of_tables
from hinged.commands.questions import (
    TABLES,
    as_lines,
    batches,
    label_name,
    option_example,
    rows_of,
    show,
    table_of,
    tell,
)
from hinged.commands.rows import PlacedExample, accepted, learned, of_rows, tell_bad_rows, tell_dry_run
from hinged.commands.showing import number, parsed_label
from hinged.readers import STOP, BadRows, TableColumns, UnreadableRow, fingerprint, format_of
from hinged.readers.lines import json_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hinged.client.client import Client

WAIT = click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the model has learned again.")


BATCH = click.option("--batch", type=click.IntRange(1), default=100, show_default=True, help="Examples a request.")


def streamed(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument FILE (JSON lines) and the option --batch."""
    file = click.argument("file", type=click.File("rb"), default="-")
    return file(BATCH(command))


@click.command(epilog="""Example: hinged learn spam --x '[0.1, 0.9]' --y ham --id mail-17""")
@click.argument("model")
@streamed
@click.option("--x", "x", metavar="JSON", help="One example, instead of FILE.")
@click.option("--y", "y", metavar="LABEL", help="Its label.")
@click.option("--id", "given", metavar="ID", help="Its id.")
@of_rows
@as_lines
@asks
def learn(
    client: Client,
    *,
    model: str,
    file: IO[bytes],
    batch: int,
    x: str | None,
    y: str | None,
    given: str | None,
    bad_rows: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Learn the examples of FILE, or of stdin: one {"id": ..., "x": ..., "y": ...} a line.

    An id is learned once: the same file again changes nothing. An example in the pool or of a prediction needs no x.
    """
    columns = {
        "id": lambda r: r["id"],
        "said before": lambda r: label_name(r["prediction"]),
        "score": lambda r: number(r["score"]),
        "": lambda r: "known already" if r["duplicate"] else votes_of(r),
    }
    bad = accepted(bad_rows, Path(file.name), dry_run=dry_run)
    examples = one(x, y, given) or read_placed(file, "y", bad)
    if dry_run:
        tell_dry_run(file.name, ((example.get("x"), example["y"]) for _, example in examples), bad)
        return
    several: list[PlacedExample] = []
    for several in batches(examples, batch):
        for _, results in learned(client, model, several, bad):
            show(results, as_json, columns)
    tell_bad_rows(bad)
    if not several:
        raise click.ClickException(f"{file.name} holds no examples")


def one(x: str | None, y: str | None, given: str | None) -> Iterator[PlacedExample] | None:
    """Return the example that the options give. Return None without such options."""
    if x is None and y is None and given is None:
        return None
    if y is None:
        raise click.UsageError("an example to learn needs a label: --y is missing")
    if x is None and given is None:
        raise click.UsageError("--x is missing; without it --id must name a known example")
    example = {} if x is None else {"x": option_example(x)["x"]}
    return iter([PlacedExample(None, {**example, "y": parsed_label(y), **({} if given is None else {"id": given})})])


def read_placed(file: IO[bytes], needed: str, bad_rows: BadRows = STOP) -> Iterator[PlacedExample]:
    """Yield the examples of JSON lines. Each example must have the needed part."""
    for place, line, example in json_values(file, file.name):
        if isinstance(example, UnreadableRow):
            bad_rows.take(example)
        elif not isinstance(example, dict) or needed not in example:
            bad_rows.take(UnreadableRow(place, f"expected an object with {needed}, found {line[:60]}", row=line))
        else:
            yield PlacedExample(place, example)


def read_lines_of(file: Path, needed: str) -> Iterator[dict[str, Any]]:
    """Open a file and yield its examples."""
    with click.open_file(str(file), "rb") as lines:
        yield from (example for _, example in read_placed(lines, needed))


def votes_of(result: Mapping[str, Any]) -> str:
    """Return the number of labels so far, if the candidate needs several labels."""
    return f"label {result['collected']} of {result['needed']}" if "needed" in result else ""


@click.command(epilog="Example: hinged offer spam unlabelled.csv --id number --show photo")
@click.argument("model")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path), default="-")
@of_tables
@click.option(
    "--show", multiple=True, metavar="COLUMN", help="Show a person this column instead of x. It is not a feature."
)
@BATCH
@as_lines
@asks
def offer(
    client: Client,
    *,
    model: str,
    file: Path,
    show: tuple[str, ...],
    batch: int,
    as_json: bool,
    columns: TableColumns,
    form: dict[str, Any],
) -> None:
    """Put the examples of FILE, or of stdin, into the pool of MODEL: one {"id": ..., "x": ...} a line.

    FILE may also be a table, as hinged replay reads it (.csv, .tsv, .parquet, .arrow). Without a column of ids each row
    gets an id that is the same in every run.
    """
    if format_of(file) in TABLES:
        examples = rows_of(table_of(client, model, file, columns, form, show), fingerprint(file))
    elif show:
        raise click.UsageError("--show names columns of a table; a JSON line has its own show")
    else:
        examples = read_lines_of(file, "id")
    added = dropped = 0
    answer: Mapping[str, Any] | None = None
    for several in batches(examples, batch):
        answer = client.offer(model, several)
        added, dropped = added + answer["added"], dropped + answer["dropped"]
    if answer is None:
        raise click.ClickException(f"{'<stdin>' if str(file) == '-' else file} holds no examples")
    more = f", {dropped:,} made room" if dropped else ""
    text = f"{model}: {added:,} offered{more}; {answer['size']:,} in the pool"
    tell({**answer, "added": added, "dropped": dropped}, as_json, text)


@click.command(epilog="Example: hinged forget spam mail-17")
@click.argument("model")
@click.argument("example")
@WAIT
@as_lines
@asks
def forget(client: Client, *, model: str, example: str, wait: bool, as_json: bool) -> None:
    """Forget EXAMPLE of MODEL, learned or in the pool, and erase every trace of it."""
    answer = client.forget(model, example)
    done = client.wait(answer) if wait else answer
    unwritten = done.get("unwritten")
    tell(done, as_json, f"{example} is {'forgotten' if wait or 'job' not in answer else 'being forgotten'}")
    if unwritten:
        raise click.ClickException(f"its bytes may still be in files: {'; '.join(map(str, unwritten))}")


@click.command(epilog="Example: hinged correct spam mail-17 ham")
@click.argument("model")
@click.argument("example")
@click.argument("label")
@WAIT
@as_lines
@asks
def correct(client: Client, *, model: str, example: str, label: str, wait: bool, as_json: bool) -> None:
    """Give EXAMPLE of MODEL another LABEL. The label that it already has confirms it.

    An integer, true and false are labels of their own. Quotes make them text: '"1"'.
    """
    answer = client.correct(model, example, parsed_label(label))
    done = client.wait(answer) if wait else answer
    said = "stands" if wait or "job" not in answer else "will hold once the model has learned again"
    tell(done, as_json, f"{example}: {label_name(parsed_label(label))} {said}")


@click.command(epilog="Example: hinged suspects spam -n 20")
@click.argument("model")
@click.option("-n", type=click.IntRange(1), default=10, show_default=True, help="Most suspects to list.")
@as_lines
@asks
def suspects(client: Client, *, model: str, n: int, as_json: bool) -> None:
    """List learned examples of MODEL whose labels look wrong, the likeliest errors first."""
    found = client.suspects(model, n=n)["suspects"]
    columns = {
        "id": lambda s: s["id"],
        "label": lambda s: label_name(s["label"]),
        "the model says": lambda s: label_name(s["prediction"]),
        "margin": lambda s: number(s["margin"]),
        "reason": lambda s: s["reason"],
    }
    show(found, as_json, columns)
