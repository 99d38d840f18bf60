"""Where the values of records stand: the columns of names, and what a name's strings are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from hinged.service.data.moments import Aspect, aspects_of, moment_of
from hinged.service.data.records import Record
from hinged.service.data.texts import Weights, counts_of
from hinged.solvers.estimators.scaling import CLIP, CSR

Array = np.ndarray[Any, Any]

Kind = Literal["category", "time", "text"]
"""What the strings of a name are. Numbers and booleans are what they are beside them."""

Value: TypeAlias = str | bool | Aspect | None
"""What a column of a name stands for: a string, a boolean, an aspect of a moment, or (None) the name's numbers."""

Fields: TypeAlias = dict[str, dict[Value, int]]
Unseen: TypeAlias = Callable[[str, Value, Any], int | None]
"""Gives a column to what has none, by name, value and number, or None."""


@dataclass(frozen=True, slots=True)
class Names:
    """What is known of names.

    fields: their columns. times, texts: names whose strings are moments and texts; columns of texts stand behind the
    `columns_max` of names. left_out: names whose strings have no columns. before: by name, when the example before was.
    Nothing is ever removed of them.
    """

    fields: Fields
    times: AbstractSet[str]
    texts: AbstractSet[str]
    left_out: AbstractSet[str]
    weights: Weights
    columns_max: int
    before: dict[str, float]


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

    def encode(self, records: Sequence[Record]) -> CSR:
        """indptr, indices, values of the records; what has no column is left out."""
        return standardised(*looked_up(records, self.names, self.width, _unknown, notes=False), self.mean, self.scale)


def looked_up(
    records: Sequence[Record], names: Names, width: int, unseen: Unseen, *, notes: bool
) -> tuple[list[int], list[int], list[float], list[tuple[int, int, float]]]:
    """Where each record ends; columns and numbers as they came, columns of `width` and above left out; and what stands
    there of texts: the row, its column, and the number.

    notes: whether the moments of a record are those before the next.
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
        ends.append(len(columns))
        if names.texts:
            texts += [(r, names.columns_max + bucket, number) for bucket, number in _words(record, names)]
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
                before = names.before.get(name)
                yield from ((name, aspect, number) for aspect, number in aspects_of(moment, before))
                if notes and moment.second is not None:
                    names.before[name] = moment.at if before is None else max(moment.at, before)
        elif name not in names.texts and name not in names.left_out:
            yield name, value, 1.0


def _words(record: Record, names: Names) -> Iterable[tuple[int, float]]:
    """The columns of a record's texts among those of texts, and their numbers. Two texts may meet in one."""
    found: dict[int, float] = {}
    for name, value in record.items():
        if type(value) is str and name in names.texts:
            for bucket, number in names.weights.row(counts_of(value, name, names.weights.buckets)):
                found[bucket] = found.get(bucket, 0.0) + number
    return found.items()


def standardised(
    ends: list[int],
    columns: list[int],
    raw: list[float],
    texts: list[tuple[int, int, float]],
    mean: Array,
    scale: Array,
) -> CSR:
    """What `looked_up` found, as rows: of each first the columns of names, then those of texts."""
    indptr, indices = np.array(ends, np.int64), np.array(columns, np.int64)
    with np.errstate(over="ignore"):  # what is infinite is clipped
        values = (np.array(raw, np.float64) - mean[indices]) / scale[indices]
    values = np.clip(values, -CLIP, CLIP)
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
