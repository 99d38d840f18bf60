"""Retraining during a stream of examples, and the swap."""

import asyncio
import time

import numpy as np
import pytest

from hinged.service.commands.change import Configure, Correct, Forget
from hinged.service.engine.history import ModelHistory
from hinged.service.engine.jobs.retraining import Retraining
from hinged.service.engine.work import swap
from hinged.service.errors import StoreUnavailable
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.pending import Made
from hinged.service.settings import Settings
from tests.helpers.changes import EXACT, changed, predicted, same_solver, taught, while_folding
from tests.helpers.limits import limited
from tests.helpers.states import load_model
from tests.helpers.worker import SIZES, examples_of, learning, on_worker, until, with_worker


def slow_down(monkeypatch, seconds, C=None):
    """Make the training with each event take `seconds`; with C, only for a learner with this C."""
    teach = Retraining._teach

    def slowly(self, at, event):
        if C is None or any(learner.configuration.C == C for learner in self.learners.values()):
            time.sleep(seconds)
        teach(self, at, event)

    monkeypatch.setattr(Retraining, "_teach", slowly)


@pytest.mark.long
@on_worker()
async def test_a_retraining_ends_although_the_stream_is_faster(worker, monkeypatch):
    slow_down(monkeypatch, 0.005)
    for one in examples_of(1, 60):
        await worker.learn(learning(worker.model, [one]))
    answer = await worker.command(Configure({"C": 2}, Settings()))
    ended = asyncio.create_task(worker.ended(answer["at"]))
    learned = 60
    for one in examples_of(2, 100_000):
        if ended.done():
            break
        await worker.learn(learning(worker.model, [one]))
        learned += 1
    assert (await asyncio.wait_for(ended, 120))["state"] == "done"
    assert 60 < learned < 100_000
    assert worker.model.configuration.C == 2


@pytest.mark.long
@on_worker()
async def test_a_retraining_that_cannot_keep_up_gives_way_to_forgetting(worker, monkeypatch):
    slow_down(monkeypatch, 1, C=2)
    for one in examples_of(1, 40):
        await worker.learn(learning(worker.model, [one]))
    change = await worker.command(Configure({"C": 2}, Settings()))
    await until(lambda: worker._jobs._retraining is not None)
    forgotten = await worker.change(Forget("s1-1"))
    ended = asyncio.create_task(worker.ended(forgotten["at"]))
    for one in examples_of(2, 100_000):
        if ended.done():
            break
        await worker.learn(learning(worker.model, [one]))
    assert (await asyncio.wait_for(ended, 120))["state"] == "done"
    assert worker.job(change["at"])["state"] == "running"


def test_a_swap_that_takes_too_long_gives_way_and_is_tried_again(monkeypatch):
    examples = examples_of(7, 60)
    monkeypatch.setattr("hinged.service.engine.work.SWAP_S", 0.0)  # one event per attempt
    monkeypatch.setattr("hinged.service.engine.jobs.background.LAG_MAX", 10**6)

    async def scenario(worker, store):
        tried, do_first = [], worker._jobs._do_first
        for one in examples[:30]:
            await worker.learn(learning(worker.model, [one]))

        async def trying(step, *args):
            if step is swap:
                if not tried:
                    for one in examples[30:]:
                        await worker.learn(learning(worker.model, [one]))
                tried.append(args[0])
            return await do_first(step, *args)

        worker._jobs._do_first = trying
        answer = await worker.command(Configure({"C": 2}, Settings()))
        assert (await asyncio.wait_for(worker.ended(answer["at"]), 300))["state"] == "done"
        assert len(tried) > 10
        assert len(set(map(id, tried))) == 1
        same_solver(worker.model.solver, taught(worker.model, examples).solver)
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario)


@on_worker()
async def test_a_server_that_stops_in_the_middle_of_an_epoch_does_not_swap(worker, store):
    await worker.learn(learning(worker.model, examples_of(1, 20)))
    await worker.finish(epochs=2)
    finished = worker.model.position
    await worker._jobs._shared.places.acquire()
    answer = await worker.command(Configure({"C": 2}, Settings()))
    retraining = Retraining(ModelHistory(store, "m", **SIZES), worker.model)
    read = retraining.history.taught

    def stopping(undone, before, after=0):
        for at, event in read(undone, before, after):
            retraining.stopped |= before == finished and isinstance(event, ExamplesLearned)
            yield at, event

    retraining.history.taught = stopping
    retraining.advance(worker.model.position)
    assert retraining.stopped
    assert retraining.position == finished - 1
    assert await worker._jobs._do_first(swap, retraining) is None
    worker._jobs._shared.places.release()
    assert (await asyncio.wait_for(worker.ended(answer["at"]), 300))["state"] == "done"
    assert worker.model.configuration.C == 2


@pytest.mark.parametrize(
    ("configuration", "changes"),
    [
        (EXACT, {"solver": "lasvm"}),
        (EXACT, {"kernel": {"type": "polynomial", "degree": 2}}),
        ({}, {"solver": "exact"}),
        ({}, {"C": 2}),
    ],
)
@on_worker("configuration")
async def test_no_change_during_a_retraining_is_lost(worker, store, changes):
    examples = examples_of(3, 40)
    wrong = {"a": "b", "b": "c", "c": "a"}
    await worker.learn(learning(worker.model, examples))
    await while_folding(worker, Configure(changes, Settings()), Forget("s3-4"))
    await while_folding(worker, Configure({"C": 7}, Settings()), Correct("s3-7", wrong[examples[7][2]], 8))
    await while_folding(worker, Forget("s3-8"), Configure({"labels": {"overlap": 3}}, Settings()))
    right = [(name, x, wrong[y] if name == "s3-7" else y) for name, x, y in examples]
    fresh = taught(worker.model, right, set(range(1, 41)) - {5, 9})
    rows = learning(worker.model, examples).inputs
    np.testing.assert_allclose(worker.model.solver.decision(rows), fresh.solver.decision(rows), atol=1e-6)
    assert worker.model.configuration.labels.overlap == 3
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


@pytest.mark.parametrize("part", [{"labels": {"overlap": 2}}, {"show": {"origins": []}}, {"calibration": "sigmoid"}])
@on_worker()
async def test_a_retrained_learner_serves_although_other_parts_of_the_configuration_have_changed(worker, store, part):
    await worker.learn(learning(worker.model, examples_of(1, 40)))
    await worker._jobs._shared.places.acquire()
    answer = await worker.command(Forget("s1-1"))
    retraining = Retraining(ModelHistory(store, "m", **SIZES), worker.model)
    before = worker.model.configuration
    await worker.command(Configure(part, Settings()))
    assert (now := worker.model.configuration) != before
    assert retraining.fits(worker.model)
    retraining.advance(worker.model.position)
    assert await worker._jobs._do_first(swap, retraining) is not None
    worker._jobs._shared.places.release()
    assert (await asyncio.wait_for(worker.ended(answer["at"]), 300))["state"] == "done"
    assert worker.model.configuration == now
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


@pytest.mark.parametrize("durable", [True, False])
def test_a_prediction_in_progress_does_not_bring_a_forgotten_example_back(durable):
    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples_of(1, 9)))
        forgetting = asyncio.ensure_future(worker.command(Forget("s1-1")))
        await asyncio.gather(forgetting, worker.keep([Made(each) for each in predicted(worker, ["s1-1", "other"])]))
        await asyncio.wait_for(worker.ended(forgetting.result()["at"]), 300)
        await worker.snapshot()
        assert [prediction.id for prediction in worker.model.pending] == ["other"]
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with limited(pending_flush_s=0.01):
        with_worker(scenario, configuration={"labels": {"pending_durable": durable}})


@on_worker()
async def test_a_store_that_fails_after_the_swap_is_asked_again_without_retraining(worker, store):
    await worker.learn(learning(worker.model, examples_of(1, 20)))
    redact, failures = store.redact, []

    def failing(*arguments):
        if len(failures) < 2:
            failures.append(1)
            raise StoreUnavailable("no")
        redact(*arguments)

    store.redact = failing
    await changed(worker, Forget("s1-1"))
    kinds = [record.kind for _, record in store.read("m", 0)]
    assert (kinds.count("swapped"), len(failures)) == (1, 2)
