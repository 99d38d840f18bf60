"""LIBSVM text: `label index:value index:value ...`, one example per line, with indices from 1. qid: is ignored."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from hinged.readers.bad_rows import STOP, BadRows, Place, UnreadableRow
from hinged.readers.base import (
    Example,
    Label,
    Source,
    label_of,
    number_of,
    open_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INDEX_DIGITS_MAX = 10


class LibsvmSource(Source):
    """A LIBSVM file. Opening the file reads it once, to find the highest index and every bad row."""

    sparse = True

    def __init__(self, path: Path, *, zero_based: bool = False, bad_rows: BadRows = STOP) -> None:
        self.path = path
        self.name = path.name
        self._bad_rows = bad_rows
        self._first = 0 if zero_based else 1
        self.rows = 0
        self.dim = 1
        for example in self:
            self.rows += 1
            self.dim = max(self.dim, 1 + max(example.x["indices"], default=0))

    def __iter__(self) -> Iterator[Example]:
        row = 0
        with open_bytes(self.path) as file, io.TextIOWrapper(file, "utf-8-sig") as text:
            for number, line in enumerate(text, start=1):
                tokens = line.partition("#")[0].split()
                if not tokens:
                    continue
                row += 1
                try:
                    example = self._example(row, Place(self.path, number), tokens)
                except UnreadableRow as error:
                    error.row = line.rstrip("\r\n")
                    self._bad_rows.take(error)
                else:
                    yield example

    def _example(self, row: int, place: Place, tokens: list[str]) -> Example:
        if ":" in tokens[0]:
            raise UnreadableRow(place, f"expected a label first, found {tokens[0]!r}")
        seen: dict[int, float] = {}
        # The query id of a ranking task. A classifier does not use it.
        has_query = len(tokens) > 1 and tokens[1].startswith("qid:")
        for token in tokens[2 if has_query else 1 :]:
            index_text, colon, value_text = token.partition(":")
            value = number_of(value_text)
            if (
                not colon
                or value is None
                or not (index_text.isascii() and index_text.isdigit() and len(index_text) <= INDEX_DIGITS_MAX)
            ):
                raise UnreadableRow(place, f"expected index:value, found {token!r}")
            index = int(index_text) - self._first
            if index < 0:
                raise UnreadableRow(place, "index 0, but indices count from 1 (--zero-based: from 0)")
            if index in seen:
                raise UnreadableRow(place, f"index {index_text} occurs twice")
            seen[index] = value
        indices = sorted(seen)
        x = {"indices": indices, "values": [seen[index] for index in indices]}
        return Example(row, x, _label(tokens[0]), None)


def _label(text: str) -> Label:
    """Return a label. LIBSVM labels are numbers, so 1, +1 and 1.0 are the same label."""
    value = number_of(text)
    if value is not None and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return label_of(text)
