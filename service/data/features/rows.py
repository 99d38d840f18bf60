"""Dense and sparse features: rows of numbers, in the form that a configuration needs.

x is an array of numbers (dense) or {"indices": [...], "values": [...]} (sparse). A model accepts both. Learning,
storing and comparing use one canonical form: the non-zero features in ascending order.

If the server scales features, rows are stored unscaled, in float64, as (indptr, indices, values). The norms and selves
of these rows are 0, and the rows have no measure, because no kernel reads unscaled rows. Otherwise, rows are stored in
the form that the kernel and the precision use.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from hinged.service.data.features.base import Candidates, Features
from hinged.service.data.features.observing import Encoder
from hinged.service.data.features.observing import Field as Seen
from hinged.service.data.features.reader import Reader
from hinged.service.data.features.records import NUMBER_MAX
from hinged.service.data.features.scaling import Scaling
from hinged.service.data.inputs import Inputs, join_inputs
from hinged.service.data.part import AUTO
from hinged.service.errors import Invalid
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.rows import BadRow, Rows, ordered, rows_from_csr, rows_from_dense
from hinged.solvers.estimators.scaling import CLIP, PLAIN

if TYPE_CHECKING:  # parts.py imports this module
    from hinged.service.data.parts import Configuration

Array = np.ndarray[Any, Any]

WARMUP = 1000  # maximum number of examples in the warm-up
CENTRED_MAX = 2**14  # maximum number of columns if they are centred, because centred columns are dense in every row
CELL_CHARS_MAX = 2**18
"""Maximum length of an x that is given as JSON text, in characters. Such an x is parsed in one step of 3 ms."""
X_IS = 'x must be an array of numbers or {"indices": [...], "values": [...]}'

# Refuse a body at its first wrong element: millions of errors would fill the memory.
Numbers = Annotated[list[float], Field(fail_fast=True)]
Index = Annotated[int, Field(ge=0, lt=2**31)]


@with_config(ConfigDict(extra="forbid", strict=True))
class SparseX(TypedDict):
    """A sparse row."""

    indices: Annotated[list[Index], Field(fail_fast=True)]
    values: Numbers


XInRows = Numbers | SparseX


class RowFeatures(Features):
    """The width of x, its usual form (both forms are accepted), and the scaling of its numbers.

    In a configuration from before scaling existed, features are not scaled.
    """

    model_config = ConfigDict(title="Features")
    X: ClassVar[Any] = XInRows
    ONE: ClassVar[TypeAdapter[Any]] = TypeAdapter(XInRows, config=ConfigDict(strict=True))
    IN_ROWS: ClassVar[bool] = True

    type: Literal["dense", "sparse"]
    dim: int = Field(gt=0)
    scale: Literal["auto"] | None = Field(
        None, description='"auto": columns are scaled as the warm-up shows; null: numbers are used as they are'
    )
    warmup: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="examples after which scales and gamma are fixed; null: 1000, or fewer if the model holds fewer",
    )
    warmup_candidates: Candidates = False

    # -- as a part of a configuration -----------------------------------------------------------------------------

    def of_new_model(self, gamma: float | str | None) -> Mapping[str, Any]:
        """Return "auto" for scale, with two exceptions: gamma is a number (which refers to unscaled x), or too many
        columns would be centred.
        """
        wide = self.type == "dense" and self.dim > CENTRED_MAX
        return {**self.NEW, "scale": None if wide or isinstance(gamma, float) else AUTO}

    def check(self, dim_max: int) -> None:
        """Raise Invalid as the base class does, and also if too many columns would be centred."""
        super().check(dim_max)
        if self.scaled and self.type == "dense" and self.dim > CENTRED_MAX:
            raise Invalid(
                f'features.scale: "auto" centres dense features, so dim must be at most {CENTRED_MAX}, got {self.dim}; '
                "sparse features are not centred"
            )

    @property
    def scaled(self) -> bool:
        return self.scale is not None

    @property
    def square_max(self) -> float | None:
        return CLIP**2 * self.dim if self.scaled else None

    def examples_of_warmup(self, configuration: Configuration) -> int:
        """Return the number of examples of the warm-up. Return 0 if no warm-up is needed.

        The default is at most the number of examples that the model can contain, so that the whole warm-up is still
        there at its end.
        """
        if not self.scaled and not isinstance(configuration.gamma, str):
            return 0
        if self.warmup is not None:
            return self.warmup
        half_life = configuration.half_life
        spans = [span for span in (configuration.window, half_life and half_life.window) if span is not None]
        held = [configuration.points_max, *(span.examples for span in spans)]
        return min([WARMUP, *(most for most in held if most is not None)])

    def is_picture(self, rows: int, columns: int) -> bool:
        return self.type == "dense" and rows * columns == self.dim

    def encoder(self, configuration: Configuration) -> Scaling | None:
        if configuration.warmup == 0:
            return None
        return Scaling(self.type if self.scaled else PLAIN, self.dim, configuration.warmup)

    def fields(self, encoder: Encoder[Any, Any] | None, most: int) -> list[Seen]:
        found = super().fields(encoder, most)
        if self.type == "dense" and not found:
            return [Seen(str(k), ("number",), {}, np.array([k])) for k in range(min(self.dim, most))]
        return found

    # -- reading --------------------------------------------------------------------------------------------------

    def inputs(self, xs: Sequence[Any], configuration: Configuration, places: Sequence[int] | None = None) -> Rows:
        """Return the canonical rows of a batch. The error Invalid says which example is wrong, and how. places: the
        index of each x.
        """
        dim = self.dim
        try:
            if all(isinstance(x, list) and len(x) == dim for x in xs):
                return dense_rows(_matrix(xs, dim), configuration)
            indices: list[Sequence[int]] = []
            values: list[list[float]] = []
            ends = [0]
            for index, x in enumerate(xs):
                if isinstance(x, list):
                    if len(x) != dim:
                        raise BadRow(index, f"expected {dim} features, got {len(x)}")  # noqa: TRY301
                    indices.append(range(dim))
                    values.append(x)
                else:
                    if len(x["indices"]) != len(x["values"]):
                        raise BadRow(  # noqa: TRY301
                            index, f"{len(x['indices'])} indices, but {len(x['values'])} values"
                        )
                    indices.append(x["indices"])
                    values.append(x["values"])
                ends.append(ends[-1] + len(values[-1]))
            features = np.fromiter(chain.from_iterable(indices), np.int64, ends[-1])
            numbers = np.fromiter(chain.from_iterable(values), np.float64, ends[-1])
            return sparse_rows(np.array(ends), features, numbers, configuration)
        except BadRow as error:
            index = places[error.row] if places else error.row
            raise Invalid(f"examples[{index}].x: {error.reason}", index=index) from None

    def of_fields(self, data: Mapping[str, Any]) -> Any:
        """Return the field `x`, which may be JSON in the cell of a table."""
        x = data.get("x")
        if isinstance(x, str):
            if len(x) > CELL_CHARS_MAX:
                raise Invalid(
                    f"a task's x, if it is a text, must have at most {CELL_CHARS_MAX} characters, got {len(x)}"
                )
            try:
                x = json.loads(x)
            except (ValueError, RecursionError):
                x = None
        if not isinstance(x, list | dict):
            raise Invalid("a task's data needs x, numbers or indices and values: the model's features have no names")
        return x

    def columns_of(self, configuration: Configuration, reader: Reader[Any]) -> list[tuple[str, str, Sequence[int]]]:
        wide = self.scaled or configuration.precision == "float64"
        return [("x", "FP64" if wide else "FP32", [-1, self.dim])]

    # -- what is held ---------------------------------------------------------------------------------------------

    def shown(self, inputs: Inputs, r: int) -> Any:
        assert isinstance(inputs, Rows)  # noqa: S101  `check_form`
        first, last = inputs.indptr[r], inputs.indptr[r + 1]
        # Use the shortest decimal that equals this number in the model's precision: 0.1, not 0.10000000149011612.
        values = [float(str(value)) for value in inputs.values[first:last]]
        if self.type == "sparse":
            return {"indices": inputs.indices[first:last].tolist(), "values": values}
        x = [0.0] * inputs.dim
        for index, value in zip(inputs.indices[first:last].tolist(), values, strict=True):
            x[index] = value
        return x

    def examples(self, configuration: Configuration) -> Rows:
        """Return a zero row, and rows with the first and the last column."""
        indptr, indices = np.array([0, 0, 1, 2]), np.array([0, self.dim - 1])
        return sparse_rows(indptr, indices, np.array([1.0, -0.5]), configuration)

    def is_fit(self, inputs: Inputs, configuration: Configuration) -> bool:
        if not isinstance(inputs, Rows):
            return False
        if not self.scaled:
            return inputs.fits(configuration.kernel.build(), configuration.dtype)
        return inputs.measure is None and inputs.values.dtype == np.float64

    def fit(self, inputs: Inputs, configuration: Configuration) -> Rows:
        assert isinstance(inputs, Rows)  # noqa: S101  `check_form`
        if self.is_fit(inputs, configuration):
            return inputs
        return sparse_rows(inputs.indptr, inputs.indices, inputs.values, configuration)

    def check_form(self, inputs: Inputs, configuration: Configuration) -> None:
        if not isinstance(inputs, Rows):
            raise ValueError("x does not have the form of the model's features")  # noqa: TRY004  the caller's types are right
        if not self.is_fit(inputs, configuration) or inputs.dim != self.dim:
            raise ValueError(
                f"rows must have {self.dim} features in the form of the model's configuration, got {inputs.dim} in "
                f"{inputs.values.dtype} and sizes of {inputs.measure}"
            )

    def check_held(self, batches: Sequence[Inputs], configuration: Configuration, kernel: Kernel) -> bool:
        dim, dtype = self.dim, np.float64 if self.scaled else configuration.dtype
        rows = [batch for batch in batches if isinstance(batch, Rows)]
        if len(rows) < len(batches) or any(batch.dim != dim or batch.values.dtype != dtype for batch in rows):
            return False
        x = join_inputs(rows)
        assert isinstance(x, Rows)  # noqa: S101  checked above
        if self.scaled:
            self.fit(x, configuration)
            return True
        found = rows_from_csr(x.indptr, x.indices, x.values, kernel, dim, dtype)
        return np.allclose(x.norms, found.norms, 1e-4) and np.allclose(x.selves, found.selves, 1e-4)


def dense_rows(X: Array, configuration: Configuration) -> Rows:
    """Return the rows of a matrix (m, dim). Raise BadRow for a row that does not fit this configuration."""
    dim = configuration.features.dim
    if not configuration.scaled:
        return rows_from_dense(X, configuration.kernel.build(), dim, configuration.dtype)
    if X.ndim != 2:
        raise ValueError(f"a batch must have two axes (rows, features), got {X.ndim}")
    if X.shape[1] != dim:
        raise BadRow(0, f"expected {dim} features, got {X.shape[1]}")
    held = X != 0
    indptr = np.concatenate(([0], np.cumsum(held.sum(axis=1))))
    indices, values = np.nonzero(held)[1].astype(np.int32), X[held].astype(np.float64)
    _check_numbers(indptr, indices, values)
    return _as_they_came(indptr, indices, values, dim)


def sparse_rows(indptr: Array, indices: Array, values: Array, configuration: Configuration) -> Rows:
    """Return the rows of a CSR batch with columns in any order. Raise BadRow for a row that does not fit the
    configuration.
    """
    dim = configuration.features.dim
    if not configuration.scaled:
        return rows_from_csr(indptr, indices, values, configuration.kernel.build(), dim, configuration.dtype)
    indptr, values = np.asarray(indptr, np.int64), np.asarray(values, np.float64)
    _check_numbers(indptr, indices, values)
    return _as_they_came(*ordered(indptr, indices, values, dim, np.float64), dim)


def rows_of(X: Array, configuration: Configuration, begin: int = 0) -> Rows:
    """Return the canonical rows of a matrix (m, dim). The error Invalid says which row is wrong, and how. begin: the
    index of the first row.
    """
    try:
        return dense_rows(X, configuration)
    except BadRow as error:
        raise Invalid(f"x[{begin + error.row}]: {error.reason}", index=begin + error.row) from None


def _matrix(xs: Sequence[Sequence[float]], dim: int) -> Array:
    """Return lists of dim floats as a matrix. NumPy's own conversion takes nearly twice as long for lists."""
    matrix: Array = np.empty((len(xs), dim))
    struct.pack_into(f"{matrix.size}d", matrix.data, 0, *chain.from_iterable(xs))
    return matrix


def _check_numbers(indptr: Array, indices: Array, values: Array) -> None:
    wrong = np.flatnonzero(~(np.abs(values) <= NUMBER_MAX))  # this test also finds NaN
    if wrong.size:
        p = int(wrong[0])
        reason = f"numbers must be finite and at most {NUMBER_MAX:g} from 0"
        raise BadRow(
            int(np.searchsorted(indptr, p, side="right")) - 1, f"feature {indices[p]} is {values[p]}; {reason}"
        )


def _as_they_came(indptr: Array, indices: Array, values: Array, dim: int) -> Rows:
    zeros = np.zeros(indptr.size - 1)
    return Rows(indptr, indices, values, zeros, zeros, dim)
