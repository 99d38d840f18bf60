"""CSV: a header line, one column of labels, perhaps one of ids, and numbers in all the others."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from hinged.readers.base import (
    Example,
    ReadError,
    Source,
    label_of,
    number_of,
    open_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

BLOCK_BYTES = 2**20


class CsvSource(Source):
    """A CSV file, read line by line; `columns` are its features in the order of x."""

    sparse = False

    def __init__(
        self,
        path: Path,
        *,
        label: str | None,
        id_column: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.path = path
        self.name = path.name
        header = [name.strip() for name in next(self._lines(), (1, []))[1]]
        if not header:
            raise ReadError(f"{path} has no header line")
        for name in header:
            if header.count(name) > 1:
                raise ReadError(f"{path}, line 1: two columns are named {name!r}")
        if label is None:
            raise ReadError(f"{path}: --label is needed, one of {_listed(header)}")
        for name in (label, *([] if id_column is None else [id_column]), *(columns or ())):
            if name not in header:
                raise ReadError(f"{path} has no column {name!r}; its columns are {_listed(header)}")
        if label == id_column:
            raise ReadError(f"{path}: column {label!r} cannot be label and id at once")
        self.columns = list(columns or [name for name in header if name not in {label, id_column}])
        if not self.columns:
            raise ReadError(f"{path} has no columns besides {label!r}")
        self.dim = len(self.columns)
        self._width = len(header)
        self._label, self._label_at = label, header.index(label)
        self._id, self._id_at = id_column, None if id_column is None else header.index(id_column)
        self._features_at = [header.index(name) for name in self.columns]
        self.rows = self._count()

    def __iter__(self) -> Iterator[Example]:
        lines = self._lines()
        next(lines)
        for row, (line, fields) in enumerate(lines, start=1):
            if len(fields) != self._width:
                raise ReadError(f"{self.path}, line {line}: expected {self._width} fields, found {len(fields)}")
            x = [self._number(line, fields, at) for at in self._features_at]
            label = fields[self._label_at].strip()
            if not label:
                raise ReadError(f"{self.path}, line {line}, column {self._label!r}: the label is empty")
            name = None if self._id_at is None else fields[self._id_at]
            if name == "":
                raise ReadError(f"{self.path}, line {line}, column {self._id!r}: the id is empty")
            yield Example(row, x, label_of(label), name)

    def _number(self, line: int, fields: list[str], at: int) -> float:
        value = number_of(fields[at])
        if value is None:
            column = self.columns[self._features_at.index(at)]
            raise ReadError(f"{self.path}, line {line}, column {column!r}: expected a number, found {fields[at]!r}")
        return value

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and fields of each line that is not blank."""
        with open_bytes(self.path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            reader = csv.reader(text)
            try:
                for fields in reader:
                    if fields:
                        yield reader.line_num, fields
            except csv.Error as error:
                raise ReadError(f"{self.path}, line {reader.line_num}: {error}") from error

    def _count(self) -> int:
        lines = 0
        last = b"\n"
        with open_bytes(self.path) as file:
            while block := file.read(BLOCK_BYTES):
                lines += block.count(b"\n")
                last = block[-1:]
        return max(0, lines - (1 if last == b"\n" else 0))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"
