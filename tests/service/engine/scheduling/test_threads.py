"""Threads of the models: there are as many as needed, and an error of one model does not end anything else."""

import asyncio
import concurrent.futures
import threading

import pytest

from hinged.service import limits
from hinged.service.engine.scheduling.threads import Broke, Lane, Threads, default_executor
from hinged.service.engine.scheduling.turns import GivenUp, Turns
from hinged.service.errors import NoThread
from hinged.solvers.core.turns import rest

SECONDS = 60


@pytest.fixture
def threads():
    threads = Threads("test")
    yield threads
    assert threads.close(SECONDS)


@pytest.fixture
def lane(threads):
    return Lane(threads, Turns(1))


def test_a_call_runs_and_its_thread_is_used_again(lane):
    first = lane.submit(threading.get_ident).result(SECONDS)
    for _ in range(100):  # repeat until the thread is idle again
        again = lane.submit(threading.get_ident).result(SECONDS)
        if again == first:
            break
    assert again == first


def test_a_models_calls_begin_however_many_calls_of_another_model_wait(threads):
    shared, end = Turns(1), threading.Event()
    waiting = [Lane(threads, shared).submit(end.wait, SECONDS) for _ in range(300)]
    assert Lane(threads, shared).submit(lambda: "done").result(SECONDS) == "done"
    end.set()
    assert all(future.result(SECONDS) for future in waiting)


def test_a_model_has_at_most_its_lanes_threads_and_waiting_calls_can_be_cancelled(lane):
    end = threading.Event()
    running = [lane.submit(end.wait, SECONDS) for _ in range(limits.CALLS_MAX)]
    waits, next_ = lane.submit(lambda: "never"), lane.submit(lambda: "then")
    assert waits.cancel()
    assert not any(future.done() for future in (*running, next_))
    end.set()
    assert next_.result(SECONDS) == "then"


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(),
        StopAsyncIteration(),
        asyncio.CancelledError(),
        concurrent.futures.CancelledError(),
        type("Own", (BaseException,), {})("a solver's own"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_exception_of_a_model_reaches_the_caller_as_an_ordinary_error(lane, error):
    def work():
        raise error

    async def main():
        loop = asyncio.get_running_loop()
        with pytest.raises(Broke, match=type(error).__name__):
            await asyncio.wait_for(loop.run_in_executor(lane, work), SECONDS)
        return await loop.run_in_executor(lane, lambda: "goes on")

    assert asyncio.run(main()) == "goes on"


def test_an_ordinary_error_stays_what_it_is(lane):
    with pytest.raises(ZeroDivisionError):
        lane.submit(lambda: 1 / 0).result(SECONDS)


def test_giving_a_lane_up_ends_running_waiting_and_later_calls(lane):
    began = threading.Event()

    def compute():
        began.set()
        while True:
            rest()

    running = [lane.submit(compute) for _ in range(limits.CALLS_MAX)]
    waits = lane.submit(lambda: "never")
    assert began.wait(SECONDS)
    lane.give_up("model m was deleted")
    for future in (*running, waits, lane.submit(lambda: "too late")):
        with pytest.raises(GivenUp, match="model m was deleted"):
            future.result(SECONDS)


def test_closed_threads_end_and_take_no_more_calls():
    threads = Threads("test")
    lane = Lane(threads, Turns(1))
    assert lane.submit(lambda: 1).result(SECONDS) == 1
    end = threading.Event()
    late = lane.submit(end.wait, SECONDS)
    assert not threads.close(0.0)
    end.set()
    assert late.result(SECONDS)
    assert threads.close(SECONDS)
    with pytest.raises(RuntimeError, match="have ended"):
        lane.submit(lambda: 1)


@pytest.fixture
def no_more(monkeypatch):
    """Let the system start no further thread."""

    def refused(_):
        raise RuntimeError("can't start new thread")

    return lambda: monkeypatch.setattr(threading.Thread, "start", refused)


def test_without_a_further_thread_calls_wait_for_a_thread_that_runs(threads, no_more):
    shared, end = Turns(1), threading.Event()
    running = Lane(threads, shared).submit(end.wait, SECONDS)
    no_more()
    late = [Lane(threads, shared).submit(lambda k=k: k) for k in range(5)]
    assert not any(future.done() for future in late)
    end.set()
    assert running.result(SECONDS)
    assert [future.result(SECONDS) for future in late] == list(range(5))
    assert Lane(threads, shared).submit(lambda: "done").result(SECONDS) == "done"


def test_if_the_system_starts_no_thread_at_all_a_call_is_refused_and_never_runs(monkeypatch, lane, no_more):
    ran = []
    no_more()
    with pytest.raises(NoThread, match="starts no further thread"):
        lane.submit(ran.append, "refused")
    with pytest.raises(NoThread):
        default_executor()
    monkeypatch.undo()
    assert lane.submit(ran.append, "done").result(SECONDS) is None
    assert ran == ["done"]


def test_a_default_executor_needs_no_further_thread(no_more):
    executor = default_executor()
    no_more()
    assert [future.result(SECONDS) for future in [executor.submit(lambda k=k: k) for k in range(50)]] == list(range(50))
    executor.shutdown()
