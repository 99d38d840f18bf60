import pytest
from histories import FAULTS, run, warm

STORES = ["sqlite", "redis"]


@pytest.mark.parametrize("store", STORES)
def test_random_histories_can_always_be_read_again_and_nothing_is_lost_invented_or_misread(store):
    warm()
    total, words = run(12, seed=20_260, steps=8, store=store)
    assert not words, words
    assert total["learned"] > 50
    assert {fault: total[fault] for fault in FAULTS} == dict.fromkeys(FAULTS, 0)
