"""The queue of a worker: its order, the requests that are taken together, and its limits."""

import asyncio

import pytest

from hinged.service.engine.learning import Learning
from hinged.service.engine.queue import Queue
from hinged.service.engine.work import finish, snapshot
from hinged.service.errors import QueueFull
from hinged.service.settings import Settings
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.limits import limited
from tests.helpers.worker import begun, examples_of, learning

SIZES = {"cache_bytes": 2**20, "answers_kept": 30}


@pytest.fixture(scope="module")
def learn(tmp_path_factory):
    """Returns a function that makes a request to learn some examples."""
    store = SQLiteStore(tmp_path_factory.mktemp("queue") / "data")
    model = begun(store, SIZES, {})
    yield lambda n: Learning([learning(model, examples_of(n, n))])
    store.close()


def with_queue(scenario, *, batch_max=4_096, **settings):
    async def main():
        scenario(Queue("m", Settings(**settings)))

    with limited(micro_batch_examples_max=batch_max):
        asyncio.run(main())


def test_adjacent_requests_to_learn_are_taken_together_up_to_the_limit(learn):
    def scenario(queue):
        futures = [queue.put(learn(n)) for n in (3, 4, 3)]
        taken = queue.take()
        assert taken.work.examples == 7
        assert len(taken.work.requests) == len(taken.futures) == 2
        assert taken.futures == futures[:2]
        assert (len(queue), queue.examples) == (1, 3)

    with_queue(scenario, batch_max=8)


def test_work_between_requests_to_learn_separates_micro_batches_and_is_not_overtaken(learn):
    def scenario(queue):
        works = [learn(1), snapshot, learn(2)]
        for work in works:
            queue.put(work)
        assert [queue.take().examples for _ in works] == [1, 0, 2]
        assert not queue

    with_queue(scenario)


def test_the_steps_of_a_job_go_first_and_have_no_limit(learn):
    def scenario(queue):
        queue.put(learn(1))
        queue.put(learn(1))
        with pytest.raises(QueueFull, match="2 requests wait for model m"):
            queue.put(finish)
        step = snapshot
        queue.put(step, first=True)
        assert queue.take().work is step

    with_queue(scenario, queue_examples_max=2)


def test_a_request_of_any_size_is_taken_when_no_other_waits(learn):
    def scenario(queue):
        queue.put(learn(5))
        with pytest.raises(QueueFull, match="5 examples of at most 3 wait"):
            queue.put(learn(1))
        assert len(queue.clear()) == 1
        queue.put(learn(5))
        assert queue.examples == 5

    with_queue(scenario, queue_examples_max=3)


def test_a_refused_request_says_how_long_the_queued_work_will_take(learn, monkeypatch):
    def scenario(queue):
        now = [100.0]
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0], raising=False)
        for _ in range(4):
            queue.put(learn(4))
        with pytest.raises(QueueFull) as caught:
            queue.put(learn(4))
        assert caught.value.headers == {"Retry-After": "1"}  # no duration is known yet
        queue.take()
        now[0] += 2.0  # half a second per example, while more work waited
        queue.take()
        for _ in range(2):
            queue.put(learn(4))
        with pytest.raises(QueueFull, match="16 examples of at most 18 wait for model m, about 8 s of work") as caught:
            queue.put(learn(4))
        assert caught.value.headers == {"Retry-After": "8"}

    with_queue(scenario, queue_examples_max=18, batch_max=4)


def test_the_time_of_a_few_examples_hardly_changes_the_estimate_for_many(learn, monkeypatch):
    def scenario(queue):
        now = [100.0]
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0], raising=False)
        for _ in range(10):  # a batch of one example takes a second
            queue.put(learn(1))
            queue.put(snapshot)
        for seconds in (1.0, 0.0) * 10:
            queue.take()
            now[0] += seconds
        for _ in range(2):
            queue.put(learn(50))
        queue.take()
        now[0] += 6.0  # and a batch of fifty examples takes six seconds
        queue.put(learn(50))
        queue.take()
        queue.put(learn(50))
        with pytest.raises(
            QueueFull, match="100 examples of at most 100 wait for model m, about 14 s of work"
        ) as caught:
            queue.put(learn(1))
        assert caught.value.headers == {"Retry-After": "14"}

    with_queue(scenario, queue_examples_max=100, batch_max=50)


def test_idle_time_does_not_count_as_time_for_examples(learn, monkeypatch):
    def scenario(queue):
        now = [100.0]
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0], raising=False)
        queue.put(learn(4))
        queue.take()
        now[0] += 3600.0
        queue.put(learn(4))
        queue.take()
        queue.put(learn(4))
        with pytest.raises(QueueFull) as caught:
            queue.put(learn(4))
        assert caught.value.headers == {"Retry-After": "1"}

    with_queue(scenario, queue_examples_max=6, batch_max=4)
