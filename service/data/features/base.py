"""The base of a kind of features. Everything particular to a kind is in its class.

A new kind is a class in a file of this folder, and an entry in the list of catalogue.py. A class that does not define
what `Features` requires is refused at import.
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

if TYPE_CHECKING:  # parts.py imports this module
    from hinged.service.data.parts import Configuration

Candidates = Annotated[
    StrictBool,
    Field(description="whether candidates count for the warm-up as soon as they are offered, without labels"),
]


class Features(Part):
    """The form of x in a model, as its configuration declares it.

    X: the type of an x in a body; ONE: parses a single x.
    NEW: parts of features in a new model that leaves them out. Features from a log, or named in a change, have the
    fields' defaults instead.
    IN_ROWS: whether x is a row of numbers, which a client may send as bytes.
    """

    X: ClassVar[Any]
    ONE: ClassVar[TypeAdapter[Any]]
    NEW: ClassVar[Mapping[str, Any]] = {"warmup_candidates": True}
    IN_ROWS: ClassVar[bool] = False

    if TYPE_CHECKING:  # fields, or properties that follow from them

        @property
        def type(self) -> str: ...
        @property
        def dim(self) -> int: ...
        @property
        def warmup_candidates(self) -> bool: ...

    # -- as a part of a configuration -----------------------------------------------------------------------------

    def of_new_model(self, gamma: float | str | None) -> Mapping[str, Any]:
        """Return the parts that a new model gets if the client leaves them out. gamma: the kernel's, as the client gave
        it.
        """
        return self.NEW

    def check(self, dim_max: int) -> None:
        """Raise Invalid if the features contradict each other, or are wider than this server allows."""
        if self.dim > dim_max:
            raise Invalid(f"features.dim must be at most {dim_max}, got {self.dim}")

    @property
    def scaled(self) -> bool:
        """Whether x is kept as it came, in float64, and scaled for the solver."""
        return False

    @property
    @abstractmethod
    def square_max(self) -> float | None:
        """The largest x.x, up to rounding; None if x is used as it is."""

    @abstractmethod
    def examples_of_warmup(self, configuration: Configuration) -> int:
        """Return the number of examples of the warm-up, 0 if nothing has to be found by one."""

    def is_picture(self, rows: int, columns: int) -> bool:
        """Return whether an x may be shown as a picture with these rows and columns."""
        return False

    @property
    def in_order(self) -> bool:
        """Whether the meaning of an x depends on the x before it in its request."""
        return False

    @abstractmethod
    def encoder(self, configuration: Configuration) -> Encoder[Any, Any] | None:
        """Return what turns x into rows for the solver; None if x is used as it is."""

    # -- reading --------------------------------------------------------------------------------------------------

    @abstractmethod
    def inputs(self, xs: Sequence[Any], configuration: Configuration, places: Sequence[int] | None = None) -> Inputs:
        """Return the canonical form of a batch. Invalid says which example is wrong, and how. places: the index of each
        x.
        """

    @abstractmethod
    def of_fields(self, data: Mapping[str, Any]) -> Any:
        """Return the x of another program's task, from the fields of its data. Invalid if it has none."""

    @abstractmethod
    def columns_of(self, configuration: Configuration, reader: Reader[Any]) -> list[tuple[str, str, Sequence[int]]]:
        """Return the tensors in which x may come: for each its name, datatype (`FP64`, `BYTES`) and shape."""

    # -- what is held ---------------------------------------------------------------------------------------------

    @abstractmethod
    def shown(self, inputs: Inputs, r: int) -> Any:
        """Return the x of row r as it goes over the wire."""

    @abstractmethod
    def examples(self, configuration: Configuration) -> Inputs:
        """Return a few x that no stream has brought, to try a state with."""

    def is_fit(self, inputs: Inputs, configuration: Configuration) -> bool:
        """Return whether a batch has the form that the configuration needs."""
        return True

    def fit(self, inputs: Inputs, configuration: Configuration) -> Inputs:
        """Return a batch in that form. BadRow for an x that cannot take it."""
        return inputs

    @abstractmethod
    def check_form(self, inputs: Inputs, configuration: Configuration) -> None:
        """Raise ValueError for a batch that does not have the form of these features."""

    @abstractmethod
    def check_held(self, batches: Sequence[Inputs], configuration: Configuration, kernel: Kernel) -> bool:
        """Return whether batches of a snapshot, at least one, have these features. ValueError for a row that is too
        large.
        """
