"""Tables: rows with named columns. One column contains labels, another may contain ids, and the rest are features.

If the first rows have a number in each feature, x is the list of these numbers (dense). If the only feature contains
texts, x is the text. Otherwise x is an object of names and values: numbers, strings and booleans, without missing
values.
"""

from __future__ import annotations

import itertools
import math
import re
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hinged.readers.bad_rows import STOP, BadRows, Place, UnreadableRow
from hinged.readers.base import Example, Label, ReadError, Source, label_of, listed, number_of
from hinged.readers.dates import found_in, iso, orders_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SAMPLE_ROWS = 1000  # number of first rows from which the kinds of columns are determined
# People get a warning about a column with at least this many strings if more than this share of the strings are
# different.
UNIQUE_ROWS_MIN, UNIQUE_SHARE = 50, 0.9

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d|$)")

_STRINGS = frozenset({"text", "category"})  # in columns of these kinds, a number is a text

MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>"})
"""Texts that represent a missing value, unless the user names other texts."""


Row = tuple[Place, "Mapping[str, Any]"]
"""The place of a row in the file, and its values by column."""
Found = tuple[Place, "Mapping[str, Any] | UnreadableRow"]
"""The place of a row, and its values; or the reason why the row has no values."""


@dataclass(frozen=True)
class TableColumns:
    """The roles of a table's columns.

    Attributes
    ----------
    label : column with the labels.
    labelled : whether the table must have labels.
    id : column with the ids.
    features : columns to learn from. Empty: all remaining columns except `drop`.
    named : whether x is an object (True) or a list of numbers (False); None: determined from the first rows.
    texts, times, categories : features that contain texts, dates and times, or categories.
    show : columns that people see instead of x. Such a column is a feature only if `features` names it.
    known : kinds of columns that a model already has: "text", "time" or "category".
    whole : whether x is the text of the only feature.
    weight : column with the rows' own factors of C. It is no feature.
    dates : "day-first" or "month-first", the order in dates such as 01.05.2026, or "text" to leave such dates texts;
        None: determined from the first rows.
    missing : texts that represent a missing value.
    """

    label: str | None = None
    id: str | None = None
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    named: bool | None = None
    labelled: bool = True
    texts: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    show: tuple[str, ...] = ()
    known: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    weight: str | None = None
    dates: str | None = None
    missing: frozenset[str] = MISSING

    def named_columns(self) -> list[str]:
        """Return all columns that these roles name."""
        given = [name for name in (self.label, self.id, self.weight) if name is not None]
        return [*given, *self.features, *self.drop, *self.texts, *self.times, *self.categories, *self.show]


class TableSource(Source):
    """A table in a file. `columns` are its features, in the order of a dense x."""

    sparse = False
    typed = True  # a text is never a number, even if it looks like one
    columns: list[str]
    delimiter = ","  # between the fields of a row as text
    _texts: frozenset[str]  # columns that contain a text that is not a number: all their values count as texts
    _kinds: dict[str, str]  # kinds of columns that the user named: "text", "time" or "category"
    _dates: dict[str, str]  # columns with dates that are not ISO 8601: which part comes first, the day or the month

    def __init__(
        self,
        path: Path,
        header: Sequence[str],
        choice: TableColumns,
        like: TableSource | None = None,
        bad_rows: BadRows = STOP,
    ) -> None:
        self.path = path
        self._bad_rows = bad_rows
        self.name = path.name
        self._choice = choice
        if choice.label is None and choice.labelled:
            raise ReadError(f"{path}: --label is needed, one of {listed(header)}")
        if choice.label is not None and choice.label == choice.id:
            raise ReadError(f"{path}: column {choice.label!r} cannot be both label and id")
        for name in (*choice.named_columns(), *(like.columns if like is not None and not like.named else ())):
            if name not in header:
                raise ReadError(f"{path} has no column {name!r}; its columns are {listed(header)}")
        if choice.weight is not None and choice.weight in (choice.label, choice.id):
            raise ReadError(f"{path}: column {choice.weight!r} cannot be both the weight and the label or the id")
        out = {choice.label, choice.id, choice.weight, *choice.drop, *(set(choice.show) - set(choice.features))}
        self.columns = [name for name in (choice.features or header) if name not in out]
        if like is not None:
            self.columns = [name for name in like.columns if name in header]
        if not self.columns:
            raise ReadError(f"{path} has no columns besides {listed([name for name in out if name])}")
        self._declare(choice)
        sample = list(itertools.islice(self.whole_rows(), SAMPLE_ROWS))
        found = self._look(sample)
        if like is not None:
            self.named, self._texts, self._kinds = like.named, like._texts, like._kinds  # noqa: SLF001  of its own class
            self._dates = like._dates  # noqa: SLF001
        else:
            found += self._look_at_dates(sample, choice.dates)
            texts = (name for name in self.columns if any(self._is_text(row.get(name)) for _, row in sample))
            self._texts = frozenset(texts) | self._kinds.keys()
            whole = not self._texts and all(
                self._number(row.get(name)) is not None for _, row in sample for name in self.columns
            )
            self.named = not whole if choice.named is None else choice.named
        self.dim = len(self.columns)
        self.notes = [*found, *(self._unlike_each_other(sample) if self.named else [])]
        self.rows = self._count(sample)

    def _declare(self, choice: TableColumns) -> None:
        """Record the kinds of columns that the user named. Raise ReadError if the kinds contradict each other."""
        kinds = {name: kind for name, kind in choice.known.items() if name in self.columns}
        kinds |= dict.fromkeys(choice.texts, "text") | dict.fromkeys(choice.times, "time")
        kinds |= dict.fromkeys(choice.categories, "category")
        out = [name for name in kinds if name not in self.columns]
        if out:
            raise ReadError(f"{self.path}: column {out[0]!r} cannot be both a feature and dropped")
        if kinds and choice.named is False:
            raise ReadError(f"{self.path}: column {next(iter(kinds))!r} does not hold numbers; leave --numbers out")
        if choice.whole:
            if len(self.columns) > 1:
                raise ReadError(f"{self.path}: the model learns from one text: --features names its column")
            kinds = dict.fromkeys(self.columns, "text")
        self._kinds = kinds

    @property
    def is_text(self) -> bool:
        """Return whether x is a text."""
        return [self._kinds.get(name) for name in self.columns] == ["text"]

    @property
    def features(self) -> dict[str, Any]:
        """Return the features part of a model's configuration."""
        if not self.named:
            return super().features
        if self.is_text:
            return {"type": "text"}
        columns = {name: {"type": self._kinds[name]} for name in self.columns if name in self._kinds}
        return {"type": "named", **({"columns": columns} if columns else {})}

    def __iter__(self) -> Iterator[Example]:
        # A bad row has a number too, so the other rows have the same ids once the bad row is mended.
        for row, (place, values) in enumerate(self._rows(), start=1):
            try:
                if isinstance(values, UnreadableRow):
                    raise values
                example = self._example(row, place, values)
            except UnreadableRow as error:
                error.row = values if error.row is None else error.row
                self._bad_rows.take(error)
            else:
                yield example

    def _example(self, row: int, place: Place, values: Mapping[str, Any]) -> Example:
        choice = self._choice
        x = self._x(place, values)
        label = None if choice.label is None else self._label(place, values.get(choice.label))
        name = None if choice.id is None else values.get(choice.id)
        if choice.id is not None and name in (None, ""):
            raise UnreadableRow(place, "the id is empty", column=choice.id)
        weight = None if choice.weight is None else self._weight(place, values.get(choice.weight))
        return Example(row, x, label, None if name is None else str(name), self._shown(values), weight)

    def whole_rows(self) -> Iterator[Row]:
        """Yield the rows that have values, except those that are known to be bad."""
        for place, values in self._rows():
            if isinstance(values, UnreadableRow):
                self._bad_rows.take(values)
            elif place not in self._bad_rows:
                yield place, values

    @abstractmethod
    def _rows(self) -> Iterator[Found]:
        """Yield all rows."""

    def _look(self, sample: Sequence[Row]) -> list[str]:  # noqa: ARG002  a table of texts looks at it
        """Find how numbers are written, and return what the user of the file should see."""
        return []

    def _look_at_dates(self, sample: Sequence[Row], chosen: str | None) -> list[str]:
        """Find the columns with dates that are not ISO 8601, and return what the user of the file should see."""
        texts = {
            name: [row.get(name) for _, row in sample if not self._is_missing(row.get(name))]
            for name in self.columns
            if self._kinds.get(name) not in _STRINGS
        }
        self._dates, note = found_in(texts, chosen)
        declared = any(self._kinds.get(name) == "time" and orders_of(values) for name, values in texts.items())
        if note and not self._dates and declared:  # the model has learned dates there, so texts would be missing values
            raise ReadError(f"{self.path}: {note}")
        return [note] if note else []

    def _text(self, column: str, text: str) -> str:
        """Return the text of a feature. Dates become ISO 8601."""
        order = self._dates.get(column)
        return text.strip() if order is None else iso(text, order) or text.strip()

    def _number_of(self, text: str) -> float | None:
        """Return the finite number that a text represents, or None."""
        return number_of(text)

    def _count(self, sample: Sequence[Row]) -> int:
        """Return the approximate number of rows."""
        return len(sample) if len(sample) < SAMPLE_ROWS else sum(1 for _ in self.whole_rows())

    def _label(self, place: Place, value: Any) -> Label:
        plain = _plain(value.strip() if isinstance(value, str) else value)
        if plain is None or plain == "" or (isinstance(plain, float) and math.isnan(plain)):
            raise UnreadableRow(place, "the label is empty", column=self._choice.label)
        if isinstance(plain, bool | int):
            return plain
        return label_of(f"{plain:g}" if isinstance(plain, float) else str(plain))

    def _weight(self, place: Place, value: Any) -> float:
        weight = self._number(value)
        if weight is None or not weight > 0:
            raise UnreadableRow(place, f"a weight must be a number > 0, found {value!r}", column=self._choice.weight)
        return weight

    def _coordinate(self, place: Place, values: Mapping[str, Any], column: str) -> float:
        value = values.get(column)
        number = self._number(value)
        if number is None:
            reason = f"expected a number, found {value!r}; --drop leaves a column out, --named accepts other values"
            raise UnreadableRow(place, reason, column=column)
        return number

    def _record(self, place: Place, values: Mapping[str, Any]) -> dict[str, Any]:
        record: dict[str, Any] = {}
        for column in self.columns:
            value = _plain(values.get(column))
            if self._kinds.get(column) in _STRINGS and isinstance(value, int | float) and not math.isnan(value):
                value = str(values.get(column))
            if isinstance(value, str):
                text = value.strip()
                if text in self._choice.missing:
                    continue
                number = None if self.typed or column in self._texts else self._number_of(text)
                record[column] = self._text(column, text) if number is None else number
            elif isinstance(value, bool | int):
                record[column] = value
            elif isinstance(value, float):
                if math.isinf(value):
                    raise UnreadableRow(place, f"a number must be finite, found {value}", column=column)
                if not math.isnan(value):
                    record[column] = value
            elif value is not None:
                if isinstance(value, list | dict | tuple):
                    raise UnreadableRow(place, f"expected a plain value, found {str(value)[:40]}", column=column)
                record[column] = str(_json(value))
        return record

    def _x(self, place: Place, values: Mapping[str, Any]) -> Any:
        if not self.named:
            return [self._coordinate(place, values, column) for column in self.columns]
        record = self._record(place, values)
        return record.get(self.columns[0], "") if self.is_text else record

    def _shown(self, values: Mapping[str, Any]) -> Any:
        """Return what people see of a row: one value, or several values by name. Return None if there is nothing to
        show.
        """
        shown = {name: _json(values.get(name)) for name in self._choice.show}
        shown = {name: value for name, value in shown.items() if value not in (None, "")}
        return next(iter(shown.values()), None) if len(self._choice.show) == 1 else shown or None

    def _is_missing(self, value: Any) -> bool:
        """Return whether a value is missing."""
        return value is None or (isinstance(value, str) and value.strip() in self._choice.missing)

    def _is_text(self, value: Any) -> bool:
        """Return whether a value is a text that is not a number."""
        value = _plain(value)
        if isinstance(value, str):
            return not self._is_missing(value) and (self.typed or self._number_of(value) is None)
        return value is not None and not isinstance(value, bool | int | float)

    def _number(self, value: Any) -> float | None:
        """Return the finite number that a value is or represents. Return None if there is no such number."""
        value = _plain(value)
        if isinstance(value, str):
            return None if self.typed or self._is_missing(value) else self._number_of(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return float(value)

    def _unlike_each_other(self, sample: Sequence[Row]) -> list[str]:
        """Yield a warning for each column whose strings nearly all differ, because a model cannot learn from such a
        column.
        """
        found: dict[str, str] = {}
        for name in (self._texts & set(self.columns)) - self._kinds.keys():
            texts = [
                self._text(name, row[name])
                for _, row in sample
                if isinstance(row.get(name), str) and not self._is_missing(row[name])
            ]
            dates = self._choice.dates is None and orders_of(texts)  # another note says so
            if dates or sum(map(is_moment, texts)) > UNIQUE_SHARE * len(texts):
                continue
            if len(texts) >= UNIQUE_ROWS_MIN and len(set(texts)) > UNIQUE_SHARE * len(texts):
                spaced = sum(" " in text.strip() for text in texts) > len(texts) / 2
                names_rows = self._choice.id is None and len(set(texts)) == len(sample)
                found[name] = f", --id {name!r} to name each row by it" if names_rows and not spaced else ""
                found[name] += f", --text {name!r} to learn from its words" if spaced else ""
        return [
            f"column {name!r} has a different text in nearly every row, so no model learns from it: --drop {name!r}"
            + found[name]
            + f", or --category {name!r} to treat each as a category"
            for name in self.columns
            if name in found
        ]


def is_moment(text: str) -> bool:
    """Return whether a text begins like a date or a time in ISO 8601."""
    return bool(_MOMENT.match(text))


def _json(value: Any) -> Any:
    """Return a value as JSON. Dates and times become ISO 8601 text."""
    value = _plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | bool | int | float | list | dict):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _plain(value: Any) -> Any:
    """Return a value as a Python type. A similar type of NumPy or pandas is converted."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return float(value) if hasattr(value, "__float__") else value
