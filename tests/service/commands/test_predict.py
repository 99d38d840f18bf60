"""Predictions, for any caller."""

import numpy as np

from hinged.service.commands.predict import make_decisions
from hinged.service.data.examples import Details
from tests.helpers.worker import learning, on_worker, predictions_of

STREAM = [(f"e{k}", [float(k % 3), float(k % 2)], "ab"[k % 2]) for k in range(12)]
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
