"""No key and no model can use up all slots for forwarded requests."""

from contextlib import ExitStack, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.service.cluster.gate import Portions
from hinged.service.errors import Unavailable

owners = st.tuples(st.sampled_from("mno"), st.sampled_from(["key 1", "key 2", "key 3"]))


@given(
    most=st.integers(1, 30),
    steps=st.lists(st.tuples(owners, st.booleans()), max_size=120),
)
def test_an_owner_without_requests_finds_room_as_long_as_there_is_any(most, steps):
    portions, under_way = Portions(most), []
    for asked, ends in steps:
        if ends and under_way:
            under_way.pop()[1].close()
            continue
        held = max(sum(owner in others for others, _ in under_way) for owner in asked)
        free = most - len(under_way)
        stack = ExitStack()
        try:
            stack.enter_context(portions.one(*asked))
        except Unavailable:
            assert held >= free
        else:
            assert held < free
            under_way.append((asked, stack))
    for _, stack in under_way:
        stack.close()
    with ExitStack() as stack:  # the earlier requests have ended
        for _ in range((most + 1) // 2):
            stack.enter_context(portions.one("m", "key 1"))
        if most % 2 == 0:
            with pytest.raises(Unavailable, match="there is room for") as refused:
                stack.enter_context(portions.one("m", "key 2"))
            assert refused.value.headers["Retry-After"] == "1"


def test_a_key_that_asks_for_all_leaves_half_and_the_next_half_of_that():
    portions = Portions(120)
    with ExitStack() as stack:
        for key, least in (("a", 60), ("b", 30), ("c", 15)):
            got = 0
            with suppress(Unavailable):
                for _ in range(120):
                    stack.enter_context(portions.one(key))
                    got += 1
            assert got == least


def test_a_failed_request_gives_its_place_back():
    portions = Portions(1)
    for _ in range(3):
        with pytest.raises(RuntimeError), portions.one("m", "key"):
            raise RuntimeError
