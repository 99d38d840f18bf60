"""`hinged labels`: write the learned labels of a model to a file."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from hinged.commands.options import asks
from hinged.commands.questions import CsvTable
from hinged.commands.writing import write
from hinged.extras import needed

if TYPE_CHECKING:
    from hinged.client.client import Client
    from hinged.client.shapes import ListedExample

COLUMNS = ("id", "label", "answers", "corrected", "prediction", "source", "at")
PAGE_EXAMPLES = 1000


@click.command(epilog="Example: hinged labels spam --annotator ann > labels.csv")
@click.argument("model")
@click.option(
    "--format", "kind", type=click.Choice(["csv", "jsonl", "parquet"]), default="csv", show_default=True, help="Of it."
)
@click.option("--label", metavar="LABEL", help="Only examples with this label, named as in scores.")
@click.option("--annotator", metavar="NAME", help="Only examples that this annotator has answered.")
@click.option("--since", metavar="TIME", help="Only examples learned then or later; a date, or a time as ISO 8601.")
@click.option("--until", metavar="TIME", help="Only examples learned before then; a date, or a time as ISO 8601.")
@asks
def labels(client: Client, *, model: str, kind: str, **wanted: str | None) -> None:
    """Write the labels that MODEL has learned to stdout: id, label, annotators' answers, time.

    Each label is the current label; forgotten examples are missing. A string that looks like another label keeps its
    quotes: 1 and "1" differ. The answers are an object of annotators and their labels.
    """
    writer = WRITERS[kind]()
    cursor = None
    while True:
        page = client.examples(model, n=PAGE_EXAMPLES, cursor=cursor, **wanted)
        if cursor is None and page["missing"]:
            write(f"{page['missing']:,} older examples are missing: the log was trimmed", err=True)
        writer.write(page["examples"])
        cursor = page["next"]
        if cursor is None:
            break
    writer.close()


def row_of(example: ListedExample) -> dict[str, Any]:
    """Return an example as a row of COLUMNS, with its labels as text."""
    from hinged.commands.showing import shown_label  # noqa: PLC0415 - rich is slow to import

    answers = {answer["annotator"]: answer["label"] for answer in example["answers"]}
    said = example["prediction"]
    row = {
        **example,
        "label": shown_label(example["label"]),
        "answers": json.dumps(answers, ensure_ascii=False) if answers else None,
        "prediction": None if said is None else shown_label(said),
    }
    return {name: row[name] for name in COLUMNS}


class JSONLinesWriter:
    """Writes JSON lines. Each example is written as the server sent it."""

    def write(self, examples: list[ListedExample]) -> None:
        """Write more examples."""
        for example in examples:
            write(json.dumps(example, ensure_ascii=False))

    def close(self) -> None:
        """Do nothing, because the format needs no ending."""


class Table:
    """Writes CSV with a header."""

    def __init__(self) -> None:
        self._table = CsvTable(COLUMNS)

    def write(self, examples: list[ListedExample]) -> None:
        """Write more rows. Write the header before the first row."""
        rows = map(row_of, examples)
        self._table.write(row | {"corrected": "yes" if row["corrected"] else "no"} for row in rows)

    def close(self) -> None:
        """Do nothing, because the format needs no ending."""


class Parquet:
    """Writes a Parquet file with one row group per page."""

    def __init__(self) -> None:
        if sys.stdout.isatty():
            raise click.ClickException("Parquet is binary: write it to a file, > labels.parquet")
        with needed("files", "Parquet"):
            import pyarrow as pa  # noqa: PLC0415
            from pyarrow import parquet  # noqa: PLC0415
        text, time = pa.string(), pa.timestamp("ms", tz="UTC")
        kinds = {"corrected": pa.bool_(), "at": time}
        self._schema = pa.schema([(name, kinds.get(name, text)) for name in COLUMNS])
        self._table = pa.Table.from_pylist
        self._writer = parquet.ParquetWriter(sys.stdout.buffer, self._schema)

    def write(self, examples: list[ListedExample]) -> None:
        """Write more examples."""
        if examples:
            rows = [row | {"at": _time(row["at"])} for row in map(row_of, examples)]
            self._writer.write_table(self._table(rows, schema=self._schema))

    def close(self) -> None:
        """Write the footer, which lists the row groups."""
        self._writer.close()
        sys.stdout.buffer.flush()


def _time(text: str | None) -> Any:
    from datetime import datetime  # noqa: PLC0415

    return None if text is None else datetime.fromisoformat(text)


WRITERS: dict[str, type[Table | JSONLinesWriter | Parquet]] = {
    "csv": Table,
    "jsonl": JSONLinesWriter,
    "parquet": Parquet,
}
