import json
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.frames import BadFrame
from hinged.service import limits
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import to_inputs
from hinged.service.data.parts import Configuration
from hinged.service.errors import Conflict, Invalid, ModelFull
from hinged.service.model.events.changes import ChallengerPromoted
from hinged.service.model.events.learning import ExamplesLearned, TrainingFinished
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from tests.helpers import models
from tests.helpers.states import digest_of

SIZES = {"cache_bytes": 2**22, "answers_kept": 1000}
BASE = {"kernel": {"type": "rbf", "gamma": 0.7}, "C": 10, "features": {"type": "dense", "dim": 2}}


def new_model(**changes):
    parts = {name: part for name, part in (BASE | changes).items() if part is not None}
    return models.created(parse_configuration(json.dumps(parts), Settings()), SIZES)


def request(model, examples):
    """Return a learn request for examples (id, x, y)."""
    ids, xs, labels = (list(part) for part in zip(*examples, strict=True))
    return models.request_of(to_inputs(xs, model.configuration), labels, ids)


def learn(model, *requests, log=None):
    """Learn requests as one micro-batch. Return what happened to each example."""
    plan = models.learn(model, *(request(model, r) for r in requests))
    if log is not None:
        log += plan.events
    return plan.planned


def stream(n, seed=0, labels=("a", "b", 3, True)):
    random = np.random.default_rng(seed)
    return [
        (f"e{k}" if k % 3 else None, random.standard_normal(2).tolist(), labels[random.integers(len(labels))])
        for k in range(n)
    ]


def test_promoting_a_challenger_that_saw_a_drift_reports_no_drift():
    model = new_model()
    learn(model, stream(20))
    challenger = deepcopy(model.learner)
    challenger.metrics.drift.count += 1
    model.shadows["other"] = challenger
    outcome = model.apply(model.position + 1, ChallengerPromoted("other", 0))
    assert not outcome.noticed
    assert [mark.kind for mark in model.curves.marks] == ["promoted"]


PARTED = [
    {},
    {"window": {"examples": 30}},
    {"half_life": {"examples": 12}},
    {"features": {**BASE["features"], "scale": "auto", "warmup": 25}},
]
"""Configurations with which a micro-batch is learned as one part, or as many parts."""


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(0, 80), max_size=10), seed=st.integers(0, 5), configuration=st.sampled_from(PARTED))
def test_the_same_examples_give_the_same_state_however_they_were_batched(cuts, seed, configuration):
    examples = stream(80, seed)
    whole = new_model(**configuration)
    learn(whole, examples)
    parts = new_model(**configuration)
    edges = sorted({0, 80, *cuts})
    for begin, end in pairwise(edges):
        middle = (begin + end) // 2
        learn(parts, *[part for part in (examples[begin:middle], examples[middle:end]) if part])
    assert digest_of(parts) == digest_of(whole)


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(cut=st.integers(0, 60), seed=st.integers(0, 5), finish=st.booleans())
def test_a_snapshot_and_the_log_after_it_equal_the_whole_log(cut, seed, finish):
    examples = stream(60, seed)
    model, log = new_model(), []
    if cut:
        learn(model, examples[:cut], log=log)
    if finish:
        model.apply(model.position + 1, TrainingFinished(0))
    restored = Model.restore("m", model.snapshot(), **SIZES)
    assert restored.position == model.position
    assert digest_of(restored) == digest_of(model)
    for one in (model, restored):
        if cut < 60:
            learn(one, examples[cut:])
        one.apply(one.position + 1, TrainingFinished(0))
    assert digest_of(restored) == digest_of(model)
    assert restored.snapshot() == model.snapshot()


def finished(examples, *, epochs=1, whole=True, **changes):
    """Return a model that was finished after epochs over these examples, and how often the log was read."""
    model, log, read = new_model(**changes), [], []
    learn(model, examples, log=log)
    learned = [event for event in log if isinstance(event, ExamplesLearned)]
    finish = TrainingFinished(0, epochs, whole=whole)
    model.apply(model.position + 1, finish, lambda: read.append(1) or iter(learned))
    return digest_of(model), len(read)


def test_a_log_is_optimised_if_its_numbers_and_decision_values_are_few_enough(monkeypatch):
    examples = [
        (given, x, y if k % 10 == 0 else "abcd"[2 * (x[0] > 0) + (x[1] > 0)])
        for k, (given, x, y) in enumerate(stream(600, labels="abcd"))
    ]
    losing = {"solver": "lasvm", "idle_max": 0, "C": 2, "kernel": {"type": "rbf", "gamma": 0.5}}
    (whole, _), (points, _) = (finished(examples, whole=each, **losing) for each in (True, False))
    assert whole != points  # the epoch drops examples that the optimum needs
    for most, expected in ((600 * (2 + 4), whole), (600 * (2 + 4) - 1, points)):
        monkeypatch.setattr(limits, "WHOLE_NUMBERS_MAX", most)
        assert finished(examples, **losing)[0] == expected


@pytest.mark.parametrize("solver", ["lasvm", "auto", "lasvm-nc"])
def test_each_epoch_before_a_finish_reads_the_log_once(solver):
    changes = {"solver": solver, **({"kernel": {"type": "rbf"}, "C": None} if solver == "auto" else {})}
    assert finished(stream(60), epochs=2, **changes)[1] == 2


@pytest.mark.long
@given(edges=st.lists(st.integers(0, 12), min_size=2, max_size=2), forgotten=st.sets(st.integers(1, 11)))
def test_a_part_of_a_learned_batch_has_its_rows(edges, forgotten):
    begin, end = sorted(edges)
    model, log = new_model(classes=["a", "b", 3, True]), []
    learn(model, stream(12), log=log)
    event = replace(log[-1], annotators=[None, "ann"] * 6, votes=[[("ann", 3)]] * 12)
    if forgotten:  # the remaining examples keep their numbers
        event = event.take(np.delete(np.arange(12), [*forgotten]))
        begin, end = min(begin, len(event.ids)), min(end, len(event.ids))
    part, rows = event.part(begin, end), event.take(np.arange(begin, end))
    assert part.keys.tolist() == rows.keys.tolist() == event.keys[begin:end].tolist()
    assert part.encode() == replace(rows, first=part.first, numbers=part.numbers).encode()


def test_a_class_is_added_by_an_event_right_before_its_first_example():
    model, log = new_model(), []
    learn(model, [(None, [0, 0], "a"), (None, [1, 0], "b"), (None, [1, 1], "a"), (None, [2, 2], "c")], log=log)
    kinds = [(e.KIND, getattr(e, "label", None) or len(e.ids)) for e in log]
    assert kinds == [
        ("class_added", "a"),
        ("learned", 1),
        ("class_added", "b"),
        ("learned", 2),
        ("class_added", "c"),
        ("learned", 1),
    ]


def test_a_request_is_taken_or_refused_whole():
    model = new_model()
    learn(model, [("a1", [0, 0], "a"), ("b1", [1, 1], "b")])
    good, clash = [("c1", [2, 2], "a")], [("d1", [3, 3], "a"), ("a1", [9, 9], "a")]
    fates = learn(model, good, clash, [("d1", [4, 4], "b")])
    assert isinstance(fates[1], Conflict)
    assert fates[1].details == {"index": 1, "id": "a1"}
    assert model.learned == 4  # a1, b1, c1, and d1 of the third request
    assert model.answers.find("d1").content == request(model, [("d1", [4, 4], "b")]).contents[0]


def test_a_repeat_in_the_same_micro_batch_is_the_duplicate():
    model = new_model()
    fates = learn(model, [("a", [0, 0], 1), ("a", [0, 0], 1)], [("a", [0, 0], 1)])
    assert [[f.duplicate for f in request_fates] for request_fates in fates] == [[False, True], [True]]
    assert model.learned == 1


def test_equal_numbers_of_other_types_are_other_labels():
    model = new_model()
    learn(model, [("a", [0, 0], 1), ("b", [0, 1], True), ("c", [1, 0], "1")])
    assert model.labels.names == ["1", "true", '"1"']
    fates = learn(model, [("a", [0, 0], True)])
    assert isinstance(fates[0], Conflict)


def test_what_the_configuration_forbids_is_refused():
    model = new_model(classes=["a", "b"], points_max=3, when_full="refuse")
    assert isinstance(learn(model, [(None, [0, 0], "c")])[0], Invalid)
    assert isinstance(learn(model, [("@7", [0, 0], "a")])[0], Invalid)
    assert isinstance(learn(model, [(None, [k, 0], "ab"[k % 2]) for k in range(4)])[0], ModelFull)
    assert model.position == 1
    assert model.learned == 0


def test_an_event_out_of_order_is_refused():
    model = new_model()
    with pytest.raises(ValueError, match="is at position 1, got the event at 3"):
        model.apply(3, TrainingFinished(0))


def test_a_snapshot_with_a_flipped_bit_is_refused():
    model = new_model()
    learn(model, stream(20))
    data = bytearray(model.snapshot())
    data[len(data) // 2] ^= 1
    with pytest.raises(BadFrame):
        Model.restore("m", bytes(data), **SIZES)


@pytest.mark.parametrize("changes", [{}, {"solver": "exact"}, {"classes": ["a", "b", 3, True]}])
def test_reading_a_snapshot_builds_a_single_solver(monkeypatch, changes):
    model = new_model(**changes)
    learn(model, stream(30))
    built = []
    build = Configuration.build_solver
    monkeypatch.setattr(Configuration, "build_solver", lambda *given: built.append(build(*given)) or built[-1])
    again = Model.restore("m", model.snapshot(), **SIZES)
    assert built == [again.solver]
    assert again.labels.labels == model.labels.labels
    assert digest_of(again) == digest_of(model)
