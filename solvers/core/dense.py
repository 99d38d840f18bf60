"""Kernel values of many dense rows at once: a matrix product whose sums have the same bits as in kernels.py.

Blocks of rows and of the points' columns are copied into tiles. `tile` adds the products of a block to TILE_ROWS
vectors of sums, which stay in registers: one multiplication and one addition per feature, in ascending order, never
fused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.families import LAPLACIAN
from hinged.solvers.core.kernels import Kernel, inner_to_kernel
from hinged.solvers.core.points import Points
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.simd.lanes import LANES, dot
from hinged.solvers.core.simd.products import TILE_ROWS, TILE_ROWS_MOST, tile
from hinged.solvers.core.simd.vectors import VECTOR_BYTES
from hinged.solvers.core.terms import POINTS, TOGETHER, add_blocks, first_beyond, sum_of_blocks
from hinged.solvers.core.turns import VALUE_WORK
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

ROWS, FEATURES = 512, 128
"""Rows and features of a block. The tiles and sums of a block with POINTS points fit in the second-level cache."""

ROWS_FEWEST, ROWS_LEAST = 4, 16
"""Minimum number of rows worth making tiles for, and minimum number of rows per call, however long the call takes."""

QUICKER = 16
"""A multiplication and an addition in a tile are this many times as fast as turns.py assumes."""


@in_place
def _fill_tiles(indptr, indices, values, tiles):
    """Fill tiles (feature blocks, row groups, FEATURES, TILE_ROWS) of zeros with the rows of a CSR batch."""
    each = tiles.shape[3]
    for r in range(indptr.shape[0] - 1):
        for p in range(indptr[r], indptr[r + 1]):
            f = indices[p]
            tiles[f // FEATURES, r // each, f % FEATURES, r % each] = values[p]


@in_place
def _columns_in_tiles(columns, begin, width, b, e, tiles):
    """Fill tiles (POINTS / lanes, FEATURES, lanes) with features begin..begin + width of points b..e, then zeros."""
    lanes = tiles.shape[2]
    for p in range(width):
        source = columns[begin + p, b:e]
        for t in range((e - b) // lanes):
            part, tile = source[t * lanes : (t + 1) * lanes], tiles[t, p]
            for s in range(lanes):
                tile[s] = part[s]
        t = (e - b) // lanes
        if t * lanes < e - b:
            for s in range(lanes):
                tiles[t, p, s] = source[t * lanes + s] if t * lanes + s < e - b else 0


@in_place
def decision_value(alpha, row, b):
    """Return sum_s alpha_s row_s + b, added POINTS terms at a time, so that a row may be computed in blocks."""
    total = 0.0
    for s in range(0, alpha.shape[0], POINTS):
        total += dot(alpha[s : s + POINTS], row[s : s + POINTS])
    return total + b


@in_place
def decision_values(alpha, terms, n, rows, count, b, lanes, scores):
    """Compute scores (count, K) from kernel rows (TOGETHER, points) over n slots; count <= TOGETHER.

    alpha (K', n): coefficients of the columns without listed terms. lanes (LANES TOGETHER,) is scratch.
    """
    whole = 0
    for c in range(b.shape[0]):
        if terms.length[c] == NONE:
            for r in range(count):
                scores[r, c] = decision_value(alpha[whole], rows[r], b[c])
            whole += 1
            continue
        for r in range(count):
            scores[r, c] = 0.0
        begin = terms.begin[c]
        add_sums(terms, begin, begin + terms.length[c], n, rows, count, 0, lanes, c, scores)
        for r in range(count):
            scores[r, c] += b[c]


@in_place
def add_sums(terms, p, end, n, rows, count, at, lanes, c, scores):
    """Add the terms p..end to column c of scores (count, K), for `count` rows that begin at place `at`."""
    whole = count - count % TOGETHER
    for r in range(0, whole, TOGETHER):
        add_blocks(terms, p, end, n, rows[r : r + TOGETHER], at, lanes, c, scores[r : r + TOGETHER])
    for r in range(whole, count):
        scores[r, c] = sum_of_blocks(terms, p, end, n, rows[r], at, lanes, scores[r, c])


@in_place
def find_terms(terms, listed, last, ends, here, begins):
    """Find the listed columns that have terms from `ends` (K',) to place `last`. Fill `here`; return their number.

    The terms of here[p] begin at begins[p] and end where the new `ends` says.
    """
    some = 0
    for d in range(listed.shape[0]):
        c, begin = listed[d], ends[d]
        ends[d] = first_beyond(terms.places, begin, terms.begin[c] + terms.length[c], last)
        if ends[d] > begin:
            here[some], begins[some] = d, begin
            some += 1
    return some


@handed
class DenseRows(NamedTuple):
    """A batch of rows while `dense_scores` processes the points, a part at a time.

    tiles: room for the output of `_fill_tiles`. The tile's size depends on the processor for which the code was
    compiled, which for a wheel's code may differ from this processor. places (5, K): the columns without listed terms,
    the listed columns, the listed columns with terms in the current block, and the beginning and end of those terms.
    """

    tiles: Array
    places: Array


def dense_rows(m: int, dim: int, columns: int, dtype: np.dtype[Any]) -> DenseRows:
    """Return room for m <= ROWS rows, which `dense_scores` fills."""
    tiles = np.zeros(-(-dim // FEATURES) * -(-m // TILE_ROWS_MOST) * FEATURES * TILE_ROWS_MOST, dtype)
    return DenseRows(tiles, np.empty((5, columns), np.int64))


def are_dense(kernel: Kernel, points: Points, rows: Rows) -> bool:
    """Return whether `dense_scores` can handle these rows: several rows, mostly dense, and points with columns."""
    m, dim = len(rows), points.columns.shape[0]
    return m >= ROWS_FEWEST and dim > 0 and 2 * int(rows.indptr[-1]) >= m * dim and kernel.code != LAPLACIAN


def dense_parts(m: int, n: int, features: int, each: int) -> tuple[int, int]:
    """Return (rows, blocks): the rows and blocks of points to process per call, of m rows and n points.

    features: number of features of a row. each: work of a row with all points, besides the kernel values.
    """
    value = (VALUE_WORK + features) / QUICKER
    rows = max(ROWS_LEAST, min(turns.portion(POINTS * value), ROWS, m))
    return rows, turns.portion(min(rows, m) * POINTS * (value + each / max(n, 1)))


@compiled
def dense_scores(kernel, points, blocks, first, end, n, alpha, terms, b, dense, indptr, indices, values, norms, scores):
    """Add to scores (m, K) the terms of the point blocks first..end, with the same bits as `decision_values`.

    blocks (blocks + 1,): the beginning of each block, and the end of the last. The calls for a batch process all blocks
    in order. A block contains whole blocks of the n slots and at most POINTS points. alpha: coefficients of the columns
    without listed terms.
    """
    m, dim, vector = norms.shape[0], points.columns.shape[0], VECTOR_BYTES // values.itemsize
    kinds, groups, places = -(-dim // FEATURES), -(-m // TILE_ROWS), dense.places
    rows = dense.tiles[: kinds * groups * FEATURES * TILE_ROWS].reshape((kinds, groups, FEATURES, TILE_ROWS))
    columns = np.empty((POINTS // vector, FEATURES, vector), values.dtype)
    block = np.empty((rows.shape[1] * TILE_ROWS, POINTS), values.dtype)
    zero, lanes = values.dtype.type(0.0), np.empty(LANES * TOGETHER)
    whole, listed, here, begins, ends = places[0], places[1], places[2], places[3], places[4]
    full, some = 0, 0
    for c in range(b.shape[0]):
        if terms.length[c] == NONE:
            whole[full] = c
            full += 1
        elif terms.length[c] > 0:
            listed[some] = c
            if first == 0:
                ends[some] = terms.begin[c]
            some += 1
    listed = listed[:some]
    if first == 0:
        _fill_tiles(indptr, indices, values, rows)
        for r in range(m):
            for c in range(b.shape[0]):
                scores[r, c] = 0.0
    for at in range(first, end):
        start, last = blocks[at], blocks[at + 1]
        size, tiles = last - start, -(-(last - start) // vector)
        for r in range(block.shape[0]):
            sums = block[r]
            for s in range(POINTS):
                sums[s] = zero
        for k in range(rows.shape[0]):
            width = min(FEATURES, dim - k * FEATURES)
            _columns_in_tiles(points.columns, k * FEATURES, width, start, last, columns)
            for t in range(tiles):
                for g in range(rows.shape[1]):
                    tile(rows[k, g], columns[t], width, block, g * TILE_ROWS, t * vector)
        some = find_terms(terms, listed, last, ends, here, begins)
        for r in range(m):
            inner_to_kernel(kernel, norms[r], points.norm[start:last], block[r, :size])
            for d in range(full):
                scores[r, whole[d]] += dot(alpha[d, start:last], block[r, :size])
        for p in range(some):
            d = here[p]
            add_sums(terms, begins[p], ends[d], n, block, m, start, lanes, listed[d], scores)
    if end == blocks.shape[0] - 1:
        for r in range(m):
            for c in range(b.shape[0]):
                scores[r, c] += b[c]
