import pytest

from tests.faults.kill_consuming import FAULTS, run


@pytest.mark.long
@pytest.mark.parametrize("broker", ["redis", "nats", "mqtt"])
def test_kill_9_while_consuming_loses_and_repeats_nothing(broker, tmp_path):
    figures = run(tmp_path, broker, kills=1, count=200, seed=20_254, batch=20, pause_s=(0.0, 0.05))
    assert figures["learned"] == 200, figures
    assert [figures[fault] for fault in FAULTS] == [0] * len(FAULTS), figures
