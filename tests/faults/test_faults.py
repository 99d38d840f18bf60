import pytest

from tests.faults import kill_forgetting, load
from tests.faults.damage import damage
from tests.faults.disturbances import (
    clock_back,
    disk_full,
    fsync_fails,
    impatient,
    kill_server,
    stop_server,
    write_fails,
)
from tests.faults.scene import scene_for
from tests.faults.under_load import CONFIGURATIONS, check, run

ON_DISK = [fsync_fails, write_fails, disk_full, clock_back, stop_server, impatient]


def test_kill_9_at_random_moments_loses_invents_and_changes_nothing(tmp_path):
    with scene_for(tmp_path, "sqlite", [kill_server]) as scene:
        figures, traffic = run(scene, [kill_server] * 5, clients=4, seed=20_251)
    assert traffic.retries > 0
    check(figures, at_least=50)
    assert any(figures[name]["snapshots"] for name in CONFIGURATIONS)


@pytest.mark.long
def test_faults_of_the_disk_and_the_clock_lose_invent_and_change_nothing(tmp_path):
    with scene_for(tmp_path, "sqlite", ON_DISK) as scene:
        figures, traffic = run(scene, ON_DISK, clients=4, seed=20_252, load_s=(0.05, 0.4))
    assert traffic.retries > 0
    check(figures, at_least=50)


@pytest.mark.long
def test_damaged_data_is_refused_or_left_out_and_never_silently_wrong(tmp_path):
    found = damage(tmp_path, "sqlite", times=40, seed=20_253)
    assert found["WRONG"] == 0, found
    assert found["refused"] + found["shorter"] + found["older"] > 0, found
    assert found["whole"] + found["shorter"] > 0, found


@pytest.mark.long
def test_kill_9_while_examples_are_forgotten_restores_none_and_leaves_no_byte_of_them(tmp_path):
    with scene_for(tmp_path, "sqlite", [kill_server], processes=2, followers=1) as scene:
        figures, traffic = kill_forgetting.run(scene, [kill_server] * 3, clients=3, seed=20_257)
    assert traffic.retries > 0
    for found in figures.values():
        assert found["forgotten"] > 0, found
        assert found["other bytes"] > 3, found
        assert kill_forgetting.faultless(found), found


@pytest.mark.long
def test_bad_clients_get_documented_answers_and_do_not_disturb_good_clients(tmp_path):
    figures = load.run(tmp_path, clients=30, seconds=15, seed=20_258, bad=20)
    assert figures["learned"] > 100, figures
    assert figures["lost"] == figures["back"] == figures["tracebacks"] == 0, figures
    assert not figures["not as documented"], figures
    assert {kind for kind, _ in load.BAD.values()} - set(figures["refused"]) <= {"events unread"}, figures
    assert max(slowest for _, _, slowest in figures["seconds"].values()) < 20, figures
    at_rest, most, again = figures["memory"]
    assert most < at_rest + 200, figures
    assert again < at_rest + 150, figures
    assert figures["files"][2] <= figures["files"][0] + 40, figures
