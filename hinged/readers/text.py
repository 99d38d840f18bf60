"""Tables as text files: CSV with any delimiter, and JSON lines."""

from __future__ import annotations

import csv
import io
import itertools
import re
from typing import TYPE_CHECKING

from hinged.readers.bad_rows import STOP, BadRows, Place, UnreadableRow
from hinged.readers.base import ReadError, columns_named, number_of, open_bytes
from hinged.readers.lines import json_lines
from hinged.readers.table import SAMPLE_ROWS, Found, Row, TableColumns, TableSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

BLOCK_BYTES = 2**20
WITH_COMMA = re.compile(r"[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+),[0-9]+")  # a number with a decimal comma
COMMAS_BETWEEN = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+\.[0-9]+")  # a number with commas between its thousands
DELIMITERS = (",", "\t", ";", "|")
"""Delimiters to try, in order. If the header does not decide, the first delimiter that fits is used."""


class CsvSource(TableSource):
    """A CSV file with a header line. The file is read line by line. Fields may be quoted.

    delimiter: character between fields; None: determined from the header.
    decimal: "." or ",", before the decimals of a number; None: determined from the first rows. A comma is found only
    if it is not the delimiter.
    """

    typed = False

    def __init__(
        self,
        path: Path,
        choice: TableColumns,
        *,
        delimiter: str | None = None,
        decimal: str | None = None,
        like: TableSource | None = None,
        bad_rows: BadRows = STOP,
    ) -> None:
        self.path = path
        self._decimal: str | None = like._decimal if isinstance(like, CsvSource) else decimal  # noqa: SLF001  of its own class
        self.delimiter = delimiter or self._found_delimiter(choice)
        header = [name.strip() for name in next(self._lines(), (1, 1, []))[2]]
        if not header:
            raise ReadError(f"{path} has no header line")
        for name in header:
            if header.count(name) > 1:
                raise ReadError(f"{path}, line 1: two columns are named {name!r}")
        self._header = header
        super().__init__(path, header, choice, like, bad_rows)

    def _found_delimiter(self, choice: TableColumns) -> str:
        """Return the delimiter with which the named columns exist and most of the first rows are as wide as the header.
        If several fit, return the delimiter that gives most fields.
        """
        wanted = set(choice.named_columns())

        def fitness(delimiter: str) -> tuple[int, int, int]:
            self.delimiter = delimiter
            rows = [fields for *_, fields in itertools.islice(self._lines(), 20)]
            header = [name.strip() for name in rows[0]] if rows else []
            as_wide = sum(len(fields) == len(header) for fields in rows) if len(header) > 1 else 0
            return len(wanted & set(header)), as_wide, len(header)

        return max(DELIMITERS, key=fitness)

    def _look(self, sample: Sequence[Row]) -> list[str]:
        if self._decimal is not None or self.delimiter == ",":
            return []
        names = [name for name in self.columns if name not in self._kinds]
        if self._choice.weight is not None:
            names.append(self._choice.weight)
        fields = [(name, row[name].strip()) for _, row in sample for name in names]
        commas = {name for name, text in fields if WITH_COMMA.fullmatch(text)}
        others = {name for name, text in fields if not self._is_missing(text) and _with_comma(text) is None}
        found = [name for name in names if name in commas - others]
        # A file with both 1,5 and 1.5 says nothing certain, so a comma is no decimal comma there.
        if not found or any("." in text and number_of(text) is not None for _, text in fields):
            self._decimal = "."
            return []
        self._decimal = ","
        return [f"{columns_named(found)} read with decimal commas; --decimal . reads such values as texts"]

    def _number_of(self, text: str) -> float | None:
        if self._decimal == ",":
            return _with_comma(text)
        return number_of(text.replace(",", "") if COMMAS_BETWEEN.fullmatch(text.strip()) else text)

    def _rows(self) -> Iterator[Found]:
        lines = self._lines()
        next(lines)
        width = len(self._header)
        for begin, line, fields in lines:
            place = Place(self.path, line)
            if len(fields) == width:
                yield place, dict(zip(self._header, fields, strict=True))
            else:
                spans = "" if begin == line else f", in a row from line {begin} on; a quote may be missing"
                yield place, UnreadableRow(place, f"expected {width} fields, found {len(fields)}{spans}", row=fields)

    def _lines(self) -> Iterator[tuple[int, int, list[str]]]:
        """Yield the fields of each line that is not blank, with its first and its last line number."""
        with open_bytes(self.path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            reader = csv.reader(text, delimiter=self.delimiter, skipinitialspace=True)
            begin = 1
            try:
                for fields in reader:
                    if fields:
                        yield begin, reader.line_num, fields
                    begin = reader.line_num + 1
            except csv.Error as error:
                raise ReadError(f"{self.path}, line {reader.line_num}: {error}") from error

    def _count(self, sample: Sequence[Row]) -> int:
        """Return the number of lines. If there are only few rows, return their exact number."""
        if len(sample) < SAMPLE_ROWS:
            return len(sample)
        return max(0, _lines_of(self.path) - 1)


class JsonLinesSource(TableSource):
    """A file of JSON lines, with one object per line. Names that first appear after the first rows are left out."""

    def __init__(
        self, path: Path, choice: TableColumns, *, like: TableSource | None = None, bad_rows: BadRows = STOP
    ) -> None:
        self.path, self._bad_rows = path, bad_rows
        sample = itertools.islice(self.whole_rows(), SAMPLE_ROWS)
        header = list(dict.fromkeys(name for _, row in sample for name in row))
        if not header:
            raise ReadError(f"{path} holds no JSON objects")
        super().__init__(path, header, choice, like, bad_rows)

    def _rows(self) -> Iterator[Found]:
        for place, content, row in json_lines(self.path):
            if isinstance(row, dict | UnreadableRow):
                yield place, row
            else:
                yield place, UnreadableRow(place, f"expected an object, found {content[:40]}", row=content)


def _with_comma(text: str) -> float | None:
    """Return the finite number that a text with a decimal comma, or without decimals, represents, or None."""
    if WITH_COMMA.fullmatch(text.strip()):
        text = text.replace(".", "")  # between thousands
    return None if "." in text else number_of(text.replace(",", "."))


def _lines_of(path: Path) -> int:
    lines = 0
    last = b"\n"
    with open_bytes(path) as file:
        while block := file.read(BLOCK_BYTES):
            lines += block.count(b"\n")
            last = block[-1:]
    return lines if last == b"\n" else lines + 1
