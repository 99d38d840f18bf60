"""A replica has the same states as the model's owner, to the bit, whatever happens to the model."""

import asyncio
import logging
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.commands.ask import Ask, Offer
from hinged.service.commands.change import Configure, Correct, Forget
from hinged.service.data.inputs import x_digests
from hinged.service.engine.positions import LogPosition
from hinged.service.errors import ServiceError, StoreUnavailable
from hinged.service.peers.replica import NotHere, Replicas
from hinged.service.settings import Settings
from hinged.service.store.base import Event
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.changes import EXACT
from tests.helpers.limits import limited
from tests.helpers.worker import SIZES, examples_of, folder_of, learning, until, working


class Pair:
    """A worker, and replicas of its model that read the same folder, as another process would."""

    def __init__(self, worker, replicas):
        self.worker = worker
        self.replicas = replicas

    async def caught_up(self):
        """Return the replica once it has reached the model's current position."""
        position = self.worker.published.position
        self.replicas.note("m", LogPosition(1, position))
        await until(lambda: self.replicas.lags()["m"] <= 0)
        return self.replicas.get("m")


def run(scenario, tmp_path, **changes):
    async def main():
        folder = folder_of(tmp_path)
        owning = SQLiteStore(folder)
        reading = SQLiteStore(folder, reading=True)
        with ThreadPoolExecutor(2) as threads:
            sizes = {"cache_mb": 1, "answers_kept": SIZES["answers_kept"]}
            replicas = Replicas(reading, Settings(**sizes), threads)
            try:
                async with working(owning, **changes) as worker:
                    await scenario(Pair(worker, replicas))
                    await replicas.stop()
            finally:
                reading.close()
                owning.close()

    asyncio.run(main())


async def something(rng, worker, examples):
    """Make one of the changes that can happen to a model."""
    learned = worker.model.learned
    match rng.choice(["learn", "learn", "learn", "finish", "forget", "correct", "change", "back", "snapshot", "ask"]):
        case "learn":
            await worker.learn(learning(worker.model, examples[learned : learned + rng.randint(1, 6)] or examples[:1]))
        case "finish":
            await worker.finish(rng.choice([0, 0, 1]))
        case "forget" if learned:
            await worker.change(Forget(f"s0-{rng.randrange(len(examples))}"))
        case "correct" if learned:
            await worker.change(Correct(f"s0-{rng.randrange(learned)}", rng.choice("ab"), 10))
        case "change":
            changes = rng.choice([{"C": rng.choice([1, 5, 20])}, {"precision": rng.choice(["float32", "float64"])}])
            await worker.command(Configure(changes, Settings()))
        case "back":
            await worker.roll_back(rng.randint(1, worker.model.position))
        case "snapshot":
            await worker.snapshot()
        case "ask":
            inputs = learning(worker.model, [(None, [rng.random(), rng.random()], "a")]).inputs
            await worker.command(Offer([f"c{rng.randrange(10**9)}"], inputs, x_digests(inputs), [None]))
            await worker.command(Ask(1, f"ann{rng.randrange(3)}", "random", 60_000, None, 100))


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), log_kept=st.sampled_from([None, 0, 5]), change=st.sampled_from([{}, EXACT]))
def test_after_any_change_a_replica_equals_its_model_to_the_bit(tmp_path_factory, seed, log_kept, change):
    rng, examples = random.Random(seed), examples_of(0, 200)

    async def scenario(pair):
        for _ in range(30):
            try:
                await something(rng, pair.worker, examples)
            except ServiceError:
                continue
            if rng.random() < 0.3:  # forgotten examples are removed from the log before the replica has read them
                await until(lambda: not pair.worker.model.jobs.running())
            if rng.random() < 0.5:  # otherwise the replica has several changes to apply
                await same(pair)
        await same(pair)

    async def same(pair):
        while True:
            replica = await pair.caught_up()
            theirs = await pair.worker.read(lambda model: (model.position, model.snapshot()))
            if theirs[0] == replica.model.position:  # jobs may have changed the model meanwhile
                break
        assert replica.model.snapshot() == theirs[1]
        assert replica.published.position == theirs[0]

    run(scenario, tmp_path_factory.mktemp("pair"), configuration=change, log_kept=log_kept)


def test_a_replica_writes_nothing(tmp_path):
    async def scenario(pair):
        store = pair.replicas._store
        for write in (
            lambda: store.append("m", 1, [Event("x", b"")]),
            lambda: store.create("other", Event("x", b"")),
            lambda: store.delete("m"),
            lambda: store.put_snapshot("m", 1, b"state"),
            lambda: store.trim("m", 1),
        ):
            with pytest.raises(StoreUnavailable):
                write()
        assert pair.worker.published.position == 1

    run(scenario, tmp_path)


def test_a_replica_that_is_behind_for_too_long_leaves_the_answer_to_the_owner(tmp_path):
    async def scenario(pair):
        replica = await pair.caught_up()
        assert pair.replicas.get("m") is replica
        pair.replicas.note("m", LogPosition(1, 10**6))  # a position beyond the store's log
        with limited(follower_lag_s=0), pytest.raises(NotHere):
            pair.replicas.get("m")

    run(scenario, tmp_path)


def test_another_model_of_the_same_name_is_no_replica_of_it(tmp_path, caplog):
    caplog.set_level(logging.ERROR)

    async def scenario(pair):
        replica = await pair.caught_up()
        pair.replicas.note("m", LogPosition(2, 1))
        with pytest.raises(NotHere):
            pair.replicas.get("m")
        await until(lambda: pair.replicas.lags()["m"] == 0 and not pair.replicas._tasks)
        assert pair.replicas.get("m") is not replica
        pair.replicas.note("m", None)
        with limited(follower_lag_s=0), pytest.raises(NotHere):
            pair.replicas.get("m")

    run(scenario, tmp_path)


def test_a_replica_takes_no_event_that_the_owner_has_not_published(tmp_path):
    async def scenario(pair):
        examples = examples_of(0, 4)
        for first in (0, 2):  # the event after the second position may not be durable yet
            before = pair.worker.published.position
            await pair.worker.learn(learning(pair.worker.model, examples[first : first + 2]))
            pair.replicas.note("m", LogPosition(1, before))
            await until(lambda: pair.replicas.lags()["m"] <= 0)
            assert pair.replicas.get("m").model.position == before

    run(scenario, tmp_path)
