"""From records to rows of numbers: what the columns of a model with named features mean.

The first `warmup` records are observed, then `freeze` fixes the columns:

- a name with numbers gets a column that holds (value - mean) / standard deviation over the warm-up, within -CLIP..CLIP.
  So one wild value cannot drown the other fields: with gamma "scale" it leaves some of the likeness of two points.
- a name with a string or a boolean gets a column for each value, 1 where the value stands.
- a name with both gets both. What is missing has no entry: a missing number counts as the mean.
- where all numbers of a name are equal there is no deviation: their size is the scale, 1 if it is 0.
- of more than columns_max columns the most frequent stay.

Columns stand in the order in which the records show them, names ascending within a record. Frozen means that what a
column holds never changes. A name or value that comes later is given the next free column, a number's with its first
value's size as the scale and mean 0. Where there is none, it is counted and ignored.

`encode` adds columns and is for the one writer of a model. Predictions encode by a `Reader`, which knows the columns
that there were when it was made.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hinged.service.data.observing import Observing
from hinged.service.data.records import (
    NAME_CHARS_MAX,
    NUMBER_MAX,
    Record,
    pack_records,
    unpack_records,
)
from hinged.solvers.core.solver import COUNT_MAX, StateReader
from hinged.solvers.estimators.scaling import CLIP, CSR, FLAT

Array = np.ndarray[Any, Any]

STAGE_MIN = 16
NAMES_SHOWN = 100
UNIQUE_MIN, UNIQUE_SHARE = 50, 0.5  # values of a name that are so many, of all examples or columns, are no categories
SCALE_MAX = 1.001 * NUMBER_MAX  # a deviation is no larger than the numbers, but for rounding
SPREAD_MAX = 1e7  # of values within -CLIP..CLIP, in rows of FIELDS_MAX at most
SPREAD_LEAST, FORMER_LEAST = 1e-15, 1e-9  # spreads from which a gamma is found

Value: TypeAlias = str | bool | None
"""What a column of a name stands for: a string, a boolean, or (None) the name's numbers."""

_Fields: TypeAlias = dict[str, dict[Value, int]]


@dataclass(frozen=True, slots=True)
class Reader:
    """The columns as they were, for any thread, beside a writer that adds more.

    It shares the writer's dictionaries and arrays, in which nothing is ever changed or removed: what is added there
    has a column of `width` or above and counts as unknown. Freezing begins new ones. So making a reader copies nothing.
    """

    fields: _Fields
    width: int
    mean: Array
    scale: Array

    def encode(self, records: Sequence[Record]) -> CSR:
        """indptr, indices, values of the records; what has no column is left out."""
        return _standardised(*_looked_up(records, self.fields, self.width, _unknown), self.mean, self.scale)


class Vocabulary(Observing[Record]):
    """The columns of a model with named features."""

    NAME, ITEMS, FIRST = "vocabulary", "records", STAGE_MIN

    def __init__(self, warmup: int, columns_max: int) -> None:
        if not warmup >= 0:
            raise ValueError(f"warmup must be >= 0, got {warmup}")
        if not columns_max > 0:
            raise ValueError(f"columns_max must be > 0, got {columns_max}")
        super().__init__(warmup)
        self.columns_max = columns_max
        self._begin()

    def _begin(self) -> None:
        self._fields: _Fields = {}
        self._columns: list[tuple[str | None, Value | int]] = []  # None: what it meant was forgotten
        self._mean = np.zeros(STAGE_MIN)
        self._scale = np.ones(STAGE_MIN)
        self._spread = Spread(0.0, 0.0, 0.0)
        self._ignored = 0
        self._ignored_names: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._columns)

    # -- the warm-up ----------------------------------------------------------------------------------------------

    def freeze(self) -> CSR:
        """Fix the columns by what was observed, and return that as rows.

        Before the warm-up's end the columns are provisional: the next `freeze` begins anew. At its end they stay.
        """
        records = self.observed
        numbers: defaultdict[str, list[float]] = defaultdict(list)
        counts: defaultdict[tuple[str, Value], int] = defaultdict(int)
        for record in records:
            for name, value in record.items():
                if type(value) is str or type(value) is bool:
                    counts[name, value] += 1
                else:
                    counts[name, None] += 1
                    numbers[name].append(float(value))
        kept = set(sorted(counts, key=counts.__getitem__, reverse=True)[: self.columns_max])
        self._begin()
        for name, category in counts:
            if (name, category) in kept:
                self._add(name, category, *(_standard(numbers[name]) if category is None else (0.0, 1.0)))
        rows = self.encode(records)
        self._spread = spread_of(rows)
        self._end_if_whole()
        return rows

    @property
    def spread(self) -> Spread:
        """What the warm-up has shown; all 0 before."""
        return self._spread

    # -- columns --------------------------------------------------------------------------------------------------

    def encode(self, records: Sequence[Record]) -> CSR:
        """indptr, indices, values (float64) of the records. Gives columns to what has none while there are any."""
        found = _looked_up(records, self._fields, self.columns_max, self._unseen)
        return _standardised(*found, self._mean, self._scale)

    def reader(self) -> Reader:
        """The present columns, for predictions."""
        return Reader(self._fields, len(self._columns), self._mean, self._scale)

    def forget(self, columns: Iterable[int]) -> None:
        """Forget what these columns mean; they stay empty. Readers keep what they know."""
        self._mean, self._scale = self._mean.copy(), self._scale.copy()
        for column in columns:
            self._columns[column] = (None, column)
            self._mean[column], self._scale[column] = 0.0, 1.0
        self._fields = {}
        for column, (name, value) in enumerate(self._columns):
            if name is not None:
                self._fields.setdefault(name, {})[value] = column  # type: ignore[index]
        self._ignored_names = {}

    def _unseen(self, name: str, value: Any) -> int | None:
        if len(self._columns) == self.columns_max:
            self._ignored += 1
            if name in self._ignored_names or len(self._ignored_names) < NAMES_SHOWN:
                self._ignored_names[name] = self._ignored_names.get(name, 0) + 1
            return None
        if type(value) is str or type(value) is bool:
            return self._add(name, value, 0.0, 1.0)
        return self._add(name, None, 0.0, abs(float(value)) or 1.0)

    def _add(self, name: str, value: Value, mean: float, scale: float) -> int:
        column = len(self._columns)
        if column == self._mean.size:  # into new arrays: readers keep theirs
            self._mean = np.concatenate((self._mean, np.zeros(column)))
            self._scale = np.concatenate((self._scale, np.ones(column)))
        self._mean[column], self._scale[column] = mean, scale
        self._columns.append((name, value))
        self._fields.setdefault(name, {})[value] = column
        return column

    def figures(self) -> dict[str, Any]:
        """The vocabulary for people. Of names, the first NAMES_SHOWN."""
        fields = [
            {"name": name, "number": None in field, "values": len(field) - (None in field)}
            for name, field in list(self._fields.items())[:NAMES_SHOWN]
        ]
        return {
            "warmup_left": self.left,
            "columns": len(self._columns),
            "columns_max": self.columns_max,
            "names": len(self._fields),
            "fields": fields,
            "ignored": self._ignored,
            "ignored_names": dict(self._ignored_names),
        }

    def warnings(self, examples: int) -> list[str]:
        """A sentence for each name whose strings are nearly all different; examples: how many were learned."""
        found = []
        for name, field in list(self._fields.items()):
            values = len(field) - (None in field)
            many = values >= UNIQUE_SHARE * (self.columns_max if name in self._ignored_names else examples)
            if values >= UNIQUE_MIN and many:
                found.append(
                    f"{name[:80]!r} has {values} different values in {examples} examples: it uses up columns and "
                    "teaches nothing; leave it out"
                )
        return found[:NAMES_SHOWN]

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All of it as facts and arrays."""
        facts = {
            "warming": self.warming,
            "observed": pack_records(self.observed),
            "columns": [[name, value] for name, value in self._columns],
            "ignored": self._ignored,
            "ignored_names": list(self._ignored_names.items()),
        }
        width = len(self._columns)
        arrays = {
            "mean": self._mean[:width].copy(),
            "scale": self._scale[:width].copy(),
            "spread": np.array([self._spread.square, self._spread.absolute, self._spread.inner]),
        }
        return facts, arrays

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take over a state of `state`. ValueError if it does not fit together; nothing changes then."""
        observed, warming = unpack_records(facts["observed"]), facts["warming"]
        columns = [tuple(column) for column in facts["columns"]]
        if type(warming) is not bool or not len(observed) < (self.warmup if warming else 1):
            raise ValueError(f"the state has observed {len(observed)} records of a warm-up of {self.warmup}")
        if not len(columns) <= self.columns_max:
            raise ValueError(f"the state has {len(columns)} columns of at most {self.columns_max}")
        for number, column in enumerate(columns):
            match column:
                case (str(name), str() | bool() | None) if len(name) <= NAME_CHARS_MAX:
                    pass
                case (None, int(own)) if type(own) is int and own == number:
                    pass
                case _:
                    raise ValueError(f"a column is a name with a string, a boolean or null, got {column!r:.80}")
        if len(set(columns)) < len(columns):
            raise ValueError("a column is there twice")
        read = StateReader(arrays)
        mean = read.take("mean", np.float64, (len(columns),), -NUMBER_MAX, NUMBER_MAX)
        scale = read.take("scale", np.float64, (len(columns),), 0.0, SCALE_MAX)
        spread = read.take("spread", np.float64, (3,), 0.0, SPREAD_MAX)
        if not (scale > 0).all():
            raise ValueError("scales must be > 0")
        others = [number for number, (_, value) in enumerate(columns) if value is not None]
        if mean[others].any() or (scale[others] != 1.0).any():
            raise ValueError("of a column that holds no numbers the mean is 0 and the scale 1")
        ignored, names = facts["ignored"], [tuple(entry) for entry in facts["ignored_names"]]
        counts = [ignored, *(count for _, count in names)]
        if not all(type(count) is int and 0 <= count <= COUNT_MAX for count in counts):
            raise ValueError("ignored values are counted from 0 on")
        if len(names) > NAMES_SHOWN or len(dict(names)) < len(names) or sum(counts) > 2 * ignored:
            raise ValueError(f"{len(names)} ignored names do not fit {ignored} ignored values")
        if not all(type(name) is str for name, _ in names):
            raise ValueError("a name is a string")
        self._begin()
        for (name, value), centre, size in zip(columns, mean.tolist(), scale.tolist(), strict=True):
            self._add(name or "", value, centre, size)
        self.forget([column for column, (name, _) in enumerate(columns) if name is None])
        self.observed, self.warming = observed, warming
        self._spread = Spread(*spread.tolist())
        self._ignored, self._ignored_names = ignored, dict(names)


def _unknown(_name: str, _value: Any) -> None:
    """A reader gives no columns."""


def _looked_up(
    records: Sequence[Record], fields: _Fields, width: int, unseen: Callable[[str, Any], int | None]
) -> tuple[list[int], list[int], list[float]]:
    """Where each record ends, columns, and numbers as they came; columns of `width` and above are none."""
    ends, columns, raw = [0], [], []
    for record in records:
        for name, value in record.items():
            category = type(value) is str or type(value) is bool
            try:
                column: int | None = fields[name][value if category else None]  # type: ignore[index]
            except KeyError:
                column = unseen(name, value)
            if column is not None and column < width:
                columns.append(column)
                raw.append(1.0 if category else value)
        ends.append(len(columns))
    return ends, columns, raw  # type: ignore[return-value]


def _standardised(ends: list[int], columns: list[int], raw: list[float], mean: Array, scale: Array) -> CSR:
    indices = np.array(columns, np.int64)
    with np.errstate(over="ignore"):  # what is infinite is clipped
        values = (np.array(raw, np.float64) - mean[indices]) / scale[indices]
    return np.array(ends, np.int64), indices, np.clip(values, -CLIP, CLIP)


def _standard(values: list[float]) -> tuple[float, float]:
    """Mean and standard deviation, to the last bit in whatever order the values come."""
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((v - mean) * (v - mean) for v in values) / len(values))
    if deviation <= FLAT * max(map(abs, values)):
        return values[0], abs(values[0]) or 1.0
    return mean, deviation


@dataclass(frozen=True, slots=True)
class Spread:
    """Means over the rows of a warm-up: of |x - z|^2 and |x - z|_1 over all pairs, and of x.x."""

    square: float
    absolute: float
    inner: float

    def gamma(self, kernel: str, *, former: bool = False) -> float:
        """gamma "scale" of a kernel on these rows; former: what "auto" was before.

        rbf: 1 / total variance, which is half of the mean |x - z|^2; formerly 1 / that mean. laplacian: the kernel of
        two rows that are as far apart as they are on average is 1 / e. polynomial: gamma x.x is 1 on average. 1 where
        the rows show no difference (or there are none), and for a linear kernel, which has no gamma.
        """
        spread = {"rbf": self.square if former else self.square / 2, "laplacian": self.absolute}
        found = {**spread, "polynomial": self.inner}.get(kernel, 0.0)
        return 1.0 / found if found > (FORMER_LEAST if former else SPREAD_LEAST) else 1.0


def spread_of(rows: CSR) -> Spread:
    """The spread of sparse rows, without looking at pairs."""
    indptr, indices, values = rows
    n = indptr.size - 1
    if not values.size:
        return Spread(0.0, 0.0, 0.0)
    sums = np.bincount(indices, values)
    inner = float(np.square(values).sum()) / n
    # In a column sorted ascending, v_1..v_n with the zeros in their place:
    # sum_ij |v_i - v_j| = 2 sum_i (2 i - n - 1) v_i.
    order = np.lexsort((values, indices))
    v, column = values[order], indices[order]
    counts = np.bincount(column)
    rank = np.arange(1, v.size + 1) - (np.cumsum(counts) - counts)[column]
    rank = rank + np.where(v > 0, n - counts[column], 0)
    return Spread(
        square=2.0 * (inner - float(np.square(sums / n).sum())),
        absolute=float(2.0 * ((2.0 * rank - n - 1) * v).sum()) / n**2,
        inner=inner,
    )
