import pytest

from tests.faults.kill_labelling import CONFIGURATIONS, FAULTS, run


@pytest.mark.long
def test_kill_9_while_annotators_label_causes_no_loss_collision_or_double_learning(tmp_path):
    figures, traffic = run(tmp_path, kills=3, annotators=4, seed=20_252)
    assert traffic.retries > 0
    for name in CONFIGURATIONS:
        found = figures[name]
        assert found["answers"] > 5, found  # a slow machine also reaches this number
        assert found["learned"] > 2, found
        assert [found[fault] for fault in FAULTS] == [0] * len(FAULTS), found
        assert found["recovered = folded"], found
