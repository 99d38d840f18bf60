"""Read examples from users' files: CSV, TSV, JSON lines, Parquet, Arrow, LIBSVM text and .npz."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hinged.extras import needed
from hinged.readers.bad_rows import STOP, BadRows, Place, SkippedRows, UnreadableRow
from hinged.readers.base import (
    Example,
    Label,
    ReadError,
    Source,
    fingerprint,
)
from hinged.readers.table import TableColumns, TableSource

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "ENDINGS",
    "FORMATS",
    "STOP",
    "BadRows",
    "Example",
    "Label",
    "Place",
    "ReadError",
    "SkippedRows",
    "Source",
    "TableColumns",
    "TableSource",
    "UnreadableRow",
    "fingerprint",
    "format_of",
    "open_source",
]

ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npz": "npz",
}
"""The format of each suffix of a file name, before .gz or .bz2. Any other suffix means LIBSVM text."""
FORMATS = (*dict.fromkeys(ENDINGS.values()), "libsvm")


def open_source(
    path: Path,
    *,
    label: str | None = None,
    id_name: str | None = None,
    file_format: str | None = None,
    zero_based: bool = False,
    like: Source | None = None,
    choice: TableColumns | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    labels_file: Path | None = None,
    bad_rows: BadRows = STOP,
) -> Source:
    """Open a file in the format that its suffix indicates.

    Parameters
    ----------
    label : name of the column or array (.npz) with the labels. In LIBSVM text, the label comes first on each line.
    id_name : name of the column or array with the ids of the examples.
    zero_based : whether LIBSVM indices count from 0.
    like : a source with the same columns, possibly in a different order.
    choice : roles of a table's columns, instead of label and id_name.
    delimiter : character between the fields of CSV; None: determined from the header.
    decimal : "." or ",", before the decimals of a number in CSV; None: determined from the first rows.
    labels_file : file with the labels of a SciPy matrix (.npz), which contains no labels.
    bad_rows : the policy for rows that cannot be read. A .npz file has no such rows.
    """
    file_format = file_format or format_of(path)
    table = like if isinstance(like, TableSource) else None
    choice = choice or TableColumns(label, id_name)
    # Import each reader only when it is used, because only some readers need NumPy.
    if file_format in {"csv", "tsv"}:
        from hinged.readers.text import CsvSource  # noqa: PLC0415

        delimiter = delimiter or ("\t" if file_format == "tsv" else None)
        return CsvSource(path, choice, delimiter=delimiter, decimal=decimal, like=table, bad_rows=bad_rows)
    if file_format == "jsonl":
        from hinged.readers.lines import ExampleLines, holds_examples  # noqa: PLC0415

        if choice.label is None and holds_examples(path):
            if choice.named_columns():
                raise ReadError(f"{path} has an x of its own on each line; options for columns are for tables")
            return ExampleLines(path, labelled=choice.labelled, bad_rows=bad_rows)
        from hinged.readers.text import JsonLinesSource  # noqa: PLC0415

        return JsonLinesSource(path, choice, like=table, bad_rows=bad_rows)
    if file_format in {"parquet", "arrow"}:
        with needed("files", "a Parquet or Arrow file"):
            from hinged.readers.arrow import ArrowSource  # noqa: PLC0415

        return ArrowSource(path, choice, is_parquet=file_format == "parquet", like=table, bad_rows=bad_rows)
    if file_format == "npz":
        with needed("files", "a .npz file"):
            from hinged.readers.arrays import open_npz  # noqa: PLC0415

        return open_npz(path, label=choice.label, ids=choice.id, weights=choice.weight, labels_file=labels_file)
    from hinged.readers.libsvm import LibsvmSource  # noqa: PLC0415

    if choice.id is not None:
        raise ReadError(f"{path}: LIBSVM text has no ids")
    if choice.weight is not None:
        raise ReadError(f"{path}: LIBSVM text has no weights")
    return LibsvmSource(path, zero_based=zero_based, bad_rows=bad_rows)


def format_of(path: Path) -> str:
    """Return the format that a file's suffix indicates."""
    name = path.name.lower().removesuffix(".gz").removesuffix(".bz2")
    return next((found for ending, found in ENDINGS.items() if name.endswith(ending)), "libsvm")
