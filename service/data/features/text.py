"""Text features: x is a string, kept as a record with one name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter

from hinged.service.data.features.base import Candidates
from hinged.service.data.features.columns.texts import BUCKETS, Texts
from hinged.service.data.features.named import RecordFeatures
from hinged.service.data.features.reader import Reader
from hinged.service.data.features.records import TEXT, Record, TextX, text_record
from hinged.service.data.features.vocabulary import Vocabulary
from hinged.service.data.inputs import Inputs, Records
from hinged.service.errors import Invalid

if TYPE_CHECKING:  # parts.py imports this module
    from hinged.service.data.parts import Configuration


class TextFeatures(RecordFeatures):
    """x is a text whose words and pairs of words are counted (texts.py)."""

    X: ClassVar[Any] = TextX
    ONE: ClassVar[TypeAdapter[Any]] = TypeAdapter(TextX)
    LONE: ClassVar[str | None] = TEXT

    type: Literal["text"]
    dim: int = Field(BUCKETS, ge=2**8, lt=2**31, description="columns among which a hash spreads the words")
    warmup: int = Field(1000, ge=1, le=100_000, description="texts after which the weights of words are fixed")
    warmup_candidates: Candidates = False

    @property
    def square_max(self) -> float:
        return Texts.SQUARE_MAX

    def encoder(self, configuration: Configuration) -> Vocabulary:
        return Vocabulary(self.warmup, 0, {TEXT: Texts.NAME}, buckets=self.dim)

    def record(self, x: Mapping[str, Any]) -> Record:
        """Return the record of the single value."""
        return text_record(x.get(TEXT))

    def of_fields(self, data: Mapping[str, Any]) -> str:
        """Return the field `x` or `text`, or the only string."""
        for name in ("x", TEXT):
            if isinstance(data.get(name), str):
                return str(data[name])
        texts = [value for name, value in data.items() if isinstance(value, str) and not name.startswith("_")]
        if len(texts) != 1:
            raise Invalid(f"a task's data needs a text under {TEXT!r}, or a single string; it has {len(texts)} strings")
        return texts[0]

    def columns_of(self, configuration: Configuration, reader: Reader[Any]) -> list[tuple[str, str, Sequence[int]]]:
        return [("x", "BYTES", [-1, 1])]

    def shown(self, inputs: Inputs, r: int) -> Any:
        assert isinstance(inputs, Records)  # noqa: S101  `check_form`
        return inputs.records[r].get(TEXT, "")
