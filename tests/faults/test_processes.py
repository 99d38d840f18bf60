import pytest

from tests.faults.cluster import NONE
from tests.faults.processes import run


@pytest.mark.long
@pytest.mark.parametrize("followers", [0, 1])
def test_killed_processes_lose_and_repeat_nothing_and_delay_no_other_model(tmp_path, followers):
    found = run(tmp_path, ["kill", "all"], seed=20_262, models=4, clients=2, followers=followers)
    assert found["acknowledged"] > 9, found  # a slow machine also reaches this number
    assert [found[fault] for fault in NONE] == [0] * len(NONE), found
    assert (found["wrong"], found["refused"]) == ([], []), found
