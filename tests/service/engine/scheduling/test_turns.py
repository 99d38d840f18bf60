"""Turns on real threads. Only the tests decide what each thread does between two rests."""

import random
import threading
import time
from types import SimpleNamespace

import pytest

from hinged.service.engine.scheduling import turns
from hinged.service.engine.scheduling.turns import Account, Turns, rest_before_work, stand_back
from hinged.solvers.core.turns import Abandoned, rest

SECONDS = 60  # seconds until a hanging test fails


@pytest.fixture(autouse=True)
def at_every_rest(monkeypatch):
    """Make calls check at every rest, and exchange them at the smallest difference of CPU time. No call is short."""
    monkeypatch.setattr(turns, "SHORT_S", 0.0)
    monkeypatch.setattr(turns, "LOOK_S", 0.0)


class Call:
    """A call on its own thread. It does a step each time that it is asked to, and rests after each step."""

    def __init__(self, shared, account):
        self.account = account
        self.steps = 0
        self.outcome = None
        self._told = threading.Semaphore(0)
        self._did = threading.Semaphore(0)
        self._ending = False
        self._thread = threading.Thread(target=self._run, args=(shared,), daemon=True)
        self._thread.start()

    def _run(self, shared):
        try:
            self.outcome = shared.run(self.account, self._work)
        except Abandoned as error:
            self.outcome = error
        self._did.release()

    def _work(self):
        while True:
            rest()
            self.steps += 1
            self._did.release()
            assert self._told.acquire(timeout=SECONDS)
            if self._ending:
                return "done"

    def wait(self):
        """Wait until the call has passed a rest, or has ended."""
        assert self._did.acquire(timeout=SECONDS)
        return self

    def go(self):
        """Let the call rest. The rest may make the call wait."""
        self._told.release()
        return self

    def end(self):
        self._ending = True
        self._told.release()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        return self.outcome


def until(condition):
    """Wait until other threads have made the condition true."""
    reached = threading.Event()
    for _ in range(SECONDS * 100):
        if condition():
            return
        reached.wait(0.01)
    raise AssertionError("it does not come to that")


def used(seconds):
    """Return an account that has just used `seconds`."""
    account = Account()
    account.used = seconds
    return account


def long_account():
    """Return an account whose calls are all long."""
    account = Account()
    account.usual_s = 1e9
    return account


def waiting(shared):
    return len([call for *_, call in shared._waiting if call.queued])


def test_a_call_returns_its_functions_result_and_rests_alone():
    shared = Turns(1)

    def work():
        for _ in range(1000):
            rest()
        return 7

    assert shared.run(Account(), work) == 7
    assert not shared._holding
    with pytest.raises(ZeroDivisionError):
        shared.run(Account(), lambda: 1 / 0)
    assert not shared._holding


def test_the_waiting_call_that_has_used_least_goes_next():
    shared = Turns(1)
    first = Call(shared, used(0.001)).wait()
    others = [Call(shared, used(seconds)) for seconds in (30.0, 10.0, 20.0)]
    until(lambda: waiting(shared) == 3)
    first.end()
    for number in (1, 2, 0):
        others[number].wait()
        assert [call.steps for call in others].count(0) == waiting(shared)
        others[number].end()


def test_a_computing_call_gives_its_place_at_a_rest_to_a_call_that_has_used_less():
    shared = Turns(1)
    greedy = Call(shared, used(100.0)).wait()
    modest = Call(shared, Account())
    until(lambda: waiting(shared) == 1)
    greedy.account.used += 1.0  # certainly more than the other has used by now
    greedy.go()
    modest.wait()
    assert greedy.steps == 1
    assert modest.end() == "done"
    greedy.wait()
    assert greedy.end() == "done"


def test_a_short_call_does_not_wait_for_a_long_call(monkeypatch):
    shared = Turns(1)
    long = Call(shared, Account()).wait()
    monkeypatch.setattr(turns, "SHORT_S", 1e9)
    # The long call neither rests nor ends meanwhile, however much the short call's model has used.
    assert Call(shared, used(1e6)).wait().end() == "done"
    assert long.end() == "done"


def test_a_model_with_long_calls_has_short_calls_again_only_after_some_short_ones(monkeypatch):
    shared, account = Turns(1), Account()

    def spin(seconds):
        end = turns.time.thread_time() + seconds
        while turns.time.thread_time() < end:
            pass

    monkeypatch.setattr(turns, "SHORT_S", 0.001)
    for _ in range(3):
        shared.run(account, lambda: spin(0.02))
    monkeypatch.setattr(turns, "SHORT_S", account.usual_s / 2)
    other = Call(shared, long_account()).wait()
    call = Call(shared, account)
    until(lambda: waiting(shared) == 1)
    assert other.end() == "done"
    call.wait().end()
    for _ in range(100):
        shared.run(account, lambda: None)
    assert account.usual_s < turns.SHORT_S


def test_a_call_that_is_given_up_ends_while_it_computes_or_waits_and_others_go_on():
    shared = Turns(1)
    gone = Account()
    computing = Call(shared, gone).wait()
    others = [Call(shared, used(seconds)) for seconds in (1.0, 50.0)]
    until(lambda: waiting(shared) == 2)
    queued = Call(shared, gone)
    until(lambda: waiting(shared) == 3)
    shared.give_up(gone, "it was deleted")
    queued.wait()
    assert isinstance(queued.outcome, Abandoned)
    computing.go().wait()
    assert isinstance(computing.outcome, Abandoned)
    for call in others:
        call.wait()
        assert call.end() == "done"
    assert not shared._holding


def test_a_call_that_waits_for_something_else_leaves_its_place():
    shared = Turns(1)
    told, other = threading.Event(), []

    def work():
        rest()
        stand_back()
        other.append(Call(shared, used(100.0)).wait())
        told.set()
        return "waited"

    assert shared.run(Account(), work) == "waited"
    assert other[0].end() == "done"


@pytest.mark.parametrize("seed", range(5))
def test_all_calls_end_and_no_more_compute_at_once_than_there_are_places(seed):
    rng = random.Random(seed)
    shared = Turns(rng.randint(1, 3))
    accounts = [Account() for _ in range(8)]
    lock, computing, most, ended = threading.Lock(), [0], [0], []

    def step(change):
        with lock:
            computing[0] += change
            most[0] = max(most[0], computing[0])

    def work(steps):
        for _ in range(steps):
            rest()
            step(1)
            sum(range(2000))
            step(-1)
            if steps % 7 == 0:
                stand_back()

    def call(account, steps):
        try:
            shared.run(account, lambda: work(steps))
            ended.append("done")
        except Abandoned:
            ended.append("given up")

    threads = [
        threading.Thread(target=call, args=(rng.choice(accounts), rng.randint(1, 200)), daemon=True) for _ in range(60)
    ]
    for number, thread in enumerate(threads):
        thread.start()
        if number == 30:
            shared.give_up(accounts[0], "test")
    for thread in threads:
        thread.join(SECONDS)
    assert len(ended) == len(threads)
    assert most[0] <= shared.places
    assert not shared._holding
    assert waiting(shared) == 0


@pytest.mark.long
@pytest.mark.parametrize("places", [1, 2])
def test_a_long_call_stands_still_for_short_calls_but_not_all_the_time(monkeypatch, places):
    monkeypatch.setattr(turns, "SHORT_S", 0.02)
    monkeypatch.setattr(turns, "LOOK_S", 0.002)
    shared, account, over = Turns(places), Account(), threading.Event()
    account.usual_s = 1.0  # calls of this account are usually long
    short = threading.Thread(target=shared.run, args=(Account(), lambda: over.wait(SECONDS)))

    def compute():
        begun, cpu = time.perf_counter(), time.thread_time()
        while time.thread_time() - cpu < 0.2:
            rest()
        return (time.thread_time() - cpu) / (time.perf_counter() - begun)

    short.start()
    until(lambda: shared._short == 1)
    beside = shared.run(account, compute)  # `run` returns although the short call continues
    over.set()
    short.join(SECONDS)
    assert beside < 1.5 / (1.0 + turns.ASIDE / places)
    assert shared._short == 0


@pytest.fixture
def still(monkeypatch):
    """A long call that pauses for a short call. Yields the turns, the account, the call, and a function that ends the
    short call.
    """
    monkeypatch.setattr(turns, "SHORT_S", 0.02)
    monkeypatch.setattr(turns, "ASIDE", 1e9)
    shared, account, over = Turns(2), Account(), threading.Event()
    account.usual_s = 1.0
    short = threading.Thread(target=shared.run, args=(Account(), lambda: over.wait(SECONDS)))
    short.start()
    until(lambda: shared._short == 1)
    long = Call(shared, account)
    until(lambda: shared._quiet._waiters)

    def end():
        over.set()
        short.join(SECONDS)

    return SimpleNamespace(shared=shared, account=account, long=long, end=end)


def test_a_long_call_goes_on_as_soon_as_no_short_call_computes(still):
    assert still.long.steps == 0
    still.end()
    assert still.long.wait().end() == "done"


def test_a_long_call_does_not_stand_still_for_a_short_call_that_waits_for_the_store(monkeypatch):
    monkeypatch.setattr(turns, "SHORT_S", 0.02)
    monkeypatch.setattr(turns, "ASIDE", 1e9)
    shared, there, back, over = Turns(2), *(threading.Event() for _ in range(3))

    def append():
        stand_back()
        there.set()
        assert back.wait(SECONDS)
        rest_before_work()
        assert over.wait(SECONDS)

    short = threading.Thread(target=shared.run, args=(Account(), append))
    short.start()
    assert there.wait(SECONDS)
    long = Call(shared, long_account()).wait()
    back.set()
    until(lambda: shared._short == 1)
    long.go()
    until(lambda: shared._quiet._waiters)  # the short call computes again
    over.set()
    short.join(SECONDS)
    assert long.wait().end() == "done"
    assert shared._short == 0


def test_a_call_that_stands_still_can_be_given_up(still):
    still.shared.give_up(still.account, "deleted")
    still.end()
    assert isinstance(still.long.wait().outcome, Abandoned)


def test_one_place_stays_free_of_long_calls_after_a_request(monkeypatch):
    monkeypatch.setattr(turns, "ASKED_S", SECONDS)
    shared = Turns(2)
    first = Call(shared, long_account()).wait()
    shared.asked()
    second = Call(shared, long_account())
    until(lambda: waiting(shared) == 1)
    assert first.end() == "done"
    assert second.wait().end() == "done"


def test_a_long_call_stands_still_when_a_request_has_just_come(monkeypatch):
    monkeypatch.setattr(turns, "SHORT_S", 0.02)
    monkeypatch.setattr(turns, "QUICK_S", SECONDS)
    monkeypatch.setattr(turns, "ASIDE", 1e9)
    shared, account = Turns(2), long_account()
    long = Call(shared, account).wait().go().wait()
    shared.asked()
    long.go()
    until(lambda: shared._quiet._waiters)
    assert long.steps == 2
    shared.give_up(account, "deleted")
    assert isinstance(long.wait().outcome, Abandoned)
