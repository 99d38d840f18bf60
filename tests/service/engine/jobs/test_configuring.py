"""Give a model another configuration after it has learned."""

import asyncio
import json

import numpy as np
import pytest

from hinged.service.commands.change import Configure, Forget
from hinged.service.data.configuration import parse_configuration
from hinged.service.errors import Invalid
from hinged.service.model.events.changes import ChangeIntended
from hinged.service.settings import Settings
from tests.helpers import models
from tests.helpers.changes import EXACT, changed, offered, same_solver, taught
from tests.helpers.http_client import BASE
from tests.helpers.states import load_model
from tests.helpers.worker import SIZES, examples_of, learning, on_worker, with_worker


@pytest.mark.long
@pytest.mark.parametrize(
    ("configuration", "changes", "exactly"),
    [
        ({}, {"C": 1.0}, True),
        ({}, {"kernel": {"gamma": 0.3}}, True),
        ({}, {"kernel": {"type": "polynomial", "degree": 2}}, True),
        ({}, {"solver": "bsca", "budget": 10}, True),
        ({"class_weight": {"a": 2.0}}, {"class_weight": None, "window": {"examples": 20}}, True),
        ({"class_weight": {"a": 2.0}}, {"half_life": {"examples": 20}}, True),
        ({"half_life": {"examples": 20}}, {"half_life": None, "solver": "tracking-1"}, True),
        (EXACT, {"C": 0.5, "class_weight": {"a": 2.0}}, False),
        (EXACT, {"kernel": {"gamma": 0.3}}, False),
        ({}, {"solver": "exact"}, False),
    ],
)
@on_worker("configuration")
async def test_a_reconfigured_model_equals_a_model_that_always_had_the_configuration(worker, store, changes, exactly):
    examples = examples_of(13, 300)
    await worker.learn(learning(worker.model, examples[:40]))
    accuracy = worker.model.metrics.figures()["accuracy"]
    await changed(worker, Configure(changes, Settings()))
    assert worker.model.metrics.figures()["accuracy"] == accuracy
    await worker.learn(learning(worker.model, examples[40:]))
    fresh = taught(worker.model, examples)
    if exactly:
        same_solver(worker.model.solver, fresh.solver)
    rows = learning(worker.model, examples).inputs
    np.testing.assert_allclose(worker.model.solver.decision(rows), fresh.solver.decision(rows), atol=1e-6)
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


@pytest.mark.parametrize("together", [{}, {"C": 0.5}], ids=["alone", "with C"])
@pytest.mark.parametrize(("first", "then"), [("auto", "sigmoid"), ("sigmoid", "auto")])
def test_the_choice_of_a_calibration_begins_when_it_is_configured(first, then, together):
    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples_of(1, 200)))
        assert len(worker.model.labels) > 2
        accuracy = worker.model.metrics.figures()["accuracy"]
        await changed(worker, Configure({"calibration": then, **together}, Settings()))
        assert worker.model.metrics.figures()["accuracy"] == accuracy
        assert (worker.model.metrics.figures()["calibrations"] is None) == (then == "sigmoid")
        await worker.learn(learning(worker.model, examples_of(2, 60)))
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()
        await changed(worker, Configure({"calibration": first}, Settings()))
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario, configuration={"calibration": first})


def test_a_change_planned_by_an_earlier_version_keeps_parameters_unknown_to_it():
    configuration = parse_configuration(json.dumps(BASE | {"window": {"examples": 500}}), Settings())
    model = models.created(configuration)
    planned = configuration.model_dump(mode="json") | {"C": 2.0}
    del planned["calibration"], planned["window"]["step"]
    model.apply(2, ChangeIntended(planned, None, 0))
    (event,) = Configure({"C": 3.0}, Settings()).plan(model, 0).events
    assert (event.configuration["calibration"], event.configuration["window"]["step"]) == ("sigmoid", None)
    assert not Configure({"C": 2.0}, Settings()).plan(model, 0).events  # the same change is requested again


@on_worker()
async def test_a_change_that_would_make_another_model_is_refused(worker):
    await worker.learn(learning(worker.model, examples_of(1, 9)))
    state = worker.model.snapshot()
    for changes in (
        {"features": {"type": "dense", "dim": 3}},
        {"classes": ["a", "b"]},
        {"C": -1},
        {"solver": "none"},
        {"nothing": 1},
        {"window": {"examples": 1, "seconds": 1}},
        {"solver": "fogd", "window": {"examples": 9}},
        {"solver": "bsgd", "half_life": {"examples": 20}},
        {"half_life": {"examples": 9}},
        {"half_life": {"examples": 20, "seconds": 1}},
        {"half_life": {"examples": 20}, "window": {"examples": 9}},
    ):
        with pytest.raises(Invalid):
            await worker.command(Configure(changes, Settings()))
    assert worker.model.snapshot() == state


@on_worker()
async def test_a_configuration_that_does_not_fit_what_was_learned_fails_and_the_old_one_stays(worker):
    await worker.learn(learning(worker.model, examples_of(1, 60)))
    answer = await worker.command(Configure({"points_max": 5, "when_full": "refuse"}, Settings()))
    ended = await asyncio.wait_for(worker.ended(answer["at"]), 300)
    assert ended["state"] == "failed"
    assert "5" in ended["error"]
    assert worker.model.configuration.points_max != 5
    await worker.learn(learning(worker.model, examples_of(2, 5)))


@pytest.mark.parametrize("changes", [{}, {"C": 2}])
@on_worker()
async def test_a_smaller_pool_drops_the_oldest_and_the_model_can_be_read_again(worker, store, changes):
    await worker.learn(learning(worker.model, examples_of(1, 9)))
    await worker.command(offered(worker, 5))
    await changed(worker, Configure({**changes, "labels": {"pool_max": 2}}, Settings()))
    assert [candidate.id for candidate in worker.model.pool] == ["c3", "c4"]
    await changed(worker, Forget("s1-1"))
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


@pytest.mark.parametrize("changes", [{"solver": "exact"}, {"kernel": {"type": "linear"}}])
@on_worker()
async def test_a_request_read_before_the_change_is_learned_with_the_new_configuration(worker, store, changes):
    await worker.learn(learning(worker.model, examples_of(1, 20)))
    early = learning(worker.model, examples_of(2, 5))
    await changed(worker, Configure(changes, Settings()))
    await worker.learn(early)
    fresh = taught(worker.model, examples_of(1, 20) + examples_of(2, 5))
    rows = learning(worker.model, examples_of(3, 9)).inputs
    np.testing.assert_allclose(worker.model.solver.decision(rows), fresh.solver.decision(rows), atol=1e-6)
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


@on_worker()
async def test_changes_to_asking_for_labels_take_effect_at_once(worker):
    await worker.learn(learning(worker.model, examples_of(1, 20)))
    await changed(worker, Configure({"labels": {"budget": 0.01}}, Settings()))
    wished = worker.wishes([f"i{k}" for k in range(1000)], [True] * 1000)
    assert 0 < sum(wish.wanted for wish in wished) < 50
