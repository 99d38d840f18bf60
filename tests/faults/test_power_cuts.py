import pytest

from tests.faults.power_cuts import FAULTS, main


@pytest.mark.long
def test_no_state_that_a_power_cut_leaves_lacks_or_brings_back_anything():
    found = main(histories=3, states=100, seed=20_281)
    assert found["states"] > 200, found
    assert [found[fault] for fault in FAULTS] == [0] * len(FAULTS), found
