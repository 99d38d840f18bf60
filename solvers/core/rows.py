"""Rows of examples in the form that solvers need: sparse, ascending, finite, in the model's precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.families import NORM_MAX
from hinged.solvers.core.kernels import (
    Kernel,
    measure_of,
    measures,
    row_norms,
)
from hinged.solvers.jit.compiled import compiled
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]


class BadRow(ValueError):
    """A row was refused; `row` is the number of the row in the batch."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")
        self.row = row
        self.reason = reason


@handed
class LabelledRows(NamedTuple):
    """Rows with their classes and keys, in the form that compiled code uses.

    indptr to selves: as in `Rows`. classes (m,) int64. keys (m,) int64. again: whether rows may be points already.
    """

    indptr: Array
    indices: Array
    values: Array
    norms: Array
    selves: Array
    classes: Array
    keys: Array
    again: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """A checked batch of sparse rows (CSR). Zeros are not stored, so equal points have equal arrays.

    indptr   (m + 1,) int64
    indices  (nnz,) int32  ascending within a row, in 0..dim-1.
    values   (nnz,) float32 or float64
    norms    (m,)  |x|^2, or |x|_1 for the Laplacian.
    selves   (m,)  k(x, x).
    measure  the kernel for which norms and selves were computed (`measure_of`), or None if unknown.
    """

    indptr: Array
    indices: Array
    values: Array
    norms: Array
    selves: Array
    dim: int
    measure: Kernel | None = None

    def fits(self, kernel: Kernel, dtype: type) -> bool:
        """Return whether the rows were prepared for this kernel and precision."""
        return measures(self.measure, kernel) and self.values.dtype == dtype

    def __len__(self) -> int:
        return int(self.norms.shape[0])

    def under(self, kernel: Kernel) -> Rows:
        """Return these rows with the norms and k(x, x) of this kernel. Raise BadRow as in `rows_from_csr`."""
        if measures(self.measure, kernel):
            return self
        return _with_norms(self.indptr, self.indices, self.values, kernel, self.dim)

    def labelled(self, classes: Array, keys: Array, *, again: bool = False) -> LabelledRows:
        """Return these rows with their classes (m,) and keys (m,), both int64, for learning."""
        return LabelledRows(self.indptr, self.indices, self.values, self.norms, self.selves, classes, keys, again)

    def part(self, begin: int, end: int) -> Rows:
        """Return the rows begin..end as a batch."""
        first, last = self.indptr[begin], self.indptr[end]
        return Rows(
            self.indptr[begin : end + 1] - first,
            self.indices[first:last],
            self.values[first:last],
            self.norms[begin:end],
            self.selves[begin:end],
            self.dim,
            self.measure,
        )

    def row(self, r: int) -> Rows:
        """Return a copy of one row as a batch. It does not keep the other rows in memory."""
        part = self.part(r, r + 1)
        indices, values, norms, selves = (x.copy() for x in (part.indices, part.values, part.norms, part.selves))
        return Rows(part.indptr, indices, values, norms, selves, self.dim, self.measure)

    def take(self, wanted: Array) -> Rows:
        """Return the rows with these numbers, ascending, as a batch."""
        begins = self.indptr[wanted]
        lengths = self.indptr[wanted + 1] - begins
        indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        source = np.repeat(begins - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Rows(
            indptr,
            self.indices[source],
            self.values[source],
            self.norms[wanted],
            self.selves[wanted],
            self.dim,
            self.measure,
        )


def joined(batches: list[Rows]) -> Rows:
    """Join several batches of the same precision, in order. There must be at least one batch."""
    if len(batches) == 1:
        return batches[0]
    indices, norms = [b.indices for b in batches], [b.norms for b in batches]
    sizes = np.array([each.size for each in indices])
    rows = np.array([each.size for each in norms])
    if (rows == 1).all():
        ends = np.cumsum(sizes)
    else:
        before = np.repeat(np.cumsum(sizes) - sizes, rows)  # values in the batches before the row's batch
        ends = np.concatenate([b.indptr[1:] for b in batches]) + before
    return Rows(
        np.concatenate(([0], ends)),
        _concatenated(indices, sizes),
        _concatenated([b.values for b in batches], sizes),
        _concatenated(norms, rows),
        _concatenated([b.selves for b in batches], rows),
        batches[0].dim,
        batches[0].measure if len({b.measure for b in batches}) == 1 else None,
    )


def _concatenated(arrays: list[Any], sizes: Array) -> Array:
    """Join contiguous arrays of these sizes. NumPy needs four times as long for a thousand arrays of a few values."""
    content, dtype = bytearray().join(arrays), arrays[0].dtype
    if len(content) != int(sizes.sum()) * dtype.itemsize:  # the arrays have several types
        return np.concatenate(arrays)
    return np.frombuffer(content, dtype)


@compiled
def _count_nonzero(X, indptr):
    """Fill indptr (m + 1,) for the non-zeros of X (m, dim). Return False if a number is not finite."""
    indptr[0] = 0
    finite = True
    for r in range(X.shape[0]):
        n = 0
        for f in range(X.shape[1]):
            n += X[r, f] != 0
            finite &= X[r, f] - X[r, f] == 0
        indptr[r + 1] = indptr[r] + n
    return finite


def rows_from_dense(X: Array, kernel: Kernel, dim: int, dtype: type = np.float32) -> Rows:
    """Check a dense batch (m, dim). Raise BadRow for a wrong width, NaN, infinity, or a number too large for dtype."""
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"a batch has two axes (rows, features), got {X.ndim}")
    if X.shape[1] != dim:
        raise BadRow(0, f"expected {dim} features, got {X.shape[1]}")
    with np.errstate(over="ignore"):
        narrow: Array = np.ascontiguousarray(X, dtype=dtype)
    indptr = np.empty(X.shape[0] + 1, np.int64)
    if not _count_nonzero(narrow, indptr):
        row, feature = (int(v) for v in np.argwhere(~np.isfinite(narrow))[0])
        raise BadRow(row, _not_finite(X[row, feature], feature, dtype))
    indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], dtype)
    sizes: Array = np.empty((2, X.shape[0]), dtype)
    _refuse_too_large(_take_nonzero(kernel, narrow, indptr, indices, values, sizes[0], sizes[1]))
    return Rows(indptr, indices, values, sizes[0], sizes[1], dim, measure_of(kernel))


@compiled
def _too_large(norms, selves):
    """Return the first row whose norm or kernel value with itself is too large, or -1."""
    for r in range(norms.shape[0]):
        if not (norms[r] <= NORM_MAX and selves[r] <= NORM_MAX):
            return r
    return -1


@compiled
def _take_nonzero(kernel, X, indptr, indices, values, norms, selves):
    """Copy the non-zeros of a matrix, with their norms (`row_norms`). Return the first row that is too large, or -1."""
    p = 0
    for r in range(X.shape[0]):
        for f in range(X.shape[1]):
            if X[r, f] != 0:
                indices[p] = f
                values[p] = X[r, f]
                p += 1
    row_norms(kernel, indptr, values, norms, selves)
    return _too_large(norms, selves)


@compiled
def _take_plain(kernel, indptr, indices, values, dim, kept_indptr, kept_indices, kept_values, norms, selves):
    """Copy the non-zeros of a batch, with their norms (`row_norms`).

    Return False if the batch is not CSR, or a row is not ascending, out of range, not finite or too large. The caller
    must have checked that indptr (m + 1,) ends at the number of values.
    """
    p = 0
    kept_indptr[0] = 0
    for r in range(indptr.shape[0] - 1):
        if not 0 <= indptr[r] <= indptr[r + 1] <= values.shape[0]:
            return False
        before = -1
        for q in range(indptr[r], indptr[r + 1]):
            value = kept_values.dtype.type(values[q])
            if not before < indices[q] < dim or value - value != 0:
                return False
            before = indices[q]
            kept_indices[p], kept_values[p] = before, value
            p += value != 0
        kept_indptr[r + 1] = p
    row_norms(kernel, kept_indptr, kept_values, norms, selves)
    return _too_large(norms, selves) < 0


def rows_from_csr(
    indptr: Array, indices: Array, values: Array, kernel: Kernel, dim: int, dtype: type = np.float32
) -> Rows:
    """Check a sparse batch, sort the indices of each row and drop zeros.

    Raise BadRow for an index outside 0..dim-1, a repeated index, NaN, infinity, or a number too large for dtype.
    """
    indptr, indices, values = np.asarray(indptr, np.int64), np.asarray(indices), np.asarray(values)
    if dim <= 2**31 and indptr.ndim == 1 and indptr.size and indices.dtype.kind in "iu":
        nnz = int(indptr[-1])
        # Most batches are sorted: one pass checks and copies them, in a tenth of the time of the general code.
        if indptr[0] == 0 and indices.shape == values.shape == (nnz,):
            ends: Array = np.empty(indptr.size, np.int64)
            columns: Array = np.empty(nnz, np.int32)
            kept: Array = np.empty(nnz, dtype)
            sizes: Array = np.empty((2, indptr.size - 1), dtype)
            features, numbers = indices.astype(np.int64, copy=False), values.astype(np.float64, copy=False)
            if _take_plain(kernel, indptr, features, numbers, dim, ends, columns, kept, sizes[0], sizes[1]):
                nnz = int(ends[-1])
                return Rows(ends, columns[:nnz], kept[:nnz], sizes[0], sizes[1], dim, measure_of(kernel))
    return _with_norms(*ordered(indptr, indices, values, dim, dtype), kernel, dim)


def ordered(indptr: Array, indices: Array, values: Array, dim: int, dtype: type) -> tuple[Array, Array, Array]:
    """Return the arrays of a sparse batch in the form of `Rows`, for any kernel. Raise BadRow as in `rows_from_csr`."""
    if indptr.ndim != 1 or indptr.size == 0 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("indptr must begin with 0 and never fall")
    if not indices.shape == values.shape == (indptr[-1],):
        raise ValueError(f"indptr ends at {indptr[-1]}, got {indices.size} indices and {values.size} values")
    if indices.dtype.kind not in "iu" and indices.size:
        raise ValueError(f"indices must be integers, got {indices.dtype}")
    row_of = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    outside = np.flatnonzero((indices < 0) | (indices >= dim))
    if outside.size:
        p = outside[0]
        raise BadRow(int(row_of[p]), f"index {indices[p]} is outside 0..{dim - 1}")
    with np.errstate(over="ignore"):
        narrow: Array = values.astype(dtype)
    bad = np.flatnonzero(~np.isfinite(narrow))
    if bad.size:
        p = bad[0]
        raise BadRow(int(row_of[p]), _not_finite(values[p], indices[p], dtype))
    place = row_of * np.int64(dim) + indices
    order = np.argsort(place, kind="stable") if (np.diff(place) <= 0).any() else slice(None)
    place = place[order]
    twice = np.flatnonzero(place[1:] == place[:-1])
    if twice.size:
        p = twice[0]
        raise BadRow(int(place[p] // dim), f"index {place[p] % dim} is given twice")
    narrow, columns = narrow[order], indices[order]
    nonzero = narrow != 0
    if not nonzero.all():
        counts = np.bincount(row_of[nonzero], minlength=indptr.size - 1)
        indptr = np.concatenate(([0], np.cumsum(counts)))
        narrow, columns = narrow[nonzero], columns[nonzero]
    return indptr, columns.astype(np.int32), narrow


def _not_finite(given: Any, feature: Any, dtype: type) -> str:
    if np.isfinite(given):
        return f"feature {feature} is {given}, too large for {np.dtype(dtype).name}"
    return f"feature {feature} is {given}; numbers must be finite"


def _refuse_too_large(bad: int) -> None:
    # By Cauchy-Schwarz, no kernel value of two accepted rows is larger, so everything computed later stays finite.
    if bad >= 0:
        raise BadRow(bad, f"its norm or its kernel value with itself is larger than {NORM_MAX:g}")


def _with_norms(indptr: Array, indices: Array, values: Array, kernel: Kernel, dim: int) -> Rows:
    norms = np.empty(indptr.size - 1, values.dtype)
    selves = np.empty_like(norms)
    row_norms(kernel, indptr, values, norms, selves)
    _refuse_too_large(_too_large(norms, selves))
    return Rows(indptr, indices, values, norms, selves, dim, measure_of(kernel))
