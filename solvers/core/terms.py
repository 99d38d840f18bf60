"""Sums over the coefficients of a column that are not 0, in the bits of the sums over all of them (lanes.py).

Of many columns each holds few of the points. A term of 0 changes no lane, for a lane begins at +0, which it comes back
to but never to -0; so it may be left out, as long as the others are added to the lanes that they belong to.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.compiled import compiled, in_place
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.handed import handed
from hinged.solvers.core.lanes import LANES

Array = np.ndarray[Any, Any]

FEW = 2  # of so many terms the sum is the same whatever lanes they are in
TERM_WORK = 4  # of a term (turns.py), which no vector instruction adds


@handed
class Terms(NamedTuple):
    """Coefficients that are not 0, of K columns, those of each column together and in the order of their slots.

    length (K,) int64: how many a column has, NONE for one that is not listed; begin (K,) int64: where they begin;
    slots (m,) int32, values (m,) float64.
    """

    length: Array
    begin: Array
    slots: Array
    values: Array


@lru_cache(maxsize=16)
def none_listed(columns: int) -> Terms:
    """Of so many columns none is listed. Not to be changed: everybody gets the same."""
    return Terms(
        np.full(columns, NONE, np.int64), np.zeros(columns, np.int64), np.zeros(0, np.int32), np.zeros(0)
    )  # fmt: skip


def gathered(length: Array, slots: Array, values: Array) -> Terms:
    """Copies of the first `length` (K,) of each column's slots and values (K, room)."""
    ends = np.cumsum(np.maximum(length, 0))
    terms = Terms(length.copy(), ends - np.maximum(length, 0), np.empty(ends[-1], np.int32), np.empty(ends[-1]))
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
def sum_of_terms(slots, values, begin, end, first, row, lanes):
    """The terms begin..end, each times the number of row (n,) at its slot, added up in the bits of `dot`.

    The row begins at slot `first` and reaches beyond the terms. lanes (LANES,) is scratch.
    """
    if end - begin > FEW:
        return _sum_in_lanes(slots, values, begin, end, first, row, lanes)
    total = 0.0
    for p in range(begin, end):
        total += values[p] * np.float64(row[slots[p] - first])
    return total


@in_place
def _sum_in_lanes(slots, values, begin, end, first, row, lanes):
    for lane in range(LANES):
        lanes[lane] = 0.0
    size, width, p = row.shape[0], LANES, begin
    done = size & -LANES
    while p < end and slots[p] - first < done:
        s = slots[p] - first
        lanes[s & (LANES - 1)] += values[p] * np.float64(row[s])
        p += 1
    while width > 1:
        width //= 2
        for lane in range(width):
            lanes[lane] += lanes[width + lane]
        if size & width:
            while p < end and slots[p] - first < done + width:
                s = slots[p] - first
                lanes[s - done] += values[p] * np.float64(row[s])
                p += 1
            done += width
    return lanes[0]


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
def end_of_block(terms, p, end, last):
    """The first of the terms p..end that stands at slot `last` or behind it; `end` where there is none."""
    while p < end and terms.slots[p] < last:
        p += 1
    return p
