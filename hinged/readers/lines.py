"""JSON lines, and the JSON lines of `hinged learn`: one {"id": ..., "x": ..., "y": ...} a line, with an x of any
form.
"""

from __future__ import annotations

import codecs
import itertools
import json
from typing import TYPE_CHECKING, Any

from hinged.readers.bad_rows import STOP, BadRows, Place, UnreadableRow
from hinged.readers.base import Example, Source, open_bytes
from hinged.readers.table import SAMPLE_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PARTS = frozenset({"id", "x", "y"})
# Number of arrays and objects around a value. The server refuses a text with more than 100, and a row is inside a body.
NESTED_MAX = 90


def json_lines(path: Path) -> Iterator[tuple[Place, str, Any]]:
    """Yield the place, the text and the value of each line of a file that is not blank; see `json_values`."""
    with open_bytes(path) as file:
        yield from json_values(file, path)


def json_values(lines: Iterable[bytes], name: Path | str) -> Iterator[tuple[Place, str, Any]]:
    """Yield the place, the text and the value of each line that is not blank. The value of a line that is no JSON is a
    UnreadableRow.
    """
    for number, content in enumerate(lines, start=1):
        row = content.removeprefix(codecs.BOM_UTF8) if number == 1 else content
        text = row.decode(errors="backslashreplace").strip()
        if not text:
            continue
        place = Place(name, number)
        try:
            value = json_of(row)
        except ValueError as error:
            value = UnreadableRow(place, f"expected JSON: {error}", row=text)
        yield place, text, value


def json_of(text: bytes) -> Any:
    """Return the value of a JSON text. Raise ValueError for what the server refuses too: bytes that are not UTF-8, lone
    surrogates, and deep nesting. One such row would make the server refuse a whole batch.
    """
    try:
        value = json.loads(text.decode())
        deep = text.count(b"[") + text.count(b"{") > NESTED_MAX and _is_deep(value)
    except RecursionError:
        deep = True
    if deep:
        raise ValueError(f"arrays and objects may be nested {NESTED_MAX} deep, got more")
    if b"\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _is_deep(value: Any) -> bool:
    within = [value]
    for _ in range(NESTED_MAX + 1):
        outer = [each for each in within if isinstance(each, list | dict)]
        within = [each for one in outer for each in (one.values() if isinstance(one, dict) else one)]
    return bool(outer)


class ExampleLines(Source):
    """Examples that have the form of the server's bodies. The first lines determine the form of x."""

    def __init__(self, path: Path, *, labelled: bool = True, bad_rows: BadRows = STOP) -> None:
        self.path, self.name = path, path.name
        self._bad_rows = bad_rows
        self._labelled = labelled
        sample = [example["x"] for _, example in itertools.islice(self._examples(), SAMPLE_ROWS)]
        first = sample[0]
        self.named = isinstance(first, str) or (isinstance(first, dict) and not is_sparse(first))
        self.sparse = any(isinstance(x, dict) for x in sample) and not self.named
        self._type = (
            "text" if isinstance(first, str) else "named" if self.named else "sparse" if self.sparse else "dense"
        )
        self.dim = self._width(sample)
        self.rows = len(sample) if len(sample) < SAMPLE_ROWS else sum(1 for _ in self._examples())

    @property
    def features(self) -> dict[str, Any]:
        """Return the features part of a model's configuration."""
        return {"type": self._type} if self.named else super().features

    def __iter__(self) -> Iterator[Example]:
        for row, example in self._examples():
            given = example.get("id")
            yield Example(row, example["x"], example.get("y"), None if given is None else str(given))

    def _examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the examples with their numbers. A bad row has a number too."""
        for row, (place, content, example) in enumerate(json_lines(self.path), start=1):
            if isinstance(example, UnreadableRow):
                self._bad_rows.take(example)
            elif not isinstance(example, dict) or "x" not in example or (self._labelled and "y" not in example):
                reason = f"expected an object with x and y, found {content[:40]}"
                self._bad_rows.take(UnreadableRow(place, reason, row=content))
            else:
                yield row, example

    def _width(self, sample: list[Any]) -> int:
        """Return the number of columns; of names, if x has names."""
        if self.named:
            return 1 if self._type == "text" else len({name for x in sample if isinstance(x, dict) for name in x})
        rows = (example["x"] for _, example in self._examples()) if self.sparse else sample
        return max(1 + max(x["indices"], default=0) if isinstance(x, dict) else len(x) for x in rows)


def is_sparse(x: Any) -> bool:
    """Return whether an x is a sparse row. Named features that are called indices and values do not count."""
    return isinstance(x, dict) and x.keys() == {"indices", "values"} and isinstance(x["indices"], list)


def holds_examples(path: Path) -> bool:
    """Return whether the first line of a file is an example whose x is a list, a sparse row, an object or a text."""
    with open_bytes(path) as file:
        first = next((line for line in file if line.strip()), b"")
    try:
        example = json.loads(first)
    except ValueError:
        return False
    if not isinstance(example, dict) or not {"x", "y"} <= example.keys() <= PARTS:
        return False
    return isinstance(example["x"], list | dict | str)
