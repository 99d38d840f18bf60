"""`hinged labels`: write the learned labels of a model to a file."""

from __future__ import annotations

import itertools
import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from hinged.client.routes import PAGE_EXAMPLES
from hinged.commands.options import asks
from hinged.commands.showing import shown_label
from hinged.commands.writing import CsvTable, write
from hinged.extras import needed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hinged.client.client import Client
    from hinged.client.shapes import ListedExample

COLUMNS = ("id", "label", "answers", "corrected", "prediction", "source", "at")
COLUMNS_WITH_X = (*COLUMNS, "x", "weight")


@click.command(epilog="Example: hinged labels spam --annotator ann > labels.csv")
@click.argument("model")
@click.option(
    "--format", "kind", type=click.Choice(["csv", "jsonl", "parquet"]), help="Of it.  [csv; jsonl with --with-x]"
)
@click.option("--with-x", is_flag=True, help="Write x too. JSON lines are then lines for `hinged learn`.")
@click.option("--label", metavar="LABEL", help="Only examples with this label, named as in scores.")
@click.option("--annotator", metavar="NAME", help="Only examples that this annotator has answered.")
@click.option("--since", metavar="TIME", help="Only examples learned then or later; a date, or a time as ISO 8601.")
@click.option("--until", metavar="TIME", help="Only examples learned before then; a date, or a time as ISO 8601.")
@asks
def labels(client: Client, *, model: str, kind: str | None, with_x: bool, **wanted: str | None) -> None:
    """Write the labels that MODEL has learned to stdout: id, label, annotators' answers, time.

    Each label is the current label; forgotten examples are missing. A string that looks like another label keeps its
    quotes: 1 and "1" differ. The answers are an object of annotators and their labels.

    With --with-x, each line is an example that another model can learn: {"id": ..., "x": ..., "y": ...}.
    """
    columns = COLUMNS_WITH_X if with_x else COLUMNS
    pages = pages_of(client, model, x=with_x, **wanted)
    if kind == "parquet":
        write_parquet(columns, pages)
    elif kind == "jsonl" or (kind is None and with_x):
        write_lines(pages, learnable=with_x)
    else:
        table = CsvTable(columns)
        for page in pages:
            rows = (row_of(example, columns) for example in page)
            table.write(row | {"corrected": "yes" if row["corrected"] else "no"} for row in rows)


def pages_of(client: Client, model: str, **wanted: Any) -> Iterator[list[ListedExample]]:
    """Yield the learned examples in pages. Report first how many older examples are missing."""
    cursor: str | None = None
    while True:
        page = client.examples(model, n=PAGE_EXAMPLES, cursor=cursor, **wanted)
        if cursor is None and page["missing"]:
            write(f"{page['missing']:,} older examples are missing: the log was trimmed", err=True)
        yield page["examples"]
        cursor = page["next"]
        if cursor is None:
            return


def row_of(example: ListedExample, columns: Sequence[str]) -> dict[str, Any]:
    """Return an example as a row of these columns, with its labels as text and x as JSON."""
    answers = {answer["annotator"]: answer["label"] for answer in example["answers"]}
    said = example["prediction"]
    x = example.get("x")
    row = {
        **example,
        "label": shown_label(example["label"]),
        "answers": json.dumps(answers, ensure_ascii=False) if answers else None,
        "prediction": None if said is None else shown_label(said),
        "x": None if x is None else json.dumps(x, ensure_ascii=False),
    }
    return {name: row[name] for name in columns}


def write_lines(pages: Iterable[list[ListedExample]], *, learnable: bool) -> None:
    """Write JSON lines: each example as the server sent it, or as `hinged learn` reads it. An example whose x is
    unknown cannot be learned, and is left out.
    """
    without_x = 0
    for example in itertools.chain.from_iterable(pages):
        line: Mapping[str, Any] = example
        if learnable:
            weight = {} if example["weight"] == 1.0 else {"weight": example["weight"]}
            line = {"id": example["id"], "x": example["x"], "y": example["label"], **weight}
            without_x += example["x"] is None
        if not learnable or example["x"] is not None:
            write(json.dumps(line, ensure_ascii=False))
    if without_x:
        write(f"examples without x, left out: {without_x:,}", err=True)


def write_parquet(columns: Sequence[str], pages: Iterable[list[ListedExample]]) -> None:
    """Write a Parquet file with one row group per page."""
    if sys.stdout.isatty():
        raise click.ClickException("Parquet is binary: write it to a file, > labels.parquet")
    with needed("files", "Parquet"):
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    kinds = {"corrected": pa.bool_(), "at": pa.timestamp("ms", tz="UTC"), "weight": pa.float64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    with parquet.ParquetWriter(sys.stdout.buffer, schema) as writer:
        for page in filter(None, pages):
            rows = [row | {"at": _time(row["at"])} for row in (row_of(example, columns) for example in page)]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    sys.stdout.buffer.flush()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
