import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.faults import kill_forgetting
from tests.faults.damage import damage
from tests.faults.disturbances import (
    clock_back,
    cut,
    disk_full,
    empty_redis,
    fsync_fails,
    hold,
    kill_both,
    kill_redis,
    kill_server,
    pause_redis,
    second_server,
    slow,
    stop_server,
    write_fails,
)
from tests.faults.kill_forgetting import KERNEL, Told, ended, in_files
from tests.faults.scene import scene_for
from tests.faults.under_load import check, run
from tests.helpers.server import eventually

pytestmark = pytest.mark.long

ON_THE_WAY = [cut, slow, empty_redis, cut, hold, cut, pause_redis, second_server, stop_server]
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


def test_redis_away_during_further_epochs_stops_no_model(tmp_path):
    examples = [{"id": f"e{k}", "x": [k % 17 / 17, k % 23 / 23], "y": k % 3 > 0} for k in range(3_000)]
    model = {"kernel": {"type": "rbf", "gamma": 5}, "C": 1, "features": {"type": "dense", "dim": 2}}
    with scene_for(tmp_path, "redis", [kill_redis]) as scene, httpx.Client(base_url=scene.url, timeout=300) as ask:
        assert ask.put("/models/m", json=model).status_code == 201
        for begin in range(0, len(examples), 10):
            learned = ask.post("/models/m/learn", json={"examples": examples[begin : begin + 10]})
            assert learned.status_code == 200, learned.text
        with ThreadPoolExecutor(1) as executor, scene.redis.client() as redis:

            def pages():  # counts how many pages of logs were read
                return redis.info("commandstats").get("cmdstat_xrange", {"calls": 0})["calls"]

            logged = redis.xlen("hinged:{m}:log")
            finishing = executor.submit(ask.post, "/models/m/finish", json={"epochs": 20})
            while redis.xlen("hinged:{m}:log") == logged:
                assert not finishing.done(), finishing.result().text
            read = pages()  # the server continues to read once it knows that the step was appended
            while pages() == read:
                assert not finishing.done(), finishing.result().text
            scene.redis.kill()  # the step is in the log, and most of its epochs have not yet run
            while "model m waits for the store" not in scene.server.log.read_text():
                assert not finishing.done(), finishing.result().text
                time.sleep(0.02)
            scene.redis.start()
            finished = finishing.result()
        assert finished.status_code == 200, finished.text
        more = ask.post("/models/m/learn", json={"id": "more", "x": [0.5, 0.5], "y": True})
        assert more.status_code == 200, more.text
        before = ask.get("/models/m").json()
        kill_server(scene, None)
        after = ask.get("/models/m").json()
        assert after["certificate"]["dual"] == before["certificate"]["dual"]
        assert after["position"] == before["position"]


def test_damaged_data_in_redis_is_refused_or_left_out_and_never_silently_wrong(tmp_path):
    found = damage(tmp_path, "redis", times=25, seed=20_256)
    assert found["WRONG"] == 0, found
    assert found["refused"] + found["shorter"] + found["older"] > 0, found
    assert found["whole"] + found["shorter"] > 0, found


def test_kill_9_of_redis_while_examples_are_forgotten_leaves_only_bytes_that_are_reported(tmp_path):
    with scene_for(tmp_path, "redis", [kill_redis]) as scene:
        figures, traffic = kill_forgetting.run(scene, [kill_redis] * 6, clients=3, seed=20_259)
    assert traffic.retries > 0
    for found in figures.values():
        assert found["forgotten"] > 0, found
        assert found["other bytes"] > 3, found
        assert kill_forgetting.faultless(found), found


def test_without_free_memory_in_redis_models_can_be_deleted_and_forgetting_waits(tmp_path):
    given = {n: [n / 7, -n / 3] for n in range(300)}
    with scene_for(tmp_path, "redis", []) as scene, httpx.Client(base_url=scene.url, timeout=60) as http:

        def forget(name, n):
            return http.delete(f"/models/{name}/examples/example-{n:03}")

        for name in "retrained", "spare":
            assert http.put(f"/models/{name}", json=KERNEL).status_code == 201
            examples = [{"id": f"example-{n:03}", "x": x, "y": n % 2 == 0} for n, x in given.items()]
            assert http.post(f"/models/{name}/learn", json={"examples": examples}).status_code == 200
        with scene.redis.client() as client:
            begun = forget("retrained", 7)
            client.config_set("maxmemory", "1mb")
            assert begun.status_code == 202
            scene.server.kill()
            scene.server.start()
            refused = forget("retrained", 8)
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "store_unavailable"
            assert "maxmemory" in refused.json()["error"]["message"]
            assert http.post("/models/retrained/predict", json={"x": [1, 1]}).status_code == 200
            assert http.delete("/models/spare").status_code < 300
            assert client.keys("hinged:{spare}:*") == ["hinged:{spare}:fence"]
            assert http.get(begun.json()["job"]).json()["state"] == "running"
            eventually(lambda: "jobs of model retrained wait: " in scene.server.log.read_text())
            client.config_set("maxmemory", 0)
        told = Told({f"example-{n:03}": (x, None) for n, x in given.items()}, {"example-007"}, set(), {})
        told.jobs["example-007"] = begun.json()["job"]
        assert ended(scene.url, told) == 0
        assert told.unwritten == {"example-007": []}
        found = in_files(scene.data, told)
        assert (found["bytes"], found["bytes in temp-*"], found["other bytes"]) == (0, 0, 299)
