"""What a kind of features is. All that there is to say of one stands in its class.

A new kind is a class in a file of this folder, and its place in the list of catalogue.py. A class that leaves open
what `Features` asks is refused at import.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, StrictBool, TypeAdapter

from hinged.service.data.features.observing import Encoder
from hinged.service.data.features.reader import Reader
from hinged.service.data.inputs import Inputs
from hinged.service.data.part import Part
from hinged.service.errors import Invalid
from hinged.solvers.core.kernels import Kernel

if TYPE_CHECKING:  # it imports this
    from hinged.service.data.parts import Configuration

Candidates = Annotated[
    StrictBool,
    Field(description="whether candidates count for the warm-up as soon as they are offered, without labels"),
]


class Features(Part):
    """What x may be in a model, as its configuration says it.

    X: the type of an x in a body; ONE: what reads an x alone. NEW: what new features have that say nothing of it;
    features that were written, or that a change names, have the fields' defaults. IN_ROWS: whether x is a row of
    numbers, which a client may send as bytes.
    """

    X: ClassVar[Any]
    ONE: ClassVar[TypeAdapter[Any]]
    NEW: ClassVar[Mapping[str, Any]] = {"warmup_candidates": True}
    IN_ROWS: ClassVar[bool] = False

    if TYPE_CHECKING:  # fields, or what follows from them

        @property
        def type(self) -> str: ...
        @property
        def dim(self) -> int: ...
        @property
        def warmup_candidates(self) -> bool: ...

    # -- as a part of a configuration -----------------------------------------------------------------------------

    def of_new_model(self, gamma: float | str | None) -> Mapping[str, Any]:
        """What a new model has where a client says nothing of it. gamma: the kernel's, as it was said."""
        return self.NEW

    def check(self, dim_max: int) -> None:
        """Invalid where they do not fit together, or are wider than this server allows."""
        if self.dim > dim_max:
            raise Invalid(f"features.dim must be at most {dim_max}, got {self.dim}")

    @property
    def scaled(self) -> bool:
        """Whether x is kept as it came, in float64, and a scale brings it to one measure."""
        return False

    @property
    @abstractmethod
    def square_max(self) -> float | None:
        """The largest x.x, but for rounding; None where x is taken as it is."""

    @abstractmethod
    def examples_of_warmup(self, configuration: Configuration) -> int:
        """Examples of the warm-up, 0 where nothing is found by one."""

    def is_picture(self, rows: int, columns: int) -> bool:
        """Whether an x may be shown as a picture of so many rows and columns."""
        return False

    @property
    def in_order(self) -> bool:
        """Whether what an x says depends on the one before it in its request."""
        return False

    @abstractmethod
    def encoder(self, configuration: Configuration) -> Encoder[Any, Any] | None:
        """What makes rows of x for the solver; None where they are taken as they are."""

    # -- reading --------------------------------------------------------------------------------------------------

    @abstractmethod
    def inputs(self, xs: Sequence[Any], configuration: Configuration, places: Sequence[int] | None = None) -> Inputs:
        """The canonical form of a batch. Invalid says which example is wrong and why; places: where each x stands."""

    @abstractmethod
    def of_fields(self, data: Mapping[str, Any]) -> Any:
        """The x of a task of another program, among the fields of its data. Invalid where it has none."""

    @abstractmethod
    def columns_of(self, configuration: Configuration, reader: Reader[Any]) -> list[tuple[str, str, Sequence[int]]]:
        """The tensors in which x may come: the name of each, its datatype (`FP64`, `BYTES`), its shape."""

    # -- what is held ---------------------------------------------------------------------------------------------

    @abstractmethod
    def shown(self, inputs: Inputs, r: int) -> Any:
        """The x of row r as it goes over the wire."""

    @abstractmethod
    def examples(self, configuration: Configuration) -> Inputs:
        """A few x that no stream has brought, by which a state is tried."""

    def is_fit(self, inputs: Inputs, configuration: Configuration) -> bool:
        """Whether a batch has the form that the configuration asks for."""
        return True

    def fit(self, inputs: Inputs, configuration: Configuration) -> Inputs:
        """A batch in that form. BadRow for an x that has none."""
        return inputs

    @abstractmethod
    def check_form(self, inputs: Inputs, configuration: Configuration) -> None:
        """ValueError for a batch that is not in the form of these features."""

    @abstractmethod
    def check_held(self, batches: Sequence[Inputs], configuration: Configuration, kernel: Kernel) -> bool:
        """Whether batches of a snapshot, one or more, are of these features. ValueError for a row too large."""
