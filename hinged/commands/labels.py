"""`hinged labels`: write the learned labels of a model to a file."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from hinged.commands.options import asks
from hinged.commands.questions import CsvTable
from hinged.commands.showing import shown_label
from hinged.commands.writing import write
from hinged.extras import needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hinged.client.client import Client
    from hinged.client.shapes import ListedExample

COLUMNS = ("id", "label", "answers", "corrected", "prediction", "source", "at")
COLUMNS_WITH_X = (*COLUMNS, "x", "weight")
PAGE_EXAMPLES = 1000


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
    if kind == "jsonl" or (kind is None and with_x):
        writer: Table | JSONLinesWriter | Parquet = LearnableWriter() if with_x else JSONLinesWriter()
    else:
        writer = Parquet(columns) if kind == "parquet" else Table(columns)
    cursor = None
    while True:
        page = client.examples(model, n=PAGE_EXAMPLES, cursor=cursor, x=with_x, **wanted)
        if cursor is None and page["missing"]:
            write(f"{page['missing']:,} older examples are missing: the log was trimmed", err=True)
        writer.write(page["examples"])
        cursor = page["next"]
        if cursor is None:
            break
    writer.close()


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


class JSONLinesWriter:
    """Writes JSON lines. Each example is written as the server sent it."""

    def write(self, examples: list[ListedExample]) -> None:
        """Write more examples."""
        for example in examples:
            write(json.dumps(example, ensure_ascii=False))

    def close(self) -> None:
        """Do nothing, because the format needs no ending."""


class LearnableWriter(JSONLinesWriter):
    """Writes JSON lines that `hinged learn` reads. An example whose x is unknown is left out."""

    def __init__(self) -> None:
        self._without_x = 0

    def write(self, examples: list[ListedExample]) -> None:
        """Write more examples."""
        for example in examples:
            if example["x"] is None:
                self._without_x += 1
                continue
            weight = {} if example["weight"] == 1.0 else {"weight": example["weight"]}
            line = {"id": example["id"], "x": example["x"], "y": example["label"], **weight}
            write(json.dumps(line, ensure_ascii=False))

    def close(self) -> None:
        """Write to stderr how many examples were left out."""
        if self._without_x:
            write(f"examples without x, left out: {self._without_x:,}", err=True)


class Table:
    """Writes CSV with a header."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._table = CsvTable(self._columns)

    def write(self, examples: list[ListedExample]) -> None:
        """Write more rows. Write the header before the first row."""
        rows = (row_of(example, self._columns) for example in examples)
        self._table.write(row | {"corrected": "yes" if row["corrected"] else "no"} for row in rows)

    def close(self) -> None:
        """Do nothing, because the format needs no ending."""


class Parquet:
    """Writes a Parquet file with one row group per page."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        if sys.stdout.isatty():
            raise click.ClickException("Parquet is binary: write it to a file, > labels.parquet")
        with needed("files", "Parquet"):
            import pyarrow as pa  # noqa: PLC0415
            from pyarrow import parquet  # noqa: PLC0415
        text, time = pa.string(), pa.timestamp("ms", tz="UTC")
        kinds = {"corrected": pa.bool_(), "at": time, "weight": pa.float64()}
        self._schema = pa.schema([(name, kinds.get(name, text)) for name in self._columns])
        self._table = pa.Table.from_pylist
        self._writer = parquet.ParquetWriter(sys.stdout.buffer, self._schema)

    def write(self, examples: list[ListedExample]) -> None:
        """Write more examples."""
        if examples:
            rows = [row | {"at": _time(row["at"])} for row in (row_of(example, self._columns) for example in examples)]
            self._writer.write_table(self._table(rows, schema=self._schema))

    def close(self) -> None:
        """Write the footer, which lists the row groups."""
        self._writer.close()
        sys.stdout.buffer.flush()


def _time(text: str | None) -> Any:
    from datetime import datetime  # noqa: PLC0415

    return None if text is None else datetime.fromisoformat(text)
