"""Reading records as rows of numbers, for learning and for predictions."""

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
"""By row of a batch, the names (or columns, for rows of numbers) whose values lie outside everything learned."""
OUTSIDE_SHOWN = 10
"""Names or columns of a row that are listed. An answer of 10,000 rows grows by 10,000 times as many."""

Fields: TypeAlias = dict[str, dict[Value, int]]
Unseen: TypeAlias = Callable[[str, Value, Any], int | None]
"""Returns a new column for a name, value and number without one, or None."""

LIMIT_MIN = min(measure.limit for measure in MEASURES.values())
STANDARDISED = [value for value, measure in MEASURES.items() if measure.standardised]


class Reader(ABC, Generic[X]):
    """Turns x into rows for predictions, in any thread. It never changes."""

    @abstractmethod
    def rows(self, inputs: X, kernel: Kernel, dim: int, dtype: type) -> Rows:
        """Return a batch as rows for a kernel and a precision, each x by itself."""

    @abstractmethod
    def seen(self, inputs: X, kernel: Kernel, dim: int, dtype: type) -> tuple[Rows, Outside]:
        """Return the batch of a predict request, in order, as rows; and what in it lies outside everything learned."""


class AsTheyCame(Reader[Rows]):
    """A reader for rows that are used as they are. It knows nothing of what was learned, so nothing lies outside."""

    def rows(self, inputs: Rows, kernel: Kernel, dim: int, dtype: type) -> Rows:
        return inputs

    def seen(self, inputs: Rows, kernel: Kernel, dim: int, dtype: type) -> tuple[Rows, Outside]:
        return inputs, {}


AS_THEY_CAME = AsTheyCame()


@dataclass(frozen=True, slots=True)
class Names:
    """The known names. Nothing is ever removed from it.

    fields: the columns of each name.
    kinds: the kind of each name's strings, unless they are categories.
    hashing: the kinds whose columns follow the `columns_max` columns of names.
    """

    fields: Fields
    kinds: Mapping[str, ColumnKind]
    hashing: Sequence[ColumnKind]
    columns_max: int

    @property
    def hashed(self) -> frozenset[str]:
        """The names whose columns a hash finds."""
        return frozenset(name for kind in self.hashing for name in kind.names)


@dataclass(frozen=True, slots=True)
class RecordReader(Reader[Records]):
    """A reader with the columns of one moment, for any thread, beside a writer that adds columns.

    It shares the writer's dictionaries and arrays, in which nothing is ever changed or removed. Additions have columns
    of `width` or above, which the reader treats as unknown. Freezing makes new dictionaries and arrays. The reader has
    a copy of what kinds remember of the example before.
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
        """Return indptr, indices, values of the records, each by itself; values without a column are left out."""
        found = looked_up(records, self.names, self.before, self.width, _unknown, notes=False)
        return standardised(*found, self.mean, self.scale, self.limit)

    def read(self, records: Sequence[Record]) -> tuple[CSR, Outside]:
        """Return the same for the records of one request, where each precedes the next; and what lies outside."""
        strange: list[tuple[int, str]] = []
        found = looked_up(records, self.names, dict(self.before), self.width, _unknown, notes=True, strange=strange)
        rows = standardised(*found, self.mean, self.scale, self.limit)
        outside = sorted({*strange, *self._far(records, rows)})
        return rows, {r: [name for _, name in told][:OUTSIDE_SHOWN] for r, told in groupby(outside, itemgetter(0))}

    def _far(self, records: Sequence[Record], rows: CSR) -> Iterator[tuple[int, str]]:
        """Yield rows and names of numbers that were clipped to their limits."""
        indptr, indices, values = rows
        for p in np.flatnonzero(np.abs(values) >= LIMIT_MIN).tolist():  # numbers in hashed columns are smaller
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
    """Look up the columns and numbers of records.

    Returns where each record ends; the columns and raw numbers, without columns of `width` and above; and the entries
    in hashed columns as (row, column, number).

    before: what kinds remember of the example before the first.
    notes: whether each record counts as the example before the next.
    strange: receives rows and names of values without a column, and of strings that their name's kind cannot read.
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
    """Yield the parts of a record, except those in hashed columns: the name, what its column stands for, and the
    number.

    before, notes: as in `looked_up`.
    unread: receives names whose string their kind cannot read.
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
    """Return the hashed columns of a record's strings, and their numbers. unread: as in `pieces`.

    Two strings may fall into the same column.
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
    """Return what `looked_up` found as rows; in each row the columns of names come first, then the hashed columns.

    mean, scale, limit: by column; a number becomes (number - mean) / scale, clipped to limit.
    """
    indptr, indices = np.array(ends, np.int64), np.array(columns, np.int64)
    with np.errstate(over="ignore"):  # infinities are clipped
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
    """Return None: a reader gives no columns."""
