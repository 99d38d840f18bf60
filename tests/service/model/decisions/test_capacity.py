"""Allowances: never more than the capacity, and the best of a stream whose rate varies; against a plain loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.model.decisions.capacity import BINS, SLOTS, Allowance, bins_of
from hinged.service.model.decisions.rations import Rations

DAY = 86_400_000
NOBODY = np.zeros(0)


def served(allowance, at, gains, batch=1, seed=0):
    """Return which contenders an allowance takes, request by request, and the allowance afterwards."""
    draws, taken = np.random.default_rng(seed).random(gains.size), np.zeros(gains.size, bool)
    for begin in range(0, gains.size, batch):
        rows = slice(begin, begin + batch)
        now = int(at[rows][-1])
        taken[rows] = allowance.choose(gains[rows], draws[rows].__getitem__, 0, now)
        allowance = allowance.counted(gains[rows], taken[rows], 0, now)
    return taken, allowance


def tenfold(days, a_day, seed=0):
    """Return arrivals of a stream whose rate varies tenfold within each day."""
    rng, minutes = np.random.default_rng(seed), np.arange(1_440)
    rate = 10 ** (0.5 * np.cos(2 * np.pi * (minutes / 1_440 - 0.3)))
    counts = rng.poisson(rate / rate.sum() * a_day, (days, minutes.size)).ravel()
    begun = np.repeat(np.arange(counts.size) * 60_000, counts)
    return np.sort(begun + rng.integers(0, 60_000, begun.size))


@given(
    most=st.integers(1, 20),
    pauses=st.lists(st.integers(0, 400), min_size=1, max_size=60),
    sizes=st.lists(st.integers(1, 9), min_size=60, max_size=60),
    seed=st.integers(0, 99),
)
def test_no_period_has_more_than_the_capacity_whatever_the_stream(most, pauses, sizes, seed):
    rng, allowance, now, by_period = np.random.default_rng(seed), Allowance.new(most, 1_000), 5, {}
    for pause, size in zip(pauses, sizes, strict=False):
        now += pause
        gains = rng.choice([0.0, 1.0, 1e-30, 1e15, rng.random()], size)
        taken = allowance.choose(gains, lambda _: rng.random(), 0, now)
        allowance = allowance.counted(gains, taken, 0, now)
        by_period[now // 1_000] = by_period.get(now // 1_000, 0) + int(taken.sum())
        assert allowance.taken == by_period[now // 1_000] <= most
    assert max(by_period.values()) <= most


@pytest.mark.parametrize("batch", [1, 50])
def test_a_stream_that_varies_tenfold_takes_the_capacity_each_day_and_nearly_the_best(batch):
    at = np.repeat(tenfold(5, 3_000)[batch - 1 :: batch], batch)
    gains = np.random.default_rng(1).exponential(size=at.size)
    taken, _ = served(Allowance.new(40, DAY), at, gains, batch)
    for day in range(1, 5):  # the first day teaches how fast the stream is
        rows = at // DAY == day
        assert taken[rows].sum() == 40
        assert gains[rows & taken].sum() > 0.93 * np.sort(gains[rows])[-40:].sum()


def test_of_equal_gains_the_share_that_fits_is_taken_over_the_whole_day():
    at = tenfold(3, 3_000)
    taken, _ = served(Allowance.new(300, DAY), at, np.full(at.size, 7.0))
    late = at[taken & (at >= 2 * DAY)] - 2 * DAY
    assert late.size == 300
    expected = np.quantile(at[at >= 2 * DAY] - 2 * DAY, [0.25, 0.5, 0.75])
    assert np.abs(np.quantile(late, [0.25, 0.5, 0.75]) - expected).max() < 0.05 * DAY


def test_fewer_contenders_than_the_capacity_are_all_taken_once_the_stream_is_known():
    at = np.arange(0, 5 * DAY, DAY // 20)
    taken, _ = served(Allowance.new(40, DAY), at, np.ones(at.size))
    assert taken[at >= DAY].all()


def test_decisions_that_another_rule_takes_use_the_capacity_up():
    allowance = Allowance.new(5, DAY).counted(NOBODY, np.zeros(0, bool), 5, 10)
    assert allowance.taken == 5
    assert not allowance.choose(np.ones(3), lambda _: 0.0, 0, 11).any()
    assert not Allowance.new(5, DAY).choose(np.ones(3), lambda _: 0.0, 5, 11).any()


@settings(max_examples=20)
@given(seed=st.integers(0, 999))
def test_choices_equal_a_plain_loop(seed):
    """Plain loops over gains and slots, without bins of gains: the gains are powers of 2, which have their own bins."""
    rng = np.random.default_rng(seed)
    most, per, now = int(rng.integers(1, 9)), 24_000, 0
    allowance = Allowance.new(most, per)
    history, slots, usual, periods, taken_now, period = [], [0.0] * SLOTS, None, 0, 0, None
    for _ in range(60):
        now += int(rng.integers(0, 2_500))
        m = int(rng.integers(1, 4))
        gains, draws = 2.0 ** rng.integers(-3, 4, m), rng.random(m)
        if period is None:
            period, begun, opened = now // per, now % per / per, m
        while now // per > period:
            first = int(begun * SLOTS)
            if periods == 0:
                usual = [sum(slots) / (SLOTS * (1 - begun))] * first + slots[first:]
            else:
                usual = [u + 0.5 * (s - u) for u, s in zip(usual, slots, strict=True)]
            slots, taken_now, period, periods = [0.0] * SLOTS, 0, period + 1, periods + 1
        history += gains.tolist()
        slot, over = now % per * SLOTS // per, now % per / per
        slots[slot] += m
        came = sum(slots)
        if periods == 0:
            rest = came * (1 - over) / (over - begun + opened / (4 * SLOTS))
        else:
            part = over * SLOTS - slot
            until, steady = sum(usual[:slot]) + usual[slot] * part, sum(usual) / SLOTS + 1
            rest = (sum(usual) - until) * (came + steady) / (until + steady)
            if slot:
                lately = (slots[slot - 1] + slots[slot] + 1) / (1 + part)
                rest = min(rest, lately * SLOTS * (1 - over) * (1 + 9 * (1 - over)))
        rest, wanted = max(rest - m, 0) + m, []
        for r, (gain, draw) in enumerate(zip(gains, draws, strict=True)):
            higher = sum(g > gain for g in history) / len(history)
            same = sum(g == gain for g in history) / len(history)
            fits = taken_now < most and draw * same < (most - taken_now) / (rest - r) - higher
            taken_now += fits
            wanted.append(fits)
        chosen = allowance.choose(gains, draws.__getitem__, 0, now)
        assert chosen.tolist() == wanted
        allowance = allowance.counted(gains, chosen, 0, now)
    assert allowance.taken == taken_now


@given(gains=st.lists(st.floats(0, 1e15), min_size=2, max_size=20))
def test_a_higher_gain_is_never_in_a_lower_bin_and_a_bin_is_narrow(gains):
    gains = np.sort(np.array(gains))
    places = bins_of(gains)
    assert (np.diff(places) >= 0).all()
    assert 0 <= places.min() <= places.max() < BINS
    same = (places[1:] == places[:-1]) & (gains[:-1] > 1e-5)
    assert (gains[1:][same] <= gains[:-1][same] * 1.0321).all()


def test_a_change_keeps_what_was_counted_unless_the_period_changes():
    rations = Rations.new({"ask": {"most": 5, "per": "1d"}, "a": {"most": 5, "per": "1h"}})
    for name in ("ask", "a", "unlimited"):
        rations = rations.counted(name, np.ones(2), np.array([True, False]), 1, 10)
    changed = rations.changed({"ask": {"most": 9, "per": "24h"}, "a": {"most": 5, "per": "2h"}})
    assert (changed.of["ask"].most, changed.of["ask"].taken, changed.of["a"].taken) == (9, 2, 0)
    assert not rations.changed(None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda facts, _: facts.pop("ask"), "the rations are of"),
        (lambda facts, _: facts["ask"].update(period=2**40), "after the end of all times"),
        (lambda _, arrays: arrays.pop("0.bins"), "no array 0.bins"),
        (lambda _, arrays: arrays["0.usual"].__setitem__(0, np.nan), "NaN"),
        (lambda _, arrays: arrays.update({"0.counts": np.zeros(3)}), "must be float64"),
    ],
)
def test_a_damaged_state_is_refused(change, said):
    capacity = {"ask": {"most": 5, "per": "1d"}}
    rations = Rations.new(capacity).counted("ask", np.ones(3), np.ones(3, bool), 0, 99)
    facts, arrays = rations.state()
    again = Rations.new(capacity).loaded(facts, arrays)
    assert again.figures(100) == rations.figures(100)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(facts, arrays)
    with pytest.raises(ValueError, match=said):
        Rations.new(capacity).loaded(facts, arrays)
