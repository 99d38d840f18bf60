"""Labels that come late: the credit compared with a plain loop, and races that count what arms answered when asked."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.race import arms, leaving
from hinged.solvers.race.arms import first_settings
from hinged.solvers.race.late import ASKED, NOW, credit_of, kept_answers
from hinged.solvers.race.standings import count, new_standings
from tests.helpers.solvers.streams import same, settled, stream_of
from tests.solvers.race.test_race import RBF, led, make_small, raced, wavy

SERIALS = [0, 3, 65_535, 7]
ROW = st.tuples(
    st.integers(0, 2),  # the class
    st.lists(st.booleans(), min_size=4, max_size=4),  # whether each arm is right now
    st.one_of(st.none(), st.dictionaries(st.sampled_from([*SERIALS, 1, 2]), st.integers(0, 2), max_size=6)),
    st.sampled_from([1.0, 1.0, 0.25, 3.0]),
)


@given(rows=st.lists(ROW, max_size=40), cut=st.integers(0, 40), alike=st.booleans())
@settings(deadline=None)
def test_credit_and_counts_are_those_of_a_plain_loop(rows, cut, alike):
    classes = np.array([row[0] for row in rows], np.int64)
    right = np.array([row[1] for row in rows], bool).reshape(-1, 4)
    weights = np.array([1.0 if alike else row[3] for row in rows])
    asked, expected, judged = [], [], 0
    for number, now, then, _ in rows:
        pairs = [] if then is None else [value for pair in then.items() for value in pair]
        asked.append(None if then is None else np.array(pairs, "<u2").tobytes())
        judged += then is None or set(SERIALS) <= then.keys()
        credit = [float(each) for each in now]
        if then:
            answers = [then.get(serial, next(iter(then.values()))) for serial in SERIALS]
            credit = [NOW * c + ASKED * (answer == number) for c, answer in zip(credit, answers, strict=True)]
        expected.append(credit)
    credit, found = credit_of(right, classes, SERIALS, asked)
    assert np.array_equal(credit, np.array(expected).reshape(-1, 4))
    assert found.sum() == judged
    standings = new_standings(4)
    ones = np.ones(len(rows))
    parts = (credit[:cut], weights[:cut], ones[:cut], 0), (credit[cut:], weights[cut:], ones[cut:], min(cut, len(rows)))
    leaders = np.concatenate([count(standings, *part)[0] for part in parts])
    followed, (correct, ahead, leader), _, _ = led(credit, weights)
    assert np.array_equal(leaders, followed)
    assert standings.leader[0] == leader
    assert np.array_equal(standings.correct, correct)
    assert np.array_equal(standings.ahead, ahead)


@given(numbers=st.lists(st.lists(st.integers(0, 1023), min_size=4, max_size=4), min_size=1), leader=st.integers(0, 3))
def test_kept_answers_name_each_arm_and_begin_with_the_leader(numbers, leader):
    for row, answers in zip(numbers, kept_answers(SERIALS, np.array(numbers).T, leader), strict=True):
        pairs = np.frombuffer(answers, "<u2").reshape(-1, 2).tolist()
        assert dict(pairs) == dict(zip(SERIALS, row, strict=True))
        assert pairs[0] == [SERIALS[leader], row[leader]]


@given(asked=st.binary(max_size=70))
def test_any_bytes_are_credit_from_0_to_1(asked):
    credit, _ = credit_of(np.ones((1, 4), bool), np.zeros(1, np.int64), SERIALS, [asked])
    assert ((credit >= 0) & (credit <= 1)).all()


@pytest.fixture
def small(monkeypatch):
    make_small(monkeypatch)
    monkeypatch.setattr(leaving, "MOST_LATE", ((24, 6), (48, 4)))
    monkeypatch.setattr(arms, "IDLE", 20)


def part_of(stream, begin, end):
    return stream.rows(stream.X[begin:end]), stream.classes[begin:end], np.arange(begin, end)


@pytest.mark.usefixtures("small")
def test_a_label_that_comes_at_once_counts_as_if_nobody_had_asked():
    X, classes = wavy(400)
    plain, asked = raced(X, classes, batch=1).learn(), raced(X, classes)
    asked.solver.learn(*part_of(asked, 0, 1))
    for r in range(1, 400):
        answers = asked.solver.answers(asked.rows(X[r : r + 1]))
        assert len(answers[0]) == 4 * len(asked.solver.arms)
        asked.solver.learn_late(*part_of(asked, r, r + 1), answers)
    same(asked.solver.state(), plain.solver.state())
    assert asked.solver.openings > 2
    assert asked.solver.joined > len(first_settings(RBF))


@pytest.mark.usefixtures("small")
def test_labels_that_nobody_awaited_count_as_ever():
    X, classes = wavy(400)
    plain, late = raced(X, classes).learn(), raced(X, classes)
    late.solver.learn_late(*part_of(late, 0, 400), [None] * 400)
    same(late.solver.state(), plain.solver.state())
    assert plain.solver.state()["late"].tolist() == [0, 0]


@pytest.mark.long
@pytest.mark.usefixtures("small")
@given(late=st.sampled_from([0, 5, 17, 60]), cuts=st.lists(st.integers(0, 240), max_size=8), load=st.integers(0, 240))
@settings(max_examples=15, deadline=None, suppress_health_check=["function_scoped_fixture"])
def test_a_late_race_goes_on_to_the_bit_from_its_state_and_in_any_batches(late, cuts, load):
    X, classes = wavy(240, noise=0.25)
    one, other = raced(X, classes), raced(X, classes)
    asked = {}
    for r in range(240):
        asked[r] = one.solver.answers(one.rows(X[r : r + 1]))[0]
        assert bool(asked[r]) == (r > late)
        if r >= late:
            one.solver.learn_late(*part_of(one, r - late, r - late + 1), [asked[r - late]])
    edges = sorted({0, 240 - late, *(cut for cut in cuts if cut < 240 - late)})
    for begin, end in pairwise(edges):
        other.solver.learn_late(*part_of(other, begin, end), [asked[r] for r in range(begin, end)])
        if begin <= load < end:
            third = raced(X, classes, announced=0)
            third.solver.load(other.solver.state())
            other = third
    same(one.solver.state(), other.solver.state())
    other.solver.examine()


def test_examples_asked_for_before_anything_was_known_count_as_now_and_remove_no_arm():
    X, classes = wavy(400)
    stream = raced(X, classes)
    assert stream.solver.answers(stream.rows(X[:2])) == [b"", b""]
    stream.solver.learn_late(*part_of(stream, 0, 300), [b""] * 300)
    assert (stream.solver.learned, stream.solver.judged) == (300, 0)
    assert len(stream.solver.arms) == len(first_settings(RBF))
    plain = raced(X, classes, batch=250).learn(0, 250)
    assert len(plain.solver.arms) < len(first_settings(RBF))
    stream.solver.learn(*part_of(stream, 300, 400))
    assert (stream.solver.learned, stream.solver.judged) == (400, 100)


@pytest.mark.long
def test_arms_stay_longer_only_where_answers_change_while_a_label_is_awaited():
    X, classes = wavy(1000)
    numbers = [arm.serial for arm in raced(X, classes).solver.arms]
    left = {}
    for answer in ("now", "wrong"):
        stream = raced(X, classes)
        stream.solver.learn(*part_of(stream, 0, 1))
        for r in range(1, 1000):
            kept = stream.solver.answers(stream.rows(X[r : r + 1]))
            if answer == "wrong" and r % 40 == 0:
                kept = kept_answers(numbers, np.full((len(numbers), 1), 1 - classes[r]), 0)
            stream.solver.learn_late(*part_of(stream, r, r + 1), kept)
        left[answer] = len(stream.solver.arms)
        assert stream.solver.changed == (24 if answer == "wrong" else 0)
    assert left["now"] <= leaving.MOST[1][1]
    assert leaving.MOST[1][1] < left["wrong"] <= leaving.MOST_LATE[0][1]


def test_a_race_with_former_rules_ignores_earlier_answers():
    X, classes = wavy(300)
    plain, late = (raced(X, classes, rules=2) for _ in range(2))
    plain.solver.learn(*part_of(plain, 0, 300))
    late.solver.learn_late(*part_of(late, 0, 300), [b""] * 300)
    same(plain.solver.state(), late.solver.state())


def in_runs(n, run, seed=0):
    """Return a stream in which the columns tell the class, more or less, and in which labels stay the same for a while.

    A third column shows the time.
    """
    random = np.random.default_rng(seed)
    X = settled(random.standard_normal((n, 3)))
    shown = X[:, 0] + X[:, 1] > 0
    told = np.repeat(random.random(-(-n // run)) < 0.5, run)[:n]
    X[:, 2] = settled(np.arange(n) / n * 8)
    return X, np.where(random.random(n) < 0.5, shown, told).astype(int)


def answered(X, classes, late, **parameters):
    """Return whether each answer of a race was right that was given `late` examples before its label."""
    stream = stream_of("auto", X, classes, kernel=make_kernel("rbf", 1 / 3), announced=2, C=1.0, **parameters)
    right = []
    kept = {}
    for begin in range(0, len(X), 50):
        rows = stream.rows(X[begin : begin + 50])
        right.append((stream.solver.decision(rows)[:, 0] > 0) == classes[begin : begin + 50])
        kept[begin] = stream.solver.answers(rows)
        if begin >= late:
            stream.solver.learn_late(*part_of(stream, begin - late, begin - late + 50), kept.pop(begin - late))
    return np.concatenate(right)[late + 50 :].mean()


@pytest.mark.long
def test_with_late_labels_the_arm_leads_that_answers_best_when_it_is_asked():
    X, classes = in_runs(4000, 100)
    before, present = (answered(X, classes, 500, rules=rules) for rules in (2, 3))
    assert present > before + 0.02
