"""Mercer kernels and kernel rows. families.py lists the kernels.

A kernel value depends only on its two points, to the last bit. It does not depend on the batch, the slot, the cache or
the memory layout. This follows from one definition: the inner sum runs over the features in ascending order, one
multiplication and one addition at a time, in the precision of the model. A feature that is zero in either point adds an
exact zero. So a dense column, a sparse row and a single pair give the same bits, and k(x, z) = k(z, x).

For the Laplacian the inner sum is the overlap o(x, z) = sum_f min(|x_f|, |z_f|) over the features in which both have
the same sign. The distance is |x - z|_1 = |x|_1 + |z|_1 - 2 o(x, z). The overlap corresponds to the 1-norm as x.z
corresponds to the 2-norm.

Rows are computed with feature-major points ("columns"). Each non-zero feature of the query takes one pass over
contiguous memory, which the compiler turns into vector instructions. If the columns do not fit in memory, the query is
expanded into a dense vector. Each sparse point then reads its numbers from that vector. ahead.py computes several rows
at once. If every non-zero of query and points is 1, the inner sum of every kernel is the number of features in common.
This number is counted in bytes and gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Ge, Le, Lt
from numba import types
from numba.extending import overload

from hinged.solvers.core.elementary import exp
from hinged.solvers.core.families import KERNELS, LAPLACIAN, LINEAR, POLYNOMIAL, RADIAL
from hinged.solvers.core.simd.vectors import Value, elementwise
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

PARAMETERS: Mapping[str, Any] = {"degree": Annotated[int, Ge(1), Le(16)], "coef0": Annotated[float, Ge(0), Lt(1e15)]}
"""Parameters of a kernel besides gamma. gamma is a number > 0, or a warm-up finds it."""

BLOCK = 1024
"""Number of points in one pass of a row computation; their sums stay in the first-level cache."""

ONES_MAX = 255
"""Maximum number of non-zeros of a row of 1s that can be counted in bytes."""

ONES_BLOCK = 4096
"""Number of points in one pass that counts in bytes."""


@handed
class Kernel(NamedTuple):
    """A kernel in the form that compiled code uses: an integer code and the parameters."""

    code: int
    gamma: float
    degree: int
    coef0: float


def is_radial(kernel: Kernel) -> bool:
    """Return whether the kernel depends on a distance. Then norms and k(x, x) are the same for every gamma."""
    return kernel.code in RADIAL


def measure_of(kernel: Kernel) -> Kernel:
    """Return the part of the kernel on which norms and k(x, x) depend, which for a radial kernel excludes gamma."""
    return kernel._replace(gamma=1.0) if is_radial(kernel) else kernel


def measures(measure: Kernel | None, kernel: Kernel) -> bool:
    """Return whether norms and k(x, x) that were computed for `measure` hold for this kernel."""
    return measure is not None and measure.code == kernel.code and (measure.code in RADIAL or measure == kernel)


def make_kernel(name: str, gamma: float = 1.0, degree: int = 3, coef0: float = 0.0) -> Kernel:
    """Make a kernel with checked parameters. A ValueError says what was given and what is allowed."""
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {name!r}")
    return checked_kernel(Kernel(KERNELS[name].code, gamma, degree, coef0))


def checked_kernel(kernel: Kernel) -> Kernel:
    """Return the kernel after checking its parameters as in `make_kernel`."""
    code, gamma, degree, coef0 = kernel
    if not (gamma > 0 and math.isfinite(gamma)):
        raise ValueError(f"gamma must be finite and > 0, got {gamma}")
    if not 1 <= degree <= 16:
        raise ValueError(f"degree must be an integer from 1 to 16, got {degree}")
    if not (coef0 >= 0 and math.isfinite(coef0)):
        raise ValueError(f"coef0 must be finite and >= 0 (the kernel is no Mercer kernel otherwise), got {coef0}")
    return Kernel(code, float(gamma), int(degree), float(coef0))


@in_place
def inner_columns(laplacian, indices, values, columns, begin, end, out):
    """Compute out[begin:end]: inner sums of a sparse query with points begin..end, from their feature-major columns."""
    zero = columns.dtype.type(0.0)
    for b in range(begin, end, BLOCK):
        e = min(b + BLOCK, end)
        size = e - b
        # Take slices first, because indexing with an offset keeps the compiler from using vector instructions.
        acc = out[b:e]
        if laplacian or indices.shape[0] < 4:
            for s in range(size):
                acc[s] = zero
        p = 0
        if laplacian:
            while p < indices.shape[0]:
                v = values[p]
                column = columns[indices[p], b:e]
                if v > zero:
                    for s in range(size):
                        z = column[s] if column[s] > zero else zero
                        acc[s] += z if z < v else v
                else:
                    for s in range(size):
                        z = -column[s] if column[s] < zero else zero
                        acc[s] += z if z < -v else -v
                p += 1
            continue
        # Add four features at a time, in the same order: the sums are read and written once for all four.
        while p + 4 <= indices.shape[0]:
            v0, v1, v2, v3 = values[p], values[p + 1], values[p + 2], values[p + 3]
            c0, c1 = columns[indices[p], b:e], columns[indices[p + 1], b:e]
            c2, c3 = columns[indices[p + 2], b:e], columns[indices[p + 3], b:e]
            if p == 0:  # the sums begin at zero, which is neither written nor read
                for s in range(size):
                    acc[s] = (((zero + v0 * c0[s]) + v1 * c1[s]) + v2 * c2[s]) + v3 * c3[s]
            else:
                for s in range(size):
                    acc[s] = (((acc[s] + v0 * c0[s]) + v1 * c1[s]) + v2 * c2[s]) + v3 * c3[s]
            p += 4
        while p < indices.shape[0]:
            v = values[p]
            column = columns[indices[p], b:e]
            for s in range(size):
                acc[s] += v * column[s]
            p += 1


@in_place
def are_ones(values):
    """Return whether these non-zeros of a row are all 1, and few enough to be counted in bytes."""
    if values.shape[0] > ONES_MAX:
        return False
    ones = True
    for p in range(values.shape[0]):
        ones &= values[p] == 1
    return ones


@compiled
def inner_ones(indices, ones, begin, end, out):
    """Count in out[begin:end] the non-zeros that a query of 1s shares with each of the points; at most 255."""
    counts = np.empty(min(ONES_BLOCK, end - begin), np.uint8)
    for b in range(begin, end, ONES_BLOCK):
        e = min(b + ONES_BLOCK, end)
        size = e - b
        acc, target = counts[:size], out[b:e]
        for s in range(size):
            acc[s] = 0
        p = 0
        while p + 4 <= indices.shape[0]:
            c0, c1 = ones[indices[p], b:e], ones[indices[p + 1], b:e]
            c2, c3 = ones[indices[p + 2], b:e], ones[indices[p + 3], b:e]
            for s in range(size):
                acc[s] = np.uint8(acc[s] + c0[s] + c1[s] + c2[s] + c3[s])
            p += 4
        while p < indices.shape[0]:
            column = ones[indices[p], b:e]
            for s in range(size):
                acc[s] = np.uint8(acc[s] + column[s])
            p += 1
        for s in range(size):
            target[s] = acc[s]


@in_place
def inner_gather(laplacian, indices, values, points, begin, end, spread, out):
    """Compute the sums of `inner_columns` from sparse points.

    `spread` (dim,), zero before and after, contains the query.
    """
    zero = values.dtype.type(0.0)
    for p in range(indices.shape[0]):
        spread[indices[p]] = values[p]
    for s in range(begin, end):
        total = zero
        first = points.start[s]
        for p in range(first, first + points.length[s]):
            v = spread[points.indices[p]]
            z = points.values[p]
            if laplacian:
                if v > zero:
                    z = z if z > zero else zero
                    total += min(v, z)
                elif v < zero:
                    z = -z if z < zero else zero
                    total += min(-v, z)
            else:
                total += v * z
        out[s] = total
    for p in range(indices.shape[0]):
        spread[indices[p]] = zero


LOG2_E = float(np.float32(1.4426950408889634))
LN2_HIGH, LN2_LOW = 0.693359375, float(np.float32(-2.12194440e-4))
ROUNDER = 12582912.0  # 1.5 * 2^23: adding it rounds a float32 to an integer
EXPONENT = 23  # first bit of a float32's exponent; the shift takes away the rounder's own high bits
EXP_LEAST = -87.0  # for smaller arguments the result of exp is not a normal float32
POLYNOMIAL_OF_EXP = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)


def _exp(x: Value) -> Value:
    """Return exp(x) in float32 for x <= 0: relative error below 1.2e-7, five times faster than a C library's exp.

    exp(v) = 2^k exp(r). The polynomial gives exp(r). Adding the rounder puts k into the low bits of `shifted`. From
    there k is moved into the exponent.
    """
    v = x.larger(EXP_LEAST)
    shifted = v * LOG2_E + ROUNDER
    k = shifted - ROUNDER
    r = (v - k * LN2_HIGH) - k * LN2_LOW
    first, *others = (float(np.float32(number)) for number in POLYNOMIAL_OF_EXP)
    q = r * first
    for number in others[:-1]:
        q = (q + number) * r
    q = q + others[-1]
    return ((q * (r * r) + r) + 1.0).times_power(shifted, EXPONENT)


def _radial(inner: Value, norms: Value, norm: Value, minus_gamma: Value) -> Value:
    # Rounding can make the distance of nearly equal points slightly negative.
    return _exp(minus_gamma * ((norm + norms) - inner * 2.0).larger(0.0))


_radial_by_polynomial = elementwise(_radial)


def inner_to_radial(
    inner: np.ndarray[Any, Any], norms: np.ndarray[Any, Any], norm: float, minus_gamma: float, n: int
) -> None:
    """Do inner (n,) = exp(-gamma max(0, norm + norms - 2 inner)). In float64 this uses `elementary.exp`."""
    two = norms.dtype.type(2.0)
    inner[:n] = np.exp(minus_gamma * np.maximum((norm + norms[:n]) - two * inner[:n], 0))


def _by_polynomial(inner, norms, norm, minus_gamma, n):
    _radial_by_polynomial((inner, norms), (norm, minus_gamma), n)


def _one_by_one(inner, norms, norm, minus_gamma, n):
    for s in range(n):
        distance = (norm + norms[s]) - 2.0 * inner[s]
        inner[s] = exp(minus_gamma * (distance if distance > 0.0 else 0.0))


@overload(inner_to_radial)
def _inner_to_radial(inner, norms, norm, minus_gamma, n):  # noqa: ARG001
    return _by_polynomial if inner.dtype == types.float32 else _one_by_one


@in_place
def inner_to_kernel(kernel, norm, norms, inner):
    """Turn inner sums (n,) of a query of `norm` with points of `norms` (n,) into kernel values, in place."""
    kind = inner.dtype.type
    if kernel.code == LINEAR:
        return
    gamma = kind(kernel.gamma)
    if kernel.code == POLYNOMIAL:
        coef0 = kind(kernel.coef0)
        for s in range(inner.shape[0]):
            base = gamma * inner[s] + coef0
            power = base
            for _ in range(kernel.degree - 1):
                power *= base
            inner[s] = power
        return
    inner_to_radial(inner, norms, kind(norm), -gamma, inner.shape[0])


@in_place
def kernel_row(kernel, indices, values, norm, points, begin, end, spread, out):
    """Compute out[begin:end] = k(query, points begin..end).

    The query is sparse: indices (nnz,) int32 ascending, values (nnz,), and `norm` as returned by `row_norm`. `spread`
    (dim,) of zeros is scratch, used only if the points have no columns.
    """
    laplacian = kernel.code == LAPLACIAN
    if points.only_ones[0] and are_ones(values):
        inner_ones(indices, points.ones, begin, end, out)
    elif points.columns.shape[0] > 0:
        inner_columns(laplacian, indices, values, points.columns, begin, end, out)
    else:
        inner_gather(laplacian, indices, values, points, begin, end, spread, out)
    inner_to_kernel(kernel, norm, points.norm[begin:end], out[begin:end])


@in_place
def point_row(kernel, points, slot, targets, begin, end, spread, out):
    """Compute out[begin:end] = k(point `slot` of points, targets begin..end)."""
    first, last = points.start[slot], points.start[slot] + points.length[slot]
    kernel_row(
        kernel,
        points.indices[first:last],
        points.values[first:last],
        points.norm[slot],
        targets,
        begin,
        end,
        spread,
        out,
    )


@in_place
def row_norm(kernel, values):
    """Return the inner sum of a row with itself: |x|^2, or |x|_1 for the Laplacian, in the order of the features."""
    total = values.dtype.type(0.0)
    for p in range(values.shape[0]):
        if kernel.code == LAPLACIAN:
            total += abs(values[p])
        else:
            total += values[p] * values[p]
    return total


@in_place
def row_norms(kernel, indptr, values, norms, selves):
    """Compute for each row of a CSR batch its norm and its k(x, x), with the same bits as `kernel_row`."""
    for r in range(norms.shape[0]):
        norms[r] = row_norm(kernel, values[indptr[r] : indptr[r + 1]])
        selves[r] = norms[r]
        inner_to_kernel(kernel, norms[r], norms[r : r + 1], selves[r : r + 1])
