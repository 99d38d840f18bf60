from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from hinged.service.model.drift import Drift
from hinged.service.model.figures import CONFUSION_CLASSES_MAX, agreement
from hinged.service.model.metrics import QUERIED, RANDOM, SOURCES, STREAMED, UNKNOWN, WINDOW, Prequential
from hinged.solvers.scores import sigmoid, tally
from hinged.solvers.scores.tally import FADING, PROBABILITY_MIN
from hinged.solvers.warm import warm_up_metrics

AGREEMENT = ("accuracy", "balanced_accuracy", "kappa")


def fresh(classes=2):
    metrics = Prequential()
    for _ in range(classes):
        metrics.add_class()
    return metrics


def stream(n, classes=2, seed=0):
    """Return a batch of decision values, predicted classes, classes and sources. About two of three predictions are
    right.
    """
    random = np.random.default_rng(seed)
    truth = random.integers(0, classes, n).astype(np.int32)
    if classes <= 2:
        columns = random.normal(2 * truth - 1, 2)[:, None]
        numbers = ((columns[:, 0] > 0) & (classes > 1)).astype(np.int32)
    else:
        columns = random.normal(2.0 * np.eye(classes)[truth] - 1, 1.5)
        numbers = columns.argmax(axis=1).astype(np.int32)
    return columns, numbers, truth, random.choice(3, n, p=[0.6, 0.3, 0.1]).astype(np.uint8)


def part(batch, wanted):
    return tuple(array[wanted] for array in batch)


def same(a, b):
    a, b = a.state(), b.state()
    return a.keys() == b.keys() and all(a[k].tobytes() == b[k].tobytes() and a[k].dtype == b[k].dtype for k in a)


def probabilities(classes, batch):
    """Return the metrics' probabilities for each example before its label. The examples are added one by one."""
    metrics, said = fresh(classes), []
    for i in range(len(batch[1])):
        calibration = metrics.calibration()
        p = calibration.classes(batch[0][i : i + 1])[0]
        said.append(np.full(max(classes, 2), 1 / max(classes, 2)) if np.isnan(p).any() else p)
        metrics.add(*part(batch, slice(i, i + 1)))
    return np.array(said)


def test_nothing_predicted_has_no_figures():
    for metrics in (fresh(0), fresh(1)):
        figures = metrics.figures()
        assert (figures["predicted"], figures["accuracy"], figures["accuracy_window"]) == (0, None, None)
        assert set(figures["window"].values()) == {0, None}
        assert set(figures["fading"].values()) == {0, None}
        assert figures["sources"] == {}
        assert figures["drift"] == {
            "detector": "adwin",
            "flagged": False,
            "last_at": None,
            "count": 0,
            "examples": 0,
            "errors": 0,
        }
        assert [(g.source, g.predicted) for g in metrics.glance()] == [("all", 0)]


def test_examples_without_a_prediction_do_not_count():
    metrics = fresh()
    metrics.add(np.zeros((1, 1)), np.array([UNKNOWN]), np.array([0]), np.zeros(1, np.uint8))
    metrics.add(np.ones((3, 1)), np.array([0, 1, 1]), np.array([0, 1, 0]), np.zeros(3, np.uint8))
    figures = metrics.figures()
    assert (figures["predicted"], figures["accuracy"], figures["accuracy_window"]) == (3, 2 / 3, 2 / 3)
    assert metrics.added == 4


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("n", [60, 1500])
def test_the_windows_figures_equal_the_references_over_the_newest_examples(classes, n):
    batch = stream(n, classes)
    metrics = fresh(classes)
    metrics.add(*batch)
    columns, numbers, truth, _ = part(batch, slice(-WINDOW, None))
    p = probabilities(classes, batch)[-WINDOW:]
    figures = metrics.figures(list("abcd"[:classes]))
    known = range(classes)
    areas = [
        reference.roc_auc_score(truth == c, columns[:, c if classes > 2 else 0]) for c in known if classes > 2 or c
    ]
    onehot = np.eye(classes)[truth]
    assert figures["window"] == pytest.approx(
        {
            "examples": min(n, WINDOW),
            "accuracy": reference.accuracy_score(truth, numbers),
            "balanced_accuracy": reference.balanced_accuracy_score(truth, numbers),
            "kappa": reference.cohen_kappa_score(truth, numbers),
            "log_loss": reference.log_loss(truth, np.maximum(p, PROBABILITY_MIN), labels=known),
            "brier": reference.brier_score_loss(onehot.argmax(axis=1), p, labels=known, scale_by_half=True),
            "auc": np.mean(areas),
        },
        rel=1e-6,
    )
    assert figures["accuracy_window"] == figures["window"]["accuracy"]
    assert figures["accuracy"] == pytest.approx(reference.accuracy_score(batch[2], batch[1]))
    assert figures["confusion"] == {
        "classes": list("abcd"[:classes]),
        "all": reference.confusion_matrix(batch[2], batch[1], labels=known).tolist(),
        "window": reference.confusion_matrix(truth, numbers, labels=known).tolist(),
    }


@pytest.mark.parametrize("n", [1, 7, 60, 1500, 2600])
def test_the_newest_halfs_figures_equal_the_references_for_each_source(n):
    batch = stream(n, 3)
    columns, numbers, truth, _ = batch
    sources = np.random.default_rng(n).integers(0, 3, n).astype(np.uint8)
    metrics = fresh(3)
    for begin in range(0, n, 70):
        metrics.add(*part((columns, numbers, truth, sources), slice(begin, begin + 70)))
    figures = metrics.figures()
    for name, of in [("all", sources < 3), *((name, sources == s) for s, name in enumerate(SOURCES))]:
        if not of.any():
            continue
        told = (figures if name == "all" else figures["sources"][name])["newest_half"]
        half = min((of.sum() + 1) // 2, WINDOW)
        newest = truth[of][-half:], numbers[of][-half:]
        assert told["examples"] == half
        assert told["accuracy"] == pytest.approx(reference.accuracy_score(*newest))
        cells = reference.confusion_matrix(*newest, labels=range(3))
        assert told == pytest.approx({"examples": half, **agreement(cells)})


def test_early_errors_leave_the_newest_half():
    metrics = fresh()
    truth, wrong = np.arange(24) % 2, np.arange(24) < 8
    at_random = np.full(24, RANDOM, np.uint8)
    metrics.add(np.ones((24, 1)), (truth ^ wrong).astype(np.int32), truth, at_random)
    figures = metrics.figures()["sources"]["random"]
    assert figures["window"]["accuracy"] == 2 / 3
    assert (figures["newest_half"]["accuracy"], figures["newest_half"]["examples"]) == (1.0, 12)


def faded(values):
    """Return sum_i FADING^(age of i) value_i. The terms are added one after another."""
    total = np.zeros_like(values[0], float)
    for value in values:
        total = FADING * total + value
    return total


@pytest.mark.parametrize(("classes", "n"), [(2, 50), (3, 2500), (2, 30_000)])
def test_fading_figures_fade_by_a_factor_per_example(classes, n):
    batch = stream(n, classes)
    metrics = fresh(classes)
    metrics.add(*batch)
    _, numbers, truth, sources = batch
    for source, name in ((slice(None), None), (sources == QUERIED, "queried")):
        figures = metrics.figures() if name is None else metrics.figures()["sources"][name]
        weights = FADING ** np.arange(truth[source].size)[::-1]
        got = figures["fading"]
        cells = faded([np.eye(classes**2)[c] for c in truth[source] * classes + numbers[source]])
        assert got["examples"] == pytest.approx(cells.sum())
        for key, score in zip(
            AGREEMENT,
            (reference.accuracy_score, reference.balanced_accuracy_score, reference.cohen_kappa_score),
            strict=True,
        ):
            assert got[key] == pytest.approx(score(truth[source], numbers[source], sample_weight=weights)), key
    if n <= 2500:
        p = np.maximum(probabilities(classes, batch), PROBABILITY_MIN)
        losses = -np.log(p[np.arange(n), truth])
        squares = ((p - np.eye(p.shape[1])[truth]) ** 2).sum(axis=1) / 2
        got, weight = metrics.figures()["fading"], faded(np.ones(n))
        assert got["log_loss"] == pytest.approx(faded(losses) / weight)
        assert got["brier"] == pytest.approx(faded(squares) / weight)


@pytest.mark.parametrize("classes", [2, 3])
def test_sources_are_kept_apart(classes):
    batch = stream(2500, classes)
    metrics = fresh(classes)
    metrics.add(*batch)
    figures = metrics.figures()
    assert list(figures["sources"]) == list(SOURCES)
    for source, name in enumerate(SOURCES):
        alone = fresh(classes)
        alone.add(*part(batch, batch[3] == source))
        expected, got = alone.figures()["sources"][name], figures["sources"][name]
        assert got["predicted"] == expected["predicted"]
        for kind in ("window", "fading"):
            for key in (*AGREEMENT, "examples"):
                assert got[kind][key] == expected[kind][key]
        assert got["window"]["auc"] == expected["window"]["auc"]
        # Only the calibration is fitted to all examples together.
        assert got["window"]["log_loss"] == pytest.approx(expected["window"]["log_loss"], rel=0.2)
    assert sum(found["predicted"] for found in figures["sources"].values()) == figures["predicted"]


def grown(batches_of, seed=0):
    """Return the metrics of a stream in which classes appear one by one. `batches_of(n)` divides n examples into
    batches.
    """
    metrics = Prequential()
    for classes in (1, 2, 3, 4):
        metrics.add_class()
        batch = stream(700, classes, seed + classes)
        batch[1][::50] = UNKNOWN
        for a, b in batches_of(700):
            metrics.add(*part(batch, slice(a, b)))
    return metrics


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 700), max_size=8), seed=st.integers(0, 9))
def test_batches_change_no_bit(cuts, seed):
    edges = [0, *sorted(cuts), 700]
    whole = grown(lambda n: [(0, n)], seed)
    parts = grown(lambda _: list(pairwise(edges)), seed)
    assert same(whole, parts)


def test_adding_one_by_one_equals_adding_all_at_once():
    assert same(grown(lambda n: [(0, n)]), grown(lambda n: [(i, i + 1) for i in range(n)]))


def test_a_loaded_state_continues_identically_and_shares_no_memory():
    metrics, restored = grown(lambda n: [(0, n)]), Prequential()
    restored.load(metrics.state())
    assert same(metrics, restored)
    before = metrics.figures()
    assert restored.figures() == before
    for source in (STREAMED, RANDOM):
        batch = stream(900, 4, seed=7)
        batch[3][:] = source
        metrics.add(*batch)
        assert restored.figures() == before
        restored.add(*batch)
        before = metrics.figures()
        assert same(metrics, restored)
    metrics.add_class()
    restored.add_class()
    assert same(metrics, restored)


def test_figures_name_the_calibration_in_use_from_three_classes_on():
    batch = stream(1200, 3)
    metrics, without, two = fresh(3), Prequential(choosing=False), fresh(2)
    for _ in range(3):
        without.add_class()
    for each in (metrics, without):
        each.add(*batch)
    two.add(*stream(100))
    assert (without.figures()["calibrations"], two.figures()["calibrations"]) == (None, None)
    told = metrics.figures()["calibrations"]
    assert list(told) == ["answers", "examples", "sigmoids", "temperature", "vector"]
    assert told[told["answers"]]["log_loss"] == min(told[name]["log_loss"] for name in list(told)[2:])
    assert metrics.figures()["window"]["log_loss"] < without.figures()["window"]["log_loss"]


def test_without_choosing_calibrations_a_state_is_as_before_they_existed():
    metrics, restored = Prequential(choosing=False), Prequential(choosing=False)
    for _ in range(3):
        metrics.add_class()
    metrics.add(*stream(500, 3))
    state = metrics.state()
    assert not any(name.startswith("calibrations") for name in state)
    restored.load(state)
    assert same(metrics, restored)
    with pytest.raises(ValueError, match="no array"):
        Prequential().load(state)


def test_predictions_from_before_a_class_was_added_count_with_their_own_classes():
    batch = stream(400, 2)
    early, late = fresh(2), fresh(2)
    early.add(*batch)
    late.add(*part(batch, slice(0, 200)))
    late.add_class()
    late.add(*part(batch, slice(200, 400)))
    a, b = early.figures()["window"], late.figures()["window"]
    assert {k: b[k] for k in AGREEMENT} == {k: a[k] for k in AGREEMENT}
    assert b["auc"] == pytest.approx(a["auc"])
    assert b["log_loss"] == pytest.approx(a["log_loss"], rel=0.05)
    # A class that was added after the prediction has no probability.
    p = late.calibration().classes(np.array([[0.1]]))[0]
    late.add(np.array([[0.1]]), np.array([1]), np.array([2]), np.zeros(1, np.uint8))
    log_loss, brier = late.state()["all.losses"][400]
    assert log_loss == pytest.approx(-np.log(PROBABILITY_MIN))
    assert brier == pytest.approx((p @ p + 1) / 2)
    assert late.figures(["a", "b", "c"])["confusion"]["all"][2] == [0, 1, 0]


def test_the_auc_averages_over_present_classes_and_existing_columns():
    metrics = fresh(2)
    metrics.add(*stream(100, 2))
    metrics.add_class()
    metrics.add_class()
    batch = stream(100, 4, seed=3)
    keep = batch[2] != 3
    batch = part(batch, keep)
    metrics.add(*batch)
    old, new = stream(100, 2), batch
    areas = []
    for c, sign in ((0, -1), (1, 1)):
        scores = np.concatenate((sign * old[0][:, 0], new[0][:, c]))
        areas.append(reference.roc_auc_score(np.concatenate((old[2], new[2])) == c, scores))
    areas.append(reference.roc_auc_score(new[2] == 2, new[0][:, 2]))
    assert metrics.figures()["window"]["auc"] == pytest.approx(np.mean(areas), rel=1e-6)


def test_ties_count_half_in_the_auc():
    metrics = fresh(2)
    metrics.add(np.zeros((10, 1)), np.zeros(10, int), np.arange(10) % 2, np.zeros(10, np.uint8))
    assert metrics.figures()["window"]["auc"] == 0.5


def test_probabilities_are_for_the_predicted_class_and_unknown_before_the_first_example():
    columns, numbers, truth, sources = stream(300, 2)
    metrics = fresh(2)
    assert np.isnan(metrics.probability(columns, numbers)).all()
    metrics.add(columns, numbers, truth, sources)
    calibration = metrics.calibration()
    p = metrics.probability(columns, numbers)
    assert (p >= 0.4).all()  # near the boundary, the sign of f and the fitted probability may disagree
    assert p[np.abs(columns[:, 0]).argmax()] == p.max()
    metrics.add(columns, numbers, 1 - truth, sources)
    assert calibration(columns, numbers).tobytes() == p.tobytes()
    assert np.isnan(metrics.probability(columns[:1], np.array([UNKNOWN]))).all()


def test_a_glance_has_the_figures_of_the_window():
    metrics = grown(lambda n: [(0, n)])
    figures = metrics.figures()
    for glance in metrics.glance():
        expected = figures if glance.source == "all" else figures["sources"][glance.source]
        window = expected["window"]
        assert glance.predicted == expected["predicted"]
        assert glance.accuracy == window["accuracy"]
        assert (glance.log_loss, glance.brier) == pytest.approx((window["log_loss"], window["brier"]))
    assert [glance.source for glance in metrics.glance()] == ["all", *SOURCES]


def test_functions_compiled_beforehand_serve_every_stream():
    warm_up_metrics()
    functions = (
        sigmoid.learn_scores, sigmoid.probabilities_of, sigmoid.softmax_of, tally.write_losses, tally.count,
    )  # fmt: skip
    before = [len(function.signatures) for function in functions]
    metrics = Prequential()
    metrics.load(grown(lambda n: [(0, n)]).state())
    batch = stream(5, 4)
    for array in batch:
        array.flags.writeable = False  # arrays that are read from a log are read-only
    metrics.add(*batch)
    metrics.probability(batch[0], batch[1])
    assert [len(function.signatures) for function in functions] == before == [1] * 5


def test_the_metrics_memory_is_bounded():
    metrics = fresh(10)
    metrics.add(*stream(3000, 10))
    full = metrics.memory_bytes()
    metrics.add(*stream(20_000, 10))
    assert metrics.memory_bytes() == pytest.approx(full, rel=0.01)
    assert full < 5 * WINDOW * (10 * 4 + 32)


def test_a_confusion_matrix_of_very_many_classes_is_left_out():
    metrics = fresh(CONFUSION_CLASSES_MAX)
    assert metrics.figures(list(range(CONFUSION_CLASSES_MAX)))["confusion"] is not None
    metrics.add_class()
    assert metrics.figures(list(range(CONFUSION_CLASSES_MAX + 1)))["confusion"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("columns", np.zeros((5, 3))),
        ("columns", np.zeros((5, 0))),
        ("numbers", np.full(5, 2)),
        ("numbers", np.full(5, -2)),
        ("classes", np.full(5, 2)),
        ("classes", np.zeros(4, int)),
        ("sources", np.full(5, 3, np.uint8)),
    ],
)
def test_inconsistent_batches_are_refused_before_anything_changes(name, value):
    metrics = fresh(2)
    batch = dict(zip(("columns", "numbers", "classes", "sources"), stream(5), strict=True))
    metrics.add(**batch)
    before = fresh(2)
    before.load(metrics.state())
    with pytest.raises(ValueError, match=r"must (?:be|have)|needs a column"):
        metrics.add(**batch | {name: value})
    assert same(metrics, before)


@pytest.mark.parametrize(
    "change",
    [
        {"counts": np.array([3, 5])},
        {"counts": np.array([1 << 40, 5])},
        {"all.classes": np.full(WINDOW, 2, np.int32)},
        {"all.numbers": np.full(WINDOW, -1, np.int32)},
        {"all.scores": np.zeros((1, 3), np.float32)},
        {"all.cells": np.zeros((3, 3), np.int64)},
        {"all.seen": np.array([-1])},
        {"drift.counts": np.zeros(3, np.int64)},
    ],
)
def test_an_inconsistent_state_is_refused(change):
    metrics = fresh(2)
    metrics.add(*stream(5))
    with pytest.raises(ValueError, match=r"must be|do not fit|at most"):
        Prequential().load(metrics.state() | change)


def test_drift_is_flagged_only_for_streamed_examples_and_for_one_window():
    drift = Drift()

    def more(metrics, n, error, source):
        wrong = np.random.default_rng(n).random(n) < error
        if source == STREAMED:
            drift.add(wrong.tolist(), list(range(metrics.added + 1, metrics.added + 1 + n)))
        truth = np.zeros(n, np.int32)
        metrics.add(np.zeros((n, 1)), wrong.astype(np.int32), truth, np.full(n, source, np.uint8))
        return metrics.figures()["drift"]

    metrics = fresh(2)
    assert more(metrics, 3000, 0.1, STREAMED)["count"] == 0
    assert more(metrics, 700, 0.9, QUERIED)["count"] == 0
    found = more(metrics, 500, 0.5, STREAMED)
    assert found["flagged"]
    assert found["count"] == 1
    assert 3700 < found["last_at"] == drift.last_at < 4000
    found = more(metrics, WINDOW, 0.5, STREAMED)
    assert (found["flagged"], found["count"]) == (False, 1)
