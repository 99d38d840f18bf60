"""Figures by the values of named features, compared with plain loops, through the log's bytes and through snapshots."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service import limits
from hinged.service.errors import Invalid
from hinged.service.model.events import decode_event
from hinged.service.model.events.changes import ExampleForgotten
from hinged.service.model.learner import ModelLearner
from hinged.service.model.model import Model
from tests.helpers import models
from tests.helpers.states import digest_of
from tests.helpers.worker import SIZES
from tests.service.model.test_weights import learn

COSTS = {"fraud": {"ok": 20}, "ok": {"fraud": 1}}
BODY = {
    "solver": "lasvm",
    "C": 1,
    "kernel": {"type": "rbf", "gamma": 0.5},
    "features": {"type": "named", "warmup": 10},
    "segments": ["country", "device"],
}
VALUES = [None, "DE", "de", "", 1, 1.5, True, "1", "true", "x" * 1000, "x" * 999, "é\n\x00", -12.5]


def new_model(**parts):
    return models.new_model(BODY | parts)


def stream(n, seed=0, values=("DE", "FR", "IT")):
    """Return n records and labels. The label depends on a number; `country` is one of the values."""
    random = np.random.default_rng(seed)
    amounts = random.normal(size=n)
    labels = np.where(amounts + 0.5 * random.normal(size=n) > 1, "fraud", "ok").tolist()
    chosen = random.integers(len(values), size=n).tolist()
    xs = [{"amount": float(a), "country": values[c]} for a, c in zip(amounts, chosen, strict=True)]
    return xs, labels


def taught(model, xs, labels, batch=50):
    return [e for b in range(0, len(xs), batch) for e in learn(model, xs[b : b + batch], labels[b : b + batch])]


def segments_of(model):
    return model.describe()["metrics"]["segments"]


def plain(entries, watched):
    """Return the figures of (truth, answer, cost) by a plain loop."""
    found = {"examples": len(entries), "accuracy": sum(t == a for t, a, _ in entries) / len(entries)}
    costs = [cost for *_, cost in entries if not np.isnan(cost)]
    found["cost"] = pytest.approx(sum(costs) / len(costs)) if costs else None
    for name, c in watched.items():
        right = sum(t == a == c for t, a, _ in entries)
        there, told = (sum(entry[k] == c for entry in entries) for k in (0, 1))
        found.setdefault("classes", {})[name] = {
            "examples": there,
            "precision": right / told if told else None,
            "recall": right / there if there else None,
            "f1": 2 * right / (there + told) if there + told else None,
        }
    return found


@pytest.mark.parametrize("costs", [None, COSTS])
def test_each_value_has_the_figures_of_its_own_examples(costs):
    model = new_model(costs=costs)
    xs, labels = stream(400)
    taught(model, xs, labels)
    own, found = model.metrics.segments, segments_of(model)
    watched = {name: model.labels.names.index(name) for name in ("fraud", "ok")} if costs else {}
    assert own.numbers.size == model.metrics.predicted
    by_value = {}
    for number, *entry in zip(*(a.tolist() for a in (own.numbers, own.truths, own.answers, own.costs)), strict=True):
        assert model.labels.labels[entry[0]] == labels[number - 1]
        by_value.setdefault(xs[number - 1]["country"], []).append(entry)
    assert [each["value"] for each in found["country"]["values"]] == sorted(by_value, key=lambda v: -len(by_value[v]))
    for each in found["country"]["values"]:
        assert each == {"value": each["value"], **plain(by_value[each["value"]], watched)}
    assert found["country"]["other"] is None
    assert [each["value"] for each in found["device"]["values"]] == [None]  # no x has a device
    whole = model.metrics.figures(model.labels.labels)
    (nowhere,) = found["device"]["values"]
    assert nowhere["examples"] == whole["predicted"]
    assert nowhere["accuracy"] == pytest.approx(whole["accuracy"])
    if costs:
        memory = whole["decisions"]
        assert nowhere["cost"] == pytest.approx(memory["cost"], rel=0.02)  # there, older decisions fade a little
        assert np.isfinite(own.costs).sum() == memory["examples"]


def test_rare_values_are_counted_together():
    model = new_model(segments=["country"])
    xs, labels = stream(300)
    for k, x in enumerate(xs[100:]):
        x["country"] = f"v{k % 120}" if k % 2 else "DE"
    taught(model, xs, labels)
    found = segments_of(model)["country"]
    assert len(found["values"]) == limits.SEGMENTS_SHOWN
    assert found["values"][0]["value"] == "DE"
    total = sum(each["examples"] for each in [*found["values"], found["other"]])
    assert total == model.metrics.predicted
    assert found["other"]["values"] == 63 - limits.SEGMENTS_SHOWN
    assert min(each["examples"] for each in found["values"]) * found["other"]["values"] >= found["other"]["examples"]


@given(chosen=st.lists(st.sampled_from(VALUES), min_size=1, max_size=40), cut=st.integers(0, 40))
@settings(deadline=None, max_examples=25)
def test_values_of_any_type_stay_apart_to_the_bit_in_any_batches_and_from_a_snapshot(chosen, cut):
    xs, labels = stream(60 + len(chosen))
    for x, value in zip(xs[60:], chosen, strict=True):
        x["country"] = value
        if value is None:  # a record in canonical form has no nulls
            del x["country"]
    one, other = new_model(segments=["country"]), new_model(segments=["country"])
    taught(one, xs, labels, 7)
    taught(other, xs[: 60 + cut], labels[: 60 + cut], 50)
    other = Model.restore("m", other.snapshot(), **SIZES)
    taught(other, xs[60 + cut :], labels[60 + cut :], 1)
    assert digest_of(one) == digest_of(other)
    found = {json.dumps(each["value"]): each["examples"] for each in segments_of(one)["country"]["values"]}
    for value in chosen:
        shown = value[: limits.SEGMENT_CHARS_MAX] if isinstance(value, str) else value
        same = [v for v in chosen if json.dumps(v[:100] if isinstance(v, str) else v) == json.dumps(shown)]
        extra = found[json.dumps(shown)] - len(same)
        assert extra == 0 or shown == "DE"


def test_only_the_newest_predictions_count(monkeypatch):
    monkeypatch.setattr(limits, "SEGMENTED_MAX", 100)
    xs, labels = stream(1000)
    for k, x in enumerate(xs):
        x["country"] = f"v{k}"
    models = []
    for batch in (7, 250):
        models.append(new_model(segments=["country"]))
        taught(models[-1], xs, labels, batch)
        own = models[-1].metrics.segments
        assert own.numbers.tolist() == list(range(901, 1001))
        assert len(own.values) <= 200 + batch
    assert digest_of(models[0]) == digest_of(models[1])
    found = segments_of(models[0])["country"]
    assert {each["value"] for each in found["values"]} == {f"v{k}" for k in range(900, 950)}  # of equals, the oldest
    assert found["other"]["values"] == found["other"]["examples"] == 50


def test_a_forgotten_example_leaves_no_byte_and_its_challenger_none():
    model = new_model(segments=["country"])
    xs, labels = stream(100)
    xs[60]["country"] = xs[61]["country"] = "shared-secret"
    xs[62]["country"] = "only-secret"
    taught(model, xs, labels)
    model.shadows["rival"] = model.learner.copy()
    assert b"only-secret" in model.snapshot()
    salt = model.tombstones.fresh_salt()
    for number, gone, stays in ((63, b"only-secret", True), (61, b"only-secret", True), (62, b"shared-secret", False)):
        given = f"#{number}"
        event = ExampleForgotten(model.tombstones.mark_of(given, salt), salt, number, 0)
        model.apply(model.position + 1, event)
        assert number not in model.metrics.segments.numbers
        for learner in model.learners:
            own = learner.metrics.state()["segments.values"].tobytes()
            assert gone not in own
            assert (b"shared-secret" in own) == stays
    assert model.metrics.segments.numbers.size == model.metrics.predicted - 3
    assert "secret" not in json.dumps(segments_of(model))


def test_a_change_of_segments_keeps_the_features_that_stay_and_other_costs_begin_anew():
    model = new_model(segments=["country", "device"], costs=COSTS)
    xs, labels = stream(200)
    events = taught(model, xs[:100], labels[:100])
    before = segments_of(model)
    events.append(models.change(model, segments=["amount", "country"]))
    assert segments_of(model)["country"] == before["country"]
    assert segments_of(model)["amount"] == {"values": [], "other": None}
    events += taught(model, xs[100:], labels[100:])
    found = segments_of(model)
    assert sum(each["examples"] for each in found["country"]["values"]) == model.metrics.predicted
    other = found["amount"]["other"]
    assert sum(each["examples"] for each in [*found["amount"]["values"], other]) == 100
    events.append(models.change(model, costs={"fraud": {"ok": 3}}))
    assert {each["cost"] for each in segments_of(model)["country"]["values"]} == {None}
    events.append(models.change(model, costs=None))
    again = new_model(segments=["country", "device"], costs=COSTS)
    for event in events:
        again.apply(again.position + 1, decode_event(event.KIND, event.record().payload))
    assert digest_of(again) == digest_of(model)
    models.change(model, segments=None)
    assert "segments" not in model.describe()["metrics"]
    models.change(model, segments=["country"])
    assert segments_of(model)["country"] == {"values": [], "other": None}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"segments": "country"}, 'segments must be a list of names in x, such as \\["country"\\]'),
        ({"segments": [1]}, "segments must be a list"),
        ({"segments": {"country": 1}}, "segments must be a list"),
        ({"segments": ["a", "a"]}, "segments must be at most 4 different names in x"),
        ({"segments": ["x" * 201]}, r"segments\[0\]: .*at most 200 characters"),
        ({"segments": list("abcde")}, "segments must be at most 4 different names in x"),
        ({"features": {"type": "dense", "dim": 2}}, "segments need named features, got features of type dense"),
        ({"features": {"type": "text"}, "kernel": {"type": "linear"}}, "segments need named features"),
    ],
)
def test_segments_that_no_model_can_have_are_refused(parts, reason):
    with pytest.raises(Invalid, match=reason):
        new_model(**parts)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("numbers", lambda a: a[::-1].copy()),
        ("numbers", lambda a: a[:-1].copy()),
        ("numbers", lambda a: a + 10**6),
        ("truths", lambda a: a + 7),
        ("costs", lambda a: np.full(a.size, np.inf)),
        ("costs", lambda a: a - 1),
        ("codes", lambda a: a + 1),
        ("codes", np.zeros_like),
        ("values", lambda a: a[:-1].copy()),
        ("values", lambda a: np.frombuffer(b'"DE"\n"DE"\n"FR"', np.uint8)),
        ("values", lambda a: np.frombuffer(b'"DE"\n[1]\n"FR"', np.uint8)),
        ("values", lambda a: np.frombuffer(b'"DE"\nNaN\n"FR"', np.uint8)),
    ],
)
def test_a_forged_state_is_refused(name, value):
    model = new_model(segments=["country"], costs=COSTS)
    taught(model, *stream(100))
    facts, arrays = model.learner.state()
    arrays[f"metrics.segments.{name}"] = value(arrays[f"metrics.segments.{name}"])
    facts = json.loads(json.dumps(facts))
    with pytest.raises(ValueError, match=r"segments|numbers|truths|codes|values|Expecting|Unterminated|outside"):
        checked(model, facts, arrays)


def checked(model, facts, arrays):
    """Read the state of a learner as an import does."""
    model.learner = ModelLearner.restore(facts, arrays, model.cache_bytes)
    Model.restore("m", model.snapshot(), **SIZES)
