"""Novelty: p-values of the claim that an x is like the x of a sample, by the distances to nearest neighbours.

V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World, 2005, sections 2.2 and 3.1.

The strangeness of an x in a bag is the sum of the distances to its NEIGHBOURS nearest neighbours. With a new x, the bag
consists of the sample and x, and the p-value is the fraction of the bag that is at least as strange as x. If all are
exchangeable, p <= level has at most the probability `level`, exactly and for any sample size. No machine must be fitted
again: x changes the strangeness of a point only where x is nearer than the point's last neighbour.

near  (n, 2) float64  of each point of the sample: the sum of the distances to its nearest NEIGHBOURS - 1 points, and
                      the distance to the next point.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.decision import parts_of
from hinged.solvers.core.kernels import kernel_row, make_kernel, row_norm
from hinged.solvers.core.points import bytes_of, gathered, points_from_rows
from hinged.solvers.core.rows import Rows
from hinged.solvers.jit.compiled import compiled, in_place

Array = np.ndarray[Any, Any]

NEIGHBOURS = 3
ROUNDING = 1e-5
"""Relative difference below which two x are equally strange. Otherwise rounding would break the ties of codes."""
EUCLID = make_kernel("linear")  # distances do not depend on the kernel of the classifier


@in_place
def distances_from(kernel, indices, values, points, norms, spread, out, own):
    """Compute the distances out (n,) of a row from all points, and empty `own`."""
    n = norms.shape[0]
    kernel_row(kernel, indices, values, values.dtype.type(0.0), points, 0, n, spread, out)
    norm = row_norm(kernel, values)
    own[:] = np.inf
    for s in range(n):
        square = np.float64((norm + norms[s]) - values.dtype.type(2.0) * out[s])
        # Rounding can make the square of a small distance negative, and an overflow makes it NaN.
        out[s] = np.sqrt(square) if square > 0.0 else 0.0


@in_place
def keep_nearest(distance, own):
    """Insert a distance into own (NEIGHBOURS,), the smallest distances so far, ascending."""
    p = own.shape[0] - 1
    if not distance < own[p]:
        return
    while p > 0 and own[p - 1] > distance:
        own[p] = own[p - 1]
        p -= 1
    own[p] = distance


@in_place
def first_of(own):
    """Return the sum of all but the last of own."""
    total = 0.0
    for p in range(own.shape[0] - 1):
        total += own[p]
    return total


@compiled
def neighbours(kernel, points, norms, spread, near):
    """Compute `near` of the points."""
    row, own = np.empty(norms.shape[0], points.values.dtype), np.empty(NEIGHBOURS)
    for r in range(norms.shape[0]):
        first, last = points.start[r], points.start[r] + points.length[r]
        indices, values = points.indices[first:last], points.values[first:last]
        distances_from(kernel, indices, values, points, norms, spread, row, own)
        for s in range(norms.shape[0]):
            if s != r:
                keep_nearest(np.float64(row[s]), own)
        near[r, 0], near[r, 1] = first_of(own), own[NEIGHBOURS - 1]


@compiled
def compare(kernel, points, norms, near, spread, indptr, indices, values, strangeness, p_values):
    """Compute strangeness (m,) and p-values (m,) of the rows of a batch."""
    n = norms.shape[0]
    row, own = np.empty(n, values.dtype), np.empty(NEIGHBOURS)
    for r in range(strangeness.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        distances_from(kernel, indices[first:last], values[first:last], points, norms, spread, row, own)
        for s in range(n):
            keep_nearest(np.float64(row[s]), own)
        strangeness[r] = first_of(own) + own[NEIGHBOURS - 1]
        count, least = 1, (1.0 - ROUNDING) * strangeness[r]
        for s in range(n):
            count += near[s, 0] + min(np.float64(row[s]), near[s, 1]) >= least
        p_values[r] = count / (n + 1)


class Sample:
    """A sample of more than NEIGHBOURS rows. It never changes after it is made."""

    def __init__(self, rows: Rows) -> None:
        self.size = len(rows)
        self.dim = rows.dim
        self._points = points_from_rows(rows, rows.dim)
        norms = [row_norm(EUCLID, rows.values[begin:end]) for begin, end in pairwise(rows.indptr.tolist())]
        self._norms = np.array(norms, rows.values.dtype)
        self._near = np.empty((self.size, 2))
        neighbours(EUCLID, self._points, self._norms, self._spread(), self._near)

    def _spread(self) -> Array:
        """Return the scratch of `kernel_row`."""
        return np.zeros(self.dim if self._points.columns.shape[0] == 0 else 1, self._norms.dtype)

    def compare(self, rows: Rows) -> tuple[Array, Array]:
        """Return the strangeness (m,) and the p-values (m,), from 1 / (size + 1) to 1, of a batch."""
        strangeness, p_values, spread = np.empty(len(rows)), np.empty(len(rows)), self._spread()
        for begin, end in parts_of(rows, self.size, 0):
            compare(
                EUCLID, self._points, self._norms, self._near, spread, rows.indptr[begin : end + 1], rows.indices,
                rows.values, strangeness[begin:end], p_values[begin:end],
            )  # fmt: skip
            turns.rest()
        return strangeness, p_values

    @property
    def usual(self) -> Array:
        """Return the strangeness of each point, compared with the rest of the sample, ascending."""
        return np.sort(self._near[:, 0] + self._near[:, 1])

    @property
    def gathered(self) -> int:
        """As in `View`."""
        return gathered(self._points)

    def memory_bytes(self) -> int:
        """Return the memory of the arrays, in bytes."""
        return bytes_of(self._points) + self._norms.nbytes + self._near.nbytes
