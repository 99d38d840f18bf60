from damage import damage
from disturbances import (
    clock_back,
    cut,
    disk_full,
    fsync_fails,
    hold,
    kill_both,
    kill_redis,
    pause_redis,
    second_server,
    slow,
    stop_server,
    write_fails,
)
from scene import scene_for
from test_faults import check
from under_load import run

ON_THE_WAY = [cut, slow, cut, hold, cut, pause_redis, second_server, stop_server]
ON_ITS_MACHINE = [kill_redis, fsync_fails, write_fails, disk_full, kill_redis, clock_back, kill_both]


def test_faults_between_server_and_redis_lose_invent_and_change_nothing(tmp_path):
    with scene_for(tmp_path, "redis", ON_THE_WAY) as scene:
        figures, _ = run(scene, ON_THE_WAY, clients=4, seed=20_254, load_s=(0.05, 0.4))
    check(figures, at_least=50)


def test_faults_of_redis_and_its_machine_lose_invent_and_change_nothing(tmp_path):
    with scene_for(tmp_path, "redis", ON_ITS_MACHINE) as scene:
        figures, traffic = run(scene, ON_ITS_MACHINE, clients=4, seed=20_255, load_s=(0.05, 0.4))
    assert traffic.retries > 0
    check(figures, at_least=50)


def test_what_is_damaged_in_redis_is_refused_or_left_out_and_never_silently_wrong(tmp_path):
    found = damage(tmp_path, "redis", times=25, seed=20_256)
    assert found["WRONG"] == 0, found
    assert found["refused"] + found["shorter"] + found["older"] > 0, found
    assert found["whole"] + found["shorter"] > 0, found
