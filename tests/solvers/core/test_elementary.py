"""Functions that replace a library's, against arithmetic of fifty digits."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from hinged.solvers.core.elementary import ANGLE_MOST, angle_within, cosine_and_sine, exp, expm1, log, log1p

TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194988918461563281257")


def true_cosine(x):
    """To some forty digits: the angle modulo 2 pi, then the series."""
    with localcontext(prec=60) as context:
        r = context.remainder_near(Decimal(x), TWO_PI)
        total = term = Decimal(1)
        for n in range(1, 60, 2):
            term *= -r * r / (n * (n + 1))
            total += term
        return total


def true_sine(x):
    with localcontext(prec=60):
        quarter = TWO_PI / 4
        return true_cosine(Decimal(x) - quarter)


def ulps(found, true):
    """The error of a result, in units in its last place."""
    with localcontext(prec=60):
        return float(abs(Decimal(float(found)) - true) / Decimal(math.ulp(float(true))))


def log_uniform(least, most, n, seed=0):
    return np.exp(np.random.default_rng(seed).uniform(math.log(least), math.log(most), n))


def test_exp_is_within_one_unit_in_the_last_place():
    random = np.random.default_rng(1)
    for x in np.concatenate((-log_uniform(1e-20, 700, 500), -random.uniform(0, 700, 1000), [-0.5 * math.log(2)])):
        with localcontext(prec=50):
            assert ulps(exp(x), Decimal(float(x)).exp()) < 1, x
    assert exp(0.0) == 1.0
    assert exp(-708.1) == exp(-1e300) == exp(-math.inf) == 0.0
    assert exp(-707.9) > 0


def test_expm1_is_within_four_units_in_the_last_place_also_near_0():
    random = np.random.default_rng(5)
    for x in np.concatenate(
        (-log_uniform(1e-300, 700, 1000), log_uniform(1e-300, 40, 500), random.uniform(-0.4, 0.4, 500))
    ):
        with localcontext(prec=50):
            true = Decimal(float(x)).exp() - 1 if abs(x) > 1e-30 else Decimal(float(x))
        assert ulps(expm1(x), true) < 4, x
    assert expm1(0.0) == 0.0


def test_exp_never_rises_where_x_falls():
    x = -np.cumsum(log_uniform(1e-17, 1e-2, 100_000, seed=2))
    values = np.array([exp(v) for v in x])
    assert (np.diff(values) <= values[1:] * 2**-52).all()


def test_log_is_within_one_unit_in_the_last_place():
    near_one = 1 + np.random.default_rng(3).uniform(-0.4, 0.6, 1000) * log_uniform(1e-15, 1, 1000, seed=4)
    for x in np.concatenate((log_uniform(1e-300, 1e300, 1000), near_one, [2.2250738585072014e-308, math.sqrt(0.5)])):
        if x != 1:
            with localcontext(prec=50):
                assert ulps(log(x), Decimal(float(x)).ln()) < 1, x
    assert log(1.0) == 0.0
    assert log(1024.0) == math.log(1024)


@pytest.mark.long
def test_log1p_is_within_two_units_in_the_last_place():
    for x in np.concatenate((log_uniform(1e-300, 1, 1000), np.random.default_rng(5).random(1000))):
        with localcontext(prec=400):
            true = (1 + Decimal(float(x))).ln()
        assert ulps(log1p(x), true) < 2, x
    assert log1p(0.0) == 0.0


@pytest.mark.parametrize("most", [1.0, 100.0, ANGLE_MOST])
def test_cosine_and_sine_are_right_to_the_last_places(most):
    random = np.random.default_rng(6)
    turns = np.rint(random.uniform(-1, 1, 200) * most / (math.pi / 4)) * (math.pi / 4)  # where the polynomials change
    for x in np.concatenate((random.uniform(-most, most, 800), np.clip(turns, -ANGLE_MOST, ANGLE_MOST))):
        found = cosine_and_sine(float(x))
        for value, true in zip(found, (true_cosine(float(x)), true_sine(float(x))), strict=True):
            assert abs(float(Decimal(value) - true)) < 1e-16 + math.ulp(float(true)), x
    assert cosine_and_sine(0.0) == (1.0, 0.0)


def test_an_angle_of_any_size_is_reduced_to_an_angle_with_the_same_sine():
    for x in log_uniform(ANGLE_MOST, 1e15, 300).tolist():
        for angle in (x, -x):
            within = angle_within(angle)
            assert abs(within) <= ANGLE_MOST
            # 2 pi is rounded: that moves the angle by less than its own last place.
            assert abs(float(Decimal(cosine_and_sine(within)[1]) - true_sine(angle))) < math.ulp(angle) + 3e-16
    assert angle_within(12.5) == 12.5
    assert angle_within(math.inf) == angle_within(-math.inf) == angle_within(math.nan) == 0.0
    assert abs(angle_within(1.7e308)) <= ANGLE_MOST
