import pytest

from tests.faults.cluster import NONE, run

pytestmark = pytest.mark.long


def test_servers_that_share_a_store_lose_and_repeat_nothing_under_kills_stops_and_moves(tmp_path):
    found = run(tmp_path, ["move", "kill", "stop", "move"], seed=20_261, models=9)
    assert found["acknowledged"] > 9, found  # a slow machine also reaches this number
    assert [found[fault] for fault in NONE] == [0] * len(NONE), found
    assert found["wrong"] == [], found


def test_so_do_servers_of_several_processes(tmp_path):
    found = run(tmp_path, ["move", "process", "kill", "stop", "move"], seed=20_262, models=9, servers=2, processes=2)
    assert found["acknowledged"] > 9, found
    assert [found[fault] for fault in NONE] == [0] * len(NONE), found
    assert found["wrong"] == [], found
