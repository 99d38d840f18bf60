"""Long lists are freed in slices, once their owner is gone and nobody else uses them."""

import asyncio
import gc
import weakref

import pytest

from hinged.service.data.slices import FreedInSlices


class Value:
    """A value that says when it is freed."""


async def ends(freed, values):
    """Give the owner up. Return how many of the values are alive after each turn of the event loop."""
    alive = weakref.WeakSet(values)
    owner = FreedInSlices()
    owner.add(freed)
    values.clear()
    freed = None
    del owner
    counts = [len(alive)]
    while counts[-1] and len(counts) < 10_000:
        await asyncio.sleep(0)
        counts.append(len(alive))
    return counts


@pytest.mark.parametrize("form", [list, dict.fromkeys])
def test_a_long_list_is_freed_in_slices_after_its_owner_is_gone(form):
    gc.disable()
    values = [Value() for _ in range(200_000)]
    try:
        counts = asyncio.run(ends(form(values), values))
    finally:
        gc.enable()
    assert counts[0] == 200_000
    assert counts[-1] == 0
    assert len(counts) > 3


def test_a_list_that_is_still_used_is_left_alone():
    async def used():
        owner = FreedInSlices()
        inner, outer = [1] * 100, []
        outer.append(inner)
        owner.add(outer)
        owner.add(inner)
        del owner
        await asyncio.sleep(0.01)
        return outer, inner

    assert asyncio.run(used()) == ([[1] * 100], [1] * 100)


def test_without_an_event_loop_a_list_is_freed_as_usual():
    value = Value()
    alive, owner = weakref.ref(value), FreedInSlices()
    owner.add([value])
    del value, owner
    assert alive() is None
