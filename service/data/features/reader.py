"""Read records as rows of numbers, for learning and for predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np

from hinged.service.data.features.columns.base import ColumnKind, Value
from hinged.service.data.features.columns.catalogue import MEASURES
from hinged.service.data.features.records import Record
from hinged.service.data.inputs import Inputs, Records
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.rows import Rows, rows_from_csr
from hinged.solvers.estimators.scaling import CLIP, CSR, bent

Array = np.ndarray[Any, Any]
X = TypeVar("X", bound=Inputs)

Outside: TypeAlias = Mapping[int, Sequence[str | int]]
"""For each row of a batch, the names whose values lie outside everything learned. For rows of numbers, columns instead
of names.
"""
OUTSIDE_SHOWN = 10
"""Maximum number of names or columns listed per row. An answer of 10,000 rows grows by 10,000 names for each increase
of the limit by 1.
"""

Fields: TypeAlias = dict[str, dict[Value, int]]
Unseen: TypeAlias = Callable[[str, Value, Any], int | None]
"""A function that returns a new column for a name, value and number that have no column, or None."""

LIMIT_MIN = min(measure.limit for measure in MEASURES.values())
STANDARDISED = [value for value, measure in MEASURES.items() if measure.standardised]


class Scales(NamedTuple):
    """The scale of each column of a vocabulary. Readers use the arrays, so a known column never changes in them.

    A number v becomes (w - mean) / scale, clipped to -limit..limit. w is v or, with unit > 0, bent(v - middle, unit).
    """

    middle: Array
    unit: Array
    mean: Array
    scale: Array
    limit: Array

    @classmethod
    def of_width(cls, width: int) -> Scales:
        """Return the scales of columns without numbers."""
        return cls(np.zeros(width), np.zeros(width), np.zeros(width), np.ones(width), np.full(width, CLIP))

    def widened(self) -> Scales:
        """Return new arrays with twice as many columns."""
        return Scales(*(np.concatenate(pair) for pair in zip(self, Scales.of_width(self.mean.size), strict=True)))

    def without(self, columns: Sequence[int]) -> Scales:
        """Return new arrays in which these columns have no numbers."""
        found = Scales(*(array.copy() for array in self))
        for array, empty in zip(found, Scales.of_width(1), strict=True):
            array[columns] = empty
        return found

    def values(self, columns: Array, raw: Array, limit: Array | None = None) -> Array:
        """Return the scaled numbers `raw` (nnz,) of these columns (nnz,). limit: other limits, by column."""
        unit = self.unit[columns]
        with np.errstate(over="ignore"):  # infinities are clipped
            tails = np.flatnonzero(unit)
            if tails.size:
                raw = raw.copy()
                raw[tails] = bent(raw[tails] - self.middle[columns[tails]], unit[tails])
            values = (raw - self.mean[columns]) / self.scale[columns]
        bounds = (self.limit if limit is None else limit)[columns]
        return np.clip(values, -bounds, bounds)


class Reader(ABC, Generic[X]):
    """Turns x into rows for predictions, in any thread. A reader never changes."""

    @property
    def columns(self) -> int:
        """Return the number of columns of names and values that the reader knows. 0: there will never be more."""
        return 0

    def with_columns(self, columns: int) -> Self:
        """Return the reader as it was with fewer columns, if no names were forgotten since."""
        return self

    @abstractmethod
    def rows(self, inputs: X, kernel: Kernel, dim: int, dtype: type) -> Rows:
        """Return a batch as rows for a kernel and a precision. Each x is read by itself."""

    @abstractmethod
    def seen(self, inputs: X, kernel: Kernel, dim: int, dtype: type) -> tuple[Rows, Outside]:
        """Return (rows, outside): the batch of a predict request, in order, as rows; and what lies outside everything
        learned.
        """


@dataclass(frozen=True, slots=True)
class Reading:
    """Turns x into rows for a learner. Each x is read by itself."""

    reader: Reader[Any]
    kernel: Kernel
    dim: int
    dtype: type

    def __call__(self, inputs: Inputs, columns: int | None = None) -> Rows:
        """Return a batch as rows. columns: what the reader shall know; by default, all that it knows."""
        reader = self.reader if columns is None else self.reader.with_columns(columns)
        return reader.rows(inputs, self.kernel, self.dim, self.dtype)


class AsTheyCame(Reader[Rows]):
    """A reader for rows that are used as they are. This reader does not know what was learned, so nothing counts as
    outside.
    """

    def rows(self, inputs: Rows, kernel: Kernel, dim: int, dtype: type) -> Rows:
        return inputs

    def seen(self, inputs: Rows, kernel: Kernel, dim: int, dtype: type) -> tuple[Rows, Outside]:
        return inputs, {}


AS_THEY_CAME = AsTheyCame()


@dataclass(frozen=True, slots=True)
class Names:
    """The known names. Nothing is ever removed.

    fields: the columns of each name.
    kinds: the kind of each name's strings. Names with categories are left out.
    hashing: the kinds whose hashed columns come after the `columns_max` columns of names.
    """

    fields: Fields
    kinds: Mapping[str, ColumnKind]
    hashing: Sequence[ColumnKind]
    columns_max: int

    @property
    def hashed(self) -> frozenset[str]:
        """Return the names that have hashed columns."""
        return frozenset(name for kind in self.hashing for name in kind.names)


@dataclass(frozen=True, slots=True)
class RecordReader(Reader[Records]):
    """A reader with the columns that exist when the reader is made. Any thread may use it while a writer adds columns.

    The reader shares the dictionaries and arrays of the writer. No entry of the dictionaries and arrays is ever changed
    or removed. Columns that the writer adds have indices of `width` or above, which the reader treats as unknown.
    Freezing creates new dictionaries and arrays. The reader has a copy of what the kinds remember of the previous
    example.
    """

    names: Names
    before: dict[str, float]
    width: int
    scales: Scales

    @property
    def columns(self) -> int:
        return self.width

    def with_columns(self, columns: int) -> RecordReader:
        return replace(self, width=columns)

    def rows(self, inputs: Records, kernel: Kernel, dim: int, dtype: type) -> Rows:
        return rows_from_csr(*self.encode(inputs.records), kernel, dim, dtype)

    def seen(self, inputs: Records, kernel: Kernel, dim: int, dtype: type) -> tuple[Rows, Outside]:
        csr, outside = self.read(inputs.records)
        return rows_from_csr(*csr, kernel, dim, dtype), outside

    def encode(self, records: Sequence[Record]) -> CSR:
        """Return indptr, indices and values of the records. Each record is read by itself. Values without a column are
        left out.
        """
        found = looked_up(records, self.names, self.before, self.width, _unknown, notes=False)
        return scaled(*found, self.scales)

    def read(self, records: Sequence[Record]) -> tuple[CSR, Outside]:
        """Return the records of one request as rows, and what lies outside. Each record counts as the previous example
        of the next.
        """
        strange: list[tuple[int, str]] = []
        found = looked_up(records, self.names, dict(self.before), self.width, _unknown, notes=True, strange=strange)
        rows = scaled(*found, self.scales)
        outside: dict[int, set[str]] = {}
        for r, name in chain(strange, self._far(records, rows)):
            outside.setdefault(r, set()).add(name)
        return rows, {r: sorted(names)[:OUTSIDE_SHOWN] for r, names in sorted(outside.items())}

    def _far(self, records: Sequence[Record], rows: CSR) -> Iterator[tuple[int, str]]:
        """Yield the row and the name of each number that was clipped to its limit."""
        indptr, indices, values = rows
        # Array by array: a thread that calls NumPy for each number would hardly ever give up Python's lock.
        at = np.flatnonzero(np.abs(values) >= LIMIT_MIN)  # numbers in hashed columns are smaller
        at = at[np.abs(values[at]) >= self.scales.limit[indices[at]]]
        places = zip((np.searchsorted(indptr, at, side="right") - 1).tolist(), indices[at].tolist(), strict=True)
        for r, group in groupby(places, itemgetter(0)):
            columns = {column for _, column in group}
            for name in records[r]:
                field = self.names.fields.get(name, {})
                if not columns.isdisjoint(field.get(value) for value in STANDARDISED):
                    yield r, name


def looked_up(
    records: Sequence[Record],
    names: Names,
    before: dict[str, float],
    width: int,
    unseen: Unseen,
    *,
    notes: bool,
    strange: list[tuple[int, str]] | None = None,
) -> tuple[list[int], list[int], list[float], list[tuple[int, int, float]]]:
    """Look up the columns and numbers of records.

    Return three results: where each record ends; the columns and raw numbers, without columns of `width` and above; and
    the entries in hashed columns as (row, column, number).

    before: what the kinds remember of the example before the first record.
    notes: whether each record counts as the previous example of the next record.
    strange: receives the row and the name of each value without a column, and of each string that its name's kind
    cannot read.
    """
    ends, columns, raw = [0], [], []
    hashed: list[tuple[int, int, float]] = []
    fields = names.fields
    unread: list[str] = []
    for r, record in enumerate(records):
        for name, value, number in pieces(record, names, before, unread, notes=notes):
            try:
                column: int | None = fields[name][value]
            except KeyError:
                column = unseen(name, value, number)
            if column is not None and column < width:
                columns.append(column)
                raw.append(number)
            elif strange is not None:
                strange.append((r, name))
        ends.append(len(columns))
        first = names.columns_max
        for kind in names.hashing:
            words = _hashed(record, kind, unread)
            hashed += [(r, first + bucket, number) for bucket, number in words]
            first += kind.WIDTH
        if unread:
            if strange is not None:
                strange += [(r, name) for name in unread]
            unread.clear()
    return ends, columns, raw, hashed


def pieces(
    record: Record, names: Names, before: dict[str, float], unread: list[str], *, notes: bool
) -> Iterator[tuple[str, Value, float]]:
    """Yield (name, meaning of the column, number) for each part of a record that is not in a hashed column.

    before, notes: as in `looked_up`.
    unread: receives the names of strings that their kind cannot read.
    """
    kinds = names.kinds
    for name, value in record.items():
        if type(value) is bool:
            yield name, value, 1.0
        elif type(value) is not str:
            yield name, None, float(value)
        elif (kind := kinds.get(name)) is None:  # the string is a category
            yield name, value, 1.0
        else:
            told = kind.told(name, value, before, notes=notes)
            for column, number in told:
                yield name, column, number
            if not told and kind.STRICT:
                unread.append(name)


def _hashed(record: Record, kind: ColumnKind, unread: list[str]) -> Iterable[tuple[int, float]]:
    """Return the hashed columns of a record's strings, and their numbers. unread: as in `pieces`.

    Two strings may share a column.
    """
    found: dict[int, float] = {}
    for name, value in record.items():
        if type(value) is str and name in kind.names:
            row, known = kind.hashed(name, value)
            for bucket, number in row:
                found[bucket] = found.get(bucket, 0.0) + number
            if not known:
                unread.append(name)
    return found.items()


def scaled(
    ends: list[int],
    columns: list[int],
    raw: list[float],
    hashed: list[tuple[int, int, float]],
    scales: Scales,
    limit: Array | None = None,
) -> CSR:
    """Return a result of `looked_up` as rows. In each row, the columns of names come first, then the hashed columns.

    limit: as in `Scales.values`.
    """
    indptr, indices = np.array(ends, np.int64), np.array(columns, np.int64)
    values = scales.values(indices, np.array(raw, np.float64), limit)
    if not hashed:
        return indptr, indices, values
    rows = np.concatenate((np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), [r for r, _, _ in hashed]))
    order = np.argsort(rows, kind="stable")
    indices = np.concatenate((indices, np.array([column for _, column, _ in hashed], np.int64)))[order]
    values = np.concatenate((values, np.array([number for _, _, number in hashed])))[order]
    counts = np.bincount(rows.astype(np.int64), minlength=indptr.size - 1)
    return np.concatenate(([0], np.cumsum(counts))), indices, values


def _unknown(_name: str, _value: Value, _number: Any) -> None:
    """Return None, because a reader adds no columns."""
