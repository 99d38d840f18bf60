"""Named features: x is an object of names and values, of which a vocabulary makes rows."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictBool, TypeAdapter, field_validator
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

if TYPE_CHECKING:  # it imports this
    from hinged.service.data.parts import Configuration


class RecordFeatures(Features):
    """What has records as its canonical form, which the log keeps."""

    LONE: ClassVar[str | None] = None
    """The name in the record of an x that is one value."""

    if TYPE_CHECKING:
        warmup: int

    def examples_of_warmup(self, configuration: Configuration) -> int:
        return self.warmup

    def inputs(self, xs: Sequence[Any], configuration: Configuration, places: Sequence[int] | None = None) -> Records:
        """A batch of records, which were checked as they were parsed."""
        return Records(tuple(xs))

    def record_of(self, x: Mapping[str, Any], index: int) -> Record:
        """The record of values by column, which stand there. Invalid."""
        try:
            return self.record(x)
        except PydanticCustomError as error:
            raise Invalid(f"x[{index}]: {error.message()}", index=index) from None

    @abstractmethod
    def record(self, x: Mapping[str, Any]) -> Record:
        """The record of values by column. PydanticCustomError."""

    def examples(self, configuration: Configuration) -> Records:
        """Nothing, and a name that is new."""
        return Records(({}, {"rehearsed": "again"}))

    def check_form(self, inputs: Inputs, configuration: Configuration) -> None:
        if not isinstance(inputs, Records):
            raise ValueError("x has another form than the model's features")  # noqa: TRY004  no fault of the caller's

    def check_held(self, batches: Sequence[Inputs], configuration: Configuration, kernel: Kernel) -> bool:
        return all(isinstance(batch, Records) for batch in batches)


class Column(Part):
    """What the strings of a name are."""

    type: Literal[DECLARED] = Field(  # type: ignore[valid-type]
        description="; ".join(f"{name}: {KINDS[name].MEANING}" for name in DECLARED)
    )


class NamedFeatures(RecordFeatures):
    """x is an object of names and values; columns are found in the first `warmup` examples (vocabulary.py)."""

    X: ClassVar[Any] = RecordX
    ONE: ClassVar[TypeAdapter[Any]] = TypeAdapter(RecordX)
    NEW: ClassVar[Mapping[str, Any]] = {**Features.NEW, "times": True, "identifiers": True, "since": ()}

    type: Literal["named"]
    warmup: int = Field(1000, ge=0, le=100_000, description="examples after which the columns are fixed")
    columns_max: int = Field(1024, ge=1, lt=2**30, description="columns, at most; values beyond are ignored")
    columns: dict[Annotated[str, Field(max_length=NAME_CHARS_MAX)], Column] | None = Field(
        None, max_length=FIELDS_MAX, description="what the strings of these names are; null: the warm-up tells"
    )
    times: StrictBool = Field(
        False, description="whether the warm-up tells which names have days and times; else they are categories"
    )
    identifiers: StrictBool = Field(
        False,
        description="whether the warm-up leaves out names of which nearly all strings differ; else they are categories",
    )
    since: tuple[Annotated[str, Field(max_length=NAME_CHARS_MAX)], ...] | None = Field(
        None,
        max_length=FIELDS_MAX,
        description="names of times that also tell the time since the example before; null: all, as once in each model",
    )
    warmup_candidates: Candidates = False

    @field_validator("since", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    # -- as a part of a configuration -----------------------------------------------------------------------------

    @property
    def kinds(self) -> dict[str, str]:
        """What the strings of some names are."""
        return {name: column.type for name, column in (self.columns or {}).items()}

    @property
    def _hashing(self) -> Counter[str]:
        """How many names have strings of which a hash makes columns, by their kind."""
        return Counter(kind for kind in self.kinds.values() if KINDS[kind].WIDTH)

    @property
    def dim(self) -> int:
        """The width of the rows."""
        if self.columns is None:
            return self.columns_max
        return self.columns_max + sum(KINDS[kind].WIDTH for kind in self._hashing)

    @property
    def square_max(self) -> float:
        if not self.times and self.columns is None:
            return CLIP**2 * min(self.columns_max, FIELDS_MAX)
        # A number's and a time's: so it has been wherever anything is said of strings.
        of_name = max([Moments.SQUARE_MAX, *(KINDS[kind].SQUARE_MAX for kind in self.kinds.values())])
        # Strings that one hash spreads may meet.
        hashed = sum(KINDS[kind].SQUARE_MAX * names**2 for kind, names in self._hashing.items())
        return min(CLIP**2 * self.columns_max, of_name * FIELDS_MAX) + hashed

    def check(self, dim_max: int) -> None:
        """Invalid where they are too wide, or names are to tell the time since an example that have no times."""
        if self.dim > dim_max:
            more = self.dim - self.columns_max
            behind = f": a column of texts needs {more} more" if more else ""
            raise Invalid(f"features.columns_max must be at most {dim_max - more}, got {self.columns_max}{behind}")
        for name in self.since or ():
            kind = self.kinds.get(name, Moments.NAME if self.times else "category")
            if kind != Moments.NAME:
                raise Invalid(f"features.since: {name[:80]!r} must be a name of times, got one that is a {kind}")

    @property
    def in_order(self) -> bool:
        return self.since != ()

    def encoder(self, configuration: Configuration) -> Vocabulary:
        found = [name for name, kind in KINDS.items() if kind.FOUND_BY is not None and getattr(self, kind.FOUND_BY)]
        return Vocabulary(self.warmup, self.columns_max, self.kinds, found=found, since=self.since)

    # -- reading --------------------------------------------------------------------------------------------------

    def inputs(self, xs: Sequence[Any], configuration: Configuration, places: Sequence[int] | None = None) -> Records:
        """A batch of records. Invalid for a string that is longer than its name may have."""
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
        """The canonical form."""
        return canonical(x, TEXT_CHARS_MAX)

    def record_of(self, x: Mapping[str, Any], index: int) -> Record:
        """The canonical form, whose strings are no longer than their names may have. Invalid."""
        record = super().record_of(x, index)
        for name, value in record.items():
            if type(value) is str:
                self._check_string(name, value, f"x[{index}]", index)
        return record

    def of_fields(self, data: Mapping[str, Any]) -> Any:
        """The part `x`, or all plain fields."""
        x = data.get("x")
        if isinstance(x, Mapping):
            return x
        return {
            name: value
            for name, value in data.items()
            if not name.startswith("_") and (value is None or isinstance(value, str | int | float))
        }

    def columns_of(self, configuration: Configuration, reader: Reader[Any]) -> list[tuple[str, str, Sequence[int]]]:
        assert isinstance(reader, RecordReader)  # noqa: S101  it is the vocabulary's
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
