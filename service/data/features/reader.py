"""Records as rows of numbers: where their values stand, and how a reader sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from hinged.service.data.features.columns.base import ColumnKind, Value
from hinged.service.data.features.columns.catalogue import MEASURES
from hinged.service.data.features.records import Record
from hinged.service.data.inputs import Inputs, Records
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.rows import Rows, rows_from_csr
from hinged.solvers.estimators.scaling import CSR

Array = np.ndarray[Any, Any]
X = TypeVar("X", bound=Inputs)

Outside: TypeAlias = Mapping[int, Sequence[str | int]]
"""By row of a batch, the names (of rows of numbers the columns) whose values lie outside of what was learned."""
OUTSIDE_SHOWN = 10
"""Names or columns of a row that are listed. An answer grows by as many, for each of up to 10,000 rows."""

Fields: TypeAlias = dict[str, dict[Value, int]]
Unseen: TypeAlias = Callable[[str, Value, Any], int | None]
"""Gives a column to what has none, by name, value and number, or None."""

LIMIT_MIN = min(measure.limit for measure in MEASURES.values())
STANDARDISED = [value for value, measure in MEASURES.items() if measure.standardised]


class Reader(ABC, Generic[X]):
    """What makes rows of x for predictions, in any thread. It never changes."""

    @abstractmethod
    def rows(self, inputs: X, kernel: Kernel, dim: int, dtype: type) -> Rows:
        """A batch as a kernel and a precision see it, each x by itself."""

    @abstractmethod
    def seen(self, inputs: X, kernel: Kernel, dim: int, dtype: type) -> tuple[Rows, Outside]:
        """The batch of one request to predict, in order; and what in it lies outside of what was learned."""


class AsTheyCame(Reader[Rows]):
    """Of rows that are taken as they are. Nothing is known of what was learned."""

    def rows(self, inputs: Rows, kernel: Kernel, dim: int, dtype: type) -> Rows:
        return inputs

    def seen(self, inputs: Rows, kernel: Kernel, dim: int, dtype: type) -> tuple[Rows, Outside]:
        return inputs, {}


AS_THEY_CAME = AsTheyCame()


@dataclass(frozen=True, slots=True)
class Names:
    """What is known of names. Nothing is ever removed of it.

    fields: their columns. kinds: what strings are where they are no categories. hashing: the kinds whose columns stand
    behind the `columns_max` of names.
    """

    fields: Fields
    kinds: Mapping[str, ColumnKind]
    hashing: Sequence[ColumnKind]
    columns_max: int

    @property
    def hashed(self) -> frozenset[str]:
        """The names that have columns behind."""
        return frozenset(name for kind in self.hashing for name in kind.names)


@dataclass(frozen=True, slots=True)
class RecordReader(Reader[Records]):
    """The columns as they were, for any thread, beside a writer that adds more.

    It shares the writer's dictionaries and arrays, in which nothing is ever changed or removed: what is added there
    has a column of `width` or above and counts as unknown. Freezing begins new ones. Of what kinds remember of the
    example before it has a copy.
    """

    names: Names
    before: dict[str, float]
    width: int
    mean: Array
    scale: Array
    limit: Array

    def rows(self, inputs: Records, kernel: Kernel, dim: int, dtype: type) -> Rows:
        return rows_from_csr(*self.encode(inputs.records), kernel, dim, dtype)

    def seen(self, inputs: Records, kernel: Kernel, dim: int, dtype: type) -> tuple[Rows, Outside]:
        csr, outside = self.read(inputs.records)
        return rows_from_csr(*csr, kernel, dim, dtype), outside

    def encode(self, records: Sequence[Record]) -> CSR:
        """indptr, indices, values of the records, each by itself; what has no column is left out."""
        found = looked_up(records, self.names, self.before, self.width, _unknown, notes=False)
        return standardised(*found, self.mean, self.scale, self.limit)

    def read(self, records: Sequence[Record]) -> tuple[CSR, Outside]:
        """The same of the records of one request, where each is the example before the next; and what lies outside."""
        strange: list[tuple[int, str]] = []
        found = looked_up(records, self.names, dict(self.before), self.width, _unknown, notes=True, strange=strange)
        rows = standardised(*found, self.mean, self.scale, self.limit)
        outside = sorted({*strange, *self._far(records, rows)})
        return rows, {r: [name for _, name in told][:OUTSIDE_SHOWN] for r, told in groupby(outside, itemgetter(0))}

    def _far(self, records: Sequence[Record], rows: CSR) -> Iterator[tuple[int, str]]:
        """Rows and names of numbers that were held within their limits."""
        indptr, indices, values = rows
        for p in np.flatnonzero(np.abs(values) >= LIMIT_MIN).tolist():  # what a hash finds is below
            column = int(indices[p])
            if abs(values[p]) >= self.limit[column]:
                r = int(np.searchsorted(indptr, p, side="right")) - 1
                fields = ((name, self.names.fields.get(name, {})) for name in records[r])
                yield from ((r, n) for n, field in fields if any(field.get(v) == column for v in STANDARDISED))


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
    """Where each record ends; columns and numbers as they came, columns of `width` and above left out; and what stands
    there in columns that a hash finds: the row, its column, and the number.

    before: what kinds remember of the example before the first; notes: whether each is the one before the next.
    strange: takes rows and names of what has no column, or is none of what strings of its name are.
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
    """What a record has, but for what a hash finds: each name, what a column of it stands for, and the number there.

    before, notes: as in `looked_up`. unread: takes names whose string is none of what their strings are.
    """
    kinds = names.kinds
    for name, value in record.items():
        if type(value) is bool:
            yield name, value, 1.0
        elif type(value) is not str:
            yield name, None, float(value)
        elif (kind := kinds.get(name)) is None:  # a category
            yield name, value, 1.0
        else:
            told = kind.told(name, value, before, notes=notes)
            for column, number in told:
                yield name, column, number
            if not told and kind.STRICT:
                unread.append(name)


def _hashed(record: Record, kind: ColumnKind, unread: list[str]) -> Iterable[tuple[int, float]]:
    """The columns of a record's strings among those that a hash finds, and their numbers. unread: as in `pieces`.

    Two strings may meet in one column.
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


def standardised(
    ends: list[int],
    columns: list[int],
    raw: list[float],
    hashed: list[tuple[int, int, float]],
    mean: Array,
    scale: Array,
    limit: Array,
) -> CSR:
    """What `looked_up` found, as rows: of each first the columns of names, then those that a hash finds.

    mean, scale, limit: by column; a number comes to (number - mean) / scale, within limit.
    """
    indptr, indices = np.array(ends, np.int64), np.array(columns, np.int64)
    with np.errstate(over="ignore"):  # what is infinite is clipped
        values = (np.array(raw, np.float64) - mean[indices]) / scale[indices]
    bounds = limit[indices]
    values = np.clip(values, -bounds, bounds)
    if not hashed:
        return indptr, indices, values
    rows = np.concatenate((np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), [r for r, _, _ in hashed]))
    order = np.argsort(rows, kind="stable")
    indices = np.concatenate((indices, np.array([column for _, column, _ in hashed], np.int64)))[order]
    values = np.concatenate((values, np.array([number for _, _, number in hashed])))[order]
    counts = np.bincount(rows.astype(np.int64), minlength=indptr.size - 1)
    return np.concatenate(([0], np.cumsum(counts))), indices, values


def _unknown(_name: str, _value: Value, _number: Any) -> None:
    """A reader gives no columns."""
