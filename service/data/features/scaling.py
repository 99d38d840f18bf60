"""Scaling of dense and sparse features, determined by the first examples.

The first `warmup` examples are observed. After 1, 2, 4, 8 ... examples, and finally at the end, `freeze` fixes the
scale of each column from the examples observed so far. solvers/estimators/scaling.py describes how. The same rows
determine gamma. A scale of the form "plain" leaves the numbers unchanged and only determines gamma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hinged.service.data.features.observing import Encoder, Field
from hinged.service.data.features.reader import OUTSIDE_SHOWN, Outside, Reader
from hinged.service.data.features.records import NUMBER_MAX, SCALE_MAX
from hinged.service.data.features.spread import Spread, spread_of
from hinged.service.data.inputs import inputs_state, read_inputs
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.rows import Rows, joined, rows_from_csr, rows_from_dense
from hinged.solvers.core.states import StateReader
from hinged.solvers.estimators.scaling import (
    BENT_MAX,
    CLIP,
    CSR,
    DENSE,
    PLAIN,
    Scale,
    found,
    matrix_of,
    plain,
    usual,
)

Array = np.ndarray[Any, Any]

PARTS = ("columns", "middle", "unit", "mean", "scale")
SPREAD_MAX = 1e80  # maximum spread of rows with norms up to NORM_MAX; the Laplacian kernel has the norm |x|_1


@dataclass(frozen=True, slots=True)
class ScaleReader(Reader[Rows]):
    """A reader with the scale that exists when the reader is made. Any thread may use the reader."""

    scale: Scale

    def rows(self, inputs: Rows, kernel: Kernel, dim: int, dtype: type) -> Rows:
        if self.scale.form == PLAIN and inputs.fits(kernel, dtype):
            return inputs
        csr = _csr(inputs)
        if self.scale.form == DENSE:
            return rows_from_dense(self.scale.matrix(matrix_of(csr, dim)), kernel, dim, dtype)
        return rows_from_csr(*self.scale.rows(csr), kernel, dim, dtype)

    def seen(self, inputs: Rows, kernel: Kernel, dim: int, dtype: type) -> tuple[Rows, Outside]:
        rows = self.rows(inputs, kernel, dim, dtype)
        if self.scale.form == PLAIN:
            return rows, {}
        far = np.flatnonzero(np.abs(rows.values) >= CLIP)
        if not far.size:
            return rows, {}
        places, begins = np.unique(np.searchsorted(rows.indptr, far, side="right") - 1, return_index=True)
        columns = np.split(rows.indices[far], begins[1:])
        return rows, {r: of_row[:OUTSIDE_SHOWN].tolist() for r, of_row in zip(places.tolist(), columns, strict=True)}


class Scaling(Encoder[Rows, Rows]):
    """The encoder of a model with dense or sparse features. The encoder has the scale, and the spread that determines
    gamma.

    Each example is observed as a batch of one.
    """

    NAME, ITEMS, FIRST = "scaling", "examples", 1

    def __init__(self, form: str, dim: int, warmup: int) -> None:
        if not warmup > 0:
            raise ValueError(f"warmup must be > 0, got {warmup}")
        super().__init__(warmup)
        self.form, self.dim = form, dim
        self._scale: Scale | None = None  # None before the first example

    def __len__(self) -> int:
        return 0 if self._scale is None else self.dim

    # -- the warm-up ----------------------------------------------------------------------------------------------

    def freeze(self) -> CSR:
        empty = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)
        csr = _csr(joined(self.observed)) if self.observed else empty
        self._scale = found(self.form, csr, self.dim) if self.observed else None
        scaled = csr if self._scale is None else self._scale.rows(csr)
        self.spread = spread_of(scaled)
        self._end_if_whole()
        return scaled

    def items(self, inputs: Rows) -> list[Rows]:
        return [inputs.part(r, r + 1) for r in range(len(inputs))]

    def rows(self, inputs: Rows, kernel: Kernel, dim: int, dtype: type) -> Rows:
        return self.reader().rows(inputs, kernel, dim, dtype)

    def reader(self) -> ScaleReader:
        return ScaleReader(plain(self.dim) if self._scale is None else self._scale)

    def examples(self, most: int) -> list[Rows]:
        """Return some of the observed examples."""
        return self.observed[:most]

    def fields(self, most: int) -> list[Field]:
        scale = self._scale
        if scale is None or scale.form != DENSE:
            return []
        ends = usual(*(part[:most] for part in (scale.middle, scale.unit, scale.mean, scale.scale))).tolist()
        return [Field(str(k), ("number",), {}, np.array([k]), (low, high)) for k, (low, high) in enumerate(ends)]

    def figures(self) -> dict[str, Any]:
        return {"warmup_left": self.left}

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scale = self._scale
        facts: dict[str, Any] = {"warming": self.warming, "begun": scale is not None, "observed": {}}
        arrays = {"spread": np.array([self.spread.square, self.spread.absolute, self.spread.inner])}
        if self.observed:
            facts["observed"], rows = inputs_state(joined(self.observed))
            arrays |= {f"observed.{name}": array for name, array in rows.items()}
        if scale is not None:
            arrays |= {name: getattr(scale, name).copy() for name in PARTS} | {"rest": np.array([scale.rest])}
        return facts, arrays

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        warming, begun = facts["warming"], facts["begun"]
        if type(warming) is not bool or type(begun) is not bool:
            raise ValueError("warming and begun must be true or false")
        observed: list[Rows] = []
        if facts["observed"]:
            own = {name.removeprefix("observed."): array for name, array in arrays.items()}
            rows = read_inputs(facts["observed"], own)
            if not isinstance(rows, Rows) or rows.dim != self.dim:
                raise ValueError(f"the observed examples must be rows of {self.dim} features")
            if rows.values.size and not float(np.abs(rows.values).max()) <= NUMBER_MAX:
                raise ValueError(f"numbers must be at most {NUMBER_MAX:g} from 0")
            observed = [rows.part(r, r + 1) for r in range(len(rows))]
        if not len(observed) < (self.warmup if warming else 1):
            raise ValueError(f"the state has observed {len(observed)} examples of a warm-up of {self.warmup}")
        if not begun and (observed or not warming):
            raise ValueError("a scale must begin with the first example")
        read = StateReader(arrays)
        spread = read.take("spread", np.float64, (3,), 0.0, SPREAD_MAX)
        scale = self._loaded(read) if begun else None
        if scale is None and spread.any():
            raise ValueError("without a scale, the spread must be 0")
        self.observed, self.warming, self._scale, self.spread = observed, warming, scale, Spread(*spread.tolist())

    def _loaded(self, read: StateReader) -> Scale:
        columns = read.take("columns", np.int64, (None,), 0, self.dim - 1)
        k = columns.size
        if (np.diff(columns) <= 0).any() or k != {DENSE: self.dim, PLAIN: 0}.get(self.form, k):
            raise ValueError(f"these are not the columns of {self.form} features of width {self.dim}")
        middle = read.take("middle", np.float64, (k,), -NUMBER_MAX, NUMBER_MAX)
        unit = read.take("unit", np.float64, (k,), 0.0, 2 * SCALE_MAX)
        mean = read.take("mean", np.float64, (k,), -NUMBER_MAX, NUMBER_MAX)
        scale = read.take("scale", np.float64, (k,), 0.0, 2 * SCALE_MAX)
        rest = float(read.take("rest", np.float64, (1,), 0.0, SCALE_MAX)[0])
        if not ((scale > 0).all() and rest > 0):
            raise ValueError("scales must be > 0")
        if self.form != DENSE and (middle.any() or mean.any()):
            raise ValueError("columns that keep their zeros must have no mean")
        if (np.abs(mean[unit > 0]) > BENT_MAX).any():
            raise ValueError(f"the mean of a bent column must be within {BENT_MAX}")
        return Scale(self.form, self.dim, columns, middle, unit, mean, scale, rest)


def _csr(rows: Rows) -> CSR:
    return rows.indptr, rows.indices.astype(np.int64), rows.values.astype(np.float64)
