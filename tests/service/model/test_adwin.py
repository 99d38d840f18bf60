import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river.drift import ADWIN

from hinged.service.model.adwin import BUCKETS, CLOCK, Adwin, lengths_of, ln


def cuts(elements, sizes):
    """Return where the window is cut, and its width and total then; a new window begins after each cut. sizes: of the
    batches, in turn.
    """
    adwin, found, at = Adwin(), [], 0
    while at < len(elements):
        end = min(len(elements), at + CLOCK - adwin.width % CLOCK, at + next(sizes))
        adwin.extend(elements[at:end])
        at = end
        if adwin.width % CLOCK == 0 and adwin.cut():
            found.append((at, adwin.width, adwin.total))
            adwin = Adwin()
    return found, adwin


def cuts_of_river(elements):
    found, adwin = [], ADWIN()
    for at, element in enumerate(elements, 1):
        adwin.update(element)
        if adwin.drift_detected:
            found.append((at, adwin.width, adwin.total))
            adwin = ADWIN()
    return found


def batches(random):
    while True:
        yield int(random.integers(1, 70))


def test_it_cuts_where_rivers_adwin_cuts_and_leaves_the_same_window():
    random, found = np.random.default_rng(7), 0
    for _ in range(150):
        rates = random.choice([0.0, 0.02, 0.1, 0.3, 0.5, 0.9, 1.0], random.integers(1, 6))
        stream = np.concatenate([random.random(random.integers(1, 2500)) < rate for rate in rates]).tolist()
        mine, _ = cuts(stream, batches(random))
        assert mine == cuts_of_river(stream)
        found += len(mine)
    assert found > 100


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 400)), max_size=12))
def test_it_cuts_where_rivers_adwin_cuts_in_streams_of_runs(runs):
    stream = [element for element, n in runs for _ in range(n)]
    assert cuts(stream, batches(np.random.default_rng(0)))[0] == cuts_of_river(stream)


def test_how_many_buckets_there_are_follows_from_the_width():
    adwin = Adwin()
    for width in range(1, 3000):
        adwin.extend([width % 3 == 0])
        lengths = lengths_of(width)
        assert [len(row) for row in adwin._rows if row] == [n for n in lengths if n]
        assert max(lengths) <= BUCKETS
        assert sum(n << r for r, n in enumerate(lengths)) == width
        assert sum(adwin.buckets) == adwin.total


def test_a_window_loaded_from_its_buckets_continues_identically():
    stream = (np.random.default_rng(3).random(5000) < 0.3).tolist()
    for cut in (0, 1, 31, 32, 1000, 4321):
        one, two = Adwin(), Adwin()
        one.extend(stream[:cut])
        two.load(one.width, one.buckets)
        for adwin in (one, two):
            adwin.extend(stream[cut:])
        assert (two.width, two.total, two.buckets) == (one.width, one.total, one.buckets)


@pytest.mark.parametrize("buckets", [[], [1] * 9, [0, 9, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0, 0]])
def test_inconsistent_buckets_are_refused(buckets):
    with pytest.raises(ValueError, match="bucket"):
        Adwin().load(9, buckets)


def test_the_logarithm_is_right_to_the_last_bits():
    for x in np.exp(np.random.default_rng(0).uniform(-30, 60, 5000)).tolist():
        assert abs(ln(x) - math.log(x)) <= 4e-16 * max(1.0, abs(math.log(x)))
    assert ln(1.0) == 0.0
