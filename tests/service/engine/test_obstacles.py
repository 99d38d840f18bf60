"""Failures of a model's own code: every time that it applies an event, or only once."""

import asyncio
import sqlite3
from contextlib import closing

import httpx
import numpy as np
import pytest

from hinged.service.commands.ask import Offer
from hinged.service.commands.change import Configure
from hinged.service.data.examples import to_inputs
from hinged.service.data.inputs import x_digests
from hinged.service.engine.history import ModelHistory
from hinged.service.errors import Conflict, StoreUnavailable, Unavailable
from hinged.service.model.pending import Made, Prediction
from hinged.service.settings import Settings
from hinged.service.store.sqlite import SQLiteStore
from hinged.solvers.dual.lasvm import LASVM
from tests.helpers.command import hinged
from tests.helpers.http_client import BASE
from tests.helpers.server import RunningServer
from tests.helpers.states import digest_of, load_model
from tests.helpers.worker import SIZES, examples_of, learning, on_worker, until, with_worker, working

BAD = 7.5  # the solver fails at this feature value


class Panic(BaseException):
    """Simulates an error that code in another language raises."""


def failing(monkeypatch, error, times=10**9):
    """Make LASVM fail `times` times at a batch with a BAD x; return the list of failures."""
    learn, failed = LASVM.learn, []

    def may_fail(self, rows, classes, keys, **options):
        if BAD in rows.values and len(failed) < times:
            failed.append(keys)
            learn(self, rows.part(0, 1), classes[:1], keys[:1], **options)  # the batch is half learned
            raise error
        return learn(self, rows, classes, keys, **options)

    monkeypatch.setattr(LASVM, "learn", may_fail)
    return failed


ERRORS = [ValueError("no such thing"), Panic("index out of bounds")]


@pytest.mark.parametrize("error", ERRORS)
@on_worker()
async def test_a_model_stands_before_an_event_that_it_cannot_apply_until_that_is_set_aside(
    worker, store, monkeypatch, error
):
    await worker.learn(learning(worker.model, examples_of(1, 20)))
    before = digest_of(worker.model)
    failing(monkeypatch, error)
    bad = learning(worker.model, [("ok", [1.0, 1.0], "a"), ("bad", [BAD, 1.0], "b")])
    with pytest.raises(Unavailable):
        await worker.learn(bad)
    await until(lambda: worker.obstacle is not None)  # once the model has read its log
    at = worker.obstacle.position
    assert digest_of(worker.model) == before
    assert worker.published.position == at - 1
    assert worker.failed.startswith(f"event {at} (learned)")
    with pytest.raises(Unavailable, match="POST /models/m/skip"):
        await worker.learn(learning(worker.model, examples_of(2, 1)))
    recovered, obstacle = ModelHistory(store, "m", **SIZES).reached()
    assert (digest_of(recovered), obstacle) == (before, worker.obstacle)
    with pytest.raises(Conflict):
        await worker.set_aside(at + 1)
    answer = await worker.set_aside(at)
    assert answer == {"model": "m", "position": at + 1, "set_aside": {"position": at, "kind": "learned"}, "error": None}
    assert (await worker.describe())["set_aside"] == [{"position": at, "kind": "learned"}]
    answer = await worker.learn(learning(worker.model, [("ok", [1.0, 1.0], "a"), *examples_of(3, 9)]))
    assert not any(r.duplicate for r in answer.results)  # the event that was set aside had not been acknowledged
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()
    with pytest.raises(Conflict):
        await worker.set_aside(None)


@pytest.mark.parametrize("error", ERRORS)
@on_worker()
async def test_a_model_whose_code_failed_once_reads_its_state_again_and_goes_on(worker, store, monkeypatch, error):
    await worker.learn(learning(worker.model, examples_of(1, 20)))
    failing(monkeypatch, error, times=1)
    bad = [("bad", [BAD, 1.0], "b")]
    with pytest.raises(Unavailable):
        await worker.learn(learning(worker.model, bad))
    await until(lambda: not worker.failed)  # once the model has read its log
    answer = await worker.learn(learning(worker.model, bad))
    assert [r.duplicate for r in answer.results] == [True]  # the event was in the log
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


@on_worker()
async def test_no_request_waits_for_ever_for_a_model_that_failed(worker, monkeypatch):
    failing(monkeypatch, Panic("as Rust says it"))
    requests = [learning(worker.model, [(f"e{k}", [BAD, k], "a")]) for k in range(30)]
    asked = [worker.learn(request) for request in requests] + [worker.describe() for _ in range(3)]
    answers = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 60)
    assert all(isinstance(answer, Unavailable | dict) for answer in answers)


def test_numbers_of_examples_that_were_set_aside_are_never_reused(monkeypatch, tmp_path):
    """Another version of the server may once have applied the events after the obstacle."""
    store = SQLiteStore(tmp_path / "data")

    async def scenario():
        async with working(store) as worker:
            for seed in range(6):
                await worker.learn(learning(worker.model, examples_of(seed, 7)))
            await worker.learn(learning(worker.model, [("bad", [BAD, 1.0], "a"), *examples_of(6, 2)]))
            for seed in range(7, 13):
                await worker.learn(learning(worker.model, examples_of(seed, 7)))
            last = worker.model.position
        failing(monkeypatch, ValueError("no longer"))
        model, obstacle = ModelHistory(store, "m", **SIZES).reached()
        assert model.position == obstacle.position - 1 < last
        return model, obstacle

    found = asyncio.run(scenario())

    async def go_on():
        async with working(store, found=found) as worker:
            answer = await worker.set_aside(None)
            assert answer["error"] is None
            assert worker.model.learned == 12 * 7 + 3
            assert worker.model.answers.newest == worker.model.learned
            answer = await worker.learn(learning(worker.model, examples_of(12, 7)))
            assert [r.duplicate for r in answer.results] == [r.id[0] != "@" for r in answer.results]
            again = await worker.learn(learning(worker.model, [("bad", [1.0, 1.0], "a")]))
            assert not again.results[0].duplicate
            assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    asyncio.run(go_on())
    store.close()


class AwayWhileReading(SQLiteStore):
    """A store that becomes unavailable in the middle of the log, `times` times."""

    def __init__(self, folder):
        super().__init__(folder)
        self.times = 0

    def read_around(self, model, after):
        for number, found in enumerate(super().read_around(model, after)):
            if self.times and number == 2:
                self.times -= 1
                raise StoreUnavailable("the store is away")
            yield found


def test_further_epochs_wait_for_a_store_that_is_away(tmp_path):
    store = AwayWhileReading(tmp_path / "data")

    async def scenario():
        async with working(store) as worker:
            for seed in range(5):
                await worker.learn(learning(worker.model, examples_of(seed, 6)))
            learned = worker.journal.history.learned

            def then_away(model, before, *, patiently=False):
                yield from learned(model, before, patiently=patiently)
                store.times += 0 if patiently else 3  # after the worker has checked that the log can be read

            worker.journal.history.learned = then_away
            answer = await worker.finish(epochs=2)
            assert store.times == 0
            assert answer["converged"]
            await worker.learn(learning(worker.model, examples_of(9, 5)))
            assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    asyncio.run(scenario())
    store.close()


THERE_AND_BACK = [
    ({"precision": "float64"}, {"precision": "float32"}),
    (
        {"kernel": {"type": "polynomial", "gamma": 0.5, "degree": 3, "coef0": 1}},
        {"kernel": {"type": "rbf", "gamma": 1}},
    ),
    ({"kernel": {"type": "laplacian", "gamma": 1}}, {"kernel": {"type": "rbf", "gamma": 1}}),
]


@pytest.mark.parametrize(("there", "back"), THERE_AND_BACK)
@on_worker()
async def test_a_request_read_before_a_recovery_is_learned_as_the_recovered_model_reads_it(worker, store, there, back):
    await worker.learn(learning(worker.model, examples_of(1, 20)))
    await done(worker, there)
    between = [(f"b{k}", [k / 10, 0.1], "ab"[k % 2]) for k in range(12)]
    requests = [learning(worker.model, [example]) for example in between]
    rows = to_inputs([[0.3, 0.7]], worker.model.configuration)
    published = worker.published
    decided = published.decide(rows)
    waiting = Prediction("w", rows, x_digests(rows)[0], decided.columns[0], int(decided.numbers[0]), 0, 0)
    offer = Offer(
        ["c"],
        rows,
        x_digests(rows),
        [None],
        reread=lambda c: Offer(["c"], to_inputs([[0.3, 0.7]], c), [b"0" * 16], [None]),
    )
    await done(worker, back)
    kept = worker.keep([Made(waiting, published.labels)])
    await asyncio.gather(*(worker.learn(request) for request in requests), kept)
    await worker.command(offer)
    model = worker.model
    assert worker.obstacle is None
    assert all(model.learner.takes(candidate.x) for candidate in model.pool)
    recovered = load_model(store, "m", **SIZES)
    assert recovered.snapshot() == model.snapshot()
    np.testing.assert_array_equal(
        recovered.solver.decision(requests[0].read_for(model).inputs),
        model.solver.decision(requests[0].read_for(model).inputs),
    )
    for _, record in store.read("m", 0):
        assert record.kind != "set_aside"


async def done(worker, changes):
    answer = await worker.command(Configure(changes, Settings()))
    if "at" in answer:
        assert (await asyncio.wait_for(worker.ended(answer["at"]), 300))["state"] == "done"


@on_worker()
async def test_a_prediction_of_a_state_that_a_rollback_undid_does_not_wait_for_its_label(worker, store):
    await worker.learn(learning(worker.model, [("1", [0.0, 1.0], "a"), ("2", [1.0, 0.0], "b")]))
    back_to = worker.model.position
    await worker.learn(learning(worker.model, [("3", [1.0, 1.0], "c"), ("4", [1.0, 2.0], "d")]))
    rows = to_inputs([[1.0, 1.5]], worker.model.configuration)
    published = worker.published
    decided = published.decide(rows)
    made = Prediction("w", rows, x_digests(rows)[0], decided.columns[0], 3, 0, 10**15)
    await worker.roll_back(back_to)
    await worker.keep([Made(made, published.labels)])
    await worker.learn(learning(worker.model, [("w", [1.0, 1.5], "a"), ("5", [1.0, 1.5], "e")]))
    assert worker.obstacle is None
    assert not worker.failed
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


def test_named_features_go_through_their_warm_up_with_every_kernel():
    for kernel in ({"type": "linear"}, {"type": "polynomial", "degree": 2}, {"type": "laplacian", "gamma": "auto"}):
        configuration = {"features": {"type": "named", "warmup": 20}, "kernel": kernel}

        async def scenario(worker, _):
            examples = [(None, {"a": k % 7, "b": "xy"[k % 2]}, "np"[k % 2]) for k in range(40)]
            await worker.learn(learning(worker.model, examples))
            decided = worker.published.decide(learning(worker.model, examples).inputs)
            assert decided.numbers.tolist() == [0, 1] * 20

        with_worker(scenario, configuration=configuration)


def test_a_damaged_event_can_be_set_aside_and_later_events_count(tmp_path):
    store = SQLiteStore(tmp_path / "data")
    batches = [examples_of(seed, 8) for seed in range(4)]

    async def scenario():
        async with working(store) as worker:
            for batch in batches:
                await worker.learn(learning(worker.model, batch))
            return worker.model.position

    last = asyncio.run(scenario())
    store.close()
    with closing(sqlite3.connect(tmp_path / "data" / "hinged.db")) as connection:
        positions = connection.execute(
            "SELECT position FROM events WHERE kind = 'learned' ORDER BY position"
        ).fetchall()
        at = positions[-2][0]
        connection.execute("UPDATE events SET payload = zeroblob(100) WHERE position = ?", (at,))
        connection.commit()
    store = SQLiteStore(tmp_path / "data")
    found = ModelHistory(store, "m", **SIZES).reached()
    assert (found[0].position, found[1].position) == (at - 1, at)

    async def go_on():
        async with working(store, found=found) as worker:
            assert (await worker.set_aside(at))["position"] == last + 1
            answer = await worker.learn(learning(worker.model, [e for batch in batches for e in batch if e[0]]))
            again = {r.id: r.duplicate for r in answer.results}
            lost = {e[0] for e in batches[-2] if e[0]}
            assert {given for given, duplicate in again.items() if not duplicate} == lost
            await worker.finish(epochs=1)
            answer = await worker.command(Configure({"C": 3}, Settings()))
            assert (await asyncio.wait_for(worker.ended(answer["at"]), 300))["state"] == "done"
            recovered = load_model(store, "m", **SIZES)
            assert recovered.snapshot() == worker.model.snapshot()

    asyncio.run(go_on())
    store.close()


@pytest.mark.long
def test_a_server_serves_a_model_with_a_damaged_event_until_the_command_line_sets_it_aside(tmp_path):
    server = RunningServer(tmp_path / "data")
    examples = [{"id": f"e{k}", "x": [k % 2, k / 9], "y": "np"[k % 2]} for k in range(9)]
    with server:
        for name in ("m", "other"):
            assert httpx.put(f"{server.url}/models/{name}", json=BASE).status_code == 201
        for example in examples:
            assert httpx.post(f"{server.url}/models/m/learn", json=example).status_code == 200
        before = httpx.get(f"{server.url}/models/m").json()
        server.kill()
    with closing(sqlite3.connect(tmp_path / "data" / "hinged.db")) as connection:
        connection.execute("UPDATE events SET checksum = checksum + 1 WHERE position = ?", (before["position"],))
        connection.commit()
    with server:
        found = httpx.get(f"{server.url}/models/m").json()
        assert (found["state"], found["examples"]) == ("stopped", 8)
        assert found["error"] == f"event {before['position']} cannot be applied: it fails its checksum"
        listed = {model["model"]: model["state"] for model in httpx.get(f"{server.url}/models").json()["models"]}
        assert listed == {"m": "stopped", "other": "serving"}
        assert httpx.get(f"{server.url}/readyz").json()["models"]["stopped"] == 1
        assert 'hinged_model_up{model="m"} 0.0' in httpx.get(f"{server.url}/metrics").text
        predicted = httpx.post(f"{server.url}/models/m/predict", json={"id": "e20", "x": [1, 0.2]})
        assert predicted.json()["results"][0]["prediction"] == "p"
        refused = httpx.post(f"{server.url}/models/m/learn", json=examples[-1])
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
        assert "POST /models/m/skip" in refused.json()["error"]["message"]
        assert httpx.post(f"{server.url}/models/other/skip").status_code == 409
        ran = hinged("skip", "m", "--url", server.url)
        assert ran.stdout == f"m: event {before['position']} is set aside, position {before['position'] + 1}\n"
        again = httpx.post(f"{server.url}/models/m/learn", json={"examples": examples}).json()["results"]
        assert [r["duplicate"] for r in again] == [True] * 8 + [False]
        assert httpx.get(f"{server.url}/models/m").json()["set_aside"] == [{"position": before["position"], "kind": ""}]
