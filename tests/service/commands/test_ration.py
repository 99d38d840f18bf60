"""Contenders of a request share what is left of each decision."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.commands.ration import NOTHING_LEFT, Ration
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.inputs import x_digests
from hinged.service.errors import Gone
from hinged.service.model.admission import check_events
from hinged.service.model.decisions.costs import ASKED
from hinged.service.model.events import decode_event
from hinged.service.model.events.changes import ExampleForgotten
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from tests.helpers.states import digest_of

NAMES = ("ok", "fraud", "odd")
LIMIT = st.none() | st.integers(1, 5)


def model_with(capacity):
    body = {
        "solver": "lasvm",
        "kernel": {"type": "linear"},
        "features": {"type": "dense", "dim": 1},
        "costs": {"fraud": {"ok": 50}, "ask": 2},
        "capacity": {name: {"most": most, "per": "1d"} for name, most in capacity.items() if most} or None,
    }
    return Model("m", parse_configuration(json.dumps(body), Settings()), cache_bytes=2**20, answers_kept=10)


def ration(model, ids, costs, forced):
    inputs = model.configuration.features.inputs([[len(given)] for given in ids], model.configuration)
    best = np.where(forced | (costs.argmin(axis=1) == len(NAMES)), ASKED, costs.argmin(axis=1))
    parts = ids, inputs, x_digests(inputs), [None] * len(ids)
    return Ration(*parts, places=range(len(ids)), names=NAMES, best=best, costs=costs, forced=forced)


def apply(model, events):
    check_events(model, events)
    for event in events:
        model.apply(model.position + 1, decode_event(event.KIND, event.record().payload))


@settings(max_examples=12)
@given(
    capacity=st.fixed_dictionaries({"ask": LIMIT, "ok": LIMIT, "fraud": LIMIT, "odd": LIMIT}),
    seed=st.integers(0, 999),
    promise=st.booleans(),
)
def test_a_contender_gets_the_best_decision_that_is_left(capacity, seed, promise):
    rng, model, taken, now = np.random.default_rng(seed), model_with(capacity), Counter(), 10
    capacity = {name: most for name, most in capacity.items() if most}
    waiting, forced_in_all = set(), 0
    for k in range(8):
        m = int(rng.integers(1, 7))
        costs = rng.choice([0.0, 0.5, 1.0, 2.0, np.inf], (m, 4), p=[0.2, 0.2, 0.2, 0.2, 0.2])
        costs[~np.isfinite(costs).any(axis=1), 0] = 1.0
        forced = (rng.random(m) < 0.2) & promise & np.isfinite(costs[:, 3])
        ids = [f"{k}-{r}" if rng.random() < 0.8 else f"{k}-0" for r in range(m)]
        now += int(rng.integers(0, 1_000))
        command = ration(model, ids, costs, forced)
        before = digest_of(model)
        planned = command.plan(model, now)
        assert digest_of(model) == before
        numbers = planned.answer(model)["decisions"]
        apply(model, planned.events)
        for r in range(m):
            first, number = ids.index(ids[r]), int(numbers[r])
            assert number == numbers[first]
            if r > first:
                continue
            place = 3 if number == ASKED else number
            if forced[r]:
                assert number == ASKED
                forced_in_all += 1
            elif number == NOTHING_LEFT:
                assert all((*NAMES, "ask")[n] in capacity for n in range(4) if np.isfinite(costs[r, n]))
            else:
                assert np.isfinite(costs[r, place])
                better = [(*NAMES, "ask")[n] for n in range(4) if costs[r, n] < costs[r, place]]
                assert all(name in capacity for name in better)
            if number != NOTHING_LEFT:
                taken[(*NAMES, "ask")[place]] += 1
            waiting |= {ids[r]} if number == ASKED else set()
    for name, most in capacity.items():
        assert model.rations.of[name].taken == taken[name]
        assert taken[name] <= most + (forced_in_all if name == "ask" else 0)
    assert {candidate.id for candidate in model.pool} == waiting
    of_classes = sum(taken[name] for name in capacity if name != "ask")
    assert model.alerts.raised == len(model.alerts.waiting) == of_classes
    again = Model.restore("m", model.snapshot(), cache_bytes=2**20, answers_kept=10)
    assert digest_of(again) == digest_of(model)


def test_a_model_without_a_capacity_counts_nothing():
    model = model_with({})
    costs = np.array([[0.0, 1.0, 1.0, 2.0], [3.0, 3.0, 3.0, 2.0]])
    planned = ration(model, ["a", "b"], costs, np.zeros(2, bool)).plan(model, 5)
    assert [event.KIND for event in planned.events] == ["offered"]
    assert b"rations" not in model.snapshot()


def test_a_forgotten_example_is_refused_even_if_it_would_not_be_asked_about():
    model = model_with({"fraud": 3})
    salt = "ab" * 16
    apply(model, [ExampleForgotten(model.tombstones.mark_of("b", salt), salt, None, 1)])
    with pytest.raises(Gone, match=r"examples\[1\]: the example with id 'b' was forgotten"):
        ration(model, ["a", "b"], np.array([[9.0, 0.0, 9.0, 9.0]] * 2), np.zeros(2, bool)).plan(model, 5)
