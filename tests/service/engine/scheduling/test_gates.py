"""Gates let micro-batches in: a limited number, and in the right order."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.service.engine.scheduling import gates
from hinged.service.engine.scheduling.gates import GAIN, Gates, LearningGate
from hinged.service.engine.scheduling.turns import SHORT_S, Account
from tests.helpers.server import PATIENCE_S

FOR_EVER_S = 1000.0


@pytest.fixture(autouse=True, scope="module")
def held_for_ever():
    """Let micro-batches keep their places, however slow the machine is."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gates, "HELD_S", FOR_EVER_S)
        yield


async def take_turns(gate, times):
    """Take `times` turns for a model whose calls are short."""
    for _ in range(times):
        async with gate.turn(Account()):
            await asyncio.sleep(0)


@given(st.lists(st.integers(1, 6), min_size=3, max_size=12), st.integers(1, 4))
def test_no_model_has_a_second_turn_before_every_waiting_model_has_had_one(times, places):
    async def scenario():
        gate, asked, had = LearningGate(places), [], []

        async def model(k):
            for turn in range(times[k]):
                asked.append((k, turn))
                async with gate.turn(Account()):
                    had.append((k, turn))
                    await asyncio.sleep(0)

        await asyncio.gather(*(model(k) for k in range(len(times))))
        assert sorted(asked) == sorted(had)
        # The turns have the order in which the models asked, except among models that are let in at the same time.
        assert all(abs(asked.index(turn) - at) < gate.most for at, turn in enumerate(had))

    asyncio.run(scenario())


@given(st.data())
def test_no_more_models_are_inside_than_allowed_when_some_give_up_waiting(data):
    async def scenario():
        gate, inside = LearningGate(data.draw(st.integers(1, 4))), set()
        pauses = data.draw(st.lists(st.integers(0, 3), min_size=12, max_size=12))

        async def work(k):
            async with gate.turn(Account()):
                inside.add(k)
                assert len(inside) <= gate.most
                try:
                    for _ in range(pauses[k]):
                        await asyncio.sleep(0)
                finally:
                    inside.discard(k)

        tasks = [asyncio.create_task(work(k)) for k in range(12)]
        for _ in range(data.draw(st.integers(0, 10))):
            data.draw(st.sampled_from(tasks)).cancel()
            await asyncio.sleep(0)
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE_S)
        assert not [error for error in outcomes if isinstance(error, AssertionError)]

        async def meet():
            async with gate.turn(Account()):
                await all_inside.wait()

        all_inside = asyncio.Barrier(gate.most)  # all can be inside only if all places are free again
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(meet() for _ in range(gate.most)))

    asyncio.run(scenario())


async def test_a_long_micro_batch_lets_the_next_one_in(monkeypatch):
    monkeypatch.setattr(gates, "HELD_S", 0.01)
    gate, never = LearningGate(2), asyncio.Event()

    async def slow():
        async with gate.turn(Account()):
            await never.wait()

    slow_ones = [asyncio.create_task(slow()) for _ in range(2)]
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await take_turns(gate, 3)
    never.set()
    await asyncio.gather(*slow_ones)
    assert not gate._inside


@pytest.mark.parametrize(("part", "most"), [(0.0, 2), (0.1, 2), (0.5, 4), (0.9, 20), (1.0, round(2 / GAIN))])
def test_more_models_are_let_in_when_they_mostly_wait_for_the_store(monkeypatch, part, most):
    now = 0.0
    monkeypatch.setattr(gates.time, "perf_counter", lambda: now)

    async def scenario():
        nonlocal now
        gate, account = LearningGate(2), Account()
        for _ in range(500):
            async with gate.turn(account):
                now += 0.01
                account.stored_s += part * 0.01
        assert gate.most == round(most)

    asyncio.run(scenario())


def test_a_micro_batch_that_hung_changes_the_average_little(monkeypatch):
    now = 0.0
    monkeypatch.setattr(gates.time, "perf_counter", lambda: now)

    async def scenario():
        nonlocal now
        gate, account = LearningGate(2), Account()
        async with gate.turn(account):
            now += 3600.0
            account.stored_s += 3600.0
        assert gate.most == 2

    asyncio.run(scenario())


async def test_models_with_long_calls_do_not_delay_other_models():
    both, never, let_in = Gates(2), asyncio.Event(), 0

    async def slow():
        nonlocal let_in
        account = Account()
        account.usual_s = 2 * SHORT_S
        async with both.turn(account):
            let_in += 1
            await never.wait()

    slow_ones = [asyncio.create_task(slow()) for _ in range(5)]
    await asyncio.sleep(0)
    assert let_in == 2
    async with asyncio.timeout(PATIENCE_S):
        await take_turns(both, 3)
    never.set()
    await asyncio.gather(*slow_ones)
