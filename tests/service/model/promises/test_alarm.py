"""The alarm of bounded error: p-values, the martingale, false alarms, restarts, the path and the state."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from hinged.service.model.promises.alarm import PATH_MAX, Alarm
from hinged.service.model.promises.martingale import SHARES, STAKES, Martingale, uniform

ERRORS = st.lists(st.booleans(), max_size=60)


def plain_p(scores, theta):
    """Return the p-value of the last of some scores, from all scores."""
    larger = sum(score > scores[-1] for score in scores)
    equal = sum(score == scores[-1] for score in scores)
    return (larger + theta * equal) / len(scores)


def hashes(begin, count):
    return np.array([uniform(number) for number in range(begin, begin + count)])


def plain_martingale(ps, sides=1):
    """Return the mixture over the times at which a bet may begin, as a sum over all times, sides and bets."""
    total, left = Fraction(0), Fraction(1)
    for begin in range(1, len(ps) + 1):
        k = begin.bit_length() - 1
        part = Fraction(1, (k + 1) * (k + 2) * 2**k)
        left -= part
        for side, share, stake in product(range(sides), SHARES, STAKES):
            capital = part / (sides * len(SHARES) * len(STAKES))
            for p in ps[begin - 1 :]:
                won = (1.0 - p if side else p) < share
                capital *= Fraction(1 - stake) + (Fraction(stake) / Fraction(share) if won else 0)
            total += capital
    return left + total, left


def rates(*parts, seed=0):
    """Return errors with given rates. Each part is (number of predictions, rate of errors)."""
    random = np.random.default_rng(seed)
    return np.concatenate([random.random(n) < rate for n, rate in parts]).tolist()


def alarmed(errors, level=0.01, start=1):
    alarm = Alarm({"level": level})
    alarm.add(errors, list(range(start, start + len(errors))))
    return alarm


def same(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        assert array.tobytes() == other[name].tobytes(), name


@given(st.lists(st.integers(0, 4), max_size=60), st.integers(0, 60))
def test_p_values_compare_each_score_with_all_scores_so_far(scores, cut):
    martingale, thetas, scores = Martingale(5), hashes(1, len(scores)), np.array(scores, np.int64)
    martingale.add(scores[:cut], thetas[:cut])
    found = martingale.p_values(scores[cut:], thetas[cut:]).tolist()
    expected = [plain_p(scores[:n].tolist(), thetas[n - 1]) for n in range(1, len(scores) + 1)]
    assert found == pytest.approx(expected[cut:], rel=1e-15)


@pytest.mark.long
@given(st.lists(st.integers(0, 2), max_size=20), st.integers(0, 2**40), st.sampled_from([1, 2]))
def test_the_martingale_is_the_mixture_over_bets_and_beginnings(scores, start, sides):
    martingale, thetas, scores = Martingale(3, sides), hashes(start, len(scores)), np.array(scores, np.int64)
    ps = martingale.p_values(scores, thetas).tolist()
    values = martingale.add(scores, thetas)
    for end in (len(scores) // 2, len(scores)):
        value, reserve = plain_martingale(ps[:end], sides)
        if end:
            assert values[end - 1] == pytest.approx(float(value), rel=1e-12)
    assert martingale.value == pytest.approx(float(value), rel=1e-12)
    assert martingale.reserve == pytest.approx(float(reserve), rel=1e-12)


def test_the_martingale_stops_at_the_score_at_which_it_is_enough():
    whole, stopped = Martingale(), Martingale()
    scores = np.array(rates((300, 0.05), (300, 0.6)), np.int64)
    values = whole.add(scores, hashes(1, 600))
    found = stopped.add(scores, hashes(1, 600), 100.0)
    end = int(np.flatnonzero(values >= 100.0)[0]) + 1
    assert found.tolist() == values[:end].tolist()
    assert (stopped.seen, stopped.counts.sum(), stopped.value) == (end, end, values[end - 1])
    assert stopped.add(scores[:0], hashes(1, 0)).size == 0


def test_each_bet_is_fair():
    for share in SHARES:
        for stake in STAKES:
            assert share * (1 - stake + stake / share) + (1 - share) * (1 - stake) == pytest.approx(1.0)
    assert len(set(SHARES)) == len(SHARES)


def test_the_reserve_is_never_exhausted():
    martingale = Martingale()
    for seen in (0, 1, 2, 1023, 10**6, 10**12):
        martingale.seen = seen
        assert martingale.reserve >= 1 / (seen.bit_length() + 1)


@pytest.mark.parametrize("rate", [0.0, 0.003, 0.05, 0.5, 0.97])
def test_p_values_of_exchangeable_errors_are_uniform_and_independent(rate):
    errors = np.random.default_rng(1).permutation(np.arange(8_000) < rate * 8_000).astype(np.int64)
    ps = Martingale().p_values(errors, hashes(0, 8_000))
    assert kstest(ps, "uniform").pvalue > 0.001
    assert kstest((ps[1:] + ps[:-1]) % 1.0, "uniform").pvalue > 0.001
    assert abs(np.corrcoef(ps[1:], ps[:-1])[0, 1]) < 0.05


def test_hashes_are_uniform_and_strictly_inside_0_and_1():
    values = np.array([uniform(n) for n in range(20_000)])
    assert kstest(values, "uniform").pvalue > 0.001
    assert values.min() > 0.0
    assert values.max() < 1.0
    assert uniform(1) == uniform(1) != uniform(2)


@pytest.mark.parametrize("level", [0.5, 0.1])
def test_shuffled_streams_rarely_cause_an_alarm(level):
    random = np.random.default_rng(2)
    streams, found = 120, 0
    for k in range(streams):
        errors = random.permutation(np.arange(400) < random.integers(0, 400)).tolist()
        found += alarmed(errors, level, start=k * 10_000).count > 0
    # A bound, not the expected number: three standard deviations above it almost never happen.
    assert found <= streams * level + 3 * np.sqrt(streams * level * (1 - level))


def test_more_errors_cause_an_alarm_and_the_martingale_begins_again():
    alarm = alarmed(rates((3000, 0.05), (300, 0.4)))
    assert alarm.count >= 1
    assert 3000 < alarm.last_at < 3150
    assert alarm.martingale.seen == 3300 - alarm.last_at
    assert alarm.log_value < 2.0
    assert max(alarm.columns()["value"]) >= 2.0
    # The errors since the alarm are the new record: if the rate stays, there is no further alarm.
    number = alarm.last_at
    alarm.add(rates((3000, 0.4), seed=1), list(range(3301, 6301)))
    assert (alarm.count, alarm.last_at) == (1, number)


def test_fewer_errors_never_cause_an_alarm():
    alarm = alarmed(rates((1000, 0.5), (3000, 0.05), (3000, 0.0)), 0.5)
    assert alarm.count == 0
    assert alarm.log_value > -2


def test_a_long_quiet_stream_does_not_delay_an_alarm_much():
    delays = []
    for quiet in (1_000, 20_000):
        alarm = alarmed(rates((quiet, 0.05), (400, 0.5)))
        delays.append(alarm.last_at - quiet)
    assert 0 < delays[1] < 2 * delays[0] + 30


@given(st.lists(ERRORS, max_size=4))
def test_alarms_depend_on_the_errors_and_not_on_their_batches(batches):
    whole, parts = Alarm({"level": 0.5}), Alarm({"level": 0.5})
    errors = [error for batch in batches for error in batch]
    whole.add(errors, list(range(1, len(errors) + 1)))
    begin = 1
    for batch in batches:
        parts.add(batch, list(range(begin, begin + len(batch))))
        begin += len(batch)
    same(whole.state(), parts.state())


def test_the_path_keeps_the_highest_values_in_bounded_memory():
    values = []

    class Noting(Alarm):
        def _note(self, number, value):
            values.append(value)
            super()._note(number, value)

    alarm = Noting({"level": 0.01})
    errors = rates((2000, 0.1), (100, 0.7), (3000, 0.7))
    alarm.add(errors, list(range(1, len(errors) + 1)))
    path = alarm.columns()
    assert PATH_MAX // 4 < len(path["examples"]) < PATH_MAX
    assert max(path["value"]) == pytest.approx(np.log10(max(values)))
    begin = 0
    for end, value in zip(path["examples"], path["value"], strict=True):
        assert value == pytest.approx(np.log10(max(values[begin:end])))
        begin = end


@pytest.mark.parametrize("cut", [0, 1, 300, 1150, 2100])
def test_a_loaded_state_continues_to_the_bit(cut):
    errors = rates((1000, 0.1), (1100, 0.6), (900, 0.2))
    one, two = alarmed(errors[:cut]), Alarm({"level": 0.01})
    two.load(one.state())
    same(one.state(), two.state())
    for alarm in (one, two):
        alarm.add(errors[cut:], list(range(cut + 1, len(errors) + 1)))
    for alarm in (one, two):
        same(alarm.state(), alarmed(errors).state())
        assert one.figures() == two.figures()


@pytest.mark.parametrize(
    "damage",
    [
        {"counts": np.array([2**62, 2**62])},
        {"counts": np.array([300.0, 4.0])},
        {"counts": np.array([3, 4, 5])},
        {"seen": np.array([199])},
        {"seen": np.array([0]), "counts": np.array([0, 0])},
        {"capital": np.full(len(SHARES) * len(STAKES), np.nan)},
        {"capital": np.full(len(SHARES) * len(STAKES), -1.0)},
        {"capital": np.zeros(3)},
        {"alarms": np.array([1, 0, 1])},
        {"alarms": np.array([9, 3, 1])},
        {"alarms": np.array([0, 0, 0])},
        {"highest": np.array([np.inf])},
        {"path": np.zeros(3)},
        {"path_at": np.arange(PATH_MAX)[::-1] + 1},
    ],
)
def test_a_damaged_state_is_refused_before_anything_changes(damage):
    alarm = alarmed(rates((200, 0.2)))
    before = alarm.state()
    with pytest.raises(ValueError, match=r"."):
        alarm.load({**before, **damage})
    same(alarm.state(), before)


def test_the_bits_are_the_recorded_bits():
    alarm = alarmed(rates((2000, 0.1), (20, 0.5)))
    assert (alarm.count, alarm.martingale.value.hex()) == (0, "0x1.4fadc169c512fp-1")
