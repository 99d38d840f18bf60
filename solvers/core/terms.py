"""Sums over the coefficients of a column that are not 0, in the bits of the sums over all of them (lanes.py).

Of many columns each holds few of the points, and of many points few may have a coefficient at all. A term of 0 changes
no lane, for a lane begins at +0, which it comes back to but never to -0; so it may be left out, as long as the others
are added to the lanes that they belong to. A term's slot says which lane that is, its place where its kernel value
stands: the slot itself where a row has all points, else its number among the points that the row has.
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

FEW = 2  # of so many terms the sum is the same whatever lanes they are in
TERM_WORK = 4  # of a term (turns.py), which no vector instruction adds
POINTS = 256  # of a block: the sum of a decision value is one of blocks' sums, so that a row may come in blocks
TOGETHER = 4  # rows whose terms are added together: what is read of a term serves all of them


@handed
class Terms(NamedTuple):
    """Coefficients that are not 0, of K columns, those of each column together and in the order of their slots.

    length (K,) int64: how many a column has, NONE for one that is not listed; begin (K,) int64: where they begin;
    slots (m,) int32; places (m,) int32, which ascend as slots do; values (m,) float64.
    """

    length: Array
    begin: Array
    slots: Array
    places: Array
    values: Array


@lru_cache(maxsize=16)
def none_listed(columns: int) -> Terms:
    """Of so many columns none is listed. Not to be changed: everybody gets the same."""
    return listed_terms(np.full(columns, NONE, np.int64), np.zeros(0, np.int32), np.zeros(0))


def listed_terms(length: Array, slots: Array, values: Array, places: Array | None = None) -> Terms:
    """The terms of columns one after another, `length` (K,) of each; places: the slots unless others are given."""
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
    """The terms begin..end, each times the number of `row` at its place, added up in the bits of `dot`.

    first, size: slot where the sum begins, and how many it goes over. at: place where `row` begins, which reaches
    beyond the terms. lanes (LANES,) is scratch.
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
    """The same of TOGETHER rows, added to column c of scores (TOGETHER, K). lanes (LANES TOGETHER,) is scratch."""
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
    """The first of p..end whose number, ascending, is `bound` or more; `end` where there is none."""
    while p < end and numbers[p] < bound:
        p += 1
    return p
