"""One threshold: against a plain loop, its bound on any scores, and its state."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.model.decisions.margins import BINS, EDGES, bins_of
from hinged.service.model.promises.levels import FADING, FIT, LAGGED, Level, step_of

RATES = st.sampled_from([0.001, 0.01, 0.05, 0.1, 0.5])


def follow(level, scores):
    """Let a level see scores whose labels come at once. Return which were missed, None while nothing is promised."""
    found = []
    for score in scores:
        missed = None if level.lacking else bool(score > level.limit())
        found.append(missed)
        level.add(int(bins_of(np.array([score]))[0]), missed, 0)
    return found


def followed_plainly(error, scores):
    """Do the same by the definition, with all earlier scores and without bins."""
    found, level, needed = [], error, max(20, math.ceil(1 / error))
    for t, score in enumerate(scores):
        if t < needed:
            found.append(None)
            continue
        fitted = max(t // FIT * FIT, needed)
        weights = FADING ** np.arange(fitted - 1, -1, -1)
        order = np.argsort(scores[:fitted], kind="stable")
        ends = np.cumsum(weights[order])
        rank = (1 - level) * (ends[-1] + 1)
        place = int(np.searchsorted(ends, rank))
        limit = math.inf if place == fitted or level <= 0 else -math.inf if level >= 1 else scores[order[place]]
        found.append(bool(score > limit))
        level += min(error, max(0.01, error / 4), 0.02) * (error - found[-1])
    return found


@pytest.mark.parametrize("error", [0.01, 0.05, 0.2])
def test_misses_are_those_of_the_definition_up_to_the_width_of_a_bin(error):
    # Scores in the middle of bins: interpolation cannot separate equal scores, so bins are compared.
    random = np.random.default_rng(0)
    scores = random.normal(size=1_500) * np.linspace(0.5, 3, 1_500)
    got, want = follow(Level(error), scores), followed_plainly(error, scores)
    assert [missed is None for missed in got] == [missed is None for missed in want]
    counted = [(a, b) for a, b in zip(got, want, strict=True) if a is not None]
    assert sum(a != b for a, b in counted) <= 0.01 * len(counted)
    assert abs(sum(a for a, _ in counted) - sum(b for _, b in counted)) <= 2


class Adversary:
    """A world that sees the threshold, and then chooses the score."""

    def __init__(self, choices):
        self.choices = choices

    def play(self, level):
        misses = []
        for choice in self.choices:
            limit = level.limit()
            score = {"above": limit + 1, "below": limit - 1, "high": 1e9, "low": -1e9}.get(choice, choice)
            score = max(-1e9, score)  # no score is -infinity
            missed = None if level.lacking else bool(score > limit)
            if missed is not None:
                misses.append(missed)
            level.add(int(bins_of(np.array([score]))[0]), missed, 0)
        return misses


@given(
    error=RATES,
    runs=st.lists(
        st.tuples(st.sampled_from(["above", "below", "high", "low", 0.0, 0.3, -2.0]), st.integers(1, 400)), max_size=12
    ),
)
@settings(max_examples=60, deadline=None)
def test_whatever_the_scores_are_the_rate_of_misses_keeps_the_bound(error, runs):
    level = Level(error)
    misses = Adversary([choice for choice, times in runs for _ in range(times)]).play(level)
    step, T = step_of(error), len(misses)
    if T:
        assert sum(error - missed for missed in misses) == pytest.approx((level.level - error) / step, abs=1e-6)
        assert abs(sum(misses) / T - error) <= (1 + 2 * step) / (step * T) + 1e-9
        assert -step <= level.level <= 1 + step


@given(
    error=RATES,
    lag=st.sampled_from([1, 30, 300]),
    runs=st.lists(
        st.tuples(st.sampled_from(["above", "below", 0.0, 0.3, -2.0]), st.integers(1, 900)), min_size=1, max_size=8
    ),
)
@settings(max_examples=30, deadline=None)
def test_the_rate_of_the_sets_that_were_sent_keeps_a_bound_if_each_label_comes_late(error, lag, runs):
    """A set is sent with the threshold of its time. Its label comes `lag` labels later, and counts this set."""
    level, sent, misses, levels = Level(error), [], [], []
    for choice in [choice for choice, times in runs for _ in range(times)]:
        limit = level.limit()
        score = {"above": limit + 1, "below": limit - 1}.get(choice, choice)
        sent.append((None if level.lacking else limit, max(-1e9, score), level.level))
        if len(sent) > lag:
            limit, score, then = sent[-1 - lag]
            missed = None if limit is None else bool(score > limit)
            misses += [] if missed is None else [missed]
            level.add(int(bins_of(np.array([score]))[0]), missed, lag, then)
            levels += [] if missed is None else [level.level]
    assert all(-1 <= each <= 2 for each in levels)
    step = min(level.step, LAGGED / lag)
    bound = 3 / step + 3 * (lag + 1)  # what the level moved, and the newest and the first levels that were sent
    assert abs(sum(error - missed for missed in misses)) <= bound


@pytest.mark.parametrize("lag", [0, 30, 1_000])
def test_the_level_follows_the_level_that_was_sent_and_its_miss_in_steps_that_a_lag_makes_smaller(lag):
    level = Level(0.05)
    for _ in range(50):
        level.add(BINS // 2, missed=False, lag=0)
    step, before = min(level.step, LAGGED / max(lag, 1)), level.level
    level.add(BINS // 2, missed=True, lag=lag, then=0.4)
    assert level.level == pytest.approx(before + step * (0.4 + 0.05 - 1 - before))
    before = level.level
    level.add(BINS // 2, missed=None, lag=lag, then=0.4)
    assert level.level == before


def test_a_loop_with_late_labels_does_not_swing():
    """The scores are a fixed sample: the level must find the rate and stay, whatever the lag."""
    random, error = np.random.default_rng(3), 0.1
    for lag in (0, 100, 1_000):
        level, sent, misses = Level(error), [], []
        for score in random.exponential(size=12_000).tolist():
            sent.append((level.limit(), score, level.level, level.lacking > 0))
            if len(sent) > lag:
                limit, late, then, lacking = sent[-1 - lag]
                misses.append(late > limit)
                level.add(int(bins_of(np.array([late]))[0]), None if lacking else late > limit, lag, then)
        assert np.mean(misses[3_000:]) == pytest.approx(error, abs=0.012)
        halves = [np.mean(misses[begin : begin + 1_500]) for begin in range(3_000, 10_500, 1_500)]
        assert np.ptp(halves) < 0.06


def test_nothing_is_promised_before_enough_labels():
    level = Level(0.01)
    assert level.lacking == 100
    for k in range(100):
        assert level.limit() == math.inf
        level.add(BINS // 2, None, 0)
        assert level.lacking == 99 - k
    for _ in range(10):  # the quantile needs a few more, because older scores fade
        level.add(BINS // 2, missed=False, lag=0)
    assert level.limit() < math.inf
    assert (Level(0.3).lacking, Level(0.001).lacking) == (20, 1_000)


def test_a_restart_changes_nothing_and_another_error_keeps_the_scores():
    random = np.random.default_rng(1)
    scores = random.normal(size=700)
    one, other = Level(0.05), Level(0.05)
    follow(one, scores[:333])
    other.load(one.state())
    assert follow(one, scores[333:]) == follow(other, scores[333:])
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one.state().values(), other.state().values(), strict=True))
    stricter = one.changed(0.01)
    assert (stricter.seen, stricter.lacking, stricter.level) == (700, 0, 0.01)
    assert stricter.limit() > np.quantile(scores, 0.95)
    assert one.changed(0.05).limit() == one.limit()


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("counts", np.full(BINS, -1.0)),
        ("fitted", np.linspace(1, 0, BINS)),
        ("seen", np.array([-1])),
        ("seen", np.array([9, 9])),
        ("level", np.array([np.nan, 1])),
        ("level", np.array([0.1, 0.5])),
        ("level", np.array([1e10, 1])),
    ],
)
def test_a_damaged_state_is_refused(name, array):
    level = Level(0.05)
    follow(level, np.random.default_rng(0).normal(size=50))
    with pytest.raises(ValueError, match=r"must|holds|does not fit"):
        Level(0.05).load({**level.state(), name: array})


def test_the_weights_stay_finite_on_a_long_stream():
    level = Level(0.5)
    for k in range(70_000):
        level.add(int(bins_of(EDGES[k % 700 : k % 700 + 1])[0]), missed=bool(k % 2), lag=0)
    again = Level(0.5)
    again.load(level.state())
    assert again.limit() == level.limit()
    assert level.weight < 2**41
