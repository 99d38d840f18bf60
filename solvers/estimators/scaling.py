"""Scaling of columns, found from the first rows of a stream; the server and the estimators use it.

Dense columns, each by itself:

- A column of at most two values: (v - mean) / (difference of the two). The rule for heavy tails does not apply.
- A column with a heavy tail: v becomes bent(v - median, m), then as below. m is the median size of the deviations from
  the median, without zeros. The tail is heavy if the root mean square of these deviations is more than HEAVY times m.
- Any other column: (v - mean) / max(standard deviation, range / RANGE). The range matters for a nearly constant column,
  which carries little information, whatever its standard deviation is.
- A constant column: its size is the scale, or 1 if its size is 0.

Sparse columns keep their zeros. Each value v is divided by the root mean square of the column's non-zero values. Values
with a heavy tail are bent first (as above, with deviations from 0). So a column of 0 and 1 does not change. A column
without a non-zero value in the first rows gets the root mean square of all values. Rows that all have the same length
were normalised before, and do not change.

Scaled values are within -CLIP..CLIP. Multiplying columns by any positive factors does not change the result, except for
rounding. Sums are exact (fsum) and bending uses only arithmetic, so that every processor finds the same bits.

m     number of rows; n: number of rows from which the scales were found; k: number of columns with their own scale.
CSR   indptr (m + 1,) int64, indices (nnz,) int64 ascending within a row, values (nnz,) float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array = np.ndarray[Any, Any]
CSR: TypeAlias = tuple[Array, Array, Array]

CLIP = 5.0  # largest absolute value of a scaled number
HEAVY = 3.0
RANGE = 4.0
LARGEST = 1e100  # largest absolute value of a number: squares and sums of squares stay finite
LEAST = math.ldexp(1.0, -1000)
BENT_FROM = math.ldexp(1.0, 1000)
BENT_MAX = 1000
FLAT = 1e-15  # relative to the values: a smaller range is a rounding error
EVEN = 1e-3  # relative: rows whose lengths differ by less have the same length
AUTO = "auto"
"""The name of the only method of scaling."""

DENSE, SPARSE, PLAIN = "dense", "sparse", "plain"
"""Forms of a scale: centred; with zeros unchanged; no scaling."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale of the columns, which never changes.

    columns (k,) int64, ascending: for a dense scale all of 0..dim-1, for a plain scale no columns. middle, unit, mean,
    scale (k,) float64: v becomes (w - mean) / scale, where w is v or, with unit > 0, bent(v - middle, unit). rest: the
    scale of all other columns.
    """

    form: str
    dim: int
    columns: Array
    middle: Array
    unit: Array
    mean: Array
    scale: Array
    rest: float = 1.0

    def matrix(self, X: Array) -> Array:
        """Scale rows (m, dim) with a dense scale."""
        with np.errstate(over="ignore"):  # infinite values are clipped
            tails = np.flatnonzero(self.unit)
            Z: Array = np.array(X, np.float64)
            if tails.size:
                Z[:, tails] = bent(Z[:, tails] - self.middle[tails], self.unit[tails])
            Z -= self.mean
            Z /= self.scale
        return np.clip(Z, -CLIP, CLIP, out=Z)

    def values(self, indices: Array, values: Array) -> Array:
        """Scale values (nnz,) of these columns with a scale that keeps zeros."""
        if self.form == PLAIN:
            return np.asarray(values, np.float64)
        places = np.minimum(np.searchsorted(self.columns, indices), max(0, self.columns.size - 1))
        known = self.columns[places] == indices if self.columns.size else np.zeros(indices.size, bool)
        scale = np.full(indices.size, self.rest)
        scale[known] = self.scale[places[known]]
        with np.errstate(over="ignore"):
            found: Array = np.array(values, np.float64)
            unit = np.zeros(indices.size)
            unit[known] = self.unit[places[known]]
            tails = np.flatnonzero(unit)
            found[tails] = bent(found[tails], unit[tails])
            found /= scale
        return np.clip(found, -CLIP, CLIP, out=found)

    def rows(self, csr: CSR) -> CSR:
        """Scale the rows of a CSR batch."""
        indptr, indices, values = csr
        if self.form != DENSE:
            return indptr, indices, self.values(indices, values)
        Z = self.matrix(matrix_of(csr, self.dim))
        held = Z != 0
        ends = np.concatenate(([0], np.cumsum(held.sum(axis=1)))).astype(np.int64)
        # `nonzero` gives columns with strides; contiguous columns need no further compiling.
        return ends, np.ascontiguousarray(np.nonzero(held)[1]), Z[held]


def plain(dim: int) -> Scale:
    """Return the scale that leaves numbers unchanged."""
    return _scale_of(PLAIN, dim, [])


def found(form: str, csr: CSR, dim: int) -> Scale:
    """Find the scale of this form from n >= 1 rows. Raise ValueError for a number larger than LARGEST."""
    if csr[2].size and not np.abs(csr[2]).max() <= LARGEST:
        largest = csr[2][np.abs(csr[2]).argmax()]
        raise ValueError(f"numbers to be scaled must be within {LARGEST:g} of 0, got {largest:g}")
    if form == PLAIN:
        return plain(dim)
    n = csr[0].size - 1
    if form == DENSE:
        columns = dict.fromkeys(range(dim), (0.0, 0.0, 0.0, 1.0))
        for column, values in _by_column(csr):
            columns[column] = dense_column(np.concatenate((values, np.zeros(n - values.size))))
        return _scale_of(DENSE, dim, [(column, *facts) for column, facts in columns.items()])
    if _even(csr):
        return _scale_of(SPARSE, dim, [])
    facts = [(column, *_sparse_column(values)) for column, values in _by_column(csr)]
    return _scale_of(SPARSE, dim, facts, _root_mean_square(csr[2]) if csr[2].size else 1.0)


def until_found(observed: int, warmup: int, first: int = 1) -> int:
    """Return the number of examples until the next search for the scale."""
    return min(max(first, 1 << observed.bit_length()), warmup) - observed


def bent(values: Array, unit: Array | float) -> Array:
    """Return sign(u) log2(1 + |u|) for u = values / unit, with straight lines between the powers of 2.

    The result is constant for |u| beyond BENT_MAX.
    """
    with np.errstate(over="ignore"):
        u = values / unit
    fraction, exponent = np.frexp(1.0 + np.minimum(np.abs(u), BENT_FROM))
    return np.asarray(np.sign(u) * (exponent + 2.0 * fraction - 2.0))


def unbent(values: Array, unit: Array | float) -> Array:
    """Return the values that `bent` turns into these values, which are within BENT_MAX."""
    size = np.abs(values)
    whole = np.floor(size)
    return np.asarray(np.sign(values) * (np.ldexp(1.0 + size - whole, whole.astype(np.int64)) - 1.0) * unit)


def usual(middle: Array, unit: Array, mean: Array, scale: Array) -> Array:
    """Return (k, 2) the values that a scale turns into -1 and 1. The parts (k,) are as in `Scale`."""
    ends = mean[:, None] + scale[:, None] * np.array([-1.0, 1.0])
    tails = unit > 0
    ends[tails] = middle[tails, None] + unbent(ends[tails], unit[tails, None])
    return np.asarray(ends)


def matrix_of(csr: CSR, dim: int) -> Array:
    """Return the rows as (m, dim)."""
    indptr, indices, values = csr
    X = np.zeros((indptr.size - 1, dim))
    X[np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), indices] = values
    return X


def _scale_of(form: str, dim: int, facts: Sequence[tuple[float, ...]], rest: float = 1.0) -> Scale:
    columns, middle, unit, mean, scale = np.array(facts, np.float64).reshape(-1, 5).T.copy()
    return Scale(form, dim, columns.astype(np.int64), middle, unit, mean, scale, rest)


def _by_column(csr: CSR) -> Iterator[tuple[int, Array]]:
    """Yield each column that has non-zero values, and these values."""
    _, indices, values = csr
    order = np.argsort(indices, kind="stable")
    columns, begins = np.unique(indices[order], return_index=True)
    yield from zip(columns.tolist(), np.split(values[order], begins[1:]), strict=False)


def dense_column(values: Array) -> tuple[float, float, float, float]:
    """Return middle, unit, mean and scale of a column (n,)."""
    low, high = float(values.min()), float(values.max())
    if high - low <= FLAT * max(abs(low), abs(high)):
        return 0.0, 0.0, low, abs(low) or 1.0
    if ((values == low) | (values == high)).all():
        return 0.0, 0.0, _mean(values), high - low
    middle = float(np.median(values))
    unit = _tail(values - middle)
    w = bent(values - middle, unit) if unit else values
    mean = _mean(w)
    deviation = _root_mean_square(w - mean)
    return middle if unit else 0.0, unit, mean, max(deviation, float(w.max() - w.min()) / RANGE)


def _sparse_column(values: Array) -> tuple[float, float, float, float]:
    unit = _tail(values)
    return 0.0, unit, 0.0, _root_mean_square(bent(values, unit) if unit else values)


def _tail(deviations: Array) -> float:
    """Return the median size of the non-zero deviations if they have a heavy tail; else 0."""
    sizes = np.abs(deviations[deviations != 0])
    median = float(np.median(sizes)) if sizes.size else 0.0
    return median if sizes.size and _root_mean_square(sizes) > HEAVY * median else 0.0


def _even(csr: CSR) -> bool:
    """Return whether all rows that have values have the same length."""
    indptr, _, values = csr
    row_of = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    squares = np.bincount(row_of, np.square(values))
    lengths = np.sqrt(squares[squares > 0])
    return bool(lengths.size > 1 and lengths.max() - lengths.min() <= EVEN * lengths.max())


def _mean(values: Array) -> float:
    return math.fsum(values.tolist()) / values.size


def _root_mean_square(values: Array) -> float:
    """Return the root mean square, but at least the smallest normal float, because it is a divisor."""
    return max(math.sqrt(math.fsum(np.square(values).tolist()) / values.size), LEAST)
