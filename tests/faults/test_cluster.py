import pytest

from tests.faults.cluster import NONE, run

pytestmark = pytest.mark.server


def test_servers_that_share_a_store_lose_and_repeat_nothing_under_kills_stops_and_moves(tmp_path):
    found = run(tmp_path, ["move", "kill", "stop", "move"], seed=20_261, models=9)
    assert found["acknowledged"] > 9, found  # also on a slow machine
    assert [found[fault] for fault in NONE] == [0] * len(NONE), found
    assert found["wrong"] == [], found
