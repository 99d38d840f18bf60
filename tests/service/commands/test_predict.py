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


async def make_predictions(worker, published, inputs, ids=None, **more):
    return (await make_decisions(worker, published, inputs, ids, **more)).part(0, len(inputs))


@on_worker()
async def test_predictions_come_from_the_state_that_was_read(worker):
    await worker.learn(learning(worker.model, STREAM))
    inputs, published = learning(worker.model, STREAM).inputs, worker.published
    found = await make_predictions(worker, published, inputs, [None] * len(STREAM))
    assert list(zip(found.labels, found.scores, strict=True)) == predictions_of(published, inputs)
    assert found.published is published
    assert found.support_vectors is None
    assert worker.predictions_served == len(STREAM)
    explained = await make_predictions(worker, published, inputs, details=Details(explain=2))
    assert explained.labels == found.labels
    assert all(0 < len(vectors) <= 2 for vectors in explained.support_vectors)


@on_worker()
async def test_before_the_first_example_nothing_is_predicted(worker):
    found = await make_predictions(worker, worker.published, learning(worker.model, STREAM[:1]).inputs, ["p"])
    assert (found.labels, found.probabilities, found.scores) == ([None], [None], [{}])
    assert [wish.wanted for wish in found.wishes] == [True]


@on_worker(configuration=BUDGET)
async def test_predictions_without_ids_use_no_label_budget_and_do_not_wait(worker):
    await worker.learn(learning(worker.model, STREAM))
    inputs = learning(worker.model, STREAM).inputs
    before, kept = vars(worker._budget).copy(), []

    async def keep(made):
        kept.extend(prediction.id for prediction, _ in made)

    worker.keep = keep
    found = await make_predictions(worker, worker.published, inputs)
    assert found.wishes is None
    assert vars(worker._budget) == before
    assert kept == []
    named = [f"p{k}" if k < 2 else None for k in range(len(STREAM))]
    found = await make_predictions(worker, worker.published, inputs, named)
    assert len(found.wishes) == len(STREAM)
    assert vars(worker._budget) != before
    assert kept == ["p0", "p1"]
    assert np.isfinite([list(scores.values()) for scores in found.scores]).all()


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
