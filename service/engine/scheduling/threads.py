"""Threads for the models. Each model has its own executor, called a lane. The calls of different models run at the same
time.

There are as many threads as calls in progress. Most of these calls wait for the store or for their turn to compute
(turns.py). So a model's calls begin at once, however many calls of other models wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeVar

from hinged.service import limits
from hinged.service.engine.scheduling.turns import Account, GivenUp, Turns
from hinged.service.errors import NoThread
from hinged.solvers.core.turns import Abandoned

T = TypeVar("T")


DEFAULT_THREADS = 6
"""Number of threads of an event loop's default executor, for short calls that belong to no model."""


class Broke(RuntimeError):
    """Raised when a model's code raises an error that is not an Exception. Such an error would end the code that waits
    for the call.
    """


def default_executor() -> ThreadPoolExecutor:
    """Return an executor for an event loop. All its threads run already, so no request has to start a thread.

    Raise NoThread if the system does not start them.
    """
    all_here = threading.Barrier(DEFAULT_THREADS)
    executor = ThreadPoolExecutor(DEFAULT_THREADS, "beside")
    try:
        for start in [executor.submit(all_here.wait) for _ in range(DEFAULT_THREADS)]:
            start.result()
    except RuntimeError:
        all_here.abort()
        executor.shutdown(wait=False)
        raise NoThread from None
    return executor


class Threads:
    """A pool of threads that grows as needed. Methods may be called from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[Callable[[], None] | None]] = []
        self._late: deque[Callable[[], None]] = deque()  # work for which no thread could be started
        self._running: set[threading.Thread] = set()
        self._closed = False
        self._started = 0

    def run(self, work: Callable[[], None]) -> None:
        """Run a function on a separate thread. If no thread can be started, the next thread that is free runs it.

        Raise RuntimeError if the pool is closed. Raise NoThread if it has no thread and none can be started.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("the threads have ended")
            if self._idle:  # take the thread that became idle last: its data is still in the processor's cache
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
                if self._idle:
                    self._idle.pop().put(work)
                elif self._running:
                    self._late.append(work)
                else:
                    raise NoThread from None

    def close(self, seconds: float | None = None) -> bool:
        """Take no more work, and wait up to `seconds` for running work; return whether all work has ended."""
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
                if self._late:
                    work = self._late.popleft()
                    continue
                if self._closed or len(self._idle) >= limits.THREADS_IDLE_MAX:
                    self._running.discard(threading.current_thread())
                    return
                self._idle.append(mine)
            work = None  # free the objects of the last call before waiting
            work = mine.get()
        with self._lock:
            self._running.discard(threading.current_thread())


class Lane(Executor):
    """Runs the calls of one model, a limited number at once. Methods may be called from any thread.

    An error of a call becomes the exception of its future: Broke for an error that `except Exception` would not catch,
    GivenUp after the lane was given up.
    """

    def __init__(self, threads: Threads, turns: Turns, account: Account | None = None, most: int | None = None) -> None:
        """Take the threads and the turns. account: the account of another lane of the same model."""
        self.account = account or Account()
        self._most = most or limits.CALLS_MAX
        self._threads = threads
        self._turns = turns
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, function: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """Run a function on a thread. Its future can be cancelled until the function has begun."""
        future: Future[T] = Future()
        waiting = future, lambda: function(*args, **named)
        with self._lock:
            if self.account.given_up is not None:
                future.set_exception(GivenUp(self.account.given_up))
                return future
            self._waiting.append(waiting)
            if self._running >= self._most:
                return future
            self._running += 1
        try:
            self._threads.run(self._work)
        except (RuntimeError, NoThread):
            with self._lock:
                self._running -= 1
                if waiting in self._waiting:  # otherwise a running call of this lane has already taken it
                    self._waiting.remove(waiting)
                    raise
        return future

    def give_up(self, why: str) -> None:
        """Stop a running computation at its next rest. That computation and all waiting and later calls
        raise GivenUp.
        """
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
            del future, call  # free their objects before waiting

    def _run(self, future: Future[Any], call: Callable[[], Any]) -> None:
        try:
            found = self._turns.run(self.account, call)
        except Abandoned:
            future.set_exception(GivenUp(self.account.given_up or "it was given up"))
        except BaseException as error:  # noqa: BLE001  the waiting caller gets every error, whatever its type
            future.set_exception(contained(error))
        else:
            future.set_result(found)


def contained(error: BaseException) -> Exception:
    """Return the error as an Exception that is safe to pass to a waiting caller.

    A SystemExit would end the event loop. An error that looks like a cancellation would end the waiting caller. A
    future accepts no StopIteration, so the caller would wait for ever.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration | CancelledError):
        return error
    broke = Broke(f"{type(error).__name__}: {error}")
    broke.__cause__ = error
    return broke
