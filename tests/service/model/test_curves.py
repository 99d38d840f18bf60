"""Learning curves have limited length, depend on the log alone, and show the metrics at the time of each point."""

import json
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.answers import MarkKind
from hinged.service import limits
from hinged.service.commands.figures import curves_of
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import to_inputs
from hinged.service.data.parameters import SOLVER_NAMES
from hinged.service.model.curves import (
    FIELDS,
    FIGURES,
    MARKED,
    PART,
    PAUSE_MS,
    POINTS_MAX,
    WHERE,
    Curves,
    LearningCurve,
)
from hinged.service.model.events.learning import PredictionsMade, TrainingFinished
from hinged.service.model.events.states import ModelRolledBack
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from tests.helpers import models
from tests.helpers.examples import heaps
from tests.helpers.states import digest_of

SIZES = {"cache_bytes": 2**22, "answers_kept": 1000}
BASE = {"kernel": {"type": "rbf", "gamma": 0.7}, "features": {"type": "dense", "dim": 2}}


def new_model(**changes):
    return models.created(parse_configuration(json.dumps(BASE | changes), Settings()), SIZES)


def learn(model, examples):
    """Learn examples as one micro-batch."""
    xs, labels = (list(part) for part in zip(*examples, strict=True))
    request = models.request_of(to_inputs(xs, model.configuration), labels)
    models.learn(model, request, now_ms=model.at_ms + PAUSE_MS)


def stream(n, seed=0):
    return heaps(n, ["a", "b"], seed=seed)


def point(k):
    return (2 * k, k, PAUSE_MS * k, *[0.5] * len(FIGURES))


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.integers(1, 5000), min_size=1, max_size=3000))
def test_a_curve_of_any_length_is_bounded_ascends_and_ends_within_a_stride_of_the_last_example(steps):
    curve, examples = LearningCurve(), 0
    for step in steps:
        examples += step
        if curve.due(examples, PAUSE_MS * examples):
            curve.add(point(examples))
        assert 0 < len(curve.points) < POINTS_MAX
    found = [p[1] for p in curve.points]
    assert found == sorted(set(found))
    assert 0 <= examples - found[-1] < curve.stride


def test_a_curve_keeps_the_whole_life_of_its_model_as_it_is_thinned():
    curve = LearningCurve()
    for k in range(1, 100_001):
        if curve.due(k, PAUSE_MS * k):
            curve.add(point(k))
    found = np.array([p[1] for p in curve.points])
    assert found.size >= POINTS_MAX / 2 - 1
    assert found[0] <= curve.stride
    assert np.diff(found).max() == curve.stride


def test_each_point_has_the_metrics_of_its_time():
    model = new_model()
    for k, example in enumerate(stream(40), 1):
        learn(model, [example])
        columns = model.curves.own.columns()
        assert columns["examples"][-1] == k
        assert columns["accuracy"][-1] == model.metrics.figures()["accuracy_window"]
        assert columns["fading"][-1] == model.metrics.figures()["fading"]["accuracy"]
        assert columns["points"][-1] == model.solver.live
    assert columns["queried"][-1] is None
    assert model.curves.own.columns(after=columns["position"][-2])["examples"] == [40]


def test_people_read_words_about_each_kind_of_mark():
    assert set(MARKED) == set(get_args(MarkKind))


def test_curves_are_part_of_the_snapshot_and_exclude_undone_events():
    model = new_model()
    learn(model, stream(30))
    model.apply(model.position + 1, TrainingFinished(model.at_ms))
    then = Model.restore("m", model.snapshot(), **SIZES)
    assert then.curves.state()[0] == model.curves.state()[0]
    assert then.curves.own.points == model.curves.own.points
    assert [mark.kind for mark in then.curves.marks] == ["finished"]
    learn(model, stream(30, seed=1))
    back, at = then.position, model.position + 1
    then.come_back(at, ModelRolledBack(back, model.at_ms))
    assert then.curves.own.points[-1][0] < back < model.curves.own.points[-1][0]
    assert [(mark.kind, mark.position) for mark in then.curves.marks] == [("finished", back), ("rolled_back", at)]


def test_the_newest_marks_are_kept():
    curves = Curves()
    for k in range(1000):
        curves.mark("drift", k, k, k)
    assert [mark.position for mark in curves.marks] == list(range(1000 - limits.MARKS_KEPT, 1000))


def test_the_newest_marks_say_what_changed_also_after_a_restart():
    curves = Curves()
    for k in range(1, 2 * limits.MARKS_KEPT):
        curves = curves.changed_at(k, ["C", "half_life"])
        curves.mark("reconfigured", k, 0, 0)
    facts, arrays = curves.state()
    then = Curves()
    then.load(json.loads(json.dumps(facts)), arrays)
    assert then.told() == curves.told()
    assert {mark["text"] for mark in then.told()} == {"settings changed: C, half life"}
    assert len(facts["changed"]) <= limits.MARKS_KEPT + 1
    with pytest.raises(ValueError, match="after position"):
        then.check(2 * limits.MARKS_KEPT - 3, 0, 0)


@pytest.mark.parametrize(
    "forge",
    [
        lambda facts, arrays: facts.update(stride=0),
        lambda facts, arrays: arrays.update(own=arrays["own"][::-1].copy()),
        lambda facts, arrays: arrays.update(own=arrays["own"][:, 1:].copy()),
        lambda facts, arrays: arrays.update(own=arrays["own"] + 0.5),
        lambda facts, arrays: arrays.update(own=np.repeat(arrays["own"], POINTS_MAX, axis=0)),
        lambda facts, arrays: facts.update(shadows={"x": 1}),
    ],
)
def test_invalid_curves_are_refused(forge):
    curves = Curves()
    for k in range(1, 9):
        curves.own.add(point(k))
    facts, arrays = curves.state()
    facts = json.loads(json.dumps(facts))
    Curves().load(facts, arrays)
    forge(facts, arrays)
    with pytest.raises(ValueError):  # noqa: PT011  each message differs
        Curves().load(facts, arrays)


@pytest.mark.parametrize("column", range(len(WHERE)))
def test_a_curve_beyond_its_models_position_is_refused(column):
    curves = Curves()
    curves.own.add(point(8))
    now = [16, 8, 8 * PAUSE_MS]
    curves.check(*now)
    now[column] -= 1
    with pytest.raises(ValueError, match="after position"):
        curves.check(*now)


@pytest.mark.parametrize("solver", SOLVER_NAMES)
def test_every_solver_has_a_curve_and_reading_it_changes_no_bit(solver):
    changes = {"precision": "float64"} if solver == "exact" else {}
    watched, unwatched = new_model(solver=solver, **changes), new_model(solver=solver, **changes)
    unwatched.curves.note = lambda *_: None
    for k in range(8):
        learn(watched, stream(10, seed=k))
        learn(unwatched, stream(10, seed=k))
    assert len(watched.curves.own.points) >= 8
    assert digest_of(watched) == digest_of(unwatched)
    restored = Model.restore("m", watched.snapshot(), **SIZES)
    assert restored.curves.own.points == watched.curves.own.points


def test_micro_batches_in_quick_succession_make_a_point_now_and_then():
    curve = LearningCurve()
    for k in range(1, 2001):  # one example per millisecond
        if curve.due(k, k):
            curve.add((2 * k, k, k, *[0.5] * len(FIGURES)))
    found = np.array([p[1] for p in curve.points])
    assert found[:PART].tolist() == list(range(1, PART + 1))
    assert (np.diff(found[PART:]) <= np.minimum(PAUSE_MS, found[PART + 1 :] / PART + 1)).all()
    assert found.size < PART * (1 + np.log(2000 / PART)) + 2000 / PAUSE_MS


def test_the_last_point_in_an_answer_is_the_present():
    model = new_model()
    learn(model, stream(60))
    model.at_ms -= PAUSE_MS  # the next batch comes at the same time
    learn(model, stream(1, seed=1))
    assert model.curves.own.columns()["examples"][-1] == 60
    told = curves_of(model, 0)["curve"]
    assert told["examples"][-1] == 61
    assert told["accuracy"][-1] == model.metrics.figures()["accuracy_window"]
    assert curves_of(model, told["position"][-1])["curve"]["position"] == []


def test_a_finishing_step_adds_one_present_point():
    model = new_model()
    learn(model, stream(60))
    before = curves_of(model, 0)["curve"]
    model.apply(model.position + 1, TrainingFinished(model.at_ms + 1000))
    told = curves_of(model, 0)["curve"]
    assert told["examples"][-2:] == [60, 60]
    assert told["gap"][-1] == model.solver.certificate()["gap"] < before["gap"][-1]
    assert curves_of(model, before["position"][-1])["curve"]["position"] == [model.position]
    at = model.position
    model.apply(at + 1, PredictionsMade([], model.at_ms + 1000))
    assert curves_of(model, at)["curve"]["position"] == []


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        ({"goal": "balanced"}, lambda metrics, _: metrics.figures()["window"]["balanced_accuracy"]),
        ({"goal": "cost", "costs": {"a": {"b": 9}}}, lambda metrics, costs: np.nanmean(metrics.costs_of_newest(costs))),
        ({}, lambda *_: None),
    ],
)
def test_a_curve_has_the_figure_of_the_models_goal(goal, expected):
    model = new_model(kernel={"type": "rbf"}, **goal)
    for k in range(12):
        learn(model, stream(10, seed=k))
    restored = Model.restore("m", model.snapshot(), **SIZES)
    for of in (model, restored):
        curve = curves_of(of, 0)["curve"]["goal"]
        assert curve[-1] == (pytest.approx(found) if (found := expected(of.metrics, goal.get("costs"))) else None)
        assert of.curves.own.points == model.curves.own.points
    assert model.curves.state()[1]["own"].shape[1] == len(FIELDS) - (not goal)
