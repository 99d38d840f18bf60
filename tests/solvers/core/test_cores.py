"""Independent calls on several cores give the same results as one after the other."""

import threading

import pytest

from hinged.solvers.core.cores import on_cores, on_each


@pytest.mark.parametrize("count", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(count):
    with on_cores(count):
        assert on_each(lambda item: item * item, range(20)) == [item * item for item in range(20)]
        assert on_each(str, []) == []


def test_calls_run_at_the_same_time_on_that_many_threads():
    meeting = threading.Barrier(3, timeout=60)
    with on_cores(3):
        assert sorted(on_each(lambda _: meeting.wait(), range(3))) == [0, 1, 2]


@pytest.mark.parametrize("count", [None, 1])
def test_without_more_cores_all_calls_run_on_this_thread(count):
    def threads():
        return on_each(lambda _: threading.get_ident(), range(4))

    if count is None:
        found = threads()
    else:
        with on_cores(count):
            found = threads()
    assert {*found} == {threading.get_ident()}


def test_other_threads_and_later_calls_are_not_affected():
    found = []
    with on_cores(2):
        other = threading.Thread(target=lambda: found.extend(on_each(lambda _: threading.get_ident(), range(3))))
        other.start()
        other.join()
        with on_cores(1):
            assert {*on_each(lambda _: threading.get_ident(), range(3))} == {threading.get_ident()}
        assert threading.get_ident() not in on_each(lambda _: threading.get_ident(), range(3))
    assert len({*found}) == 1
    assert {*on_each(lambda _: threading.get_ident(), range(3))} == {threading.get_ident()}


def test_the_error_of_the_first_failing_item_comes_after_all_calls_have_ended():
    ended = []

    def call(item):
        if item in (1, 2):
            raise ValueError(item)
        ended.append(item)

    with on_cores(2), pytest.raises(ValueError, match="1"):
        on_each(call, range(6))
    assert sorted(ended) == [0, 3, 4, 5]
