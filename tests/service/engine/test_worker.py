"""The worker with a real store that fails in the ways that a disk fails."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

import numpy as np
import pytest

from hinged.service.commands.ask import Ask, Offer
from hinged.service.commands.leases import Renew
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.configuration import new_configuration
from hinged.service.data.examples import digests, to_inputs
from hinged.service.data.inputs import x_digests
from hinged.service.engine.worker import Worker
from hinged.service.errors import Conflict, InternalError, QueueFull, StoreUnavailable, Unavailable
from hinged.service.model.events.learning import ClassAdded
from hinged.service.model.model import Model
from hinged.service.model.pending import Made, Prediction
from hinged.service.settings import Settings
from hinged.service.store.base import Damaged, NoModel, OutcomeUnknown
from tests.helpers.failing_store import FailingStore
from tests.helpers.http_client import BASE
from tests.helpers.limits import limited
from tests.helpers.server import PATIENCE_S
from tests.helpers.states import digest_of, load_model
from tests.helpers.worker import begun, on_worker, predictions_of, until, working

SIZES = {"cache_bytes": 2**20, "answers_kept": 1000}


@pytest.fixture
def store(tmp_path):
    store = FailingStore(tmp_path / "data")
    yield store
    store.close()


on_failing_store = partial(on_worker, kind=FailingStore, sizes=SIZES)


def run(store, scenario, **settings):
    """Run an async scenario(worker) with a new model, and save a snapshot at the end."""

    async def main():
        async with working(store, SIZES, **settings) as worker:
            found = await scenario(worker)
            await worker.stop()
            return found

    return asyncio.run(main())


def request(*examples):
    ids, xs, labels = (list(part) for part in zip(*examples, strict=True))
    rows = to_inputs(xs, new_configuration(json.dumps(BASE), Settings()))
    return LearnRequest(ids, labels, rows, digests(rows, labels))


A, B = ("a", [0.0, 1.0], "n"), ("b", [1.0, 0.0], "p")


@on_failing_store()
async def test_an_append_that_failed_is_not_acknowledged_and_changes_nothing(worker, store):
    await worker.learn(request(A))
    before = digest_of(worker.model)
    store.failures = ["before"]
    with pytest.raises(StoreUnavailable):
        await worker.learn(request(B))
    assert digest_of(worker.model) == before
    assert not (await worker.learn(request(B))).results[0].duplicate


@on_failing_store()
async def test_an_append_of_unknown_outcome_that_lasted_is_acknowledged(worker, store):
    store.failures = ["unknown, written"]
    answer = await worker.learn(request(A))
    assert [r.duplicate for r in answer.results] == [False]
    assert worker.model.learned == 1
    assert (await worker.learn(request(A))).results[0].duplicate


@on_failing_store()
async def test_an_append_of_unknown_outcome_that_did_not_last_is_refused_and_may_be_sent_again(worker, store):
    store.failures = ["unknown, not written"]
    with pytest.raises(OutcomeUnknown):
        await worker.learn(request(A))
    assert worker.model.learned == 0
    assert not (await worker.learn(request(A))).results[0].duplicate


def test_an_append_found_only_later_gives_a_retry_its_first_answer(store, monkeypatch):
    async def scenario(worker):
        await worker.learn(request(A, B))
        store.failures = ["unknown, written"]
        # The end of the log cannot be read either, so the outcome stays unknown until the next request.
        with monkeypatch.context() as patch:
            patch.setattr(store, "end", lambda _: (_ for _ in ()).throw(StoreUnavailable("no disk")))
            with pytest.raises(StoreUnavailable):
                await worker.learn(request(("c", [1.0, 1.0], "p")))
        answer = await worker.learn(request(("c", [1.0, 1.0], "p")))
        assert answer.results[0].duplicate
        assert answer.results[0].prediction in ("n", "p")
        assert worker.model.learned == 3
        with pytest.raises(Conflict):
            await worker.learn(request(("c", [1.0, 1.0], "n")))
        return digest_of(worker.model)

    digest = run(store, scenario)
    assert digest_of(load_model(store, "m", **SIZES)) == digest


@on_failing_store()
async def test_waiting_requests_share_one_append(worker, store):
    await worker.learn(request(A, B))
    store.held, store.appends = threading.Event(), 0
    waiting = [asyncio.ensure_future(worker.learn(request((f"w{k}", [k, 0.0], "n")))) for k in range(50)]
    await until(lambda: store.appends)
    store.held.set()
    answers = await asyncio.gather(*waiting)
    assert [a.results[0].id for a in answers] == [f"w{k}" for k in range(50)]
    assert store.appends <= 2  # at most one for the first request, and one for all requests that arrived meanwhile


@on_failing_store(queue_examples_max=3)
async def test_a_full_queue_refuses_requests_until_it_has_drained(worker, store):
    store.held = threading.Event()
    first = asyncio.ensure_future(worker.learn(request(A, B)))
    await until(lambda: store.appends)
    second = asyncio.ensure_future(worker.learn(request(("c", [2.0, 2.0], "p"), ("d", [3.0, 3.0], "n"))))
    await until(lambda: worker.queue.examples)
    with pytest.raises(QueueFull, match="2 examples of at most 3 wait") as refused:
        await worker.learn(request(("e", [2.0, 2.0], "p"), ("f", [3.0, 3.0], "n")))
    assert int(refused.value.headers["Retry-After"]) >= 1
    store.held.set()
    await asyncio.gather(first, second)
    await worker.learn(request(("e", [2.0, 2.0], "p")))
    assert worker.model.learned == 5


def test_stopping_drains_the_queue_refuses_new_work_and_keeps_a_snapshot(store):
    async def scenario(worker):
        store.held = threading.Event()
        waiting = asyncio.ensure_future(worker.learn(request(A, B)))
        await until(lambda: store.appends)
        stopping = asyncio.create_task(worker.stop())
        await until(lambda: worker.stopped)
        with pytest.raises(Unavailable, match="stopping"):
            await worker.learn(request(("c", [2.0, 2.0], "p")))
        store.held.set()
        assert len((await waiting).results) == 2
        await stopping
        return worker.model.position, digest_of(worker.model)

    position, digest = run(store, scenario)
    assert store.snapshots("m") == [position]
    assert digest_of(load_model(store, "m", **SIZES)) == digest


def test_instead_of_a_damaged_snapshot_the_older_one_and_the_log_are_used(store):
    async def scenario(worker):
        for k in range(30):
            await worker.learn(request((f"e{k}", [k % 5, k % 3], "np"[k % 2])))
            if worker.journal.snapshots.newest:  # no snapshot begins while another is written
                await asyncio.wrap_future(worker.journal.snapshots.newest)
        return digest_of(worker.model)

    digest = run(store, scenario, snapshot_examples=10)
    newest, older = store.snapshots("m")
    store.put_snapshot("m", newest, store.get_snapshot("m", newest)[:-40])
    assert digest_of(load_model(store, "m", **SIZES)) == digest
    assert older < newest


def test_a_snapshot_ahead_of_the_log_is_not_used(store):
    async def scenario(worker):
        await worker.learn(request(A, B))
        ahead, digest = Model.restore("m", worker.model.snapshot(), **SIZES), digest_of(worker.model)
        lost = ClassAdded("lost with the end of the log")
        ahead.apply(store.append("m", ahead.position, [lost.record()]), lost)
        store.put_snapshot("m", ahead.position, ahead.snapshot())
        store._writer.do(lambda file: file.execute("DELETE FROM events WHERE position = ?", (ahead.position,)))
        return digest

    digest = run(store, scenario)
    assert digest_of(load_model(store, "m", **SIZES)) == digest


@on_failing_store()
async def test_an_id_without_its_first_answer_is_still_a_duplicate_or_a_conflict(worker):
    worker.model.answers.kept = 5
    for k in range(12):
        await worker.learn(request((f"e{k}", [k, 0.0], "np"[k % 2])))
    answer = await worker.learn(request(("e0", [0.0, 0.0], "n"), ("e11", [11.0, 0.0], "p")))
    assert [r.duplicate for r in answer.results] == [True, True]
    assert answer.results[0].prediction is None
    assert answer.results[1].prediction in ("n", "p")
    with pytest.raises(Conflict):
        await worker.learn(request(("e1", [7.0, 7.0], "n")))
    assert worker.model.learned == 12


def test_a_model_whose_apply_fails_stops_alone(store, monkeypatch):
    async def scenario(worker):
        await worker.learn(request(A, B))
        with monkeypatch.context() as patch:
            patch.setattr(worker.model.solver, "learn", lambda *_, **__: 1 // 0)
            with pytest.raises(Unavailable, match="ZeroDivisionError"):
                await worker.learn(request(("c", [1.0, 1.0], "p")))
        with pytest.raises(Unavailable, match="has stopped"):
            await worker.learn(request(("d", [1.0, 1.0], "p")))
        assert predictions_of(worker.published, to_inputs([[0.0, 1.0]], worker.model.configuration))[0][0] == "n"

    run(store, scenario)
    assert load_model(store, "m", **SIZES).learned == 3  # the log contains the appended event


def test_answers_dropped_under_a_smaller_limit_stay_duplicates_under_a_larger_one(store):
    async def scenario(worker):
        worker.model.answers.kept = 5
        for k in range(12):
            await worker.learn(request((f"e{k}" if k % 2 else None, [k, 0.0], "np"[k % 2])))

    run(store, scenario)

    async def later():
        model = load_model(store, "m", **SIZES)
        assert model.answers.kept > model.learned
        with ThreadPoolExecutor(4) as executor:
            worker = Worker(model, store, Settings(), executor)
            answer = await worker.learn(request(("e1", [1.0, 0.0], "p"), ("e11", [11.0, 0.0], "p")))
            assert [r.duplicate for r in answer.results] == [True, True]
            assert (await worker.learn(request(("@11", [10.0, 0.0], "n")))).results[0].duplicate
            with pytest.raises(Conflict, match="learned too long ago to compare it"):
                await worker.learn(request(("@3", [2.0, 0.0], "n")))
            assert worker.model.learned == 12
            for k in range(12, 30):
                await worker.learn(request((f"e{k}", [k, 0.0], "np"[k % 2])))
            assert (await worker.learn(request(("e11", [11.0, 0.0], "p")))).results == answer.results[1:]
            digest = digest_of(worker.model)
            await worker.stop()
        assert digest_of(load_model(store, "m", **SIZES)) == digest

    asyncio.run(later())


@on_failing_store(snapshot_examples=2)
async def test_no_snapshot_is_being_written_after_a_worker_has_stopped(worker, store):
    """Otherwise the snapshot could be saved for the next model with that name."""
    held = threading.Event()
    put = store.put_snapshot

    def slow_put(*arguments):
        held.wait(PATIENCE_S)
        put(*arguments)

    store.put_snapshot = slow_put
    await worker.learn(request(A, B))
    leaving, release = asyncio.Event(), worker._jobs.release
    worker._jobs.release = lambda: leaving.set() or release()
    stopping = asyncio.create_task(worker.stop(keep_snapshot=False))
    await leaving.wait()  # the worker now waits only for the snapshot
    for _ in range(20):
        await asyncio.sleep(0)
    went = stopping.done()
    held.set()
    await stopping
    assert not went
    assert store.snapshots("m") == [worker.model.position]


@pytest.mark.parametrize("error", [StoreUnavailable("the disk is gone"), Damaged("a page is torn"), NoModel("m")])
@on_failing_store()
async def test_a_store_that_fails_at_the_end_does_not_block_a_stop(worker, store, monkeypatch, error):
    await worker.learn(request(A, B))

    def fail(*_):
        raise error

    monkeypatch.setattr(store, "snapshots", fail)
    await worker.stop()


@on_failing_store()
async def test_examples_without_first_answers_are_looked_up_with_one_read_per_event(worker, store, monkeypatch):
    examples = [(f"e{k}", [k, 0.0], "np"[k % 2]) for k in range(40)]
    worker.model.answers.kept = 5
    await worker.learn(request(*examples))
    read, readings = store.read, []
    monkeypatch.setattr(store, "read", lambda *asked: readings.append(asked) or read(*asked))
    answer = await worker.learn(request(*examples))
    assert all(r.duplicate for r in answer.results)
    assert len(readings) <= 3  # the 40 examples are in three events, because two classes were added


def test_a_further_epoch_over_an_unreadable_log_is_refused_before_it_is_written(store):
    async def scenario(worker):
        await worker.learn(request(A, B))
        position, digest = worker.model.position, digest_of(worker.model)
        whole, store.read_around = store.read_around, broken_read
        with pytest.raises(StoreUnavailable):
            await worker.finish(epochs=1)
        store.read_around = whole
        assert worker.model.position == position
        assert digest_of(worker.model) == digest
        await worker.learn(request(("c", [2.0, 2.0], "p")))
        await worker.finish(epochs=1)
        assert digest_of(load_model(store, "m", **SIZES)) == digest_of(worker.model)

    def broken_read(*_):
        yield from ()
        raise StoreUnavailable("the disk cannot be read")

    run(store, scenario)


def waiting_prediction(model, given):
    inputs = to_inputs([[0.5, 0.5]], model.configuration)
    return Prediction(given, inputs, x_digests(inputs)[0], np.zeros(0), -1, 0, 0)


def test_while_the_store_is_down_queued_predictions_are_retried(store):
    async def scenario(worker):
        await worker.learn(request(A, B))
        store.failures = ["before"] * 1000
        before, began = store.appends, time.monotonic()
        await worker.keep([Made(waiting_prediction(worker.model, "k"))])
        await until(lambda: store.appends - before >= 4)
        assert time.monotonic() - began > 3.5 * flush_s
        assert len(worker.model.pending) == 0
        store.failures = []
        await until(lambda: len(worker.model.pending) == 1)

    flush_s = 0.1
    with limited(pending_flush_s=flush_s):
        run(store, scenario)


@on_failing_store()
async def test_a_question_that_fails_is_an_answer_and_the_model_goes_on(worker):
    def wrong(model):
        raise ZeroDivisionError(model.name)

    with pytest.raises(InternalError):
        await worker.read(wrong)
    await worker.learn(request(A, B))
    assert worker.model.learned == 2


@on_failing_store(snapshot_examples=10)
async def test_questions_and_leases_lead_to_a_snapshot(worker, store):
    inputs = to_inputs([[0.5, 0.5]], worker.model.configuration)
    await worker.command(Offer(["c"], inputs, x_digests(inputs), [None]))
    answer = await worker.command(Ask(1, "ann", "active", 60_000, None, 10))
    for _ in range(20):
        await worker.command(Renew(answer["queries"][0]["lease"]))
    await asyncio.wrap_future(worker.journal.snapshots.newest)
    assert store.snapshots("m")


@on_failing_store()
async def test_an_example_learned_long_ago_is_no_candidate(worker):
    worker.model.answers.kept = 1
    await worker.learn(request(A, B))
    inputs = to_inputs([[0.5, 0.5]], worker.model.configuration)
    answer = await worker.command(Offer(["a"], inputs, x_digests(inputs), [None]))
    assert answer["added"] == 0


def test_requests_that_come_while_a_model_waits_for_its_turn_are_one_micro_batch(store):
    async def scenario():
        model = begun(store, SIZES, {})
        open_gate, waiting = asyncio.Event(), asyncio.Event()

        @asynccontextmanager
        async def turn():
            waiting.set()
            await open_gate.wait()
            yield

        with ThreadPoolExecutor(4) as executor:
            worker = Worker(model, store, Settings(), executor, turn=turn)
            learnt = [worker.learn(request((f"{k}", [k / 9, 0.0], "np"[k % 2]))) for k in range(9)]
            await waiting.wait()
            assert not any(future.done() for future in learnt)
            open_gate.set()
            answers = await asyncio.gather(*learnt)
            await worker.stop()
        assert len({answer.position for answer in answers}) == 1

    asyncio.run(scenario())
