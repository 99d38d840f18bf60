"""Kernel values of many dense rows at once: a matrix product whose sums have the bits of kernels.py.

Blocks of the rows and of the points' columns are copied together into tiles. `_tile` adds the products of a block to
TILE_ROWS vectors of sums, which stay in registers meanwhile: a multiplication and an addition for each feature,
in ascending order, never fused. numba keeps no array in registers, so this one loop is written in LLVM's instructions.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from hinged.solvers.core import turns
from hinged.solvers.core.compiled import compiled, in_place
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.families import LAPLACIAN
from hinged.solvers.core.handed import handed
from hinged.solvers.core.kernels import Kernel, inner_to_kernel
from hinged.solvers.core.lanes import LANES, dot
from hinged.solvers.core.points import Points
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.terms import POINTS, TOGETHER, add_blocks, first_beyond, sum_of_blocks
from hinged.solvers.core.turns import VALUE_WORK
from hinged.solvers.core.vectors import VECTOR_BYTES, WIDE, loop, place_of, spread

Array = np.ndarray[Any, Any]

TILE_ROWS_MOST = 16
TILE_ROWS = TILE_ROWS_MOST if WIDE else 8
"""Rows of a tile, each with a vector of sums: half of the registers."""

ROWS, FEATURES = 512, 128
"""Of a block, beside POINTS: its tiles and sums stay in the second-level cache."""

ROWS_FEWEST, ROWS_LEAST = 4, 16
"""Rows that are worth tiles, and of which many are taken together however long that is."""

QUICKER = 16
"""So many times as fast as turns.py has it are a multiplication and an addition of a tile."""


def _tile_instructions(_: Any, rows: Any, columns: Any, features: Any, out: Any, r: Any, s: Any) -> Any:
    """`_tile`: out[r + i, s + j] += sum_f rows[f, i] columns[f, j], i < TILE_ROWS, j in one vector, f < features.

    rows (FEATURES, TILE_ROWS) and columns (FEATURES, lanes) are contiguous, features >= 1, out's last axis too.
    """
    item_bytes = columns.dtype.bitwidth // 8
    lanes = VECTOR_BYTES // item_bytes

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows_at, columns_at, target = (
            context.make_array(kind)(context, builder, argument)
            for kind, argument in zip(
                [signature.args[0], signature.args[1], signature.args[3]],
                [arguments[0], arguments[1], arguments[3]],
                strict=True,
            )
        )
        size = context.get_value_type(types.intp)
        stride = builder.sdiv(builder.extract_value(target.strides, 0), size(item_bytes))
        corners = [builder.mul(builder.add(arguments[4], size(i)), stride) for i in range(TILE_ROWS)]
        places = [place_of(builder, target.data, builder.add(corner, arguments[5]), lanes) for corner in corners]

        def body(f: Any, sums: list[Any]) -> list[Any]:
            place = place_of(builder, columns_at.data, builder.mul(f, size(lanes)), lanes)
            column, first = builder.load(place, align=item_bytes), builder.mul(f, size(TILE_ROWS))
            values = (builder.load(builder.gep(rows_at.data, [builder.add(first, size(i))])) for i in range(TILE_ROWS))
            return [
                builder.fadd(total, builder.fmul(spread(builder, value, lanes), column))
                for total, value in zip(sums, values, strict=True)
            ]

        before = [builder.load(place, align=item_bytes) for place in places]
        after = loop(builder, size(0), arguments[2], 1, before, body)
        for place, total in zip(places, after, strict=True):
            builder.store(total, place, align=item_bytes)
        return context.get_dummy_value()

    return types.void(rows, columns, features, out, r, s), instructions


def _tile_plainly(rows: Array, columns: Array, features: int, out: Array, r: int, s: int) -> None:
    """`_tile` where nothing is compiled (NUMBA_DISABLE_JIT)."""
    part = out[r : r + TILE_ROWS, s : s + columns.shape[1]]
    for f in range(features):
        part += np.outer(rows[f], columns[f])


_tile: Any = _tile_plainly if cast("Any", config).DISABLE_JIT else intrinsic(_tile_instructions)


@in_place
def _fill_tiles(indptr, indices, values, tiles):
    """tiles (blocks of features, groups of rows, FEATURES, TILE_ROWS) of zeros: the rows of a CSR batch."""
    each = tiles.shape[3]
    for r in range(indptr.shape[0] - 1):
        for p in range(indptr[r], indptr[r + 1]):
            f = indices[p]
            tiles[f // FEATURES, r // each, f % FEATURES, r % each] = values[p]


@in_place
def _columns_in_tiles(columns, begin, width, b, e, tiles):
    """tiles (POINTS / lanes, FEATURES, lanes): features begin..begin + width of points b..e, zeros behind these."""
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
    """sum_s alpha_s row_s + b, added POINTS at a time, so that a row may come in blocks."""
    total = 0.0
    for s in range(0, alpha.shape[0], POINTS):
        total += dot(alpha[s : s + POINTS], row[s : s + POINTS])
    return total + b


@in_place
def decision_values(alpha, terms, n, rows, count, b, lanes, scores):
    """scores (count, K) for kernel rows (TOGETHER, points), of n slots; count <= TOGETHER.

    alpha (K', n): of the columns whose terms are not listed. lanes (LANES TOGETHER,) is scratch.
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
    """Add the terms p..end to column c of scores (count, K), for `count` rows; at: place where these begin."""
    whole = count - count % TOGETHER
    for r in range(0, whole, TOGETHER):
        add_blocks(terms, p, end, n, rows[r : r + TOGETHER], at, lanes, c, scores[r : r + TOGETHER])
    for r in range(whole, count):
        scores[r, c] = sum_of_blocks(terms, p, end, n, rows[r], at, lanes, scores[r, c])


@in_place
def find_terms(terms, listed, last, ends, here, begins):
    """Which of the listed columns have terms from `ends` (K',) to place `last`: fills `here`, returns how many.

    Their terms begin at begins[p], and end at what `ends` becomes.
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
    """A batch of rows as `dense_scores` goes over the points with them, a part at a time.

    tiles: room for the rows, as `_fill_tiles` leaves them, in tiles of the processor that the code was compiled for: a
    wheel's code has others than this one's. places (5, K): which columns are whole, which are listed, which of
    these have terms in a block, and where those begin and end.
    """

    tiles: Array
    places: Array


def dense_rows(m: int, dim: int, columns: int, dtype: np.dtype[Any]) -> DenseRows:
    """For m <= ROWS rows; `dense_scores` fills it."""
    tiles = np.zeros(-(-dim // FEATURES) * -(-m // TILE_ROWS_MOST) * FEATURES * TILE_ROWS_MOST, dtype)
    return DenseRows(tiles, np.empty((5, columns), np.int64))


def are_dense(kernel: Kernel, points: Points, rows: Rows) -> bool:
    """Whether `dense_scores` takes these rows: several, mostly full, of points that keep columns."""
    m, dim = len(rows), points.columns.shape[0]
    return m >= ROWS_FEWEST and dim > 0 and 2 * int(rows.indptr[-1]) >= m * dim and kernel.code != LAPLACIAN


def dense_parts(m: int, n: int, features: int, each: int) -> tuple[int, int]:
    """Rows and blocks of points that one call takes of m rows and n points.

    features: of a row; each: work of a row and all points beside the kernel values.
    """
    value = (VALUE_WORK + features) / QUICKER
    rows = max(ROWS_LEAST, min(turns.portion(POINTS * value), ROWS, m))
    return rows, turns.portion(min(rows, m) * POINTS * (value + each / max(n, 1)))


@compiled
def dense_scores(kernel, points, blocks, first, end, n, alpha, terms, b, dense, indptr, indices, values, norms, scores):
    """Add to scores (m, K) what blocks first..end of the points do to them; in the bits of `decision_values`.

    blocks (blocks + 1,): where each begins, and the last one ends; calls go over all of them, in order. A block has
    whole blocks of the n slots, and at most POINTS points. alpha: of the columns whose terms are not listed.
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
                    _tile(rows[k, g], columns[t], width, block, g * TILE_ROWS, t * vector)
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
