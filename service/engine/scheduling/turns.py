"""Turns share the processors among the models of a server.

Long computations rest every few milliseconds (solvers/core/turns.py); this module decides what happens at a rest. A
long call needs a place (a slot on a processor), and there are as many places as processors. When no place is free, the
waiting call whose model has used the least CPU time goes next. A model that was idle has no advantage: when its call
begins, the model counts as having used at least as much as the least of the models that compute or wait then
(start-time fair queueing). The class Turns explains short and long calls, and why long calls pause for short calls.
"""

from __future__ import annotations

import heapq
import math
import os
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from hinged.service.errors import Unavailable
from hinged.solvers.core.turns import Abandoned, resting

T = TypeVar("T")

# "Latency" below means the p99 latency of a small model that runs next to 16 slow models (docs/lab/scheduling.md). A
# constant without a number was not measured.

LOOK_S = 0.0001
"""Minimum seconds between two checks of a call that rests often. A request waits that long for Python's lock before the
server notices it. With 0.001 the latency of a prediction is 2.4 times as high."""
SHORT_S = 0.02
"""A call is short if it and its model's usual call take at most this many CPU seconds. Short calls need no place, and
long calls pause for them. Without short calls the latency of learning is 13 times as high.

If a computing call has used this much more than a waiting call, the two are exchanged. If they are exchanged at every
rest, the latency is 2.6 times as high for learning and 1.5 times for a prediction."""
QUICK_S = 0.002
"""Seconds that a small request takes. For QUICK_S after a request it may be in progress although no call runs: a small
prediction needs no call. If long calls did not pause for it, the latency would be 3.8 times as high for learning and
2.6 times for a prediction."""
ASKED_S = 0.1
"""Seconds after a request for which the next request is expected, so one place of long calls stays free. Otherwise the
median learn request took 1.8 times as long on a busy machine."""
ASIDE = 8.0
"""A long call pauses for ASIDE seconds for each second that it computes, divided by the number of processors. Without
pauses the latency is 5.4 times as high for learning and 3.7 times for a prediction. With a larger value, long calls
starve."""


class GivenUp(Unavailable):
    """Raised when a computation was given up for good: its model is deleted, or the server stops."""


def processors() -> int:
    """Return the number of processors that this process may use."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Account:
    """Records how much CPU time a model uses, and whether its computation is given up."""

    __slots__ = ("given_up", "seconds", "stored_s", "used", "usual_s", "waited_s")

    def __init__(self) -> None:
        self.used = 0.0  # CPU seconds, raised at the begin of a call (see the module)
        self.seconds = 0.0  # CPU seconds since the start
        self.usual_s = 0.0  # CPU seconds per call: a mean in which each call has half the weight of the next call
        self.waited_s = 0.0  # seconds spent waiting for a place since the start
        self.stored_s = 0.0  # seconds spent waiting for the store since the start
        self.given_up: str | None = None  # the reason, once the account is given up


class _Call:
    """One computation on one thread."""

    __slots__ = (
        "account", "begun_at", "charged_at", "counted", "left_at", "looked_at", "queued", "turns", "woken"
    )  # fmt: skip

    def __init__(self, turns: Turns, account: Account) -> None:
        self.turns = turns
        self.account = account
        self.begun_at = self.charged_at = time.thread_time()  # this thread's CPU clock
        self.looked_at = time.perf_counter()  # end of the last check
        self.left_at: float | None = None  # start of a wait for something other than a processor
        self.counted = self.is_short  # whether the call is counted among the short calls in progress
        self.queued = False
        self.woken = threading.Lock()
        self.woken.acquire()

    @property
    def is_short(self) -> bool:
        """Return whether the call has not computed for long yet, and probably will not."""
        return self.charged_at - self.begun_at < SHORT_S > self.account.usual_s

    def rest(self, *, always: bool = False) -> None:
        """Continue, unless another call must go first. Raise Abandoned if the account is given up.

        always: check even if the last check was a moment ago.
        """
        if self.account.given_up is not None:
            raise Abandoned
        if always or time.perf_counter() >= self.looked_at + LOOK_S:
            self.turns.look(self)


Entry = tuple[float, int, _Call]
"""An entry of a heap: the CPU time of the call's account, a running number, and the call."""

_here = threading.local()


def stand_back() -> None:
    """Give up this thread's place before the thread waits for something other than a processor."""
    call: _Call | None = getattr(_here, "call", None)
    if call is not None:
        call.turns.leave(call)


def rest_before_work() -> None:
    """Let this thread rest, however recent its last rest, because the next computation may take long."""
    call: _Call | None = getattr(_here, "call", None)
    if call is not None:
        call.turns.come_back(call)
        call.rest(always=not call.is_short and call.turns.contested)


class Turns:
    """The places (slots) in which long calls compute. Methods may be called from any thread.

    Most calls are short. Short calls need no place and never wait for a long call: the operating system's scheduler
    runs both. Gates (gates.py) limit how many models learn at once.

    Long calls do not run at a lower system priority. They sometimes hold Python's lock. If another process took their
    processor then, every thread would be blocked. Instead, while requests arrive, one processor is left to the event
    loop and to short calls, if the machine has at least two processors.

    That is not enough when Python's lock changes hands a dozen times in a request, because a long computation may take
    the lock each time. So long calls also pause while short calls compute. They still get a fifth of the time on two
    processors, and more on more processors. A short call that waits for the store does not make long calls pause.
    """

    def __init__(self, places: int | None = None) -> None:
        self.places = places or processors()
        self._lock = threading.Lock()
        self._holding: set[_Call] = set()  # calls that have a place
        self._waiting: list[Entry] = []  # a heap of the calls that wait for a place
        self._numbers = count()
        self._least = 0.0  # least CPU time that a model which computed or waited had used
        self.asked_at = -math.inf
        self._short = 0  # number of short calls that compute
        self._quiet = threading.Condition(self._lock)

    def run(self, account: Account, function: Callable[[], T]) -> T:
        """Run the function. The function rests when other calls need the processor. Raise Abandoned if the account is
        given up.
        """
        call = _here.call = _Call(self, account)
        with self._lock:
            self._short += call.counted
            account.used = max(account.used, self._least_used())
        try:
            with resting(call.rest):
                return function()
        finally:
            _here.call = None
            with self._lock:
                self._charge(call)
                self._least_used(call)
                account.usual_s = (account.usual_s + call.charged_at - call.begun_at) / 2.0
                self._leave(call)
                self._discount(call)

    def asked(self) -> None:
        """Record that a request has arrived."""
        self.asked_at = time.perf_counter()

    @property
    def contested(self) -> bool:
        """Return whether all places are taken."""
        return len(self._holding) >= self._most

    @property
    def _most(self) -> int:
        """Return the number of calls that may have a place now."""
        return max(1, self.places - (time.perf_counter() - self.asked_at < ASKED_S))

    def leave(self, call: _Call) -> None:
        """Give up the place of a call. While the call waits, no long call pauses for it."""
        call.left_at = time.perf_counter()
        if call in self._holding or call.counted:
            with self._lock:
                self._charge(call)
                self._discount(call)
                self._leave(call)

    def come_back(self, call: _Call) -> None:
        """Record that a call will compute again after it waited for something else."""
        if call.left_at is not None:
            call.account.stored_s += time.perf_counter() - call.left_at
            call.left_at = None
        if not call.counted and call.is_short:
            with self._lock:
                call.counted = True
                self._short += 1

    def look(self, call: _Call) -> None:
        """Take, keep or give up a place; return when it is the call's turn. Raise Abandoned if the account
        is given up.
        """
        with self._lock:
            self._charge(call)
            short = call.is_short
            goes_on = short or self._goes_on(call)
            if not short:
                self._discount(call)
            if not goes_on:
                self._leave(call)
                call.queued = True
                heapq.heappush(self._waiting, (call.account.used, next(self._numbers), call))
                self._let_in()
        if goes_on:
            if not short:
                self._stand_still(call)
            call.looked_at = time.perf_counter()
            return
        began = time.perf_counter()
        call.woken.acquire()
        call.looked_at = time.perf_counter()
        call.account.waited_s += call.looked_at - began
        if call.account.given_up is not None:
            raise Abandoned

    def give_up(self, account: Account, why: str) -> None:
        """Stop every computation of an account at its next rest."""
        with self._lock:
            account.given_up = why
            self._quiet.notify_all()
            for *_, call in self._waiting:
                if call.account is account and call.queued:
                    call.queued = False
                    call.woken.release()

    def _stand_still(self, call: _Call) -> None:
        """Pause while short calls compute, in proportion to the time that this call has computed since its last
        check.
        """
        now = time.perf_counter()
        ends_at = now + ASIDE / self.places * min(now - call.looked_at, SHORT_S)
        with self._lock:
            while call.account.given_up is None:
                quiet_at = now + QUICK_S if self._short else self.asked_at + QUICK_S
                if min(quiet_at, ends_at) <= now:
                    return
                self._quiet.wait(min(quiet_at, ends_at) - now)
                now = time.perf_counter()
        raise Abandoned

    # -- with the lock held ---------------------------------------------------------------------------------------

    def _discount(self, call: _Call) -> None:
        """Remove a call from the count of short calls."""
        if call.counted:
            call.counted = False
            self._short -= 1
            if not self._short:
                self._quiet.notify_all()

    def _charge(self, call: _Call) -> None:
        """Add the CPU time since the last charge to the account."""
        cpu = time.thread_time()
        call.account.used += cpu - call.charged_at
        call.account.seconds += cpu - call.charged_at
        call.charged_at = cpu

    def _least_used(self, *ending: _Call) -> float:
        """Return the least CPU time of the models that compute or wait. It never decreases."""
        first = self._first()
        present = [*ending, *self._holding, *([] if first is None else [first])]
        self._least = max(self._least, min((call.account.used for call in present), default=0.0))
        return self._least

    def _goes_on(self, call: _Call) -> bool:
        """Return whether a long call may continue, in the place that it has or in a place that it takes now."""
        self._let_in()
        first = self._first()
        if call in self._holding:
            gives_way = first is not None and call.account.used - first.account.used >= SHORT_S
            return len(self._holding) <= self._most and not gives_way
        if self.contested or first is not None:
            return False
        self._holding.add(call)
        return True

    def _let_in(self) -> None:
        """Give free places to waiting calls."""
        while not self.contested and (first := self._first()) is not None:
            heapq.heappop(self._waiting)
            first.queued = False
            self._holding.add(first)
            first.woken.release()

    def _first(self) -> _Call | None:
        """Return the waiting call that goes next."""
        while self._waiting and not self._waiting[0][-1].queued:  # the call was given up
            heapq.heappop(self._waiting)
        return self._waiting[0][-1] if self._waiting else None

    def _leave(self, call: _Call) -> None:
        """Give up the place of a call, if it has one."""
        if call in self._holding:
            self._holding.discard(call)
            self._let_in()
