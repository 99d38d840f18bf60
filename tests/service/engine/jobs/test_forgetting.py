"""Forget examples, and correct labels."""

import asyncio
import json
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.api import changes
from hinged.service.commands.change import Configure, Correct, Forget
from hinged.service.errors import Conflict, Gone, NotFound
from hinged.service.settings import Settings
from tests.helpers.changes import EXACT, NEEDLE, ask_for, changed, found_in, same_solver, taught, until_ended
from tests.helpers.http_client import Asking, example, refusal
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import RunningServer
from tests.helpers.states import load_model
from tests.helpers.worker import SIZES, examples_of, learning, on_worker, with_worker


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 99), st.sets(st.integers(1, 24), min_size=1, max_size=4), st.sampled_from(["lasvm", "bsgd"]))
def test_after_forgetting_a_model_is_as_if_it_had_never_learned_the_example(seed, gone, solver):
    examples = examples_of(seed, 24)

    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples[:15]))
        await worker.learn(learning(worker.model, examples[15:]))
        jobs = []
        for number in sorted(gone):
            answer = await worker.change(Forget(examples[number - 1][0] or f"@{number}"))
            jobs.append(answer["at"])
        for at in jobs:
            assert (await asyncio.wait_for(worker.ended(at), 300))["state"] == "done"
        left = set(range(1, 25)) - gone
        same_solver(worker.model.solver, taught(worker.model, examples, left).solver)
        for number in gone:
            if examples[number - 1][0] is not None:
                with pytest.raises(Gone):
                    await worker.learn(learning(worker.model, [examples[number - 1]]))
        recovered = load_model(store, "m", **SIZES)
        assert recovered.snapshot() == worker.model.snapshot()
        store.snapshots = lambda _: []  # without snapshots, the log alone gives the same state
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario, configuration={"solver": solver} | ({"budget": 8} if solver == "bsgd" else {}))


@on_worker(configuration=EXACT)
async def test_the_exact_solver_forgets_in_place_and_reaches_the_machine_without_the_example(worker):
    examples = examples_of(3, 20)
    await worker.learn(learning(worker.model, examples))
    position = worker.model.position
    answer = await worker.change(Forget("s3-4"))
    assert not answer["folds"]
    assert 5 not in worker.model.solver.keys().tolist()
    await asyncio.wait_for(worker.ended(answer["at"]), 300)
    left = set(range(1, 21)) - {5}
    rows = learning(worker.model, examples).inputs
    np.testing.assert_allclose(
        worker.model.solver.decision(rows), taught(worker.model, examples, left).solver.decision(rows), atol=1e-6
    )
    with pytest.raises(Conflict, match="forgotten"):
        await worker.roll_back(position)


def test_an_answer_does_not_wait_for_a_store_that_erases_slowly(monkeypatch):
    examples = examples_of(3, 20)
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.05)
    free = threading.Event()

    async def scenario(worker, store):
        redact = store.redact

        def slow(*redaction):
            assert free.wait(300)
            redact(*redaction)

        monkeypatch.setattr(store, "redact", slow)
        await worker.learn(learning(worker.model, examples))

        async def forget():
            response = await changes.changed(worker, await worker.change(Forget("s3-4")))
            return response.status_code, json.loads(response.body)

        status, answer = await forget()
        assert status == 202
        assert 5 not in worker.model.solver.keys().tolist()  # the solver has already forgotten it
        at = int(answer["job"].rpartition(".")[2])
        assert worker.job(at)["state"] == "running"
        free.set()
        assert (await asyncio.wait_for(worker.ended(at), 300))["state"] == "done"
        assert (await forget())[0] == 200

    with_worker(scenario, configuration=EXACT)


@on_worker()
async def test_learning_goes_on_during_retraining_and_nothing_is_lost(worker):
    examples = examples_of(7, 400)
    await worker.learn(learning(worker.model, examples[:300]))
    answer = await worker.change(Forget("@1"))
    ended = asyncio.create_task(worker.ended(answer["at"]))
    for k in range(300, 400, 5):
        await worker.learn(learning(worker.model, examples[k : k + 5]))
    await asyncio.wait_for(ended, 300)
    same_solver(worker.model.solver, taught(worker.model, examples, set(range(2, 401))).solver)


def test_after_a_crash_in_the_middle_the_next_start_completes_forgetting(tmp_path):
    with RunningServer(tmp_path / "data", snapshot_examples=300) as server, Asking(server.url) as ask:
        model = ask.new_model("m")
        for k in range(20):
            model.learn(*(example([k + j / 50, j % 7], "ab"[j % 2], f"e{k}-{j}") for j in range(50)))
        model.learn(example([1.25, 2.5], "a", NEEDLE))
        answer = ask("DELETE", f"{model.path}/examples/{NEEDLE}")
        assert answer.status_code == 202, answer.text
        job = answer.json()["job"]
        server.kill()
        server.start()
        assert until_ended(ask, job)["state"] == "done"
        assert refusal(model.try_learn(example([1.25, 2.5], "a", NEEDLE)), 410, "gone")
        assert found_in(tmp_path / "data", NEEDLE.encode()) == []


@pytest.mark.long
@pytest.mark.parametrize("solver", ["lasvm", "exact"])
def test_no_byte_of_a_forgotten_example_stays_in_any_file_export_or_answer(tmp_path, solver):
    value = 0.7310585786300049
    bits = [np.float32(value).tobytes(), np.float64(value).tobytes(), str(value).encode(), NEEDLE.encode()]
    with RunningServer(tmp_path / "data", snapshot_examples=20) as server, Asking(server.url) as ask:
        model = ask.new_model("m", **({"solver": "exact", "C": 10} if solver == "exact" else {}))
        model.learn(*(example([k % 5, k / 40], "ab"[k % 2], f"e{k}") for k in range(40)))
        ask("POST", f"{model.path}/pool", json={"examples": [{"id": NEEDLE, "x": [value, value]}]})
        ask("POST", f"{model.path}/queries", json={"n": 1, "annotator": "ann"})
        ask("POST", f"{model.path}/predict", json={"examples": [{"id": NEEDLE, "x": [value, value]}]})
        model.learn({"id": NEEDLE, "y": "a"})
        ask("POST", f"{model.path}/snapshot")
        assert found_in(tmp_path / "data", NEEDLE.encode())
        answer = ask("DELETE", f"{model.path}/examples/{NEEDLE}")
        if solver == "exact":
            assert answer.status_code == 200, answer.text
            assert answer.json()["certificate"]["points"] == 40
        else:
            assert answer.status_code == 202, answer.text
            assert until_ended(ask, answer.json()["job"])["state"] == "done"
        assert ask("DELETE", f"{model.path}/examples/{NEEDLE}").status_code == 200
        file = ask("GET", f"{model.path}/export").content
        for needle in bits:
            assert found_in(tmp_path / "data", needle) == []
            assert needle not in file
        refusal(model.try_learn(example([value, value], "a", NEEDLE)), 410, "gone")
        refusal(ask("POST", f"{model.path}/pool", json={"examples": [{"id": NEEDLE, "x": [1, 1]}]}), 410, "gone")
        refusal(ask("POST", f"{model.path}/rollback", json={"position": 2}), 409, "conflict")
        refusal(ask("GET", f"{model.path}/export?as_of=2"), 409, "conflict")
        ask("POST", "/models/copy/import", content=file, headers={"content-type": "application/octet-stream"})
        refusal(ask("POST", "/models/copy/learn", json=example([value, value], "a", NEEDLE)), 410, "gone")
        server.terminate()
        assert found_in(tmp_path / "data", NEEDLE.encode()) == []
        server.start()
        assert refusal(model.try_learn(example([value, value], "a", NEEDLE)), 410, "gone")
        assert model.figures()["examples"] == 41


def test_a_store_on_redis_forgets_in_its_files_too(tmp_path):
    with (
        RedisServer(tmp_path / "redis", rdbcompression="no") as redis,
        RunningServer(tmp_path / "data", store=redis.url, snapshot_examples=10) as server,
        Asking(server.url) as ask,
    ):
        model = ask.new_model("m")
        model.learn(*(example([k % 5, k / 40], "ab"[k % 2], f"e{k}") for k in range(20)))
        model.learn(example([0.123, 4.5], "a", NEEDLE))
        assert found_in(tmp_path, NEEDLE.encode())
        job = until_ended(ask, ask("DELETE", f"{model.path}/examples/{NEEDLE}").json()["job"])
        assert job["state"] == "done"
        assert "unwritten" not in job
        assert found_in(tmp_path, NEEDLE.encode()) == []
        server.kill()
        server.start()
        refusal(model.try_learn(example([0.123, 4.5], "a", NEEDLE)), 410, "gone")


def test_words_that_only_the_forgotten_example_has_are_forgotten_with_it(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        features = {"type": "named", "warmup": 20}
        model = ask.new_model("m", features=features, kernel={"type": "rbf", "gamma": "auto"})
        model.learn(*(example({"a": k, "c": "xy"[k % 2]}, "ab"[k % 2], f"e{k}") for k in range(40)))
        model.learn(example({"a": 7, "c": NEEDLE, "onlyhere": 1}, "a", "gone"))
        answer = ask("DELETE", f"{model.path}/examples/gone")
        assert until_ended(ask, answer.json()["job"])["state"] == "done"
        for needle in (NEEDLE.encode(), b"onlyhere"):
            assert found_in(tmp_path / "data", needle) == []
        assert {field["name"] for field in model.figures()["features"]["fields"]} == {"a", "c"}


@on_worker(log_kept=1)
async def test_forgetting_is_not_refused_when_the_log_is_trimmed(worker, store):
    examples = examples_of(5, 300)
    for k in range(0, 60, 5):
        await worker.learn(learning(worker.model, examples[k : k + 5]))
        await worker.snapshot()
    assert next(store.read("m", 0))[0] > 1
    held = int(worker.model.solver.keys()[0])
    given = worker.model.id_of(held)
    await changed(worker, Forget(given))
    assert held not in worker.model.solver.keys().tolist()
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()
    await worker.learn(learning(worker.model, [("later", [0.0, 0.0], "a")]))


@pytest.mark.long
def test_an_id_that_the_model_has_dropped_is_forgotten_too(tmp_path):
    """No byte stays of a prediction, a candidate or an alert that only the log or an older snapshot names."""
    limits = {"pool_max": 2, "pending_max": 2, "pending_durable": True}
    costs = {"costs": {"b": {"a": 50}, "a": {"b": 1}}, "capacity": {"b": {"most": 1_000, "per": "366d"}}}
    named = {"examples": [{"id": NEEDLE, "x": [2.5, 0]}]}
    others = {"examples": [{"id": f"other{k}", "x": [2.5, k]} for k in range(1, 4)]}
    steps = {
        "predicted": [("predict", named), ("predict", others)],
        "offered": [("pool", named), ("pool", others)],
        "acknowledged": [("decide", named), ("alerts/acknowledge", {"ids": [NEEDLE]}), ("predict", others)],
        "undone": [("pool", named), ("queries", {"n": 1, "annotator": "ann"}), ("rollback", {"position": 4})],
        "trimmed": [("pool", named), ("snapshot", None), ("pool", others), ("snapshot", None)],
        "imported": [("pool", named), ("import", None), ("pool", others)],
    }
    with RunningServer(tmp_path / "data", log_kept=0) as server, Asking(server.url) as ask:
        for name, asked in steps.items():
            model = ask.new_model(name, labels=limits, **costs)
            model.learn(*(example([k % 2 * 2 + k / 100, 0], "ab"[k % 2], f"e{k}") for k in range(100)))
            for step, body in asked:
                content = {"json": body}
                if step == "import":
                    content = {"content": ask("GET", f"{model.path}/export").content}
                    content |= {"headers": {"content-type": "application/octet-stream"}}
                    ask("DELETE", model.path)
                answer = ask("POST", f"{model.path}/{step}", **content)
                assert answer.status_code < 300, (name, step, answer.text)
            assert found_in(tmp_path / "data", NEEDLE.encode()), name
            for unknown in ("b", "ids"):  # a class, and a part of an event
                refusal(ask("DELETE", f"{model.path}/examples/{unknown}"), 404, "not_found")
            answer = ask("DELETE", f"{model.path}/examples/{NEEDLE}")
            assert answer.status_code == 200 or until_ended(ask, answer.json()["job"])["state"] == "done", name
            assert found_in(tmp_path / "data", NEEDLE.encode()) == [], name


@on_worker()
async def test_an_unknown_example_cannot_be_forgotten(worker):
    await worker.learn(learning(worker.model, examples_of(1, 3)))
    for nobody in ("nobody", "@9", "@0"):
        with pytest.raises(NotFound):
            await worker.change(Forget(nobody))


@pytest.mark.parametrize("configuration", [{"delta_min": 0.0}, EXACT], ids=["lasvm", "exact"])
@on_worker("configuration")
async def test_a_corrected_label_counts_as_if_it_had_always_been_so(worker, store):
    examples = examples_of(11, 24)
    await worker.learn(learning(worker.model, examples))
    await changed(worker, Correct("s11-7", "c", 8))
    right = [(name, x, "c" if name == "s11-7" else y) for name, x, y in examples]
    rows = learning(worker.model, examples).inputs
    np.testing.assert_allclose(
        worker.model.solver.decision(rows), taught(worker.model, right).solver.decision(rows), atol=1e-6
    )
    name, x, _ = examples[7]
    again = await worker.learn(learning(worker.model, [(name, x, "c")]))
    assert again.results[0].duplicate
    with pytest.raises(Conflict):
        await worker.learn(learning(worker.model, [(name, x, "never")]))
    await worker.finish(epochs=1)  # a further epoch uses the corrected label
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


@on_worker()
async def test_an_example_with_an_id_of_its_own_is_not_forgotten_by_its_number(worker):
    await worker.learn(learning(worker.model, examples_of(1, 60)))
    assert worker.model.answers.oldest > 5
    with pytest.raises(NotFound):
        await worker.change(Forget("@5"))
    await changed(worker, Forget("@4"))
    await changed(worker, Forget("s1-4"))
    assert not {4, 5} & set(worker.model.solver.keys().tolist())


@on_worker()
async def test_a_correction_counts_also_for_examples_whose_first_answers_are_gone(worker):
    examples = examples_of(1, 60)
    await worker.learn(learning(worker.model, examples))
    name, x, label = examples[1]
    other = {"a": "b", "b": "c", "c": "a"}[label]
    await changed(worker, Correct(name, other, 8))
    assert (await worker.learn(learning(worker.model, [(name, x, other)]))).results[0].duplicate
    with pytest.raises(Conflict):
        await worker.learn(learning(worker.model, [(name, x, label)]))


@pytest.mark.long
@on_worker()
async def test_of_many_examples_forgotten_at_once_each_request_gets_its_own_outcome(worker):
    await worker.learn(learning(worker.model, examples_of(1, 150)))
    await worker._jobs._shared.places.acquire()
    answers = [await worker.change(Forget(f"@{number}")) for number in range(1, 150, 3)]
    answers += [await worker.change(Forget(f"s1-{k}")) for k in range(1, 150, 3)]
    answers += [await worker.change(Forget(f"s1-{k}")) for k in range(2, 150, 3)]
    worker._jobs._shared.places.release()
    ended = await asyncio.gather(*(asyncio.wait_for(worker.ended(answer["at"]), 300) for answer in answers))
    assert {job["state"] for job in ended} == {"done"}
    assert worker.model.solver.live == 0


@on_worker()
async def test_asking_again_begins_no_further_job(worker):
    await worker.learn(learning(worker.model, examples_of(1, 20)))
    for command in (Correct("s1-1", "c", 8), Configure({"C": 3}, Settings()), Forget("s1-2")):
        await worker._jobs._shared.places.acquire()
        first, second = [await ask_for(worker, command) for _ in range(2)]
        worker._jobs._shared.places.release()
        assert first["at"] == second["at"]
        await asyncio.wait_for(worker.ended(first["at"]), 300)
        assert "certificate" in await ask_for(worker, command)


def test_an_imported_model_forgets_and_still_knows_its_other_examples(tmp_path):
    with RunningServer(tmp_path / "data", answers_kept=30) as server, Asking(server.url) as ask:
        model = ask.new_model("m")
        examples = [example([k % 5, k / 40], "ab"[k % 2], f"e{k}") for k in range(29)]
        model.learn(*examples, example([1.5, 2.5], "a", NEEDLE))
        file = ask("GET", f"{model.path}/export").content
        binary = {"content-type": "application/octet-stream"}
        assert ask("POST", "/models/copy/import", content=file, headers=binary).status_code == 201
        ask("DELETE", model.path)
        new = [example([k, 0.25], "ab"[k % 2], f"n{k}") for k in range(60)]
        assert ask("POST", "/models/copy/learn", json={"examples": new}).status_code == 200
        job = ask("DELETE", f"/models/copy/examples/{NEEDLE}").json()["job"]
        assert until_ended(ask, job)["state"] == "done"
        assert found_in(tmp_path / "data", NEEDLE.encode()) == []
        assert ask("POST", "/models/copy/learn", json=examples[3]).json()["results"][0]["duplicate"]
