"""Predictions that are not in the log yet: how many wait, for how long, and in which order."""

import asyncio
import math

from hinged.service.engine.unlogged import Unlogged


def with_unlogged(scenario, most=3, flush_s=5.0):
    async def main():
        scenario(Unlogged(most, flush_s))

    asyncio.run(main())


def test_the_oldest_predictions_are_dropped_first():
    def scenario(unlogged):
        unlogged.add("abcd")
        assert unlogged.take() == ["b", "c", "d"]
        assert not unlogged

    with_unlogged(scenario)


def test_predictions_put_back_wait_before_newer_ones_as_far_as_there_is_room():
    def scenario(unlogged):
        unlogged.add("ab")
        taken = unlogged.take()
        unlogged.add("cd")
        unlogged.put_back(taken)
        assert unlogged.take() == ["b", "c", "d"]

    with_unlogged(scenario)


def test_predictions_are_due_some_time_after_the_first_came():
    def scenario(unlogged):
        assert unlogged.due_in_s() == math.inf
        unlogged.add("a")
        first = unlogged.due_in_s()
        assert 4.0 < first <= 5.0
        unlogged.add("b")
        assert unlogged.due_in_s() <= first

    with_unlogged(scenario)


def test_a_smaller_limit_keeps_the_newest():
    def scenario(unlogged):
        unlogged.add("abc")
        unlogged.limit(2)
        assert unlogged.take() == ["b", "c"]

    with_unlogged(scenario)
