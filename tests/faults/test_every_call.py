import pytest

from tests.faults.every_call import FAULTS, main


@pytest.mark.long
def test_a_failing_call_of_any_kind_loses_nothing_and_the_server_goes_on():
    found = main(most=2)
    assert found["faults"] > 30, found
    assert [found[fault] for fault in FAULTS] == [0] * len(FAULTS), found
