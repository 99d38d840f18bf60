"""A race that follows what errors cost, compared with a plain loop over its arms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core.solver import class_numbers
from hinged.solvers.race import race as module
from hinged.solvers.race.evidence import avoided, evidence_of
from hinged.solvers.race.late import ASKED, NOW
from hinged.solvers.race.standings import LIGHTEST
from tests.helpers.solvers.streams import same, three_classes
from tests.solvers.race.test_race import RARE, led, raced, rare

COST = st.sampled_from([0.0, 1.0, 2.5, 1e-300, 9e14])
COSTS = np.array([[0.0, 5.0, 1.0], [0.25, 0.0, 50.0], [1.0, 1.0, 0.0]])


@given(costs=st.lists(st.lists(COST, min_size=3, max_size=3), min_size=3, max_size=3))
@settings(deadline=None)
def test_a_cheaper_answer_earns_more_and_the_worst_earns_nothing(costs):
    costs = np.array(costs)
    worst, shares = avoided(costs, np.arange(3))
    assert shares.shape == (3, 4)
    assert ((shares >= 0) & (shares <= 1)).all()
    assert not shares[:, 3].any()
    for row, most, earned in zip(costs, worst, shares, strict=True):
        assert most == row.max()
        if most:
            np.testing.assert_allclose(earned[:3], 1 - row / most)
        else:
            assert (earned[:3] == 1).all()


def counted(X, classes, costs, *, late, monkeypatch):
    """Return a race that has learned in batches of 40, and the credit, weights and evidence that it counted."""
    told = []
    count = module.count

    def noted(standings, credit, weights, evidence, learned, favoured):
        told.append((np.array(credit, float), np.array(weights), evidence.copy()))
        return count(standings, credit, weights, evidence, learned, favoured)

    monkeypatch.setattr(module, "count", noted)
    stream = raced(X, classes, goal="cost", announced=3)
    stream.solver.costs = costs
    answers, expected = [], []
    seen = np.zeros(3, np.int64)
    for begin in range(0, len(X), 40):
        part = slice(begin, begin + 40)
        rows = stream.rows(X[part])
        then = stream.solver.answers(rows) if late else None
        first = [class_numbers(arm.machine.decision(rows.under(arm.machine.kernel)), 3) for arm in stream.solver.arms]
        solver, keys = stream.solver, np.arange(begin, begin + len(X[part]))
        if late:
            solver.learn_late(rows, classes[part], keys, then)
        else:
            solver.learn(rows, classes[part], keys)
        answers.append(first)
        expected.append(evidence_of(seen, classes[part])[0])
        seen += np.bincount(classes[part], minlength=3)
    return stream, told, answers, expected


@pytest.mark.parametrize("late", [False, True])
def test_answers_count_by_the_cost_that_they_avoid(late, monkeypatch):
    X, classes = three_classes(240)
    stream, told, answers, evidence = counted(X, classes, COSTS, late=late, monkeypatch=monkeypatch)
    credit, weights, counted_evidence = (np.concatenate(each) for each in zip(*told, strict=True))
    np.testing.assert_array_equal(weights, COSTS.max(axis=1)[classes])
    np.testing.assert_allclose(counted_evidence, np.concatenate(evidence))
    # Each arm was asked before any example of its batch was learned.
    then = np.concatenate([np.array(first).T for first in answers])
    asked = 1 - COSTS[classes[:, None], then] / weights[:, None]
    if late:
        for earned, before in zip(credit[40:], asked[40:], strict=True):
            assert ((earned >= ASKED * before - 1e-12) & (earned <= ASKED * before + NOW + 1e-12)).all()
    else:
        np.testing.assert_allclose(credit[::40], asked[::40])
    _, (correct, _, leader), _, _ = led(credit, weights, counted_evidence)
    np.testing.assert_allclose(stream.solver.standings.correct, correct)
    assert stream.solver.standings.leader[0] == leader


def test_without_costs_each_error_costs_the_same():
    X, classes = three_classes(240)
    plain, free, equal = (raced(X, classes, goal=goal, announced=3) for goal in ("accuracy", "cost", "cost"))
    equal.solver.costs = 1.0 - np.eye(3)
    for each in (plain, free, equal):
        each.learn()
    same(plain.solver.state(), free.solver.state())
    same(plain.solver.state(), equal.solver.state())


def test_a_class_whose_errors_cost_nothing_decides_nothing():
    X, classes = three_classes(240)
    stream = raced(X, classes, goal="cost", announced=3)
    stream.solver.costs = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    stream.learn()
    state = stream.solver.state()
    assert state["weighed"][0] >= LIGHTEST
    fresh = raced(X, classes, goal="cost", announced=0)
    fresh.solver.load(state)
    fresh.solver.examine()
    same(fresh.solver.state(), state)


@pytest.mark.long
def test_with_cost_as_the_goal_the_leader_errs_where_it_is_cheap():
    found = []
    for seed in range(3):
        X, classes = rare(2000, seed)
        for goal in ("accuracy", "cost"):
            stream = raced(X, classes, goal=goal)
            stream.solver.costs = np.array([[0.0, 1.0], [RARE, 0.0]])
            wrong = (np.concatenate(stream.learn().scores)[:, 0] > 0) != classes
            found.append(np.where(classes == 1, RARE, 1.0) @ wrong / len(X))
    assert np.mean(found[1::2]) < 0.95 * np.mean(found[::2])
