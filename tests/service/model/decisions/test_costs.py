"""Expected costs, against a plain loop over classes and decisions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.service.model.decisions.costs import ASKED, CostTable

NAMES = ["ok", "fraud", "odd"]
COST = st.floats(0, 100).map(lambda cost: round(cost, 2))
COSTS = st.dictionaries(
    st.sampled_from([*NAMES, "later"]), st.dictionaries(st.sampled_from([*NAMES, "never"]), COST), min_size=1
)


def plain(costs, truth, decision):
    if decision == "ask":
        return costs["ask"]
    return costs.get(truth, {}).get(decision, float(truth != decision))


@given(costs=COSTS, ask=st.none() | COST, draw=st.integers(0, 2**32 - 1), classes=st.integers(2, 3))
def test_a_decision_has_the_lowest_expected_cost(costs, ask, draw, classes):
    costs = costs if ask is None else {**costs, "ask": ask}
    names = NAMES[:classes]
    table = CostTable.of(costs, names)
    chances = np.random.default_rng(draw).dirichlet(np.ones(classes), 20)
    expected = [
        [sum(p * plain(costs, t, d) for p, t in zip(row, names, strict=True)) for d in names] for row in chances
    ]
    assert np.allclose(table.expected(chances), expected)
    decisions, least = table.decide(chances)
    for row, decision, cost in zip(expected, decisions, least, strict=True):
        best = min(row) if ask is None else min(*row, ask)
        assert cost == pytest.approx(best, abs=1e-9)
        said = ask if decision == ASKED else row[decision]
        assert said == pytest.approx(best, abs=1e-9)
    for t, truth in enumerate(names):
        for d, decision in enumerate(names):
            assert table.matrix()[t, d] == pytest.approx(plain(costs, truth, decision))
        assert np.isnan(table.matrix()[t, ASKED]) if ask is None else table.matrix()[t, ASKED] == ask


def test_a_cost_of_one_class_leaves_the_others_at_one():
    table = CostTable.of({"fraud": {"ok": 50}}, NAMES)
    assert table.matrix()[:, :3].tolist() == [[0, 1, 1], [50, 0, 1], [1, 1, 0]]
    assert table.decide(np.array([[0.97, 0.03, 0.0]]))[0].tolist() == [1]
    assert table.decide(np.array([[0.99, 0.01, 0.0]]))[0].tolist() == [0]
