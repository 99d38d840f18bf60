"""Threads for the models: each has a lane of its own, on which its calls run beside those of all others.

There are as many threads as calls that are under way, most of which wait for the store or for their turn to compute
(turns.py). So however many calls of some models wait, those of another begin at once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeVar

from hinged.service import limits
from hinged.service.engine.scheduling.turns import (
    BESIDE,
    Account,
    GivenUp,
    Turns,
)
from hinged.solvers.core.turns import Abandoned

T = TypeVar("T")


class Broke(RuntimeError):
    """What a model's code raised is none of the errors that one lets through: it would end whoever waits for it."""


class Threads:
    """Threads that are there when they are needed. Methods may be called from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[Callable[[], None] | None]] = []
        self._running: set[threading.Thread] = set()
        self._closed = False
        self._started = 0

    def run(self, work: Callable[[], None]) -> None:
        """Run this beside everything else. RuntimeError once they are closed, or where there are no more threads."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the threads have ended")
            if self._idle:  # the one that waits since the shortest: it is still in the processor's cache
                self._idle.pop().put(work)
                return
            self._started += 1
            thread = threading.Thread(target=self._go, args=(work,), name=f"{self._name}_{self._started}", daemon=True)
            self._running.add(thread)
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                self._running.discard(thread)
            raise

    def close(self, seconds: float | None = None) -> bool:
        """Take no more work and wait for what runs, so long at most; whether it has ended."""
        with self._lock:
            self._closed = True
            for idle in self._idle:
                idle.put(None)
            self._idle.clear()
            running = list(self._running)
        end = None if seconds is None else monotonic() + seconds
        for thread in running:
            thread.join(None if end is None else max(0.0, end - monotonic()))
        return not any(thread.is_alive() for thread in running)

    def _go(self, work: Callable[[], None] | None) -> None:
        mine: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        while work is not None:
            work()
            with self._lock:
                if self._closed or len(self._idle) >= limits.THREADS_IDLE_MAX:
                    break
                self._idle.append(mine)
            work = None  # what it holds is not to live until there is more to do
            work = mine.get()
        with self._lock:
            self._running.discard(threading.current_thread())


class Lane(Executor):
    """Runs the calls of one model, so many at once. Methods may be called from any thread.

    What a call raises is its future's exception: Broke where no `except Exception` would take it, GivenUp where the
    lane was given up.
    """

    def __init__(self, threads: Threads, turns: Turns, account: Account | None = None, most: int | None = None) -> None:
        self.account = account or Account()
        self._most = most or limits.CALLS_MAX
        self._threads = threads
        self._turns = turns
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def beside(self) -> Lane:
        """Another, for what is done beside the model that serves: whoever serves goes before it."""
        return Lane(self._threads, self._turns, Account(BESIDE), self._most)

    def readers(self) -> Lane:
        """Another on the same account, for those who read what the model published: they do not wait for its writer."""
        return Lane(self._threads, self._turns, self.account)

    def submit(self, function: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """Run a function on a thread of its own. Its future can be cancelled until it has begun."""
        future: Future[T] = Future()
        with self._lock:
            if self.account.given_up is not None:
                future.set_exception(GivenUp(self.account.given_up))
                return future
            self._waiting.append((future, lambda: function(*args, **named)))
            if self._running >= self._most:
                return future
            self._running += 1
        try:
            self._threads.run(self._work)
        except RuntimeError:
            with self._lock:
                self._running -= 1
            raise
        return future

    def hurry(self) -> None:
        """Let what runs here count like what serves: somebody waits for it."""
        self._turns.hurry(self.account)

    def give_up(self, why: str) -> None:
        """End what computes at its next rest; it and all that waits or comes later raises GivenUp."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
            self._turns.give_up(self.account, why)
        for future, _ in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(GivenUp(why))

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                future, call = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                self._run(future, call)
            del future, call  # what they hold is not to live until there is more to do

    def _run(self, future: Future[Any], call: Callable[[], Any]) -> None:
        try:
            found = self._turns.run(self.account, call)
        except Abandoned:
            future.set_exception(GivenUp(self.account.given_up or "it was given up"))
        except BaseException as error:  # noqa: BLE001  whoever waits is told, whatever it is
            future.set_exception(contained(error))
        else:
            future.set_result(found)


def contained(error: BaseException) -> Exception:
    """An error that ends nothing but what raised it.

    A SystemExit would end the event loop, what looks like a cancellation whoever waits, and a StopIteration no future
    takes: he would wait for ever.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration | CancelledError):
        return error
    broke = Broke(f"{type(error).__name__}: {error}")
    broke.__cause__ = error
    return broke
