"""One purge serves all callers that asked before it began. Between purges the store has time for changes."""

import asyncio
import threading
import time

import pytest

from hinged.service.engine.jobs.purging import REST, Purging
from hinged.service.errors import StoreUnavailable
from tests.helpers.server import PATIENCE_S
from tests.helpers.worker import until


class Slow:
    """A store whose purges take a while. A test can hold a purge. The store counts purges and records their times."""

    def __init__(self, seconds=0.05):
        self.seconds = seconds
        self.begun = 0
        self.times = []
        self.failures = []
        self.held = threading.Event()
        self.held.set()

    def purge(self):
        self.begun += 1
        told, begin = [f"purge {self.begun}"], time.monotonic()
        self.held.wait(PATIENCE_S)
        time.sleep(self.seconds)
        self.times.append((begin, time.monotonic()))
        if self.failures:
            raise self.failures.pop()
        return told


async def test_one_purge_serves_all_who_asked_before_it_began():
    store = Slow()
    store.held.clear()
    purging = Purging(store)
    first = asyncio.create_task(purging.purge(asyncio.to_thread))
    await until(lambda: store.begun)  # too late for later callers: the purge may already have read their part
    others = [asyncio.create_task(purging.purge(asyncio.to_thread)) for _ in range(5)]
    await asyncio.sleep(0)
    store.held.set()
    assert await first == ["purge 1"]
    others.append(asyncio.create_task(purging.purge(asyncio.to_thread)))  # this call is made while the store rests
    assert await asyncio.gather(*others) == [["purge 2"]] * 6
    assert len(store.times) == 2


async def test_between_two_purges_changes_have_the_store_to_themselves():
    store = Slow()
    purging = Purging(store)
    for _ in range(3):
        await purging.purge(asyncio.to_thread)
    for (begin, end), (then, _) in zip(store.times, store.times[1:], strict=False):
        assert then - end > 0.9 * REST * (end - begin)


@pytest.mark.parametrize("way", ["fails", "is given up"])
def test_after_a_purge_that_failed_waiting_callers_get_a_purge_of_their_own(way):
    async def go():
        store = Slow()
        purging = Purging(store)
        if way == "fails":
            store.failures.append(StoreUnavailable("away"))
        first, *others = [asyncio.create_task(purging.purge(asyncio.to_thread)) for _ in range(4)]
        if way == "is given up":
            await until(lambda: store.begun)
            first.cancel()
        with pytest.raises((StoreUnavailable, asyncio.CancelledError)):
            await first
        assert await asyncio.gather(*others) == [["purge 2"]] * 3

    asyncio.run(go())
