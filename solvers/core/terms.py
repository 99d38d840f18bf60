"""Sums over the non-zero coefficients of a column, in the bits of the sums over all coefficients (lanes.py).

With many columns, each holds few of the points; with many points, few may have a coefficient at all. A term of 0
changes no lane, because a lane begins at +0 and never becomes -0. So zero terms may be left out, as long as every other
term is added to the lane it belongs to. A term's slot says which lane that is. A term's place says where its kernel
value stands in a row: the slot itself if the row has all points, else the number of the point among the row's points.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.simd.lanes import LANES
from hinged.solvers.jit.compiled import compiled, in_place
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

FEW = 2  # with at most this many terms the sum is the same in whatever lanes they are
TERM_WORK = 4  # work (turns.py) of a term, which no vector instruction adds
POINTS = 256  # points of a block: a decision value is a sum of block sums, so that a row may come in blocks
TOGETHER = 4  # rows whose terms are added together: each term read serves all of them


@handed
class Terms(NamedTuple):
    """The non-zero coefficients of K columns, column by column and in the order of their slots.

    length (K,) int64: terms of a column, NONE for a column that is not listed; begin (K,) int64: where they begin;
    slots (m,) int32; places (m,) int32, ascending as slots do; values (m,) float64.
    """

    length: Array
    begin: Array
    slots: Array
    places: Array
    values: Array


@lru_cache(maxsize=16)
def none_listed(columns: int) -> Terms:
    """Terms of which no column is listed. Never change them: all callers share them."""
    return listed_terms(np.full(columns, NONE, np.int64), np.zeros(0, np.int32), np.zeros(0))


def listed_terms(length: Array, slots: Array, values: Array, places: Array | None = None) -> Terms:
    """Terms of columns that follow each other; length (K,): terms of each. places: None if equal to the slots."""
    each = np.maximum(length, 0)
    return Terms(length, np.cumsum(each) - each, slots, slots if places is None else places, values)


def gathered(length: Array, slots: Array, values: Array) -> Terms:
    """Copies of the first `length` (K,) of each column's slots and values (K, room)."""
    m = int(np.maximum(length, 0).sum())
    terms = listed_terms(length.copy(), np.empty(m, np.int32), np.empty(m))
    _gather(terms, slots, values)
    return terms


@compiled
def _gather(terms, slots, values):
    for c in range(terms.length.shape[0]):
        begin = terms.begin[c]
        for p in range(terms.length[c]):
            terms.slots[begin + p] = slots[c, p]
            terms.values[begin + p] = values[c, p]


@in_place
def sum_of_terms(slots, places, values, begin, end, first, size, row, at, lanes):
    """Add up the terms begin..end, each times the number of `row` at its place, in the bits of `dot`.

    first, size: slot where the sum begins, and the number of slots. at: place of row[0]; `row` reaches beyond the
    terms. lanes (LANES,) is scratch.
    """
    if end - begin > FEW:
        return _sum_in_lanes(slots, places, values, begin, end, first, size, row, at, lanes)
    total = 0.0
    for p in range(begin, end):
        total += values[p] * np.float64(row[places[p] - at])
    return total


@in_place
def _sum_in_lanes(slots, places, values, begin, end, first, size, row, at, lanes):
    for lane in range(LANES):
        lanes[lane] = 0.0
    width, p = LANES, begin
    done = size & -LANES
    while p < end and slots[p] - first < done:
        lanes[(slots[p] - first) & (LANES - 1)] += values[p] * np.float64(row[places[p] - at])
        p += 1
    while width > 1:
        width //= 2
        for lane in range(width):
            lanes[lane] += lanes[width + lane]
        if size & width:
            while p < end and slots[p] - first < done + width:
                lanes[slots[p] - first - done] += values[p] * np.float64(row[places[p] - at])
                p += 1
            done += width
    return lanes[0]


@in_place
def sum_of_blocks(terms, p, end, n, row, at, lanes, total):
    """`total` plus the terms p..end, block by block of the n slots. row, at, lanes: as in `sum_of_terms`."""
    while p < end:
        first = terms.slots[p] & -POINTS
        behind = first_beyond(terms.slots, p, end, first + POINTS)
        size = min(POINTS, n - first)
        total += sum_of_terms(terms.slots, terms.places, terms.values, p, behind, first, size, row, at, lanes)
        p = behind
    return total


@in_place
def add_blocks(terms, p, end, n, rows, at, lanes, c, scores):
    """`sum_of_blocks` of TOGETHER rows, added to column c of scores (TOGETHER, K). lanes (LANES TOGETHER,): scratch."""
    row_0, row_1, row_2, row_3 = rows[0], rows[1], rows[2], rows[3]
    while p < end:
        first = terms.slots[p] & -POINTS
        behind = first_beyond(terms.slots, p, end, first + POINTS)
        size, width = min(POINTS, n - first), LANES
        done = size & -LANES
        if behind - p <= FEW:
            done, width = POINTS, 1  # all in the first lane
        mask = width - 1
        for s in range(width * TOGETHER):
            lanes[s] = 0.0
        while True:
            while p < behind and terms.slots[p] - first < done:
                lane, place = (terms.slots[p] - first) & mask, terms.places[p] - at
                sums, value = lanes[lane * TOGETHER : (lane + 1) * TOGETHER], terms.values[p]
                sums[0] += value * np.float64(row_0[place])
                sums[1] += value * np.float64(row_1[place])
                sums[2] += value * np.float64(row_2[place])
                sums[3] += value * np.float64(row_3[place])
                p += 1
            if width == 1:
                break
            width //= 2
            for s in range(width * TOGETHER):
                lanes[s] += lanes[width * TOGETHER + s]
            if size & width:
                mask, done = width - 1, done + width
        for r in range(TOGETHER):
            scores[r, c] += lanes[r]


@in_place
def count_below(slots, end, bound):
    """How many of the first `end` slots, which ascend, are below a bound."""
    begin = 0
    while begin < end:
        middle = (begin + end) // 2
        if slots[middle] < bound:
            begin = middle + 1
        else:
            end = middle
    return begin


@in_place
def first_beyond(numbers, p, end, bound):
    """The first of p..end whose number, ascending, is at least `bound`; else `end`."""
    while p < end and numbers[p] < bound:
        p += 1
    return p
