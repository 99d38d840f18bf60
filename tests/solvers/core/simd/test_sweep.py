"""Gradients moved and searched in one pass, against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.simd.sweep import moved_extremes, part_extremes
from hinged.solvers.dual.direction import BLOCK, extremes, move_gradient
from hinged.solvers.jit.compiled import compiled


@compiled
def moved(g, up, down, begin, end, row_i, row_j, move_i, move_j):
    return moved_extremes(g, up, down, begin, end, row_i, row_j, move_i, move_j)


@compiled
def searched(g, up, down, begin, end):
    return part_extremes(g, up, down, begin, end)


@compiled
def stepped(g, move_i, move_j, row_i, row_j, up, down):
    return move_gradient(g, move_i, move_j, row_i, row_j, up, down)


@compiled
def found(g, up, down):
    return extremes(g, up, down)


def extremes_plainly(g, up, down, begin, end):
    part = slice(begin, end)
    rising, falling = g[part][up[part] != 0], g[part][down[part] != 0]
    return rising.max(initial=-np.inf), falling.min(initial=np.inf)


def moved_plainly(g, up, down, begin, end, row_i, row_j, move_i, move_j):
    part = slice(begin, end)
    g[part] -= move_i * row_i[part].astype(np.float64) + move_j * row_j[part].astype(np.float64)
    return extremes_plainly(g, up, down, begin, end)


def problem(n, seed, dtype, share=0.5):
    random = np.random.default_rng(seed)
    g = np.round(random.standard_normal(n), 1) + 0.0  # rounded, so that many are equal; and without negative zeros
    up, down = (random.random((2, n)) < share).astype(np.uint8)
    return g, up, down, *random.standard_normal((2, n)).astype(dtype)


def first_of(values, mask, best):
    """The lowest marked slot that has the best value, by a loop; NONE without a marked slot."""
    at = NONE
    for s in range(values.size):
        if mask[s] and (at == NONE or best(values[s], values[at])):
            at = s
    return at


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(0, 70),
    begin=st.integers(0, 20),
    end=st.integers(0, 70),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 1000),
)
def test_a_stretch_is_moved_and_searched_as_by_a_plain_loop(n, begin, end, share, dtype, seed):
    """To the bit, wherever the stretch begins and ends; and nothing outside the stretch is touched."""
    end, begin = min(end, n), min(begin, n)
    g, up, down, row_i, row_j = problem(n, seed, dtype, share)
    expected, move_i, move_j = g.copy(), 0.7, -1.3
    with np.errstate(all="raise"):
        extremes_there = moved_plainly(expected, up, down, begin, max(begin, end), row_i, row_j, move_i, move_j)
    assert moved(g, up, down, begin, max(begin, end), row_i, row_j, move_i, move_j) == extremes_there
    assert np.array_equal(g.view(np.int64), expected.view(np.int64))
    assert searched(g, up, down, begin, max(begin, end)) == extremes_plainly(g, up, down, begin, max(begin, end))


@pytest.mark.parametrize("n", [1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5])
def test_extremes_are_the_lowest_of_the_slots_that_are_level(n, share):
    g, up, down, row_i, row_j = problem(n, n, np.float32, share)
    expected = first_of(g, up, lambda a, b: a > b), first_of(g, down, lambda a, b: a < b)
    assert found(g, up, down) == expected
    after = g - (0.25 * row_i.astype(np.float64) + -0.5 * row_j.astype(np.float64))
    expected = first_of(after, up, lambda a, b: a > b), first_of(after, down, lambda a, b: a < b)
    assert stepped(g, 0.25, -0.5, row_i, row_j, up, down) == expected
    assert np.array_equal(g, after)
