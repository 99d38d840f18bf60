"""The base class of the kinds of features. Everything particular to a kind is in its class.

To add a new kind, write a class in a file of this folder, and add it to the list in catalogue.py. If a class does not
define everything that `Features` requires, its import fails.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, StrictBool, TypeAdapter

from hinged.service.data.features.observing import Encoder
from hinged.service.data.features.observing import Field as Seen
from hinged.service.data.features.reader import Reader
from hinged.service.data.inputs import Inputs, sizes_of
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
    """The form of x in a model, as the model's configuration declares it.

    X: the type of an x in a body. ONE: parses a single x.
    NEW: the values of parts that the configuration of a new model leaves out. Features from a log, or features
    named in a change, have the defaults of the fields instead.
    IN_ROWS: whether x is a row of numbers. A client may send rows of numbers as bytes.
    MAY_LACK: whether x may lack a value.
    """

    X: ClassVar[Any]
    ONE: ClassVar[TypeAdapter[Any]]
    NEW: ClassVar[Mapping[str, Any]] = {"warmup_candidates": True}
    IN_ROWS: ClassVar[bool] = False
    MAY_LACK: ClassVar[bool] = False

    if TYPE_CHECKING:  # fields, or properties that depend on fields

        @property
        def type(self) -> str: ...
        @property
        def dim(self) -> int: ...
        @property
        def warmup_candidates(self) -> bool: ...

    # -- as a part of a configuration -----------------------------------------------------------------------------

    def of_new_model(self, gamma: float | str | None) -> Mapping[str, Any]:
        """Return the parts that a new model gets if the client leaves them out. gamma: the kernel's gamma, as given by
        the client.
        """
        return self.NEW

    @property
    def usual_kernel(self) -> str:
        """Return the kernel of a new model that names none."""
        return "rbf"

    def check(self, dim_max: int) -> None:
        """Raise Invalid if the features contradict each other, or if they have more columns than this server allows."""
        if self.dim > dim_max:
            raise Invalid(f"features.dim must be at most {dim_max}, got {self.dim}")

    @property
    def scaled(self) -> bool:
        """Return whether x is stored unscaled, in float64, and scaled for the solver."""
        return False

    @property
    @abstractmethod
    def square_max(self) -> float | None:
        """Return the largest possible x.x, up to rounding. Return None if x is used as it is."""

    @abstractmethod
    def examples_of_warmup(self, configuration: Configuration) -> int:
        """Return the number of examples of the warm-up. Return 0 if no warm-up is needed."""

    def is_picture(self, rows: int, columns: int) -> bool:
        """Return whether an x may be shown as a picture with these rows and columns."""
        return False

    @property
    def in_order(self) -> bool:
        """Return whether the meaning of an x depends on the previous x in its request."""
        return False

    @abstractmethod
    def encoder(self, configuration: Configuration) -> Encoder[Any, Any] | None:
        """Return an encoder, which turns x into rows for the solver. Return None if x is used as it is."""

    def fields(self, encoder: Encoder[Any, Any] | None, most: int) -> list[Seen]:
        """Return what the first `most` names became, or the first columns if they have no names."""
        return [] if encoder is None else encoder.fields(most)

    # -- reading --------------------------------------------------------------------------------------------------

    @abstractmethod
    def inputs(self, xs: Sequence[Any], configuration: Configuration, places: Sequence[int] | None = None) -> Inputs:
        """Return the canonical form of a batch. The error Invalid says which example is wrong, and how. places: the
        index of each x.
        """

    @abstractmethod
    def of_fields(self, data: Mapping[str, Any]) -> Any:
        """Return the x of another program's task from the fields of the task's data. Raise Invalid if there is no x."""

    @abstractmethod
    def columns_of(self, configuration: Configuration, reader: Reader[Any]) -> list[tuple[str, str, Sequence[int]]]:
        """Return the name, datatype (`FP64`, `BYTES`) and shape of each tensor in which x may be sent."""

    def sizes(self, inputs: Inputs) -> tuple[int, int]:
        """Return (values, characters): the rough amount of each that the prediction of a batch reads."""
        return sizes_of(inputs)

    # -- what is held ---------------------------------------------------------------------------------------------

    @abstractmethod
    def shown(self, inputs: Inputs, r: int) -> Any:
        """Return the x of row r in the form that clients get."""

    @abstractmethod
    def examples(self, configuration: Configuration) -> Inputs:
        """Return a few artificial x, to test a state."""

    def is_fit(self, inputs: Inputs, configuration: Configuration) -> bool:
        """Return whether a batch has the form that the configuration needs."""
        return True

    def fit(self, inputs: Inputs, configuration: Configuration) -> Inputs:
        """Return a batch in the form that the configuration needs. Raise BadRow for an x that cannot be converted."""
        return inputs

    @abstractmethod
    def check_form(self, inputs: Inputs, configuration: Configuration) -> None:
        """Raise ValueError for a batch that does not have the form of these features."""

    @abstractmethod
    def check_held(self, batches: Sequence[Inputs], configuration: Configuration, kernel: Kernel) -> bool:
        """Return whether the batches of a snapshot, at least one, have these features. Raise ValueError for a row that
        is too large.
        """
