from kill_server import CONFIGURATIONS, run


def test_kill_9_at_random_moments_loses_invents_and_changes_nothing(tmp_path):
    figures, traffic = run(tmp_path, kills=6, clients=4, seed=20_251)
    assert traffic.retries > 0
    for name in CONFIGURATIONS:
        found = figures[name]
        assert found["acknowledged"] > 200, found
        assert found["lost"] == found["invented"] == found["twice"] == found["wrong answers"] == 0, found
        assert found["recovered = folded"], found
        assert found["recovered = uninterrupted"], found
    assert any(figures[name]["snapshots"] for name in CONFIGURATIONS)
