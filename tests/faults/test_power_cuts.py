import pytest

from tests.faults.power_cuts import FAULTS, STORES, main


@pytest.mark.long
@pytest.mark.parametrize("store", STORES)
def test_no_state_that_a_power_cut_leaves_lacks_or_brings_back_anything(store):
    found = main(histories=3 if store == "sqlite" else 2, states=100, seed=20_281, store=store)
    assert found["states"] > 100, found
    assert [found[fault] for fault in FAULTS] == [0] * len(FAULTS), found
