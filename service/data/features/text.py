"""Text features: x is a string, stored as a record with one name. Its words are counted, or embedded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter

from hinged.service.data.features.base import Candidates
from hinged.service.data.features.columns.texts import BUCKETS, Texts
from hinged.service.data.features.embeddings.encoder import Embedding
from hinged.service.data.features.embeddings.named import EMBEDDING_NAME, embedding_named
from hinged.service.data.features.embeddings.static import StaticWords
from hinged.service.data.features.named import RecordFeatures
from hinged.service.data.features.reader import Reader
from hinged.service.data.features.records import TEXT, Record, TextX, text_record
from hinged.service.data.features.vocabulary import Vocabulary
from hinged.service.data.inputs import Inputs, Records, sizes_of
from hinged.service.errors import Invalid

if TYPE_CHECKING:  # parts.py imports this module
    from hinged.service.data.parts import Configuration


DIM_MIN = 2**8  # columns of counted words
EMBEDDED_WORK = 3  # cost of a character of a new word in an embedding, in characters whose words are counted
TEXT_WORK = 20  # cost of a text apart from its words, in characters


class TextFeatures(RecordFeatures):
    """x is a text. Its words and pairs of words are counted (texts.py), or it becomes a vector (embeddings/)."""

    X: ClassVar[Any] = TextX
    ONE: ClassVar[TypeAdapter[Any]] = TypeAdapter(TextX)
    LONE: ClassVar[str | None] = TEXT

    type: Literal["text"]
    dim: int = Field(BUCKETS, ge=1, lt=2**31, description="columns among which a hash spreads the words, 256 or more")
    warmup: int = Field(1000, ge=1, le=100_000, description="texts after which the weights of words are fixed")
    warmup_candidates: Candidates = False
    embedding: str | None = Field(
        None,
        pattern=EMBEDDING_NAME,
        description="what turns a text into a vector: wordllama, or the name of a folder in HINGED_EMBEDDINGS; null: "
        "words and pairs of words are counted",
    )
    embedding_sha256: str | None = Field(
        None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of the embedding's files; the server finds it, or checks it if the client gives it",
    )

    # -- the embedding --------------------------------------------------------------------------------------------

    def of_new_model(self, gamma: float | str | None) -> Mapping[str, Any]:
        """Return the parts that a new model gets. With an embedding, they include its width and its SHA-256."""
        if self.embedding is None:
            return self.NEW
        found = self._found(self.embedding)
        return {**self.NEW, "dim": found.width, "embedding_sha256": found.digest}

    def check(self, dim_max: int) -> None:
        """Raise Invalid as the base class does, and also if the embedding is missing or not the declared one."""
        super().check(dim_max)
        if self.embedding is None:
            if self.embedding_sha256 is not None:
                raise Invalid("features.embedding_sha256 needs features.embedding, got null")
            if self.dim < DIM_MIN:
                raise Invalid(f"features.dim must be at least {DIM_MIN}, got {self.dim}")
            return
        width = self._declared(self.embedding).width
        if self.dim != width:
            raise Invalid(f"features.dim must be {width} with this embedding, got {self.dim}")

    def _found(self, name: str) -> StaticWords:
        try:
            return embedding_named(name)
        except ValueError as error:
            raise Invalid(f"features.embedding: {error}") from None

    def _declared(self, name: str) -> StaticWords:
        """Return the embedding. Raise Invalid if it is missing or not the declared one.

        The error is no ValueError, so the server does not take a snapshot for damaged if only the package differs.
        """
        found = self._found(name)
        if found.digest != self.embedding_sha256:
            raise Invalid(
                f"features.embedding_sha256: the installed {name} has {found.digest}, "
                f"got {self.embedding_sha256}; install the version of {name} that the model has learned with"
            )
        return found

    def examples_of_warmup(self, configuration: Configuration) -> int:
        """Return 0 if only gamma would need a warm-up, and gamma is known."""
        known = self.embedding is not None and not isinstance(configuration.gamma, str)
        return 0 if known else super().examples_of_warmup(configuration)

    def sizes(self, inputs: Inputs) -> tuple[int, int]:
        values, characters = sizes_of(inputs)
        characters += TEXT_WORK * len(inputs)
        if self.embedding is None:
            return values, characters
        return max(values, self.dim * len(inputs)), EMBEDDED_WORK * characters

    @property
    def usual_kernel(self) -> str:
        return "linear" if self.embedding is None else "rbf"

    # -- as other features ----------------------------------------------------------------------------------------

    @property
    def square_max(self) -> float:
        return Texts.SQUARE_MAX

    def encoder(self, configuration: Configuration) -> Vocabulary | Embedding:
        if self.embedding is not None:
            return Embedding(self._declared(self.embedding), configuration.warmup)
        return Vocabulary(self.warmup, 0, {TEXT: Texts.NAME}, buckets=self.dim)

    def record(self, x: Mapping[str, Any]) -> Record:
        """Return the record of the single value."""
        return text_record(x.get(TEXT))

    def of_fields(self, data: Mapping[str, Any]) -> str:
        """Return the field `x` or `text`. If both are missing, return the only string."""
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
