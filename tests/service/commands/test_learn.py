"""The quick plan of a stream is equal to the plan that checks each example."""

import asyncio
from functools import partial
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.commands import learn as planning
from hinged.service.commands.ask import Ask, Offer
from hinged.service.commands.learn import make_plan
from hinged.service.commands.planned import AllNew
from hinged.service.data.examples import to_inputs
from hinged.service.data.inputs import x_digests
from hinged.service.engine.learning import answer_of
from hinged.service.model.pending import Made, Prediction
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.worker import folder_of, learning, working

CLASSES_MAX = 4

# Ids of all sorts: learned, in the log although the model has dropped their answers, in the pool, pending, given by the
# server, and new.
ids = st.none() | st.sampled_from(
    ["old-1", "old-2", "old-40", "pool-1", "pool-2", "wait-1", "@1", "@90", *(f"new-{k}" for k in range(12))]
)
points = st.sampled_from([[0.0, 0.0], [0.5, 1.0], [1.0, 0.0], [2.0, 2.0]])
labels = st.sampled_from(["a", "a", "a", "b", "b", 1, True, "1", "new class"])
requests = st.lists(st.lists(st.tuples(ids, points, labels), min_size=1, max_size=5), min_size=1, max_size=4)


async def settled(worker):
    """Return a model with ids of every possible status."""
    first = [(f"old-{k}", [k / 50, 0.5], "ab"[k % 2]) for k in range(50)]
    for at in range(0, 50, 10):
        await worker.learn(learning(worker.model, first[at : at + 10]))
    await worker.learn(learning(worker.model, [(None, [3.0, 1.0], 1), (None, [1.0, 3.0], True)]))
    rows = to_inputs([[0.5, 1.0], [1.0, 0.0]], worker.model.configuration)
    await worker.command(Offer(["pool-1", "pool-2"], rows, x_digests(rows), [None, None]))
    await worker.command(Ask(1, "ann", "random", 60_000, None, 10))
    one = rows.part(0, 1)
    await worker.keep([Made(Prediction("wait-1", one, x_digests(one)[0], np.zeros(0), -1, 0, worker.journal.now_ms()))])


def outcome(worker, plan):
    """Return the events and the answers of a plan."""
    scores = [k / 8 for k in range(plan.new)]
    numbers, first = [k % 2 for k in range(plan.new)], worker.model.learned + 1
    answers = [answer_of(worker.model, planned, first, numbers, scores) for planned in plan.planned]

    told = [a if isinstance(a, Exception) else a.results for a in answers]
    return [event.encode() for event in plan.events], [
        (type(t), str(t)) if isinstance(t, Exception) else [tuple(r) for r in t] for t in told
    ]


def known_of(worker):
    """Return a look-up of the first answers that are in the log."""
    return partial(worker.journal.lookup.first_answers, worker.model)


@pytest.fixture(scope="module")
def worker():
    """A worker whose model never changes, because plans change nothing."""
    loop = asyncio.new_event_loop()
    with TemporaryDirectory() as folder:
        store = SQLiteStore(folder_of(folder))
        around = working(store)
        found = loop.run_until_complete(around.__aenter__())
        loop.run_until_complete(settled(found))
        try:
            yield found
        finally:
            loop.run_until_complete(around.__aexit__(None, None, None))
            store.close()
            loop.close()


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(requests=requests)
def test_the_quick_plan_equals_the_long_plan(worker, requests):
    batch = [learning(worker.model, examples) for examples in requests]
    plans = []
    for quick in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not quick:
                patch.setattr(planning, "_plain", lambda *_: None)
            plans.append(outcome(worker, make_plan(worker.model, batch, known_of(worker), CLASSES_MAX, 10**13)))
    assert plans[0] == plans[1]


def test_new_examples_take_the_quick_plan_and_known_examples_do_not(worker):
    def quick(*examples):
        plan = make_plan(worker.model, [learning(worker.model, examples)], known_of(worker), CLASSES_MAX, 10**13)
        return isinstance(plan.planned[0], AllNew)

    assert quick((None, [1.0, 2.0], "a"), ("new", [1.0, 2.0], "b"), (None, [2.0, 2.0], True))
    for given_id in ("old-1", "old-40", "pool-1", "@1"):
        assert not quick((None, [1.0, 2.0], "a"), (given_id, [1.0, 2.0], "a"))
    assert not quick(("twice", [1.0, 2.0], "a"), ("twice", [1.0, 2.0], "a"))
    assert not quick((None, [1.0, 2.0], "new class"))
