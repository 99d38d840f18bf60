"""Where the values of records stand: the columns of names, and what a name's strings are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import numpy as np

from hinged.service.data.moments import SINCE, SINCE_CLIP, Aspect, aspects_of, moment_of
from hinged.service.data.records import Record
from hinged.service.data.texts import Weights, counts_of
from hinged.solvers.estimators.scaling import CSR

Array = np.ndarray[Any, Any]

Kind = Literal["category", "time", "text"]
"""What the strings of a name are. Numbers and booleans are what they are beside them."""

Value: TypeAlias = str | bool | Aspect | None
"""What a column of a name stands for: a string, a boolean, an aspect of a moment, or (None) the name's numbers."""

Outside: TypeAlias = Mapping[int, Sequence[str | int]]
"""By row of a batch, the names (of rows of numbers the columns) whose values lie outside of what was learned."""
OUTSIDE_SHOWN = 10
"""Names or columns of a row that are listed. An answer grows by as many, for each of up to 10,000 rows."""

Fields: TypeAlias = dict[str, dict[Value, int]]
Unseen: TypeAlias = Callable[[str, Value, Any], int | None]
"""Gives a column to what has none, by name, value and number, or None."""


@dataclass(frozen=True, slots=True)
class Names:
    """What is known of names.

    fields: their columns. times, texts: names whose strings are moments and texts; columns of texts stand behind the
    `columns_max` of names. left_out: names whose strings have no columns. since: names of times that tell how long it
    is since the example before, None for all; before: by name, when that was. Nothing is ever removed of them.
    """

    fields: Fields
    times: AbstractSet[str]
    texts: AbstractSet[str]
    left_out: AbstractSet[str]
    weights: Weights
    columns_max: int
    since: AbstractSet[str] | None
    before: dict[str, float]

    def tells_since(self, name: str) -> bool:
        """Whether a name of times tells how long it is since the example before."""
        return self.since is None or name in self.since


@dataclass(frozen=True, slots=True)
class Reader:
    """The columns as they were, for any thread, beside a writer that adds more.

    It shares the writer's dictionaries and arrays, in which nothing is ever changed or removed: what is added there
    has a column of `width` or above and counts as unknown. Freezing begins new ones. Of the examples before each it has
    a copy, of as many moments as there are names with them.
    """

    names: Names
    width: int
    mean: Array
    scale: Array
    limit: Array

    def encode(self, records: Sequence[Record]) -> CSR:
        """indptr, indices, values of the records, each by itself; what has no column is left out."""
        found = looked_up(records, self.names, self.width, _unknown, notes=False)
        return standardised(*found, self.mean, self.scale, self.limit)

    def read(self, records: Sequence[Record]) -> tuple[CSR, Outside]:
        """The same of the records of one request, where each is the example before the next; and what lies outside."""
        own = replace(self.names, before=dict(self.names.before)) if self.names.times else self.names
        strange: list[tuple[int, str]] = []
        found = looked_up(records, own, self.width, _unknown, notes=True, strange=strange)
        rows = standardised(*found, self.mean, self.scale, self.limit)
        outside = sorted({*strange, *self._far(records, rows), *self._unread(records)})
        return rows, {r: [name for _, name in told][:OUTSIDE_SHOWN] for r, told in groupby(outside, itemgetter(0))}

    def _far(self, records: Sequence[Record], rows: CSR) -> Iterator[tuple[int, str]]:
        """Rows and names of numbers that were held within their limits."""
        indptr, indices, values = rows
        for p in np.flatnonzero(np.abs(values) >= SINCE_CLIP).tolist():  # the least limit; texts are below
            column = int(indices[p])
            if abs(values[p]) >= self.limit[column]:
                r = int(np.searchsorted(indptr, p, side="right")) - 1
                fields = ((name, self.names.fields.get(name, {})) for name in records[r])
                yield from ((r, name) for name, field in fields if column in (field.get(None), field.get(SINCE)))

    def _unread(self, records: Sequence[Record]) -> Iterator[tuple[int, str]]:
        """Rows and names whose strings are no moments, where others of the name are."""
        times = self.names.times
        if times:
            for r, record in enumerate(records):
                strings = ((name, value) for name, value in record.items() if type(value) is str and name in times)
                yield from ((r, name) for name, value in strings if moment_of(value) is None)


def looked_up(
    records: Sequence[Record],
    names: Names,
    width: int,
    unseen: Unseen,
    *,
    notes: bool,
    strange: list[tuple[int, str]] | None = None,
) -> tuple[list[int], list[int], list[float], list[tuple[int, int, float]]]:
    """Where each record ends; columns and numbers as they came, columns of `width` and above left out; and what stands
    there of texts: the row, its column, and the number.

    notes: whether the moments of a record are those before the next. strange: takes rows and names of what has no
    column, and of texts without a word that the warm-up has shown.
    """
    ends, columns, raw = [0], [], []
    texts: list[tuple[int, int, float]] = []
    fields = names.fields
    for r, record in enumerate(records):
        for name, value, number in pieces(record, names, notes=notes):
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
        if names.texts:
            words, strangers = _words(record, names)
            texts += [(r, names.columns_max + bucket, number) for bucket, number in words]
            if strange is not None:
                strange += [(r, name) for name in strangers]
    return ends, columns, raw, texts


def pieces(record: Record, names: Names, *, notes: bool) -> Iterator[tuple[str, Value, float]]:
    """What a record has, but for its texts: each name, what a column of it stands for, and the number there."""
    for name, value in record.items():
        if type(value) is bool:
            yield name, value, 1.0
        elif type(value) is not str:
            yield name, None, float(value)
        elif name in names.times:
            moment = moment_of(value)
            if moment is not None:
                tells = names.tells_since(name)
                before = names.before.get(name) if tells else None
                yield from ((name, aspect, number) for aspect, number in aspects_of(moment, before))
                if notes and tells and moment.second is not None:
                    names.before[name] = moment.at if before is None else max(moment.at, before)
        elif name not in names.texts and name not in names.left_out:
            yield name, value, 1.0


def _words(record: Record, names: Names) -> tuple[Iterable[tuple[int, float]], list[str]]:
    """The columns of a record's texts among those of texts, and their numbers; names of texts that have no known word.

    Two texts may meet in one column.
    """
    found: dict[int, float] = {}
    strangers: list[str] = []
    weights = names.weights
    for name, value in record.items():
        if type(value) is str and name in names.texts:
            counts = counts_of(value, name, weights.buckets)
            for bucket, number in weights.row(counts):
                found[bucket] = found.get(bucket, 0.0) + number
            if weights.known.size and counts and not np.isin(list(counts), weights.known).any():
                strangers.append(name)
    return found.items(), strangers


def standardised(
    ends: list[int],
    columns: list[int],
    raw: list[float],
    texts: list[tuple[int, int, float]],
    mean: Array,
    scale: Array,
    limit: Array,
) -> CSR:
    """What `looked_up` found, as rows: of each first the columns of names, then those of texts.

    mean, scale, limit: by column; a number comes to (number - mean) / scale, within limit.
    """
    indptr, indices = np.array(ends, np.int64), np.array(columns, np.int64)
    with np.errstate(over="ignore"):  # what is infinite is clipped
        values = (np.array(raw, np.float64) - mean[indices]) / scale[indices]
    bounds = limit[indices]
    values = np.clip(values, -bounds, bounds)
    if not texts:
        return indptr, indices, values
    rows = np.concatenate((np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), [r for r, _, _ in texts]))
    order = np.argsort(rows, kind="stable")
    indices = np.concatenate((indices, np.array([column for _, column, _ in texts], np.int64)))[order]
    values = np.concatenate((values, np.array([number for _, _, number in texts])))[order]
    counts = np.bincount(rows.astype(np.int64), minlength=indptr.size - 1)
    return np.concatenate(([0], np.cumsum(counts))), indices, values


def _unknown(_name: str, _value: Value, _number: Any) -> None:
    """A reader gives no columns."""
