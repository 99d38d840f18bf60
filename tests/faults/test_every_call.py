import pytest

from tests.faults.every_call import FAULTS, KINDS, main


@pytest.mark.long
@pytest.mark.parametrize(
    ("store", "more", "kinds"),
    [
        ("sqlite", {}, KINDS),
        ("redis", {}, ("receive", "send", "connect")),
        ("sqlite", {"processes": 2}, ("write", "thread")),
        ("redis", {"nodes": 2}, ("send",)),
    ],
)
def test_a_failing_call_of_any_kind_loses_nothing_and_the_server_goes_on(store, more, kinds):
    found = main(most=1, kinds=kinds, store=store, **more)
    assert found["faults"] >= len(kinds), found
    assert [found[fault] for fault in FAULTS] == [0] * len(FAULTS), found
