"""The long memory, through the metrics that own it: against a plain loop, in any batches, and through its state."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.data.configuration import new_configuration
from hinged.service.model.decisions import margins
from hinged.service.model.decisions.costs import ASKED
from hinged.service.model.decisions.memory import DUE_MIN, FADING, DecisionMemory
from hinged.service.model.metrics import Prequential
from hinged.service.settings import Settings

COSTS = {"fraud": {"ok": 50}, "ok": {"fraud": 1}, "ask": 2}
NAMES = ["ok", "fraud", "odd"]


def configured(**parts):
    body = {"kernel": {"type": "linear"}, "features": {"type": "dense", "dim": 1}, **parts}
    return new_configuration(json.dumps(body), Settings())


def new_metrics(classes=2, **parts):
    metrics = Prequential()
    metrics.configure(configured(**parts), [])
    for name in NAMES[:classes]:
        metrics.add_class(name)
    return metrics


def drawn(n, classes=2, seed=0):
    random = np.random.default_rng(seed)
    truth = np.minimum(random.choice(classes, n, p=[0.9, 0.1] if classes == 2 else [0.8, 0.1, 0.1]), classes - 1)
    if classes == 2:
        columns = (random.normal(size=n) + 1.5 * truth - 1)[:, None]
        numbers = (columns[:, 0] > 0).astype(np.int32)
    else:
        columns = random.normal(size=(n, classes)) + 1.5 * np.eye(classes)[truth] - 1
        numbers = columns.argmax(axis=1).astype(np.int32)
    return columns, numbers, truth.astype(np.int32), np.zeros(n, np.uint8)


def part(batch, wanted):
    return tuple(array[wanted] for array in batch)


def same(one, other):
    mine, theirs = one.state(), other.state()
    return mine.keys() == theirs.keys() and all(mine[k].tobytes() == theirs[k].tobytes() for k in mine)


def test_metrics_without_costs_have_no_memory_and_the_same_state_as_before():
    plain, metrics = Prequential(), new_metrics()
    for name in NAMES[:2]:
        plain.add_class(name)
    assert metrics.memory is None
    for each in (plain, metrics):
        each.add(*drawn(200))
    assert same(plain, metrics)
    assert not any(key.startswith("memory") for key in metrics.state())


@pytest.mark.parametrize("classes", [2, 3])
def test_with_new_costs_the_memory_begins_with_the_newest_thousand(classes):
    batch, metrics = drawn(1_300, classes), new_metrics(classes)
    metrics.add(*part(batch, slice(0, 10)))
    metrics.configure(configured(watch=["odd"]), NAMES[:classes])
    assert not metrics.memory.counts.any()  # ten examples are too few
    metrics.configure(configured(), NAMES[:classes])
    metrics.add(*part(batch, slice(10, 1_100)))
    metrics.configure(configured(costs=COSTS), NAMES[:classes])
    memory, newest = metrics.memory, slice(100, 1_100)
    for w, name in enumerate(memory.watched):
        is_class = batch[2][newest] == NAMES.index(name)
        scores = batch[0][newest, -1] if classes == 2 else batch[0][newest, NAMES.index(name)]
        scores = scores if classes > 2 or name == "fraud" else -scores
        counts = [np.bincount(margins.bins_of(scores[own]), minlength=margins.BINS) for own in (~is_class, is_class)]
        np.testing.assert_array_equal(memory.counts[w], counts)
        np.testing.assert_array_equal(memory.fits[w], margins.isotonic(memory.counts[w]))
    assert memory.chances() is not None
    assert metrics.figures(NAMES[:classes])["decisions"]["examples"] == 0  # these examples were not decided
    again = new_metrics(classes, costs=COSTS)
    again.load(metrics.state())
    for each in (metrics, again):
        each.add(*part(batch, slice(1_100, 1_300)))
        each.configure(configured(costs=COSTS, watch=["odd"]), NAMES[:classes])
    assert same(metrics, again)
    if classes == 3:
        assert metrics.memory.counts[metrics.memory.watched.index("odd")].sum() == pytest.approx(
            1000 * metrics.memory.weight
        )


@pytest.mark.long
@given(
    classes=st.sampled_from([2, 3]),
    cuts=st.lists(st.integers(0, 150), max_size=6).map(lambda at: sorted({0, 150, *at})),
    restarts=st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_the_state_is_the_same_for_any_batches_and_restarts(classes, cuts, restarts):
    batch, parts = drawn(150, classes), {"costs": COSTS, "watch": ["odd"]}
    whole, metrics = new_metrics(classes, **parts), new_metrics(classes, **parts)
    whole.add(*batch)
    for begin, end in pairwise(cuts):
        metrics.add(*part(batch, slice(begin, end)))
        if restarts:
            again = new_metrics(classes, **parts)
            again.load(metrics.state())
            metrics = again
    assert same(whole, metrics)
    assert json.dumps(whole.figures(NAMES[:classes])) == json.dumps(metrics.figures(NAMES[:classes]))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("heavy", [1.0, 50.0])
def test_the_cost_is_that_of_each_decision_just_before_its_label(classes, heavy):
    """Some labels weigh more, because most of the decisions like these were taken and no labels came."""
    batch, metrics = drawn(300, classes), new_metrics(classes, costs=COSTS)
    spent = weight = asked = decided = 0.0
    by_class = np.zeros(classes)
    for k in range(300):
        one, own = part(batch, slice(k, k + 1)), heavy if k % 7 == 0 else 1.0
        chances, table, truth = metrics.memory.chances(), metrics.memory.table, int(one[2][0])
        usual = metrics.calibration().classes(one[0])
        spent, weight, by_class = spent * FADING, weight * FADING, by_class * FADING
        if chances is not None:
            found = chances.of(one[0], usual)
            assert found.sum() == pytest.approx(1)
            assert (found >= 0).all()
            decision = int(table.decide(found)[0][0])
            spent, weight = spent + own * table.matrix()[truth, decision], weight + own
            by_class[truth] += own
            asked, decided = asked + (decision == ASKED), decided + 1
        metrics.add(*one, weight=own)
    again = new_metrics(classes, costs=COSTS)
    again.load(metrics.state())
    assert same(again, metrics)
    told = metrics.figures(NAMES[:classes])["decisions"]
    assert told["examples"] == decided == 300 - DUE_MIN
    assert told["asked"] == asked / decided
    assert told["cost"] == pytest.approx(spent / weight)
    assert told["ask_all"] == 2
    for number, name in enumerate(NAMES[:classes]):
        always = sum(table.matrix()[t, number] * by_class[t] for t in range(classes)) / weight
        assert told["always"][name] == pytest.approx(always)


def test_the_best_threshold_costs_what_a_search_over_all_thresholds_finds():
    batch, metrics = drawn(2_000), new_metrics(costs={"fraud": {"ok": 5}})
    metrics.add(*batch)
    scores, fraud = margins.bins_of(batch[0][:, 0]), batch[2] == 1
    weights = FADING ** np.arange(1_999, -1, -1)
    costs = [
        (weights * np.where(scores >= border, ~fraud, 5 * fraud)).sum() / weights.sum()
        for border in range(margins.BINS + 1)
    ]
    told = metrics.figures(["ok", "fraud"])["decisions"]["best_threshold"]
    assert told["class"] == "fraud"
    assert told["cost"] == pytest.approx(min(costs))
    assert 0 < told["probability"] < 1
    assert metrics.memory.cost() < metrics.figures(["ok", "fraud"])["decisions"]["always"]["ok"]


def test_figures_of_watched_classes_come_from_more_than_the_window():
    batch, metrics = drawn(5_000), new_metrics(watch=["fraud", "later"])
    metrics.add(*batch)
    figures = metrics.figures(["ok", "fraud"])
    assert "decisions" not in figures
    long = figures["classes"]["fraud"]["long"]
    assert long["examples"] == pytest.approx(5_000, rel=0.05)
    assert long["share"] == pytest.approx((batch[2] == 1).mean(), abs=0.005)
    assert "long" not in figures["classes"]["ok"]
    assert metrics.memory.glance().keys() == {"fraud"}


def test_other_costs_are_counted_from_now_on_and_watched_classes_keep_their_counts():
    batch, metrics = drawn(400), new_metrics(costs=COSTS)
    metrics.add(*batch)
    before = metrics.memory
    metrics.configure(configured(costs=COSTS, labels={"overlap": 2}), NAMES[:2])
    assert metrics.memory is before
    metrics.configure(configured(costs={"fraud": {"ok": 3}}), NAMES[:2])
    assert np.array_equal(metrics.memory.counts[0], before.counts[0])
    assert metrics.figures(["ok", "fraud"])["decisions"]["examples"] == 0
    metrics.add(*drawn(50, seed=1))
    assert metrics.figures(["ok", "fraud"])["decisions"]["examples"] == 50
    again = new_metrics(costs={"fraud": {"ok": 3}})
    again.load(metrics.state())
    assert same(again, metrics)
    metrics.configure(configured(), NAMES[:2])
    assert metrics.memory is None


def test_a_class_that_comes_late_is_counted_from_then_on():
    metrics = new_metrics(2, watch=["odd"], costs=COSTS)
    metrics.add(*drawn(100))
    metrics.add_class("odd")
    metrics.add(*drawn(100, 3))
    metrics.add(*drawn(30))  # late labels of predictions that were made with one column
    told = metrics.figures(NAMES)
    assert told["classes"]["odd"]["long"]["examples"] == pytest.approx(100, rel=0.01)
    assert told["decisions"]["best_threshold"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seen", np.array([10**6])),
        ("decided", np.array([1, 2])),
        ("weight", np.array([np.nan])),
        ("counts", np.zeros((1, 2, 3))),
        ("fits", np.linspace(1, 0, 2 * margins.BINS).reshape(2, -1)),
        ("spent", np.array([-1.0])),
    ],
)
def test_a_state_that_does_not_fit_is_refused(name, value):
    metrics = new_metrics(costs={"fraud": {"ok": 5}, "ok": {}})
    metrics.add(*drawn(100))
    state = metrics.state() | {f"memory.{name}": value}
    with pytest.raises(ValueError, match=r"must|do not fit|NaN"):
        new_metrics(costs={"fraud": {"ok": 5}, "ok": {}}).load(state)


def test_weights_are_divided_before_they_grow_too_large(monkeypatch):
    monkeypatch.setattr("hinged.service.model.decisions.memory.WEIGHT_MAX", 1.0)
    metrics, usual = new_metrics(costs=COSTS), new_metrics(costs=COSTS)
    for each in (metrics, usual):
        each.add(*drawn(500))
        monkeypatch.undo()
    assert metrics.figures(["ok", "fraud"]) == usual.figures(["ok", "fraud"])
    assert isinstance(metrics.memory, DecisionMemory)
