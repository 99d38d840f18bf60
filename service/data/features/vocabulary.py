"""Turn records into rows of numbers. A vocabulary knows the meaning of the columns in a model with named features.

The first `warmup` records are observed. Then `freeze` fixes the columns:

- A name whose values are numbers gets a column. With `tails`, the numbers are scaled like a dense column
  (solvers/estimators/scaling.py), which compresses heavy tails. Otherwise they become (value - mean) / standard
  deviation over the warm-up. They are clipped to -CLIP..CLIP, so an extreme value cannot outweigh the other fields.
- A name whose values are strings or booleans gets a column for each value. The column is 1 if the record has that
  value.
- A name whose values are days and times gets the columns of moments.py. Such a name is declared, or nearly all its
  strings are days and times. If the configuration asks for the time since the previous example, the column of this
  time is clipped to -SINCE_CLIP..SINCE_CLIP.
- A name whose strings nearly all differ (an identifier, a free text) gets no columns for its strings.
- A name whose values are of several kinds gets the columns of each kind. A missing value has no entry, so a missing
  number counts as the mean.
- If all numbers of a name are equal, the scale is their absolute value, or 1 if they are 0.
- If there are more than columns_max columns, the most frequent columns stay.
- Texts (declared names) have hashed columns after all other columns, with fixed weights (texts.py).

Columns are in the order in which they occur in the records, with names in ascending order within a record. After the
columns are final, the meaning of a column never changes. A new name or value gets the next free column. For a number,
this column has mean 0, and its scale is the absolute value of the first number. If no column is free, the value is
counted and ignored.

`encode` adds columns and remembers the times for the next record, so only a model's worker may call it. Predictions use
a `Reader`, which contains the columns that existed when the reader was made.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hinged.service.data.features.columns.base import ColumnKind, Measure, Said, Strings, Value
from hinged.service.data.features.columns.catalogue import KINDS, MEASURES, ONE
from hinged.service.data.features.columns.categories import NAMES_SHOWN, UNIQUE_MIN, Categories
from hinged.service.data.features.observing import Encoder, Field
from hinged.service.data.features.reader import Fields, Names, RecordReader, Scales, looked_up, pieces, scaled
from hinged.service.data.features.records import (
    NAME_CHARS_MAX,
    NUMBER_MAX,
    SCALE_MAX,
    Record,
    pack_records,
    unpack_records,
)
from hinged.service.data.features.spread import Spread, spread_of
from hinged.service.data.inputs import Records
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.rows import Rows, rows_from_csr
from hinged.solvers.core.states import COUNT_MAX, StateReader
from hinged.solvers.estimators.scaling import BENT_MAX, CLIP, CSR, FLAT, dense_column, usual

Array = np.ndarray[Any, Any]

STAGE_MIN = 16
PARTS = "mean", "scale"
PARTS_WITH_TAILS = "middle", "unit", *PARTS
MANY_SHARE = 0.5
"""If more than this share of examples, or of columns, are different values of one name, people get a warning."""
SPREAD_MAX = 1e7  # maximum spread of rows of at most FIELDS_MAX values within -CLIP..CLIP


class Vocabulary(Encoder[Records, Record]):
    """The columns of a model whose x are records.

    kinds: the declared kinds of names' strings.
    found: the kinds that the warm-up tries for the other names.
    since, buckets: as in `Said`.
    tails: whether numbers are scaled like dense columns.
    """

    NAME, ITEMS, FIRST, HAS_WORDS = "vocabulary", "records", STAGE_MIN, True

    def __init__(
        self,
        warmup: int,
        columns_max: int,
        kinds: Mapping[str, str] | None = None,
        *,
        found: Collection[str] = (),
        since: Collection[str] | None = (),
        buckets: int | None = None,
        tails: bool = False,
    ) -> None:
        if not warmup >= 0:
            raise ValueError(f"warmup must be >= 0, got {warmup}")
        super().__init__(warmup)
        since = None if since is None else frozenset(since)
        self.said = Said(dict(kinds or {}), frozenset(found), warmup, since, buckets)
        self.columns_max, self.tails = columns_max, tails
        self._begin()
        if not (columns_max > 0 or self.names.hashing):
            raise ValueError(f"columns_max must be > 0, got {columns_max}")

    def _begin(self) -> None:
        self._fields: Fields = {}
        self._columns: list[tuple[str | None, Value | int]] = []  # None: the meaning of the column was forgotten
        self._scales = Scales.of_width(STAGE_MIN)
        self._take(self._new_kinds())
        self._before: dict[str, float] = {}
        self.spread = Spread(0.0, 0.0, 0.0)
        self._ignored = 0
        self._ignored_names: dict[str, int] = {}

    def _new_kinds(self) -> list[ColumnKind]:
        return [kind(self.said) for kind in KINDS.values()]

    def _take(self, kinds: Sequence[ColumnKind]) -> None:
        """Use these kinds of columns. Each kind contains the names of this kind."""
        self._kinds = kinds
        self._kind_of = {name: k for k in kinds if not isinstance(k, Categories) for name in k.names}
        self._hashing = [kind for kind in kinds if kind.WIDTH and kind.names]
        self._clipped = any(kind.clipped for kind in kinds)

    def __len__(self) -> int:
        return len(self._columns) + sum(kind.known for kind in self._hashing)

    @property
    def names(self) -> Names:
        """Return the known names, for readers."""
        return Names(self._fields, self._kind_of, self._hashing, self.columns_max)

    # -- the warm-up ----------------------------------------------------------------------------------------------

    def items(self, inputs: Records) -> list[Record]:
        return list(inputs.records)

    def freeze(self) -> CSR:
        """Fix the columns according to the observed records, and return these records as rows.

        Before the end of the warm-up, the columns are provisional, and the next `freeze` starts over. At the end, the
        columns become final.
        """
        records = self.observed
        self._begin()
        kinds = self._new_kinds()
        strings = strings_of(records, self.said.kinds) if self.said.found else {}
        for kind in kinds:
            kind.observe(records, strings)
            strings = {name: given for name, given in strings.items() if name not in kind.names}
        self._take(kinds)
        numbers: defaultdict[tuple[str, Value], list[float]] = defaultdict(list)
        counts: defaultdict[tuple[str, Value], int] = defaultdict(int)
        names = self.names
        for record in records:
            for name, value, number in pieces(record, names, self._before, [], notes=True):
                counts[name, value] += 1
                if _measure(value).standardised:
                    numbers[name, value].append(float(number))
        kept = set(sorted(counts, key=counts.__getitem__, reverse=True)[: self.columns_max])
        for column in counts:
            if column in kept:
                self._add(*column, *(self._scale_of(column[1], numbers[column]) if column in numbers else ()))
        self._before = {}
        rows = self.encode(records)
        self.spread = spread_of(rows)
        self._end_if_whole()
        return rows

    # -- columns --------------------------------------------------------------------------------------------------

    def rows(self, inputs: Records, kernel: Kernel, dim: int, dtype: type) -> Rows:
        return rows_from_csr(*self.encode(inputs.records), kernel, dim, dtype)

    def encode(self, records: Sequence[Record]) -> CSR:
        """Return indptr, indices and values (float64) of the records. Unknown names and values get new columns as long
        as columns are free.
        """
        found = looked_up(records, self.names, self._before, self.columns_max, self._unseen, notes=True)
        return scaled(*found, self._scales, np.full(self._scales.limit.size, CLIP) if self._clipped else None)

    @contextmanager
    def from_the_first(self) -> Iterator[None]:
        before, self._before = self._before, {}
        try:
            yield
        finally:
            self._before = before

    def reader(self) -> RecordReader:
        return RecordReader(self.names, dict(self._before), len(self._columns), self._scales)

    def examples(self, most: int) -> list[Records]:
        """Return some of the observed records, some numbers, and some strings of each kind."""
        numbered = [name for name, field in self._fields.items() if None in field][: most - 1]
        known: list[Record] = [{name: 1.0} for name in numbered]
        known += [{name: kind.EXAMPLE} for kind in self._kinds for name in sorted(kind.names)[:most]]
        return [Records((*self.observed[:most], *known))]

    def columns_of(self, inputs: Records) -> set[int]:
        return set(self.reader().encode(inputs.records)[1].tolist())

    def forget(self, columns: Iterable[int]) -> None:
        """Forget the meaning of these columns. The columns stay empty. Existing readers keep what they know.

        If a name has only its time-since column left, this column is forgotten too, as is the time of the newest
        example.
        """
        gone = {column for column in columns if column < len(self._columns)}  # hashed columns reveal no words
        follow = {c for c, (name, value) in enumerate(self._columns) if name is not None and _measure(value).follows}
        told = {name for c, (name, _) in enumerate(self._columns) if c not in gone and c not in follow}
        gone |= {c for c in follow if self._columns[c][0] not in told}
        for column in gone:
            self._columns[column] = (None, column)
        self._scales = self._scales.without(sorted(gone))
        self._fields = {}
        for column, (name, value) in enumerate(self._columns):
            if name is not None:
                self._fields.setdefault(name, {})[value] = column  # type: ignore[index]
        for kind in self._kinds:
            kind.keep(self._fields.keys())
        self._take(self._kinds)
        self._before = {}
        self._ignored_names = {}

    def forget_but(self, columns: Iterable[int]) -> None:
        self.forget(set(range(len(self._columns))).difference(columns))

    def _unseen(self, name: str, value: Value, number: float) -> int | None:
        if len(self._columns) == self.columns_max:
            self._ignored += 1
            if name in self._ignored_names or len(self._ignored_names) < NAMES_SHOWN:
                self._ignored_names[name] = self._ignored_names.get(name, 0) + 1
            return None
        scale = (abs(float(number)) or 1.0) if _measure(value).standardised else 1.0
        return self._add(name, value, 0.0, 0.0, 0.0, scale)

    def _scale_of(self, value: Value, numbers: list[float]) -> tuple[float, float, float, float]:
        """Return middle, unit, mean and scale of a column with these numbers in the warm-up."""
        if value is None and self.tails:
            return dense_column(np.array(numbers))
        return 0.0, 0.0, *_standard(numbers)

    def _add(
        self, name: str, value: Value, middle: float = 0.0, unit: float = 0.0, mean: float = 0.0, scale: float = 1.0
    ) -> int:
        column = len(self._columns)
        if column == self._scales.mean.size:  # make new arrays, because readers use the old arrays
            self._scales = self._scales.widened()
        for array, fact in zip(self._scales, (middle, unit, mean, scale, _measure(value).limit), strict=True):
            array[column] = fact
        self._columns.append((name, value))
        self._fields.setdefault(name, {})[value] = column
        return column

    def fields(self, most: int) -> list[Field]:
        names = dict.fromkeys([*self._fields, *(name for kind in self._kinds for name in sorted(kind.names))])
        return [self._field(name) for name in list(names)[:most]]

    def _field(self, name: str) -> Field:
        own = self._fields.get(name, {})
        kind = self._kind_of.get(name)
        values = {value: column for value, column in own.items() if isinstance(value, str | bool)}
        columns, shared, first = np.array(list(own.values()), np.int64), False, self.columns_max
        for hashing in self._hashing:
            if name in hashing.names:
                shared = len(hashing.names) > 1
                columns = np.append(columns, np.arange(first, first + hashing.WIDTH))
            first += hashing.WIDTH
        kinds = [*(["number"] if None in own else []), *([kind.NAME] if kind else [])]
        kinds += [Categories.NAME] if values else []
        ends = usual(*(part[[own[None]]] for part in self._scales[: len(PARTS_WITH_TAILS)]))[0] if None in own else None
        interval = None if ends is None else (float(ends[0]), float(ends[1]))
        return Field(name, tuple(kinds), values, None if shared else columns, interval)

    def figures(self) -> dict[str, Any]:
        fields = [
            {"name": name, "number": None in field, "values": _values_of(field)}
            | (self._kind_of[name].of_field() if name in self._kind_of else {})
            for name, field in list(self._fields.items())[:NAMES_SHOWN]
        ]
        found: dict[bool, dict[str, Any]] = {True: {}, False: {}}
        for kind in self._kinds:
            found[kind.WIDTH > 0] |= kind.figures()
        if not self.columns_max:
            return {"warmup_left": self.left, **found[True]}
        return {
            **found[True],
            "warmup_left": self.left,
            "columns": len(self._columns),
            "columns_max": self.columns_max,
            "names": len(self._fields),
            "fields": fields,
            **found[False],
            "ignored": self._ignored,
            "ignored_names": dict(self._ignored_names),
        }

    def warnings(self, examples: int) -> list[str]:
        """Return a warning for each undeclared name whose strings all or mostly differ.

        examples: the number of learned examples.
        """
        found = [warning for kind in self._kinds for warning in kind.warnings()]
        for name, field in list(self._fields.items()):
            values = _values_of(field)
            many = values >= MANY_SHARE * (self.columns_max if name in self._ignored_names else examples)
            if values >= UNIQUE_MIN and many and name not in self.said.kinds:
                found.append(
                    f"{name[:80]!r} has {values} different values in {examples} examples: it uses up columns, "
                    f"most of them for values that rarely come again; {_instead(field)}"
                )
        return found[:NAMES_SHOWN]

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        facts = {
            "warming": self.warming,
            "observed": pack_records(self.observed),
            "columns": [[name, list(value) if type(value) is tuple else value] for name, value in self._columns],
            "ignored": self._ignored,
            "ignored_names": list(self._ignored_names.items()),
        }
        width = len(self._columns)
        parts = PARTS_WITH_TAILS if self.tails else PARTS
        arrays = {
            **{part: getattr(self._scales, part)[:width].copy() for part in parts},
            "spread": np.array([self.spread.square, self.spread.absolute, self.spread.inner]),
        }
        for kind in self._kinds:
            own, held = kind.state()
            facts |= own
            arrays |= held
        return facts | ({"before": list(self._before.items())} if self._before else {}), arrays

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
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
                case (str(name), tuple(aspect)) if len(name) <= NAME_CHARS_MAX and aspect in MEASURES:
                    pass
                case (None, int(own)) if type(own) is int and own == number:
                    pass
                case _:
                    raise ValueError(f"a column must be a name with a string, a boolean or null, got {column!r:.80}")
        if len(set(columns)) < len(columns):
            raise ValueError("a column is listed twice")
        read = StateReader(arrays)
        mean = read.take("mean", np.float64, (len(columns),), -NUMBER_MAX, NUMBER_MAX)
        scale = read.take("scale", np.float64, (len(columns),), 0.0, SCALE_MAX)
        middle, unit = np.zeros(len(columns)), np.zeros(len(columns))
        if self.tails:
            middle = read.take("middle", np.float64, (len(columns),), -NUMBER_MAX, NUMBER_MAX)
            unit = read.take("unit", np.float64, (len(columns),), 0.0, 2 * SCALE_MAX)
        spread = read.take("spread", np.float64, (3,), 0.0, SPREAD_MAX)
        if not (scale > 0).all():
            raise ValueError("scales must be > 0")
        if (np.abs(mean[unit > 0]) > BENT_MAX).any():
            raise ValueError(f"the mean of a bent column must be within {BENT_MAX}")
        bends = [number for number, (_, value) in enumerate(columns) if value is not None]
        if middle[bends].any() or unit[bends].any():
            raise ValueError("a column without numbers must not be bent")
        others = [number for number, (_, value) in enumerate(columns) if not _measure(value).standardised]
        if mean[others].any() or (scale[others] != 1.0).any():
            raise ValueError("a column without numbers must have mean 0 and scale 1")
        ignored, names = facts["ignored"], [tuple(entry) for entry in facts["ignored_names"]]
        counts = [ignored, *(count for _, count in names)]
        if not all(type(count) is int and 0 <= count <= COUNT_MAX for count in counts):
            raise ValueError("counts of ignored values must be 0 or more")
        if len(names) > NAMES_SHOWN or len(dict(names)) < len(names) or sum(counts) > 2 * ignored:
            raise ValueError(f"{len(names)} ignored names do not fit {ignored} ignored values")
        if not all(type(name) is str for name in dict(names)):
            raise ValueError("a name must be a string")
        kinds = self._new_kinds()
        for kind in kinds:
            kind.load(facts | {"columns": columns}, read)
        self._begin()
        for (name, value), *scale_of in zip(columns, *(a.tolist() for a in (middle, unit, mean, scale)), strict=True):
            self._add(name or "", value, *scale_of)
        self.forget([column for column, (name, _) in enumerate(columns) if name is None])
        self._take(kinds)
        self._before = dict(map(tuple, facts.get("before", [])))
        self.observed, self.warming = observed, warming
        self.spread = Spread(*spread.tolist())
        self._ignored, self._ignored_names = ignored, dict(names)


def strings_of(records: Iterable[Record], declared: Mapping[str, str]) -> Strings:
    """Return the strings of all undeclared names."""
    strings: defaultdict[str, list[str]] = defaultdict(list)
    for record in records:
        for name, value in record.items():
            if type(value) is str and name not in declared:
                strings[name].append(value)
    return strings


def _measure(value: Any) -> Measure:
    """Return how the numbers of a column are scaled and clipped."""
    return MEASURES.get(value, ONE)


def _values_of(field: dict[Value, int]) -> int:
    """Return the number of strings and booleans that have a column."""
    return sum(type(value) is str or type(value) is bool for value in field)


def _instead(field: dict[Value, int]) -> str:
    """Return advice for a name whose strings mostly differ."""
    strings = [value for value in field if type(value) is str]
    if strings and sum(" " in value.strip() for value in strings) > len(strings) / 2:
        return "declare it a text in a new model, or try a model without it"
    return "try a model without it"


def _standard(values: list[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation. The bits do not depend on the order of the values."""
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((v - mean) * (v - mean) for v in values) / len(values))
    if deviation <= FLAT * max(map(abs, values)):
        return values[0], abs(values[0]) or 1.0
    return mean, deviation
