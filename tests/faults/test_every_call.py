import pytest

from tests.faults.every_call import FAULTS, KINDS, main


@pytest.mark.long
@pytest.mark.parametrize(
    ("store", "processes", "kinds"),
    [("sqlite", 1, KINDS), ("redis", 1, ("receive", "send", "connect")), ("sqlite", 2, ("write", "thread"))],
)
def test_a_failing_call_of_any_kind_loses_nothing_and_the_server_goes_on(store, processes, kinds):
    found = main(most=1, kinds=kinds, store=store, processes=processes)
    assert found["faults"] >= len(kinds), found
    assert [found[fault] for fault in FAULTS] == [0] * len(FAULTS), found
