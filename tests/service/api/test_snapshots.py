"""Snapshots and rollbacks, on real stores with a real worker."""

import asyncio
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.commands.ask import Offer
from hinged.service.data.examples import to_inputs
from hinged.service.data.inputs import x_digests
from hinged.service.engine.history import ModelHistory
from hinged.service.errors import Conflict, Invalid, StoreUnavailable
from hinged.service.model.pending import Made, Prediction
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.limits import limited
from tests.helpers.redis_server import RedisServer
from tests.helpers.states import digest_of, load_model
from tests.helpers.worker import SIZES, examples_of, learning, until, with_worker, working


async def do(worker, what, seed, n):
    """Change the model. The same seed and n give the same changes."""
    model = worker.model
    if what == "learn":
        await worker.learn(learning(model, examples_of(seed, n)))
    elif what == "finish":
        await worker.finish(epochs=n % 2)
    elif what == "offer":
        rows = to_inputs([[seed, k] for k in range(n)], model.configuration)
        await worker.command(Offer([f"c{seed}-{k}" for k in range(n)], rows, x_digests(rows), [None] * n))
    elif what == "predict":
        rows = to_inputs([[k, seed] for k in range(n)], model.configuration)
        waiting = [
            Prediction(f"p{seed}-{k}", rows.part(k, k + 1), digest, np.zeros(0), -1, 0, time.time_ns() // 1_000_000)
            for k, digest in enumerate(x_digests(rows))
        ]
        await worker.keep([Made(p) for p in waiting if model.pending.find(p.id, 0) is None])
        await worker.snapshot()  # the log has the snapshot after the changes
    elif what == "rollback":
        to = 1 + seed * n % model.position
        if model.counts(to):
            await worker.roll_back(to)


def facts_without_time(model):
    """Return the digest of a model without the times of its predictions."""
    model.pending._by_id.clear()
    return digest_of(model)


CHANGES = st.tuples(
    st.sampled_from(["learn", "learn", "finish", "offer", "predict"]), st.integers(0, 50), st.integers(1, 9)
)
WITH_ROLLBACKS = st.one_of(CHANGES, st.tuples(st.just("rollback"), st.integers(0, 50), st.integers(1, 9)))


def unlike(changes):
    """Return the same changes with a different seed for each, because an id is learned only once."""
    return [(what, 100 * place + seed, n) for place, (what, seed, n) in enumerate(changes)]


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(st.lists(CHANGES, max_size=4), st.lists(CHANGES, max_size=4), st.lists(CHANGES, max_size=4))
def test_a_rolled_back_model_equals_a_model_that_never_had_the_undone_events(before, undone, after):
    changes = unlike([*before, *undone, *after])
    before, undone, after = (
        changes[: len(before)],
        changes[len(before) : len(before) + len(undone)],
        changes[len(before) + len(undone) :],
    )

    async def with_rollback(worker, store):
        for change in before:
            await do(worker, *change)
        to, was = worker.model.position, digest_of(worker.model)
        for change in undone:
            await do(worker, *change)
        end = worker.model.position
        answer = await worker.roll_back(to)
        assert answer["position"] == end + 1
        assert digest_of(worker.model) == was
        assert worker.published.examples == worker.model.learned == answer["examples"]
        # Undone ids are unknown. Undone ids may be learned again, even with a different label.
        for change in after:
            await do(worker, *change)
        recovered = load_model(store, "m", **SIZES)
        assert recovered.snapshot() == worker.model.snapshot()
        store.snapshots = lambda _: []
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()
        return facts_without_time(worker.model)

    async def without(worker, _):
        for change in [*before, *after]:
            await do(worker, *change)
        return facts_without_time(worker.model)

    assert with_worker(with_rollback) == with_worker(without)


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(st.lists(WITH_ROLLBACKS, min_size=3, max_size=14), st.integers(2, 30))
def test_every_earlier_state_of_a_model_can_be_folded_again_to_the_bit(changes, snapshot_examples):
    async def scenario(worker, store):
        states = {}
        for change in unlike(changes):
            await do(worker, *change)
            states[worker.model.position] = worker.model.snapshot()
        history = ModelHistory(store, "m", **SIZES)
        for position, state in states.items():
            assert history.at(position).snapshot() == state
        store.snapshots = lambda _: []
        for position, state in states.items():
            assert history.at(position).snapshot() == state

    with_worker(scenario, snapshot_examples=snapshot_examples)


def test_undone_ids_are_learned_again_and_earlier_ids_are_not():
    async def scenario(worker, _):
        await worker.learn(learning(worker.model, [("a", [0, 1], "n"), ("b", [1, 0], "p")]))
        to = worker.model.position
        await worker.learn(learning(worker.model, [("late", [0.5, 0.5], "n")]))
        await worker.roll_back(to)
        # Dropped first answers are looked up in the log. The look-up must not find undone events.
        worker.model.answers.kept = 1
        await worker.learn(learning(worker.model, [("late", [0.5, 0.5], "p"), ("x", [1, 1], "p"), ("y", [2, 2], "n")]))
        answer = await worker.learn(learning(worker.model, [("late", [0.5, 0.5], "p"), ("a", [0, 1], "n")]))
        assert [r.duplicate for r in answer.results] == [True, True]
        with pytest.raises(Conflict):
            await worker.learn(learning(worker.model, [("late", [0.5, 0.5], "n")]))
        assert worker.model.learned == 5

    with_worker(scenario)


def test_a_rollback_cannot_return_to_an_undone_position():
    async def scenario(worker, _):
        for seed in range(3):
            await do(worker, "learn", seed, 3)
        middle = worker.model.position - 1
        await worker.roll_back(2)
        with pytest.raises(Conflict, match="undone"):
            await worker.roll_back(middle)
        for position in (0, worker.model.position + 1):
            with pytest.raises(Invalid, match="position must be from 1"):
                await worker.roll_back(position)
        await worker.roll_back(worker.model.position)
        await worker.roll_back(1)
        assert worker.model.learned == 0

    with_worker(scenario)


def test_a_rollback_is_refused_before_it_is_written_if_the_log_cannot_be_read():
    async def scenario(worker, store):
        await do(worker, "learn", 1, 6)
        position, digest = worker.model.position, digest_of(worker.model)
        read, snapshots = store.read, store.snapshots

        def fail(*_):
            raise StoreUnavailable("no disk")

        store.read = store.snapshots = fail
        with pytest.raises(StoreUnavailable):
            await worker.roll_back(2)
        store.read, store.snapshots = read, snapshots
        assert (worker.model.position, digest_of(worker.model)) == (position, digest)
        assert store.end("m") == position

    with_worker(scenario)


# -- cadence and retention -------------------------------------------------------------------------------------------


def test_a_change_is_in_a_snapshot_after_some_time_and_no_change_writes_none():
    async def scenario(worker, store):
        puts, put = [], store.put_snapshot
        store.put_snapshot = lambda *arguments: puts.append(arguments[1]) or put(*arguments)
        await asyncio.sleep(3 * snapshot_s)
        assert not puts
        await do(worker, "learn", 1, 3)
        await until(lambda: store.snapshots("m"))
        await asyncio.sleep(3 * snapshot_s)
        assert puts == store.snapshots("m") == [worker.model.position]

    snapshot_s = 0.1
    with limited(snapshot_s=snapshot_s):
        with_worker(scenario)


def test_a_requested_snapshot_is_durable_when_the_answer_comes():
    async def scenario(worker, store):
        await do(worker, "learn", 1, 3)
        assert await worker.snapshot() == worker.model.position
        assert store.snapshots("m") == [worker.model.position]
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

        def fail(*_):
            raise StoreUnavailable("no disk")

        store.put_snapshot = fail
        await do(worker, "learn", 2, 3)
        with pytest.raises(StoreUnavailable):
            await worker.snapshot()
        await do(worker, "learn", 3, 3)

    with_worker(scenario)


@pytest.fixture(params=["sqlite", "redis"])
def store(request, tmp_path):
    if request.param == "sqlite":
        opened = SQLiteStore(tmp_path / "data")
        yield opened
        opened.close()
        return
    with RedisServer(tmp_path / "redis") as server:
        opened = RedisStore(server.url)
        yield opened
        opened.close()


def test_the_log_is_not_trimmed_before_an_unreadable_snapshot(store):
    async def scenario():
        async with working(store, log_kept=0) as worker:
            await do(worker, "learn", 1, 4)
            position = await worker.snapshot()
            store.put_snapshot("m", position, store.get_snapshot("m", position)[:-40])
            await do(worker, "learn", 2, 4)
            await worker.snapshot()
            assert next(store.read("m", 0))[0] == 1
            assert digest_of(load_model(store, "m", **SIZES)) == digest_of(worker.model)

    asyncio.run(scenario())


@pytest.mark.parametrize("kept", [0, 4])
def test_the_log_is_trimmed_before_the_older_snapshot_and_the_rest_recovers(store, kept):
    async def scenario():
        sizes = SIZES | {"answers_kept": 2}
        async with working(store, sizes, log_kept=kept) as worker:
            for seed in range(8):
                await do(worker, "learn", seed, 4)
                if seed % 3 == 2:
                    await worker.snapshot()
            await do(worker, "learn", 9, 4)
            newest, older = store.snapshots("m")
            first = next(store.read("m", 0))[0]
            assert first == older - kept + 1
            digest = digest_of(worker.model)
            assert digest_of(load_model(store, "m", **sizes)) == digest
            whole = store.get_snapshot("m", newest)
            store.put_snapshot("m", newest, whole[:-40])
            assert digest_of(load_model(store, "m", **sizes)) == digest  # loaded from the older snapshot
            store.put_snapshot("m", newest, whole)
            with pytest.raises(Conflict, match="trimmed"):
                await worker.finish(epochs=1)
            history = ModelHistory(store, "m", **sizes)
            for position in {2, older - 1} if older > 2 else {2}:
                with pytest.raises(Conflict, match="is gone"):
                    history.at(position)
                with pytest.raises(Conflict, match="is gone"):
                    await worker.roll_back(position)
            assert history.at(older).position == older
            await worker.finish()
            await worker.roll_back(worker.model.position - 1)
            assert digest_of(worker.model) == digest
            # If the first answer of an id is dropped and its event is trimmed, the id counts as new.
            again = await worker.learn(learning(worker.model, [("s0-1", [7, 7], "a")]))
            assert not again.results[0].duplicate

    asyncio.run(scenario())


def test_events_needed_to_fold_an_epoch_or_a_rollback_again_are_not_trimmed(store):
    async def scenario():
        async with working(store, log_kept=0) as worker:
            for seed in range(3):
                await do(worker, "learn", seed, 4)
            await worker.snapshot()
            await worker.finish(epochs=1)  # this saves another snapshot
            await do(worker, "learn", 5, 4)
            assert next(store.read("m", 0))[0] == 1
            await worker.roll_back(worker.model.position - 1)
            await do(worker, "learn", 6, 4)
            assert next(store.read("m", 0))[0] == 1
            for position in store.snapshots("m")[:1]:
                store.put_snapshot("m", position, b"damaged")
            assert digest_of(load_model(store, "m", **SIZES)) == digest_of(worker.model)
            for seed in (7, 8):
                await do(worker, "learn", seed, 4)
                await worker.snapshot()
            assert next(store.read("m", 0))[0] > 1

    asyncio.run(scenario())


# -- over HTTP -------------------------------------------------------------------------------------------------------
