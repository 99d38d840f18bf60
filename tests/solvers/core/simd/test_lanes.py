"""Sums in lanes, against the order that solvers/core/simd/lanes.py states."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError

from hinged.solvers.core.simd.lanes import LANES, dot
from hinged.solvers.dual.coordinate import box_gap
from hinged.solvers.dual.pace import gap_target


def in_lanes(terms):
    """The sum in the order of the module's docstring, one number at a time."""
    lanes, left = [0.0] * LANES, list(terms)
    while len(left) >= LANES:
        lanes = [lane + left.pop(0) for lane in lanes]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[p] + lanes[half + p] for p in range(half)]
        if len(left) >= half:
            lanes = [lane + left.pop(0) for lane in lanes]
    assert not left
    return lanes[0]


def numbers(n, seed, kind=np.float64):
    random = np.random.default_rng(seed)
    return (random.standard_normal(n) * 10.0 ** random.integers(-8, 9, n)).astype(kind)


@settings(max_examples=150, deadline=None)
@given(n=st.integers(0, 5 * LANES), begin=st.integers(0, 3), kind=st.sampled_from([np.float32, np.float64]))
def test_a_product_sum_has_the_bits_of_its_written_order(n, begin, kind):
    a, b = numbers(n + begin, n)[begin:], numbers(n + begin, n + 1, kind)[begin:]
    assert dot(a, b) == in_lanes((a * b.astype(np.float64)).tolist())


@pytest.mark.parametrize("n", [1000, 4099])
def test_a_long_product_sum_has_them_too(n):
    a, b = numbers(n, 1), numbers(n, 2, np.float32)
    assert dot(a, b) == in_lanes((a * b.astype(np.float64)).tolist())
    assert dot(a, b) != sum((a * b).tolist())  # otherwise this test would prove nothing


@settings(max_examples=60, deadline=None)
@given(n=st.integers(0, 5 * LANES))
def test_gap_and_target_have_the_bits_of_their_written_order(n):
    alpha, g, lower, upper = (numbers(n, seed) for seed in range(4))
    alpha[::3] = 0.0
    sign = np.where(np.arange(n) % 2, 1, -1).astype(np.int8)
    rise, fall = (upper - alpha) * g, (lower - alpha) * g
    assert box_gap(alpha, g, lower, upper) == in_lanes(np.where(rise > fall, rise, fall).tolist())
    h = np.where(alpha != 0, 1.0, 0.0) * (upper - lower) * sign * g
    total, squares, count = in_lanes(h.tolist()), in_lanes((h * h).tolist()), float((alpha != 0).sum())
    target = np.sqrt(max(squares - total * total / count, 0.0)) if count else 0.0
    assert gap_target(alpha, g, sign, lower, upper) == target


def test_arrays_that_are_not_contiguous_are_refused():
    with pytest.raises(TypingError, match="contiguous"):
        dot(np.zeros(8)[::2], np.zeros(4))
