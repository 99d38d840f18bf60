"""Named features: x is an object of names and values, which a vocabulary turns into a row."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictBool, TypeAdapter
from pydantic_core import PydanticCustomError

from hinged.service.data.features.base import Candidates, Features
from hinged.service.data.features.columns.catalogue import DECLARED, KINDS
from hinged.service.data.features.columns.moments import Moments
from hinged.service.data.features.reader import Reader, RecordReader
from hinged.service.data.features.records import (
    FIELDS_MAX,
    NAME_CHARS_MAX,
    STRING_CHARS_MAX,
    TEXT_CHARS_MAX,
    Record,
    RecordX,
    canonical,
    too_long,
)
from hinged.service.data.features.vocabulary import Vocabulary
from hinged.service.data.inputs import Inputs, Records
from hinged.service.data.part import Part
from hinged.service.errors import Invalid
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.estimators.scaling import CLIP

if TYPE_CHECKING:  # parts.py imports this module
    from hinged.service.data.parts import Configuration


class RecordFeatures(Features):
    """Features whose canonical form is a record. The log contains the records."""

    LONE: ClassVar[str | None] = None
    """The name that a single value gets in the record."""

    if TYPE_CHECKING:
        warmup: int

    def examples_of_warmup(self, configuration: Configuration) -> int:
        return self.warmup

    def inputs(self, xs: Sequence[Any], configuration: Configuration, places: Sequence[int] | None = None) -> Records:
        """Return a batch of records. The records were already checked when they were parsed."""
        return Records(tuple(xs))

    def record_of(self, x: Mapping[str, Any], index: int) -> Record:
        """Return the record of an x that is given as one value per column. index: the index of the x. Raise Invalid."""
        try:
            return self.record(x)
        except PydanticCustomError as error:
            raise Invalid(f"x[{index}]: {error.message()}", index=index) from None

    @abstractmethod
    def record(self, x: Mapping[str, Any]) -> Record:
        """Return the record of an x that is given as one value per column. Raise PydanticCustomError."""

    def examples(self, configuration: Configuration) -> Records:
        """Return an empty record, and a record with a new name."""
        return Records(({}, {"rehearsed": "again"}))

    def check_form(self, inputs: Inputs, configuration: Configuration) -> None:
        if not isinstance(inputs, Records):
            raise ValueError("x does not have the form of the model's features")  # noqa: TRY004  the caller's types are right

    def check_held(self, batches: Sequence[Inputs], configuration: Configuration, kernel: Kernel) -> bool:
        return all(isinstance(batch, Records) for batch in batches)


class Column(Part):
    """The kind of a name's strings."""

    type: Literal[DECLARED] = Field(  # type: ignore[valid-type]
        description="; ".join(f"{name}: {KINDS[name].MEANING}" for name in DECLARED)
    )


class NamedFeatures(RecordFeatures):
    """x is an object of names and values. The first `warmup` examples determine the columns (vocabulary.py)."""

    X: ClassVar[Any] = RecordX
    ONE: ClassVar[TypeAdapter[Any]] = TypeAdapter(RecordX)
    NEW: ClassVar[Mapping[str, Any]] = {**Features.NEW, "times": True, "identifiers": True, "tails": True, "since": ()}
    MAY_LACK: ClassVar[bool] = True

    type: Literal["named"]
    warmup: int = Field(1000, ge=0, le=100_000, description="examples after which the columns are fixed")
    columns_max: int = Field(
        1024, ge=1, lt=2**30, description="the most columns; values that would need further columns are ignored"
    )
    columns: dict[Annotated[str, Field(max_length=NAME_CHARS_MAX)], Column] | None = Field(
        None, max_length=FIELDS_MAX, description="the kinds of these names' strings; null: the warm-up finds them"
    )
    times: StrictBool = Field(
        False, description="whether the warm-up looks for names with days and times; if not, they are categories"
    )
    identifiers: StrictBool = Field(
        False,
        description="whether the warm-up leaves out names whose strings nearly all differ; if not, they are categories",
    )
    tails: StrictBool = Field(
        False,
        description="whether numbers are scaled like dense features, which compresses heavy tails; if not, by their "
        "mean and standard deviation, as in older models",
    )
    since: Annotated[tuple[Annotated[str, Field(max_length=NAME_CHARS_MAX)], ...], Field(strict=False)] | None = Field(
        None,
        max_length=FIELDS_MAX,
        description="names of times that also give the time since the example before; null: all, as in older models",
    )
    warmup_candidates: Candidates = False

    # -- as a part of a configuration -----------------------------------------------------------------------------

    @property
    def kinds(self) -> dict[str, str]:
        """Return the declared kinds of names' strings."""
        return {name: column.type for name, column in (self.columns or {}).items()}

    @property
    def _hashing(self) -> Counter[str]:
        """Return the number of names of each kind that has hashed columns."""
        return Counter(kind for kind in self.kinds.values() if KINDS[kind].WIDTH)

    @property
    def dim(self) -> int:
        """Return the width of the rows."""
        if self.columns is None:
            return self.columns_max
        return self.columns_max + sum(KINDS[kind].WIDTH for kind in self._hashing)

    @property
    def square_max(self) -> float:
        if not self.times and self.columns is None:
            return CLIP**2 * min(self.columns_max, FIELDS_MAX)
        # Count a number and a time for each name, as every version has done since names can have a kind.
        of_name = max([Moments.SQUARE_MAX, *(KINDS[kind].SQUARE_MAX for kind in self.kinds.values())])
        # Strings with the same hash share a column.
        hashed = sum(KINDS[kind].SQUARE_MAX * names**2 for kind, names in self._hashing.items())
        return min(CLIP**2 * self.columns_max, of_name * FIELDS_MAX) + hashed

    def check(self, dim_max: int) -> None:
        """Raise Invalid if the features have too many columns, or if `since` lists a name that has no times."""
        if self.dim > dim_max:
            more = self.dim - self.columns_max
            behind = f": a column of texts needs {more} more" if more else ""
            raise Invalid(f"features.columns_max must be at most {dim_max - more}, got {self.columns_max}{behind}")
        for name in self.since or ():
            kind = self.kinds.get(name, Moments.NAME if self.times else "category")
            if kind != Moments.NAME:
                raise Invalid(f"features.since: {name[:80]!r} must be a name of times, got a name of kind {kind}")

    @property
    def in_order(self) -> bool:
        return self.since != ()

    def encoder(self, configuration: Configuration) -> Vocabulary:
        found = [name for name, kind in KINDS.items() if kind.FOUND_BY is not None and getattr(self, kind.FOUND_BY)]
        return Vocabulary(self.warmup, self.columns_max, self.kinds, found=found, since=self.since, tails=self.tails)

    # -- reading --------------------------------------------------------------------------------------------------

    def inputs(self, xs: Sequence[Any], configuration: Configuration, places: Sequence[int] | None = None) -> Records:
        """Return a batch of records. Raise Invalid for a string that is longer than the kind of its name allows."""
        for r, x in enumerate(xs):
            for name, value in x.items():
                if type(value) is str and len(value) > STRING_CHARS_MAX:
                    index = places[r] if places else r
                    self._check_string(name, value, f"examples[{index}].x", index)
        return super().inputs(xs, configuration)

    def _check_string(self, name: str, value: str, place: str, index: int) -> None:
        most = KINDS[self.kinds.get(name, "category")].CHARS_MAX
        if len(value) > most:
            raise Invalid(f"{place}: {too_long(name, value, most).message()}", index=index)

    def record(self, x: Mapping[str, Any]) -> Record:
        """Return the canonical form of an x."""
        return canonical(x, TEXT_CHARS_MAX)

    def record_of(self, x: Mapping[str, Any], index: int) -> Record:
        """Return the canonical form of an x. Raise Invalid for a string that is longer than the kind of its name
        allows.
        """
        record = super().record_of(x, index)
        for name, value in record.items():
            if type(value) is str:
                self._check_string(name, value, f"x[{index}]", index)
        return record

    def of_fields(self, data: Mapping[str, Any]) -> Any:
        """Return the field `x` if it is an object. Otherwise return all fields with plain values."""
        x = data.get("x")
        if isinstance(x, Mapping):
            return x
        return {
            name: value
            for name, value in data.items()
            if not name.startswith("_") and (value is None or isinstance(value, str | int | float))
        }

    def columns_of(self, configuration: Configuration, reader: Reader[Any]) -> list[tuple[str, str, Sequence[int]]]:
        assert isinstance(reader, RecordReader)  # noqa: S101  the vocabulary makes RecordReaders
        names = reader.names
        found: list[tuple[str, str, Sequence[int]]] = []
        for name, values in list(names.fields.items()):
            types = {type(value) for value in list(values)}
            strings = types & {str, tuple} or name in names.hashed
            found.append((name, "BYTES" if strings else "BOOL" if types == {bool} else "FP64", [-1]))
        more = sorted(names.hashed - {name for name, _, _ in found})
        return found + [(name, "BYTES", [-1]) for name in more]

    # -- what is held ---------------------------------------------------------------------------------------------

    def shown(self, inputs: Inputs, r: int) -> Any:
        assert isinstance(inputs, Records)  # noqa: S101  `check_form`
        return inputs.records[r]
