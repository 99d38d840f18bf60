"""The promise through the metrics that own it: against a plain loop, in any batches, late, changed, and restarted."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.data.configuration import new_configuration
from hinged.service.model.decisions.margins import bins_of
from hinged.service.model.metrics import Prequential
from hinged.service.model.promises.levels import FADING, Level
from hinged.service.model.promises.promise import WINDOW
from hinged.service.model.promises.sets import INSIDE, OUTSIDE, UNPROMISED, Sent, scores_of
from hinged.service.settings import Settings

NAMES = ["ok", "fraud", "odd"]
PROMISES = [{"error": 0.1}, {"error": {"fraud": 0.1, "ok": 0.05}}]


def new_metrics(promise, classes=2):
    body = {"kernel": {"type": "linear"}, "features": {"type": "dense", "dim": 1}, "promise": promise}
    metrics = Prequential()
    metrics.configure(new_configuration(json.dumps(body), Settings()), [])
    for name in NAMES[:classes]:
        metrics.add_class(name)
    return metrics


def change(metrics, promise, classes=2):
    body = {"kernel": {"type": "linear"}, "features": {"type": "dense", "dim": 1}, "promise": promise}
    metrics.configure(new_configuration(json.dumps(body), Settings()), NAMES[:classes])


def drawn(n, classes=2, seed=0):
    random = np.random.default_rng(seed)
    truth = random.integers(0, classes, n).astype(np.int32)
    if classes == 2:
        columns = (random.normal(size=n) + 2 * truth - 1)[:, None]
        numbers = (columns[:, 0] > 0).astype(np.int32)
    else:
        columns = random.normal(size=(n, classes)) + 1.5 * np.eye(classes)[truth]
        numbers = columns.argmax(axis=1).astype(np.int32)
    return columns, numbers, truth, np.zeros(n, np.uint8)


def part(batch, wanted):
    return tuple(array[wanted] for array in batch)


def same(one, other):
    mine, theirs = one.state(), other.state()
    return mine.keys() == theirs.keys() and all(mine[k].tobytes() == theirs[k].tobytes() for k in mine)


def test_metrics_without_a_promise_have_the_state_and_figures_that_they_had():
    plain, metrics = Prequential(), new_metrics(None)
    for name in NAMES[:2]:
        plain.add_class(name)
    for each in (plain, metrics):
        each.add(*drawn(200))
    assert same(plain, metrics)
    assert "promise" not in metrics.figures(NAMES[:2])


@pytest.mark.long
@given(
    promise=st.sampled_from(PROMISES),
    classes=st.sampled_from([2, 3]),
    cuts=st.lists(st.integers(0, 300), max_size=6).map(lambda at: sorted({0, 300, *at})),
    restarts=st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_the_state_is_the_same_for_any_batches_and_restarts(promise, classes, cuts, restarts):
    batch = drawn(300, classes)
    whole, metrics = new_metrics(promise, classes), new_metrics(promise, classes)
    whole.add(*batch)
    for begin, end in pairwise(cuts):
        metrics.add(*part(batch, slice(begin, end)))
        if restarts:
            again = new_metrics(promise, classes)
            again.load(metrics.state())
            metrics = again
    assert same(whole, metrics)
    assert json.dumps(whole.figures(NAMES[:classes])) == json.dumps(metrics.figures(NAMES[:classes]))


def test_batches_do_not_matter_beyond_a_window_either():
    batch = drawn(2 * WINDOW + 700)
    whole, parts = new_metrics(PROMISES[0]), new_metrics(PROMISES[0])
    whole.add(*batch)
    for begin in range(0, 2 * WINDOW + 700, 777):
        parts.add(*part(batch, slice(begin, begin + 777)))
    assert same(whole, parts)
    assert whole.figures(NAMES[:2])["promise"]["window"]["examples"] == WINDOW


@pytest.mark.parametrize("promise", [*PROMISES, {"error": {"fraud": 0.2}}])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_figures_are_those_of_a_plain_loop(promise, classes):
    """Each class has the level of its rate, or the one level. A label without a rate is in the set if predicted."""
    (columns, numbers, truths, sources), error = drawn(600, classes), promise["error"]
    metrics = new_metrics(promise, classes)
    one = None if isinstance(error, dict) else Level(error)
    levels = [one or (Level(error[name]) if name in error else None) for name in NAMES[:classes]]
    rows = []
    for r, (row, number, truth) in enumerate(zip(columns, numbers, truths, strict=True)):
        f = [-row[0], row[0]] if classes == 2 else row.tolist()
        scores = [(max(f[:c] + f[c + 1 :]) - f[c]) / 2 for c in range(classes)]
        told = [
            c == number if level is None else level.lacking > 0 or score <= level.limit()
            for c, (level, score) in enumerate(zip(levels, scores, strict=True))
        ]
        limits = metrics.promise.limits(NAMES[:classes])
        assert limits.of(limits.sets(row[None], np.array([number]))) == [
            [name for name, inside in zip(NAMES, told, strict=False) if inside]
        ]
        level = levels[truth]
        if level is None or not level.lacking:
            rows.append((truth, not told[truth], sum(told)))
        if level is not None:
            level.add(int(bins_of(np.array([scores[truth]]))[0]), None if level.lacking else not told[truth], 0)
        metrics.add(*part((columns, numbers, truths, sources), slice(r, r + 1)))
    found = metrics.figures(NAMES[:classes])["promise"]
    for which, figures in [(None, found), *((NAMES.index(name), of) for name, of in found["classes"].items())]:
        own = [(missed, size) for truth, missed, size in rows if which in (None, truth)]
        ages = [len(rows) - 1 - k for k, (truth, *_) in enumerate(rows) if which in (None, truth)]
        weights = [FADING**age for age in ages]
        assert figures["all"] == figures["window"]
        assert figures["all"]["examples"] == len(own)
        assert figures["all"]["coverage"] == pytest.approx(1 - sum(m for m, _ in own) / len(own))
        assert figures["all"]["size"] == pytest.approx(sum(s for _, s in own) / len(own))
        missed = sum(w * m for w, (m, _) in zip(weights, own, strict=True))
        assert figures["fading"]["coverage"] == pytest.approx(1 - missed / sum(weights))


def test_by_class_each_class_keeps_its_own_rate():
    metrics = new_metrics({"error": {"fraud": 0.02, "ok": 0.2}})
    metrics.add(*drawn(20_000))
    found = metrics.figures(NAMES[:2])["promise"]
    for name, promised in (("fraud", 0.98), ("ok", 0.8)):
        figures = found["classes"][name]
        assert figures["promised"] == pytest.approx(promised)
        assert figures["all"]["coverage"] == pytest.approx(promised, abs=0.01)
    assert "promised" not in found


def test_the_order_in_which_a_configuration_names_the_rates_does_not_matter():
    one, other = (new_metrics({"error": error}) for error in ({"fraud": 0.02, "ok": 0.2}, {"ok": 0.2, "fraud": 0.02}))
    one.add(*drawn(300))
    other.load(one.state())
    assert one.promise.number == other.promise.number
    for metrics in (one, other):
        metrics.add(*drawn(300, seed=1))
    assert same(one, other)
    assert one.figures(NAMES[:2])["promise"] == other.figures(NAMES[:2])["promise"]


def test_a_late_label_counts_with_the_set_that_was_sent():
    metrics, batch = new_metrics({"error": 0.1}), drawn(400)
    metrics.add(*batch)
    limits = metrics.promise.limits(NAMES[:2])
    before = metrics.figures(NAMES[:2])["promise"]["all"]
    one = part(drawn(1, seed=7), slice(0, 1))
    told = Sent(limits.promise, limits.seen, limits.levels, np.array([OUTSIDE, INSIDE], np.uint8))
    for truth, missed in ((0, 1), (1, 0)):
        metrics.add(one[0], one[1], np.array([truth], np.int32), one[3], told.encode())
        after = metrics.figures(NAMES[:2])["promise"]["all"]
        assert after["examples"] == before["examples"] + 1
        assert after["coverage"] * after["examples"] == pytest.approx(
            before["coverage"] * before["examples"] + 1 - missed
        )
        before = after
    others = told._replace(promise=limits.promise ^ 1), told._replace(levels=np.zeros(3))
    unknown = [b"", *(each.encode() for each in others), told._replace(flags=told.flags * 2).encode()]
    for nothing in unknown[:3]:  # no set, and sets of another promise
        metrics.add(*one, nothing)
        assert metrics.figures(NAMES[:2])["promise"]["all"] == before
    seen = metrics.promise.seen
    metrics.add(one[0], one[1], np.array([1], np.int32), one[3], unknown[3])  # sent while labels were lacking
    assert metrics.figures(NAMES[:2])["promise"]["all"] == before
    assert metrics.promise.seen == seen + 1


def test_a_class_that_came_after_the_set_was_sent_is_missed_by_one_rate_and_not_by_rates_of_classes():
    for promise, counted in ((PROMISES[0], 1), (PROMISES[1], 0)):
        metrics = new_metrics(promise)
        metrics.add(*drawn(400))
        limits = metrics.promise.limits(NAMES[:2])
        told = limits.sent(limits.sets(np.array([[0.1]]), np.array([1]))[0])
        metrics.add_class(NAMES[2])
        before = metrics.figures(NAMES)["promise"]["all"]["examples"]
        metrics.add(np.array([[0.1]]), np.array([1]), np.array([2], np.int32), np.zeros(1, np.uint8), told)
        assert metrics.figures(NAMES)["promise"]["all"]["examples"] == before + counted


def test_before_enough_labels_every_set_has_all_classes_and_says_how_many_are_lacking():
    metrics = new_metrics({"error": 0.02})
    for seen in (0, 49):
        metrics.add(*drawn(seen))
        limits = metrics.promise.limits(NAMES[:2])
        assert limits.lacking == 50 - seen
        assert (limits.sets(drawn(9)[0], drawn(9)[1]) == UNPROMISED).all()
    metrics.add(*drawn(1))
    assert metrics.promise.lacking == 0
    assert metrics.figures(NAMES[:2])["promise"]["all"] == {"examples": 0, "coverage": None, "size": None}


def test_a_change_keeps_the_scores_and_counts_coverage_again():
    metrics = new_metrics({"error": 0.1})
    metrics.add(*drawn(1_000))
    number, limit = metrics.promise.number, metrics.promise.limits(NAMES).limits[0]
    change(metrics, {"error": 0.02})
    assert metrics.promise.lacking == 0
    assert metrics.promise.number != number
    assert metrics.promise.limits(NAMES).limits[0] > limit
    assert metrics.figures(NAMES[:2])["promise"]["all"]["examples"] == 0
    change(metrics, {"error": {"fraud": 0.1}})
    assert metrics.promise.lacking == 20
    again = new_metrics({"error": {"fraud": 0.1}})
    again.load(metrics.state())
    assert same(again, metrics)
    change(metrics, None)
    assert metrics.promise is None


@pytest.mark.parametrize("known", [0, 1, 3, 4])
def test_scores_are_half_of_what_the_best_other_class_exceeds_a_class_by(known):
    columns = np.random.default_rng(known).normal(size=(50, known))
    found = scores_of(columns, 4)
    assert found.shape == (50, 4)
    for row, scores in zip(columns, found, strict=True):
        f = [-row[0], row[0]] if known == 1 else row.tolist()
        for c in range(4):
            want = (max(f[:c] + f[c + 1 :]) - f[c]) / 2 if c < len(f) else np.inf
            assert scores[c] == want


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("totals", lambda a: a - 1),
        ("totals", lambda a: a * 1_000),
        ("window", lambda a: a[:5]),
        ("window", lambda a: a + 5),
        ("weight", lambda a: a * 0),
        ("seen", lambda a: a * 0),
        ("0.seen", lambda a: a + 10_000),
        ("0.level", lambda a: a * np.nan),
        ("faded", lambda a: a[:1]),
    ],
)
def test_a_damaged_state_is_refused(name, damage):
    metrics = new_metrics({"error": 0.1})
    metrics.add(*drawn(300))
    state = metrics.state()
    state[f"promise.{name}"] = damage(state[f"promise.{name}"])
    with pytest.raises(ValueError, match=r"must|fit|holds|have seen"):
        new_metrics({"error": 0.1}).load(state)


@pytest.mark.parametrize(
    "data",
    [
        b"short",
        Sent(1, -1, np.zeros(1), np.zeros(2, np.uint8)).encode(),
        Sent(1, 1, np.array([np.nan]), np.zeros(2, np.uint8)).encode(),
        Sent(1, 1, np.zeros(9), np.zeros(0, np.uint8)).encode()[:-1],
        b"\0" * 14 + b"\3",
    ],
)
def test_damaged_sets_are_refused(data):
    with pytest.raises(ValueError, match="a set"):
        Sent.decoded(data)
