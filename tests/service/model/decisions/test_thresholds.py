"""The effect of thresholds, against a plain loop over the examples."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import fbeta_score

from hinged.service.model.decisions.costs import CostTable
from hinged.service.model.decisions.margins import BINS, isotonic
from hinged.service.model.decisions.thresholds import THRESHOLDS, thresholds

NAMES = ["ok", "fraud"]
EMPTY = np.zeros((2, BINS))


def drawn(n, seed, weighted=False):
    """Return the counts of n examples, and a probability of each bin, which never falls."""
    random = np.random.default_rng(seed)
    truth = (random.random(n) < 0.2).astype(int)
    bins = np.clip(random.normal(BINS / 2 + 60 * truth, 80, n).astype(int), 0, BINS - 1)
    counts = np.zeros((2, BINS))
    np.add.at(counts, (truth, bins), random.random(n) if weighted else 1.0)
    return counts, isotonic(counts)


def paid(counts, decide, costs, ask):
    """Return what a rule means, example by example. decide: 1, 0 or "ask" for a bin. costs: by truth and decision."""
    n = counts.sum()
    found = dict.fromkeys(("right", "false", "missed", "asked", "cost"), 0.0)
    for b in range(BINS):
        decision = decide(b)
        for truth in (0, 1):
            share = counts[truth, b] / n
            if not share:
                continue
            if decision == "ask":
                found["asked"] += share
                found["cost"] += ask * share
                continue
            name = {(1, 1): "right", (0, 1): "false", (1, 0): "missed"}.get((truth, decision))
            if name:
                found[name] += share
            found["cost"] += costs[truth][decision] * share
    return found


costs = st.floats(0.01, 1000)


@given(seed=st.integers(0, 2**32 - 1), missed=costs, false=costs, ask=st.none() | costs, number=st.integers(0, 1))
@settings(max_examples=40, deadline=None)
def test_each_threshold_and_each_rule_means_what_a_loop_over_the_examples_finds(seed, missed, false, ask, number):
    counts, chances = drawn(60, seed, weighted=True)
    one, other = NAMES[number], NAMES[1 - number]
    table = CostTable.of({one: {other: missed}, other: {one: false}} | ({} if ask is None else {"ask": ask}), NAMES)
    found = thresholds(counts, chances, table, number)
    assert found["examples"] == pytest.approx(counts.sum())
    assert found["costs"] == {"missed": pytest.approx(missed), "false": pytest.approx(false), "ask": ask}
    assert found["threshold"] == pytest.approx(false / (missed + false))
    matrix = ((0.0, false), (missed, 0.0))

    def rule(miss):
        def decide(b):
            as_other, as_class = chances[b] * miss, (1 - chances[b]) * false
            sure = min(as_other, as_class)
            if counts[:, b].any():  # rounding decides between nearly equal costs: a cost of the curve has four digits
                assume(not math.isclose(as_other, as_class, rel_tol=1e-3))
                assume(ask is None or not math.isclose(sure, ask, rel_tol=1e-3))
            return "ask" if ask is not None and sure > ask else int(as_other >= as_class)

        return decide

    curve = found["curve"]
    for k in range(0, len(THRESHOLDS), 8):
        wanted = paid(counts, rule(curve["missed_cost"][k]), matrix, ask)
        assert {name: curve[name][k] for name in wanted} == pytest.approx(wanted)
    simple = {"never": lambda _: 0, "always": lambda _: 1, "present": rule(missed)}
    simple |= {} if ask is None else {"ask": lambda _: "ask"}
    assert found["rules"].keys() == simple.keys()
    for name, decide in simple.items():
        assert found["rules"][name] == pytest.approx(paid(counts, decide, matrix, ask))


def test_a_threshold_stands_for_the_ratio_of_the_costs_and_the_best_threshold_is_near_the_present_one():
    counts, chances = drawn(5_000, 1)
    found = thresholds(counts, chances, CostTable.of({"fraud": {"ok": 9}, "ok": {"fraud": 1}}, NAMES), 1)
    curve = found["curve"]
    at = curve["threshold"].index(0.1)
    assert found["threshold"] == pytest.approx(0.1)
    assert curve["missed_cost"][at] == 9.0
    # The probabilities are isotonic on these examples, so no threshold costs less than the ratio of the costs.
    assert min(curve["cost"]) == pytest.approx(found["rules"]["present"]["cost"], abs=1e-3)
    stopped = [right + false for right, false in zip(curve["right"], curve["false"], strict=True)]
    assert sorted(stopped, reverse=True) == stopped
    assert curve["precision"][at] == pytest.approx(curve["right"][at] / stopped[at])
    assert curve["recall"][at] == pytest.approx(curve["right"][at] / (counts[1].sum() / counts.sum()))


def test_costs_of_right_decisions_count_too():
    counts, chances = drawn(200, 3)
    table = CostTable.of({"fraud": {"fraud": 2, "ok": 11}, "ok": {"fraud": 4, "ok": 1}}, NAMES)
    found = thresholds(counts, chances, table, 1)
    assert found["threshold"] == pytest.approx(3 / 12)
    wanted = paid(counts, lambda b: int(chances[b] >= 0.25), ((1, 4), (11, 2)), None)
    at = found["curve"]["threshold"].index(0.25)
    assert found["curve"]["missed_cost"][at] == 11
    assert {name: found["curve"][name][at] for name in wanted} == pytest.approx(wanted)
    assert found["rules"]["present"] == pytest.approx(wanted)


@pytest.mark.parametrize("free", [{"ok": {"fraud": 0}}, {"ok": {"ok": 5}}])
def test_costs_that_amount_to_no_threshold_have_none_and_the_curve_is_finite(free):
    counts, chances = drawn(50, 4)
    found = thresholds(counts, chances, CostTable.of(free, NAMES), 1)
    assert found["threshold"] is None
    assert found["costs"]["false"] > free["ok"].get("ok", 0)
    assert all(math.isfinite(cost) for cost in (*found["curve"]["missed_cost"], *found["curve"]["cost"]))


def test_without_examples_there_is_no_curve_and_without_the_class_no_recall():
    table = CostTable.of({}, NAMES)
    assert thresholds(EMPTY, np.full(BINS, 0.5), table, 1)["curve"] is None
    counts, chances = drawn(50, 5)
    counts[1] = 0
    curve = thresholds(counts, chances, table, 1)["curve"]
    assert set(curve["recall"]) == {None}
    assert None in curve["precision"]


@given(seed=st.integers(0, 2**32 - 1), beta=st.floats(0.01, 100))
@settings(max_examples=30, deadline=None)
def test_f_beta_is_that_of_scikit_learn_even_where_the_model_would_ask(seed, beta):
    counts, chances = drawn(60, seed, weighted=True)
    table = CostTable.of({"fraud": {"ok": 9}, "ok": {"fraud": 1}, "ask": 0.2}, NAMES)
    curve = thresholds(counts, chances, table, 1, beta)["curve"]
    truth, bins = np.divmod(np.arange(2 * BINS), BINS)
    for k in range(0, len(THRESHOLDS), 8):
        predicted = (chances[bins] >= THRESHOLDS[k]).astype(int)
        wanted = fbeta_score(truth, predicted, beta=beta, sample_weight=counts.ravel(), zero_division=0.0)
        assert curve["f_beta"][k] == pytest.approx(wanted)


def test_without_the_class_and_without_a_decision_for_it_there_is_no_f_beta():
    counts, _ = drawn(50, 5)
    counts[1] = 0
    found = thresholds(counts, np.zeros(BINS), CostTable.of({}, NAMES), 1)
    assert set(found["curve"]["f_beta"]) == {None}
