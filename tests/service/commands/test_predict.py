"""Predictions, for any caller."""

import threading

import numpy as np
import pytest

from hinged.service.commands.predict import decided_soon, make_decisions
from hinged.service.data.examples import Details
from tests.helpers.worker import learning, on_worker, predictions_of

STREAM = [(f"e{k}", [float(k % 3), float(k % 2)], "ab"[k % 2]) for k in range(12)]
SPARSE = {"features": {"type": "sparse", "dim": 2**20}}  # too many for points in columns
BUDGET = {"labels": {"budget": 0.5}}


async def results_of(worker, inputs, ids, **more):
    return (await make_decisions(worker, worker.published, inputs, ids, **more)).part(0, len(inputs))


@on_worker()
async def test_predictions_come_from_the_state_that_was_read(worker):
    await worker.learn(learning(worker.model, STREAM))
    inputs, unnamed = learning(worker.model, STREAM).inputs, [None] * len(STREAM)
    found = await results_of(worker, inputs, unnamed)
    predicted = [(result["prediction"], result["scores"]) for result in found]
    assert predicted == predictions_of(worker.published, inputs)
    assert worker.predictions_served == len(STREAM)
    explained = await results_of(worker, inputs, unnamed, details=Details(explain=2))
    assert [(result["prediction"], result["scores"]) for result in explained] == predicted
    assert all(0 < len(result["support_vectors"]) <= 2 for result in explained)
    assert not any("support_vectors" in result for result in found)


@on_worker()
async def test_before_the_first_example_nothing_is_predicted(worker):
    (found,) = await results_of(worker, learning(worker.model, STREAM[:1]).inputs, ["p"])
    assert (found["prediction"], found["probability"], found["scores"]) == (None, None, {})
    assert found["label"]["wanted"]


@on_worker(configuration=BUDGET)
async def test_predictions_without_ids_use_no_label_budget_and_do_not_wait(worker):
    await worker.learn(learning(worker.model, STREAM))
    inputs = learning(worker.model, STREAM).inputs
    before, kept = vars(worker._budget).copy(), []

    async def keep(made):
        kept.extend(prediction.id for prediction, _ in made)

    worker.keep = keep
    found = await make_decisions(worker, worker.published, inputs)
    assert found.wishes is None
    assert vars(worker._budget) == before
    assert kept == []
    named = [f"p{k}" if k < 2 else None for k in range(len(STREAM))]
    found = await results_of(worker, inputs, named)
    assert len(found) == len(STREAM)
    assert vars(worker._budget) != before
    assert kept == ["p0", "p1"]
    assert np.isfinite([list(result["scores"].values()) for result in found]).all()


def sparse(worker, count, numbers):
    """Return a request of examples of so many numbers each."""
    places = [list(range(r, r + 300 * numbers, 300)) for r in range(count)]
    xs = [{"indices": each, "values": [1.5] * numbers} for each in places]
    return learning(worker.model, [(f"{numbers}-{r}", x, "ab"[r % 2]) for r, x in enumerate(xs)])


@pytest.mark.parametrize("configuration", [SPARSE, {**SPARSE, "novelty": True}], ids=["plain", "novelty"])
@on_worker("configuration")
async def test_short_x_beside_long_sparse_points_do_not_hold_the_event_loop(worker):
    asked = []

    def work(_):
        asked.append(threading.current_thread() is threading.main_thread())

    async def ask(count):
        await decided_soon(worker, worker.published, sparse(worker, count, 1).inputs, work)
        return asked.pop()

    await worker.learn(sparse(worker, 40, 5))
    assert await ask(20)
    await worker.learn(sparse(worker, 40, 3000))
    assert await ask(1)
    assert not await ask(20)
