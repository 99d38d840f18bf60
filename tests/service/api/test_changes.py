"""Forgetting, correcting, another configuration, windows and challengers: over real workers, stores and the server."""

import asyncio
import json
import time

import numpy as np
import pytest
from asking import Asking, example, refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from redis_server import RedisServer
from running import RunningServer
from states import digest_of
from working import SIZES, examples_of, learning, predictions_of, with_worker

from hinged.service.commands.ask import Offer
from hinged.service.commands.change import (
    Challenge,
    Configure,
    Correct,
    Forget,
    Promote,
    Retire,
)
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.inputs import x_digests
from hinged.service.engine.history import History, load_model
from hinged.service.engine.jobs.retraining import Retraining
from hinged.service.engine.work import Swapping
from hinged.service.errors import (
    Conflict,
    Gone,
    Invalid,
    NotFound,
    StoreUnavailable,
)
from hinged.service.model.events import Learned
from hinged.service.model.learner import Learner
from hinged.service.model.pending import Prediction
from hinged.service.settings import Settings

EXACT = {"solver": "exact", "C": 10}
NEEDLE = "needle-5e1f0c77aa"


async def ask_for(worker, command):
    return await (worker.change if isinstance(command, Forget | Correct) else worker.command)(command)


async def changed(worker, command):
    """What a command comes to once it is done."""
    answer = await ask_for(worker, command)
    if "at" in answer:
        ended = await asyncio.wait_for(worker.ended(answer["at"]), 300)
        assert ended["state"] == "done", ended
    return answer


def taught(model, examples, left=None, **changes):
    """A learner that these examples were taught, in order (of them only those of the numbers `left`)."""
    facts = {**json.loads(model.configuration.model_dump_json()), **changes}
    learner = Learner(parse_configuration(json.dumps(facts), Settings()), SIZES["cache_bytes"])
    for number, (name, x, label) in enumerate(examples, 1):
        while len(learner.labels) <= model.labels.number(label):  # a class is known once its first example comes
            learner.add_class(model.labels.labels[len(learner.labels)])
        if left is None or number in left:
            request = learning(model, [(name, x, label)])
            classes, sources = np.array([model.labels.number(label)], np.int32), np.zeros(1, np.uint8)
            learner.follow(Learned(number, [name], classes, request.inputs, list(request.contents), 0, sources))
    return learner


def same_solver(one, other):
    mine, theirs = one.state(), other.state()
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        assert np.array_equal(array, theirs[name]), name


# -- forgetting -------------------------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 99), st.sets(st.integers(1, 24), min_size=1, max_size=4), st.sampled_from(["lasvm", "bsgd"]))
def test_what_was_forgotten_is_as_if_it_had_never_been_learned(seed, gone, solver):
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
        store.snapshots = lambda _: []  # the log alone leads there as well
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario, configuration={"solver": solver} | ({"budget": 8} if solver == "bsgd" else {}))


def test_the_exact_solver_forgets_in_place_and_comes_to_the_machine_without_the_example():
    examples = examples_of(3, 20)

    async def scenario(worker, _):
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

    with_worker(scenario, configuration=EXACT)


def test_learning_goes_on_while_a_model_is_taught_anew_and_nothing_of_it_is_lost():
    examples = examples_of(7, 400)

    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples[:300]))
        answer = await worker.change(Forget("@1"))
        ended = asyncio.create_task(worker.ended(answer["at"]))
        for k in range(300, 400, 5):
            await worker.learn(learning(worker.model, examples[k : k + 5]))
        await asyncio.wait_for(ended, 300)
        same_solver(worker.model.solver, taught(worker.model, examples, set(range(2, 401))).solver)

    with_worker(scenario)


def test_a_crash_in_the_middle_of_forgetting_is_made_good_by_the_next_start(tmp_path):
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


def until_ended(ask, job, seconds=90):
    end = time.monotonic() + seconds
    while (found := ask("GET", job).json())["state"] == "running":
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


def found_in(folder, needle):
    """The files of a folder that hold these bytes."""
    return [path.name for path in folder.rglob("*") if path.is_file() and needle in path.read_bytes()]


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


def test_a_store_on_redis_forgets_as_well_in_its_files_too(tmp_path):
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


def test_words_that_no_other_example_has_are_forgotten_with_it(tmp_path):
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


def test_forgetting_is_never_refused_where_the_log_is_trimmed():
    examples = examples_of(5, 300)

    async def scenario(worker, store):
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

    with_worker(scenario, log_kept=1)


def test_what_nobody_knows_cannot_be_forgotten():
    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples_of(1, 3)))
        for nobody in ("nobody", "@9", "@0"):
            with pytest.raises(NotFound):
                await worker.change(Forget(nobody))

    with_worker(scenario)


# -- correcting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("configuration", [{}, EXACT], ids=["lasvm", "exact"])
def test_a_corrected_label_counts_as_if_it_had_always_been_so(configuration):
    examples = examples_of(11, 24)

    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples))
        await changed(worker, Correct("s11-7", "c", 8, 100))
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
        await worker.finish(epochs=1)  # a further epoch keeps to it
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario, configuration=configuration)


# -- another configuration --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configuration", "changes", "exactly"),
    [
        ({}, {"C": 1.0}, True),
        ({}, {"kernel": {"gamma": 0.3}}, True),
        ({}, {"kernel": {"type": "polynomial", "degree": 2}}, True),
        ({}, {"solver": "bsca", "budget": 10}, True),
        ({"class_weight": {"a": 2.0}}, {"class_weight": None, "window": {"examples": 20}}, True),
        (EXACT, {"C": 0.5, "class_weight": {"a": 2.0}}, False),
        (EXACT, {"kernel": {"gamma": 0.3}}, False),
        ({}, {"solver": "exact"}, False),
    ],
)
def test_a_model_with_another_configuration_is_one_that_always_had_it(configuration, changes, exactly):
    examples = examples_of(13, 300)

    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples[:40]))
        accuracy = worker.model.metrics.figures()["accuracy"]
        await changed(worker, Configure(changes, Settings()))
        assert worker.model.metrics.figures()["accuracy"] == accuracy
        await worker.learn(learning(worker.model, examples[40:]))
        fresh = taught(worker.model, examples)
        if exactly:
            same_solver(worker.model.solver, fresh.solver)
        rows = learning(worker.model, examples).inputs
        np.testing.assert_allclose(worker.model.solver.decision(rows), fresh.solver.decision(rows), atol=1e-6)
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario, configuration=configuration)


def test_what_would_make_it_another_model_is_refused():
    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples_of(1, 9)))
        state = worker.model.snapshot()
        for changes in (
            {"features": {"type": "dense", "dim": 3}},
            {"classes": ["a", "b"]},
            {"C": -1},
            {"solver": "none"},
            {"nothing": 1},
            {"window": {"examples": 1, "seconds": 1}},
            {"solver": "fogd", "window": {"examples": 9}},
        ):
            with pytest.raises(Invalid):
                await worker.command(Configure(changes, Settings()))
        assert worker.model.snapshot() == state

    with_worker(scenario)


def test_a_configuration_that_what_was_learned_does_not_fit_fails_and_the_old_one_stays():
    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples_of(1, 60)))
        answer = await worker.command(Configure({"points_max": 5}, Settings()))
        ended = await asyncio.wait_for(worker.ended(answer["at"]), 300)
        assert ended["state"] == "failed"
        assert "5" in ended["error"]
        assert worker.model.configuration.points_max != 5
        await worker.learn(learning(worker.model, examples_of(2, 5)))

    with_worker(scenario)


def offered(worker, n):
    rows = learning(worker.model, [(None, [k, 1.0], "a") for k in range(n)]).inputs
    return Offer([f"c{k}" for k in range(n)], rows, x_digests(rows), [None] * n)


@pytest.mark.parametrize("changes", [{}, {"C": 2}])
def test_a_pool_that_is_made_smaller_lets_the_oldest_go_and_the_model_can_be_read_again(changes):
    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples_of(1, 9)))
        await worker.command(offered(worker, 5))
        await changed(worker, Configure({**changes, "labels": {"pool_max": 2}}, Settings()))
        assert [candidate.id for candidate in worker.model.pool] == ["c3", "c4"]
        await changed(worker, Forget("s1-1"))
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario)


@pytest.mark.parametrize("changes", [{"solver": "exact"}, {"kernel": {"type": "linear"}}])
def test_a_request_that_was_read_before_the_change_is_learned_as_the_new_configuration_has_it(changes):
    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples_of(1, 20)))
        early = learning(worker.model, examples_of(2, 5))
        await changed(worker, Configure(changes, Settings()))
        await worker.learn(early)
        fresh = taught(worker.model, examples_of(1, 20) + examples_of(2, 5))
        rows = learning(worker.model, examples_of(3, 9)).inputs
        np.testing.assert_allclose(worker.model.solver.decision(rows), fresh.solver.decision(rows), atol=1e-6)
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario)


async def while_folding(worker, command, meanwhile):
    """Two changes, the second while a fold for the first waits for its turn."""
    await worker._jobs._shared.places.acquire()
    first = await ask_for(worker, command)
    while first.get("folds") and worker._jobs._retraining is None:  # noqa: ASYNC110  it has no event to wait for
        await asyncio.sleep(0.01)
    second = await ask_for(worker, meanwhile)
    worker._jobs._shared.places.release()
    for answer in (first, second):
        if "at" in answer:
            assert (await asyncio.wait_for(worker.ended(answer["at"]), 300))["state"] == "done"


def test_a_fold_ends_though_the_stream_is_faster_than_it(monkeypatch):
    teach = Retraining._teach

    def slowly(self, at, event):
        time.sleep(0.005)
        teach(self, at, event)

    monkeypatch.setattr(Retraining, "_teach", slowly)

    async def scenario(worker, _):
        for one in examples_of(1, 60):
            await worker.learn(learning(worker.model, [one]))
        answer = await worker.command(Configure({"C": 2}, Settings()))
        ended = asyncio.create_task(worker.ended(answer["at"]))
        learned = 60
        for one in examples_of(2, 100_000):
            if ended.done():
                break
            await worker.learn(learning(worker.model, [one]))
            learned += 1
        assert (await asyncio.wait_for(ended, 120))["state"] == "done"
        assert 60 < learned < 100_000
        assert worker.model.configuration.C == 2

    with_worker(scenario)


def test_what_a_solver_is_taught_that_cannot_keep_up_gives_way_to_forgetting(monkeypatch):
    teach = Retraining._teach

    def slowly(self, at, event):
        if any(learner.configuration.C == 2 for learner in self.learners.values()):
            time.sleep(1)
        teach(self, at, event)

    monkeypatch.setattr(Retraining, "_teach", slowly)

    async def scenario(worker, _):
        for one in examples_of(1, 40):
            await worker.learn(learning(worker.model, [one]))
        change = await worker.command(Configure({"C": 2}, Settings()))
        while worker._jobs._retraining is None:  # noqa: ASYNC110  it has no event to wait for
            await asyncio.sleep(0.01)
        forgotten = await worker.change(Forget("s1-1"))
        ended = asyncio.create_task(worker.ended(forgotten["at"]))
        for one in examples_of(2, 100_000):
            if ended.done():
                break
            await worker.learn(learning(worker.model, [one]))
        assert (await asyncio.wait_for(ended, 120))["state"] == "done"
        assert worker.job(change["at"])["state"] == "running"

    with_worker(scenario)


def test_a_swap_that_takes_too_long_gives_way_and_is_tried_again(monkeypatch):
    examples = examples_of(7, 60)
    monkeypatch.setattr("hinged.service.engine.work.SWAP_S", 0.0)  # an event each time
    monkeypatch.setattr("hinged.service.engine.jobs.background.LAG_MAX", 10**6)

    async def scenario(worker, store):
        tried, step = [], worker.step
        for one in examples[:30]:
            await worker.learn(learning(worker.model, [one]))

        async def stepping(work):
            if isinstance(work, Swapping):
                if not tried:
                    for one in examples[30:]:
                        await worker.learn(learning(worker.model, [one]))
                tried.append(work.retraining)
            return await step(work)

        worker.step = stepping
        answer = await worker.command(Configure({"C": 2}, Settings()))
        assert (await asyncio.wait_for(worker.ended(answer["at"]), 300))["state"] == "done"
        assert len(tried) > 10
        assert len(set(map(id, tried))) == 1
        same_solver(worker.model.solver, taught(worker.model, examples).solver)
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario)


def test_a_server_that_stops_in_the_middle_of_an_epoch_swaps_nothing_half_taught():
    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples_of(1, 20)))
        await worker.finish(epochs=2)
        finished = worker.model.position
        await worker._jobs._shared.places.acquire()
        answer = await worker.command(Configure({"C": 2}, Settings()))
        retraining = Retraining(History(store, "m", **SIZES), worker.model)
        read = retraining.history.taught

        def stopping(undone, before, after=0):
            for at, event in read(undone, before, after):
                retraining.stopped |= before == finished and isinstance(event, Learned)
                yield at, event

        retraining.history.taught = stopping
        retraining.advance(worker.model.position)
        assert retraining.stopped
        assert retraining.position == finished - 1
        assert await worker.step(Swapping(retraining)) is None
        worker._jobs._shared.places.release()
        assert (await asyncio.wait_for(worker.ended(answer["at"]), 300))["state"] == "done"
        assert worker.model.configuration.C == 2

    with_worker(scenario)


@pytest.mark.parametrize(
    ("configuration", "changes"),
    [
        (EXACT, {"solver": "lasvm"}),
        (EXACT, {"kernel": {"type": "polynomial", "degree": 2}}),
        ({}, {"solver": "exact"}),
        ({}, {"C": 2}),
    ],
)
def test_no_change_that_comes_while_another_is_being_folded_is_lost(configuration, changes):
    examples = examples_of(3, 40)
    wrong = {"a": "b", "b": "c", "c": "a"}

    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples))
        await while_folding(worker, Configure(changes, Settings()), Forget("s3-4"))
        await while_folding(worker, Configure({"C": 7}, Settings()), Correct("s3-7", wrong[examples[7][2]], 8, 100))
        await while_folding(worker, Forget("s3-8"), Configure({"labels": {"overlap": 3}}, Settings()))
        right = [(name, x, wrong[y] if name == "s3-7" else y) for name, x, y in examples]
        fresh = taught(worker.model, right, set(range(1, 41)) - {5, 9})
        rows = learning(worker.model, examples).inputs
        np.testing.assert_allclose(worker.model.solver.decision(rows), fresh.solver.decision(rows), atol=1e-6)
        assert worker.model.configuration.labels.overlap == 3
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario, configuration=configuration)


def predicted(worker, names):
    """Predictions that wait for their labels."""
    rows = learning(worker.model, [(None, [k, 0.5], "a") for k in range(len(names))]).inputs
    parts = zip(names, x_digests(rows), strict=True)
    now = time.time_ns() // 1_000_000
    return [Prediction(n, rows.part(k, k + 1), digest, np.zeros(0), -1, 0, now) for k, (n, digest) in enumerate(parts)]


@pytest.mark.parametrize("durable", [True, False])
def test_a_prediction_that_was_under_way_does_not_bring_a_forgotten_example_back(durable):
    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples_of(1, 9)))
        forgetting = asyncio.ensure_future(worker.command(Forget("s1-1")))
        await asyncio.gather(forgetting, worker.keep(predicted(worker, ["s1-1", "other"])))
        await asyncio.wait_for(worker.ended(forgetting.result()["at"]), 300)
        await worker.snapshot()
        assert [prediction.id for prediction in worker.model.pending] == ["other"]
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario, configuration={"labels": {"pending_durable": durable}}, pending_flush_s=0.01)


def test_an_example_with_an_id_of_its_own_is_not_forgotten_by_its_number():
    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples_of(1, 60)))
        assert worker.model.answers.oldest > 5
        with pytest.raises(NotFound):
            await worker.change(Forget("@5"))
        await changed(worker, Forget("@4"))
        await changed(worker, Forget("s1-4"))
        assert not {4, 5} & set(worker.model.solver.keys().tolist())

    with_worker(scenario)


def test_a_correction_counts_for_examples_whose_first_answers_are_forgotten_too():
    examples = examples_of(1, 60)

    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples))
        name, x, label = examples[1]
        other = {"a": "b", "b": "c", "c": "a"}[label]
        await changed(worker, Correct(name, other, 8, 100))
        assert (await worker.learn(learning(worker.model, [(name, x, other)]))).results[0].duplicate
        with pytest.raises(Conflict):
            await worker.learn(learning(worker.model, [(name, x, label)]))

    with_worker(scenario)


def test_however_many_are_forgotten_at_once_each_is_told_what_became_of_it():
    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples_of(1, 150)))
        await worker._jobs._shared.places.acquire()
        answers = [await worker.change(Forget(f"@{number}")) for number in range(1, 150, 3)]
        answers += [await worker.change(Forget(f"s1-{k}")) for k in range(1, 150, 3)]
        answers += [await worker.change(Forget(f"s1-{k}")) for k in range(2, 150, 3)]
        worker._jobs._shared.places.release()
        ended = await asyncio.gather(*(asyncio.wait_for(worker.ended(answer["at"]), 300) for answer in answers))
        assert {job["state"] for job in ended} == {"done"}
        assert worker.model.solver.live == 0

    with_worker(scenario)


def test_asking_again_begins_no_other_job():
    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples_of(1, 20)))
        for command in (Correct("s1-1", "c", 8, 100), Configure({"C": 3}, Settings()), Forget("s1-2")):
            await worker._jobs._shared.places.acquire()
            first, second = [await ask_for(worker, command) for _ in range(2)]
            worker._jobs._shared.places.release()
            assert first["at"] == second["at"]
            await asyncio.wait_for(worker.ended(first["at"]), 300)
            assert "certificate" in await ask_for(worker, command)

    with_worker(scenario)


def test_a_challenger_that_is_retired_while_it_is_taught_anew_stays_away():
    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples_of(1, 20)))
        await changed(worker, Challenge("other", {"C": 3}, Settings()))
        await while_folding(worker, Forget("s1-1"), Retire("other"))
        assert not worker.model.shadows
        await worker.learn(learning(worker.model, examples_of(2, 5)))

    with_worker(scenario)


def test_a_store_that_fails_behind_the_swap_is_asked_again_without_teaching_anew():
    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples_of(1, 20)))
        redact, failures = store.redact, []

        def failing(*arguments):
            if len(failures) < 2:
                failures.append(1)
                raise StoreUnavailable("no")
            redact(*arguments)

        store.redact = failing
        await changed(worker, Forget("s1-1"))
        kinds = [record.kind for _, record in store.read("m", 0)]
        assert (kinds.count("swapped"), len(failures)) == (1, 2)

    with_worker(scenario)


def test_changes_of_asking_for_labels_count_at_once():
    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples_of(1, 20)))
        await changed(worker, Configure({"labels": {"budget": 0.01}}, Settings()))
        wished = worker.wishes([f"i{k}" for k in range(1000)], [True] * 1000)
        assert 0 < sum(wish.wanted for wish in wished) < 50

    with_worker(scenario)


def test_an_imported_model_forgets_and_still_knows_what_else_it_had_learned(tmp_path):
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


# -- windows ----------------------------------------------------------------------------------------------------------


def flipped(n, at, seed=0):
    """A stream whose concept turns round after `at` examples."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, 2))
    return [(None, x.tolist(), "ab"[int((x[0] > 0) ^ (k >= at))]) for k, x in enumerate(X)]


@pytest.mark.parametrize("solver", ["lasvm", "bsca", "exact"])
def test_a_model_with_a_window_recovers_from_a_change_that_another_lags_behind(solver):
    stream = flipped(1350, 1000)

    async def scenario(worker, _):
        for k in range(0, 1150, 20):
            await worker.learn(learning(worker.model, stream[k : k + 20]))
        late = stream[1150:]
        said = predictions_of(worker.model.published(), learning(worker.model, late).inputs)
        return np.mean([label == y for (label, _), (_, _, y) in zip(said, late, strict=True)])

    base = {"solver": solver, "C": 0.1 if solver == "lasvm" else 1, "kernel": {"type": "rbf", "gamma": 0.5}}
    plain = with_worker(scenario, configuration=base)
    windowed = with_worker(scenario, configuration=base | {"window": {"examples": 150}})
    assert windowed > 0.9
    assert windowed > plain + 0.1


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=12), st.integers(1, 400))
def test_a_window_of_examples_is_the_same_however_the_stream_is_cut(cuts, size):
    stream = flipped(300, 150)

    async def scenario(worker, _, cuts):
        begin = 0
        for cut in [*cuts, 300]:
            part = stream[begin : begin + cut]
            if part:
                await worker.learn(learning(worker.model, part))
            begin += cut
        keys = worker.model.solver.keys()
        assert keys.min() > worker.model.learned - size - max(1, size // 100)
        return digest_of(worker.model)

    def run(cuts):
        async def one(worker, store):
            return await scenario(worker, store, cuts)

        return with_worker(one, configuration={"window": {"examples": size}})

    assert run(cuts) == run([1] * 50)


def test_what_is_older_than_so_many_seconds_leaves():
    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples_of(1, 9)))
        await asyncio.sleep(0.6)
        await worker.learn(learning(worker.model, examples_of(2, 9)))
        assert worker.model.solver.keys().min() > 9
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(scenario, configuration={"window": {"seconds": 0.5}})


# -- challengers ------------------------------------------------------------------------------------------------------


def test_a_challenger_learns_the_whole_log_is_scored_and_can_be_promoted():
    examples = examples_of(17, 300)

    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples[:30]))
        await changed(worker, Challenge("other", {"C": 0.5}, Settings()))
        await worker.learn(learning(worker.model, examples[30:45]))
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()
        shadow = worker.model.shadows["other"]
        fresh = taught(worker.model, examples[:45], C=0.5)
        same_solver(shadow.solver, fresh.solver)
        assert shadow.metrics.figures() == fresh.metrics.figures()
        await changed(worker, Promote("other"))
        assert worker.model.configuration.C == 0.5
        assert not worker.model.shadows
        await worker.learn(learning(worker.model, examples[45:]))
        same_solver(worker.model.solver, taught(worker.model, examples).solver)
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()
        with pytest.raises(NotFound):
            await worker.command(Promote("other"))

    with_worker(scenario)


def test_a_challenger_forgets_as_the_model_does_and_one_that_is_full_stops_alone():
    examples = examples_of(19, 80)

    async def scenario(worker, _):
        await worker.learn(learning(worker.model, examples[:30]))
        await changed(worker, Challenge("other", {"kernel": {"gamma": 0.2}}, Settings()))
        await changed(worker, Challenge("small", {"points_max": 40}, Settings()))
        await changed(worker, Forget("@1"))
        kernel = {"type": "rbf", "gamma": 0.2}
        without = taught(worker.model, examples[:30], set(range(2, 31)), kernel=kernel)
        same_solver(worker.model.shadows["other"].solver, without.solver)
        await worker.command(Challenge("tiny", {"points_max": 31}, Settings()))
        await worker.learn(learning(worker.model, examples[30:]))
        await worker.command(Retire("small"))
        with pytest.raises(Conflict):
            await worker.command(Challenge("other", {"C": 3}, Settings()))
        assert list(worker.model.shadows) in (["other"], ["other", "tiny"])

    with_worker(scenario)


# -- over HTTP --------------------------------------------------------------------------------------------------------


def test_changes_over_http_have_the_shapes_that_are_promised(ask):
    model = ask.new_model()
    model.learn(*(example([k / 9, k % 3], "ab"[k % 2], f"e{k}") for k in range(30)))
    answer = ask("PUT", f"{model.path}/examples/e3", json={"y": "a"})
    assert answer.status_code == 202
    job = until_ended(ask, answer.json()["job"])
    assert (job["state"], job["progress"]) == ("done", 1.0)
    assert job["certificate"]["points"] > 0
    answer = ask("PATCH", model.path, json={"C": 2})
    assert answer.status_code == 202
    assert until_ended(ask, answer.json()["job"])["state"] == "done"
    assert model.figures()["configuration"]["C"] == 2
    assert ask("PATCH", model.path, json={"C": 2}).status_code == 200
    found = ask("GET", f"{model.path}/certificate").json()
    assert found["certificate"]["gap"] >= 0
    refusal(ask("GET", f"{model.path}/loo"), 409, "conflict")
    refusal(ask("DELETE", f"{model.path}/examples/nobody"), 404, "not_found")
    refusal(ask("PUT", f"{model.path}/examples/nobody", json={"y": "a"}), 404, "not_found")
    refusal(ask("PUT", f"{model.path}/examples/e3", json={"y": 1.5}), 422, "invalid")
    refusal(ask("PATCH", model.path, json=[1]), 422, "invalid")
    for job in ("/jobs/none", f"/jobs/{model.name}.1", "/jobs/nobody.3"):
        refusal(ask("GET", job), 404, "not_found")
    answer = ask("PUT", f"{model.path}/shadows/s", json={"C": 9})
    assert answer.status_code == 202
    assert until_ended(ask, answer.json()["job"])["state"] == "done"
    model.learn(example([1, 1], "a"))
    shadows = ask("GET", f"{model.path}/shadows").json()
    assert shadows["shadows"]["s"]["examples"] == 31
    assert shadows["shadows"]["s"]["metrics"]["predicted"] == shadows["champion"]["metrics"]["predicted"] == 30
    assert ask("POST", f"{model.path}/shadows/s/promote").status_code == 200
    assert model.figures()["configuration"]["C"] == 9
    refusal(ask("DELETE", f"{model.path}/shadows/s"), 404, "not_found")


def test_leave_one_out_is_that_of_machines_without_each_example(ask):
    model = ask.new_model(solver="exact", C=1)
    points = [([k / 9, k % 3], "ab"[(k % 5) % 2]) for k in range(14)]
    model.learn(*(example(x, y) for x, y in points))
    found = ask("GET", f"{model.path}/loo").json()
    wrong = 0
    for k, (x, y) in enumerate(points):
        other = ask.new_model(solver="exact", C=1, classes=["a", "b"])
        other.learn(*(example(x, y) for j, (x, y) in enumerate(points) if j != k))
        wrong += other.predict(x)[0]["prediction"] != y
    assert (found["examples"], found["errors"]) == (14, wrong)


def test_a_state_from_before_is_refused_and_never_guessed():
    async def scenario(worker, store):
        await worker.learn(learning(worker.model, examples_of(1, 9)))
        before = worker.model.position
        await changed(worker, Forget("@1"))
        with pytest.raises(Conflict, match="forgotten"):
            History(store, "m", **SIZES).at(before)

    with_worker(scenario)
