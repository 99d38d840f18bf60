"""Purges serve all who asked before they began, and leave the store time for changes."""

import asyncio
import time

import pytest

from hinged.service.engine.jobs.purging import REST, Purging
from hinged.service.errors import StoreUnavailable


class Slow:
    """A store whose purges take a while: when each began and ended."""

    def __init__(self, seconds=0.05):
        self.seconds = seconds
        self.times = []
        self.failures = []

    def purge(self):
        begin = time.monotonic()
        time.sleep(self.seconds)
        self.times.append((begin, time.monotonic()))
        if self.failures:
            raise self.failures.pop()
        return [f"purge {len(self.times)}"]


def test_one_purge_serves_all_who_asked_before_it_began():
    async def go():
        store = Slow()
        purging = Purging(store)
        first = asyncio.create_task(purging.purge(asyncio.to_thread))
        await asyncio.sleep(store.seconds / 2)  # it is under way: it may have passed what these want gone
        others = [asyncio.create_task(purging.purge(asyncio.to_thread)) for _ in range(5)]
        await asyncio.sleep(store.seconds)  # the store rests
        others.append(asyncio.create_task(purging.purge(asyncio.to_thread)))
        assert await first == ["purge 1"]
        assert await asyncio.gather(*others) == [["purge 2"]] * 6
        assert len(store.times) == 2

    asyncio.run(go())


def test_between_two_purges_changes_have_the_store_to_themselves():
    async def go():
        store = Slow()
        purging = Purging(store)
        for _ in range(3):
            await purging.purge(asyncio.to_thread)
        for (begin, end), (then, _) in zip(store.times, store.times[1:], strict=False):
            assert then - end > 0.9 * REST * (end - begin)

    asyncio.run(go())


@pytest.mark.parametrize("way", ["fails", "is given up"])
def test_where_a_purge_does_not_come_to_its_end_the_others_have_one_of_their_own(way):
    async def go():
        store = Slow()
        purging = Purging(store)
        if way == "fails":
            store.failures.append(StoreUnavailable("away"))
        first, *others = [asyncio.create_task(purging.purge(asyncio.to_thread)) for _ in range(4)]
        if way == "is given up":
            await asyncio.sleep(store.seconds / 2)
            first.cancel()
        with pytest.raises((StoreUnavailable, asyncio.CancelledError)):
            await first
        assert await asyncio.gather(*others) == [["purge 2"]] * 3

    asyncio.run(go())
