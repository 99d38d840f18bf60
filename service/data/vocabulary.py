"""From records to rows of numbers: what the columns of a model with named features mean.

The first `warmup` records are observed, then `freeze` fixes the columns:

- a name with numbers gets a column that holds (value - mean) / standard deviation over the warm-up, within -CLIP..CLIP.
  So one wild value cannot drown the other fields: with gamma "scale" it leaves some of the likeness of two points.
- a name with a string or a boolean gets a column for each value, 1 where the value stands.
- a name whose strings are days and times (declared, or nearly all of them) gets the columns of moments.py. That of the
  time since the example before, where it is asked for, is one of numbers within -SINCE_CLIP..SINCE_CLIP.
- a name whose strings are nearly all different (an identifier, a free text) gets no columns for them.
- a name with several kinds gets the columns of each. What is missing has no entry: a missing number counts as the mean.
- where all numbers of a name are equal there is no deviation: their size is the scale, 1 if it is 0.
- of more than columns_max columns the most frequent stay.
- texts (declared names) have columns of their own behind those, which a hash finds; the weights are fixed (texts.py).

Columns stand in the order in which the records show them, names ascending within a record. Frozen means that what a
column holds never changes. A name or value that comes later is given the next free column, a number's with its first
value's size as the scale and mean 0. Where there is none, it is counted and ignored.

`encode` adds columns, and notes the moments for the next record; it is for the one writer of a model. Predictions
read by a `Reader`, which knows the columns that there were when it was made.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hinged.service.data.columns import Fields, Kind, Names, Reader, Value, looked_up, pieces, standardised
from hinged.service.data.kinds import UNIQUE_MIN, found_identifiers, found_times, strings_of
from hinged.service.data.moments import ASPECTS, AT_MAX, SINCE, SINCE_CLIP
from hinged.service.data.observing import Observing
from hinged.service.data.records import (
    NAME_CHARS_MAX,
    NUMBER_MAX,
    Record,
    pack_records,
    unpack_records,
)
from hinged.service.data.spread import Spread, spread_of
from hinged.service.data.texts import BUCKETS, counts_of, even, read_weights, weights_of
from hinged.solvers.core.states import COUNT_MAX, StateReader
from hinged.solvers.estimators.scaling import CLIP, CSR, FLAT

Array = np.ndarray[Any, Any]

STAGE_MIN = 16
NAMES_SHOWN = 100
MANY_SHARE = 0.5  # values of a name that are so many, of all examples or columns, come again too seldom
SCALE_MAX = 1.001 * NUMBER_MAX  # a deviation is no larger than the numbers, but for rounding
SPREAD_MAX = 1e7  # of values within -CLIP..CLIP, in rows of FIELDS_MAX at most

_ASPECTS = frozenset(ASPECTS)


class Vocabulary(Observing[Record]):
    """The columns of a model with named features.

    kinds: what the strings of some names are; find_times, find_identifiers: whether the warm-up tells which others are
    days and times, and which are nearly all different; since: which names of times tell how long it is since the
    example before, None for all in a model that was made when all did, which goes on learning it within -CLIP..CLIP;
    buckets: columns of texts, where any name has them.
    """

    NAME, ITEMS, FIRST = "vocabulary", "records", STAGE_MIN

    def __init__(
        self,
        warmup: int,
        columns_max: int,
        kinds: Mapping[str, Kind] | None = None,
        *,
        find_times: bool = False,
        find_identifiers: bool = False,
        since: Collection[str] | None = (),
        buckets: int = BUCKETS,
    ) -> None:
        self.kinds = dict(kinds or {})
        self._texts = frozenset(name for name, kind in self.kinds.items() if kind == "text")
        if not warmup >= 0:
            raise ValueError(f"warmup must be >= 0, got {warmup}")
        if not (columns_max > 0 or self._texts):
            raise ValueError(f"columns_max must be > 0, got {columns_max}")
        super().__init__(warmup)
        self.columns_max = columns_max
        self.find_times, self.find_identifiers = find_times, find_identifiers
        self.since = None if since is None else frozenset(since)
        self.buckets = buckets
        self._begin()

    def _begin(self) -> None:
        self._fields: Fields = {}
        self._columns: list[tuple[str | None, Value | int]] = []  # None: what it meant was forgotten
        self._mean = np.zeros(STAGE_MIN)
        self._scale = np.ones(STAGE_MIN)
        self._limit = np.full(STAGE_MIN, CLIP)
        self._times = {name for name, kind in self.kinds.items() if kind == "time"}
        self._left_out: dict[str, int] = {}  # names without columns of strings, and how many different ones were seen
        self._weights = even(self.buckets)
        self._before: dict[str, float] = {}
        self._spread = Spread(0.0, 0.0, 0.0)
        self._ignored = 0
        self._ignored_names: dict[str, int] = {}

    def __len__(self) -> int:
        """Columns that mean something."""
        return len(self._columns) + self._weights.known.size

    @property
    def names(self) -> Names:
        """What is known of names, as the writer has it."""
        return self._names(self._before)

    def _names(self, before: dict[str, float]) -> Names:
        times, texts, left_out = self._times, self._texts, self._left_out.keys()
        return Names(self._fields, times, texts, left_out, self._weights, self.columns_max, self.since, before)

    # -- the warm-up ----------------------------------------------------------------------------------------------

    def freeze(self) -> CSR:
        """Fix the columns by what was observed, and return that as rows.

        Before the warm-up's end the columns are provisional: the next `freeze` begins anew. At its end they stay.
        """
        records = self.observed
        self._begin()
        strings = strings_of(records, self.kinds) if self.find_times or self.find_identifiers else {}
        if self.find_times:
            self._times |= found_times(strings)
        if self.find_identifiers:
            self._left_out = {name: n for name, n in found_identifiers(strings).items() if name not in self._times}
        if self._texts:
            texts = (counts_of(r[name], name, self.buckets) for r in records for name in self._texts_of(r))  # type: ignore[arg-type]
            self._weights = weights_of(texts, self.buckets)
        numbers: defaultdict[tuple[str, Value], list[float]] = defaultdict(list)
        counts: defaultdict[tuple[str, Value], int] = defaultdict(int)
        names = self.names
        for record in records:
            for name, value, number in pieces(record, names, notes=True):
                counts[name, value] += 1
                if _has_numbers(value):
                    numbers[name, value].append(float(number))
        kept = set(sorted(counts, key=counts.__getitem__, reverse=True)[: self.columns_max])
        for column in counts:
            if column in kept:
                self._add(*column, *(_standard(numbers[column]) if column in numbers else (0.0, 1.0)))
        self._before = {}
        rows = self.encode(records)
        self._spread = spread_of(rows)
        self._end_if_whole()
        return rows

    def _texts_of(self, record: Record) -> list[str]:
        return [name for name, value in record.items() if name in self._texts and type(value) is str]

    @property
    def spread(self) -> Spread:
        """What the warm-up has shown; all 0 before."""
        return self._spread

    # -- columns --------------------------------------------------------------------------------------------------

    def encode(self, records: Sequence[Record]) -> CSR:
        """indptr, indices, values (float64) of the records. Gives columns to what has none while there are any."""
        found = looked_up(records, self.names, self.columns_max, self._unseen, notes=True)
        limit = self._limit if self.since is not None else np.full(self._limit.size, CLIP)
        return standardised(*found, self._mean, self._scale, limit)

    @contextmanager
    def from_the_first(self) -> Iterator[None]:
        """While the log's examples are encoded once more, from the first on: no moment is before theirs."""
        before, self._before = self._before, {}
        try:
            yield
        finally:
            self._before = before

    def reader(self) -> Reader:
        """The present columns, for predictions."""
        return Reader(self._names(dict(self._before)), len(self._columns), self._mean, self._scale, self._limit)

    def forget(self, columns: Iterable[int]) -> None:
        """Forget what these columns mean; they stay empty. Readers keep what they know.

        With the last of a name's other columns goes that of the time since, and when the newest example was goes, too.
        """
        self._mean, self._scale, self._limit = self._mean.copy(), self._scale.copy(), self._limit.copy()
        gone = {column for column in columns if column < len(self._columns)}  # a text's have no words
        told = {name for c, (name, value) in enumerate(self._columns) if c not in gone and value != SINCE}
        gone |= {c for c, (name, value) in enumerate(self._columns) if value == SINCE and name not in told}
        for column in gone:
            self._columns[column] = (None, column)
            self._mean[column], self._scale[column], self._limit[column] = 0.0, 1.0, CLIP
        self._fields = {}
        for column, (name, value) in enumerate(self._columns):
            if name is not None:
                self._fields.setdefault(name, {})[value] = column  # type: ignore[index]
        self._times = {name for name in self._times if name in self._fields or name in self.kinds}
        self._before = {}
        self._ignored_names = {}

    def forget_but(self, columns: Iterable[int]) -> None:
        """Forget what all columns but these mean."""
        self.forget(set(range(len(self._columns))).difference(columns))

    def _unseen(self, name: str, value: Value, number: float) -> int | None:
        if len(self._columns) == self.columns_max:
            self._ignored += 1
            if name in self._ignored_names or len(self._ignored_names) < NAMES_SHOWN:
                self._ignored_names[name] = self._ignored_names.get(name, 0) + 1
            return None
        return self._add(name, value, 0.0, (abs(float(number)) or 1.0) if _has_numbers(value) else 1.0)

    def _add(self, name: str, value: Value, mean: float, scale: float) -> int:
        column = len(self._columns)
        if column == self._mean.size:  # into new arrays: readers keep theirs
            self._mean = np.concatenate((self._mean, np.zeros(column)))
            self._scale = np.concatenate((self._scale, np.ones(column)))
            self._limit = np.concatenate((self._limit, np.full(column, CLIP)))
        self._mean[column], self._scale[column] = mean, scale
        self._limit[column] = SINCE_CLIP if value == SINCE else CLIP
        self._columns.append((name, value))
        self._fields.setdefault(name, {})[value] = column
        return column

    def figures(self) -> dict[str, Any]:
        """The vocabulary for people. Of names, the first NAMES_SHOWN."""
        fields = [
            {"name": name, "number": None in field, "values": _values_of(field)}
            | ({"time": True} if name in self._times else {})
            for name, field in list(self._fields.items())[:NAMES_SHOWN]
        ]
        texts = {"texts": sorted(self._texts), "words": self._weights.known.size} if self._texts else {}
        left_out = {"left_out": dict(list(self._left_out.items())[:NAMES_SHOWN])} if self._left_out else {}
        if not self.columns_max:
            return {"warmup_left": self.left, **texts}
        return {
            **texts,
            "warmup_left": self.left,
            "columns": len(self._columns),
            "columns_max": self.columns_max,
            "names": len(self._fields),
            "fields": fields,
            **left_out,
            "ignored": self._ignored,
            "ignored_names": dict(self._ignored_names),
        }

    def warnings(self, examples: int) -> list[str]:
        """A sentence for each name whose strings are nearly or mostly different, unless it is said what they are.

        examples: how many were learned.
        """
        found = [_left_out(name[:80], values) for name, values in list(self._left_out.items())]
        for name, field in list(self._fields.items()):
            values = _values_of(field)
            many = values >= MANY_SHARE * (self.columns_max if name in self._ignored_names else examples)
            if values >= UNIQUE_MIN and many and name not in self.kinds:
                found.append(
                    f"{name[:80]!r} has {values} different values in {examples} examples: it uses up columns, "
                    f"most of them for a value that seldom comes again; {_instead(field)}"
                )
        return found[:NAMES_SHOWN]

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All of it as facts and arrays."""
        facts = {
            "warming": self.warming,
            "observed": pack_records(self.observed),
            "columns": [[name, list(value) if type(value) is tuple else value] for name, value in self._columns],
            "ignored": self._ignored,
            "ignored_names": list(self._ignored_names.items()),
        }
        found = sorted(self._times - self.kinds.keys())
        facts |= {"times": found} if found else {}
        facts |= {"left_out": list(self._left_out.items())} if self._left_out else {}
        facts |= {"before": list(self._before.items())} if self._before else {}
        width = len(self._columns)
        arrays = {
            "mean": self._mean[:width].copy(),
            "scale": self._scale[:width].copy(),
            "spread": np.array([self._spread.square, self._spread.absolute, self._spread.inner]),
        }
        return facts, arrays | (self._weights.state() if self._texts else {})

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take over a state of `state`. ValueError if it does not fit together; nothing changes then."""
        observed, warming = unpack_records(facts["observed"]), facts["warming"]
        columns: list[Any] = [tuple(tuple(v) if type(v) is list else v for v in column) for column in facts["columns"]]
        if type(warming) is not bool or not len(observed) < (self.warmup if warming else 1):
            raise ValueError(f"the state has observed {len(observed)} records of a warm-up of {self.warmup}")
        if not len(columns) <= self.columns_max:
            raise ValueError(f"the state has {len(columns)} columns of at most {self.columns_max}")
        for number, column in enumerate(columns):
            match column:
                case (str(name), str() | bool() | None) if len(name) <= NAME_CHARS_MAX:
                    pass
                case (str(name), tuple(aspect)) if len(name) <= NAME_CHARS_MAX and aspect in _ASPECTS:
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
        others = [number for number, (_, value) in enumerate(columns) if not _has_numbers(value)]
        if mean[others].any() or (scale[others] != 1.0).any():
            raise ValueError("of a column that holds no numbers the mean is 0 and the scale 1")
        ignored, names = facts["ignored"], [tuple(entry) for entry in facts["ignored_names"]]
        counts = [ignored, *(count for _, count in names)]
        if not all(type(count) is int and 0 <= count <= COUNT_MAX for count in counts):
            raise ValueError("ignored values are counted from 0 on")
        if len(names) > NAMES_SHOWN or len(dict(names)) < len(names) or sum(counts) > 2 * ignored:
            raise ValueError(f"{len(names)} ignored names do not fit {ignored} ignored values")
        before, times = dict(map(tuple, facts.get("before", []))), facts.get("times", [])
        if not all(type(name) is str for name in (*dict(names), *before, *times)):
            raise ValueError("a name is a string")
        if not all(type(at) is float and abs(at) <= AT_MAX for at in before.values()):
            raise ValueError(f"a moment is a number of seconds, at most {AT_MAX:g} from 0")
        left_out = [tuple(entry) for entry in facts.get("left_out", [])]
        self._check_left_out(left_out, columns)
        weights = read_weights(read, self.buckets) if self._texts else even(self.buckets)
        self._begin()
        for (name, value), centre, size in zip(columns, mean.tolist(), scale.tolist(), strict=True):
            self._add(name or "", value, centre, size)
        self.forget([column for column, (name, _) in enumerate(columns) if name is None])
        self._times |= set(times)
        self._left_out = dict(left_out)
        self._before, self._weights = before, weights
        self.observed, self.warming = observed, warming
        self._spread = Spread(*spread.tolist())
        self._ignored, self._ignored_names = ignored, dict(names)

    def _check_left_out(self, left_out: list[Any], columns: list[Any]) -> None:
        for entry in left_out:
            match entry:
                case (str(name), int(values)) if type(values) is int and 0 < values <= self.warmup:
                    fits = len(name) <= NAME_CHARS_MAX and name not in self.kinds
                case _:
                    fits = False
            if not (fits and self.find_identifiers):
                raise ValueError(f"a name is left out after its warm-up, undeclared, got {entry!r:.80}")
        names = dict(left_out)
        if len(names) < len(left_out) or any(name in names and type(value) is str for name, value in columns):
            raise ValueError("a name that was left out is there twice, or has a column of a string")


def _has_numbers(value: Any) -> bool:
    """Whether a column of this value holds numbers that the warm-up brings to one measure."""
    return value is None or value == SINCE


def _values_of(field: dict[Value, int]) -> int:
    """The strings and booleans that have a column."""
    return sum(type(value) is str or type(value) is bool for value in field)


def _left_out(name: str, values: int) -> str:
    """That a name is left out, and what takes it in."""
    columns = json.dumps({name: {"type": "category"}}, ensure_ascii=False)
    return (
        f"{name!r} is left out: its strings, {values} different ones in the warm-up, hardly ever come again; a model "
        f'with "columns": {columns} among its features uses them, with "text" their words'
    )


def _instead(field: dict[Value, int]) -> str:
    """What to do about a name whose strings are mostly different."""
    strings = [value for value in field if type(value) is str]
    if strings and sum(" " in value.strip() for value in strings) > len(strings) / 2:
        return 'declare it {"type": "text"}, or see whether a model does as well without it'
    return "see whether a model does as well without it"


def _standard(values: list[float]) -> tuple[float, float]:
    """Mean and standard deviation, to the last bit in whatever order the values come."""
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((v - mean) * (v - mean) for v in values) / len(values))
    if deviation <= FLAT * max(map(abs, values)):
        return values[0], abs(values[0]) or 1.0
    return mean, deviation
