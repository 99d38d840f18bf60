"""Turns share the processors among the models of a server.

Long computations rest every few milliseconds (solvers/core/turns.py); this module decides what happens at a rest. A
call that computes needs a place (a slot on a processor), and there are as many places as processors. When no place is
free, the waiting call whose model has used the least CPU time goes next. Older use counts less, so a model that was
idle soon counts as unused:

    used(t) = sum over its CPU seconds before t of exp(-(t - time of use) / MEMORY_S)

An account stores ln used(t) + t / MEMORY_S. This value changes only when the account computes, so the order of waiting
calls is stable. The class Turns explains short and long calls, and why long calls pause for short calls.
"""

from __future__ import annotations

import heapq
import math
import os
import threading
import time
from collections.abc import Callable
from itertools import chain, count
from typing import TypeVar

from hinged.service.errors import Unavailable
from hinged.solvers.core.turns import Abandoned, resting

T = TypeVar("T")

# "Latency" below means the p99 latency of a small model that runs next to 16 slow models (docs/lab/scheduling.md). A
# constant without a number was not measured.

MEMORY_S = 2.0
"""Seconds after which CPU use counts only 1/e. With a larger value, a model that was busy must wait even after a
pause."""
LOOK_S, LOOK_ASKED_S = 0.001, 0.0001
"""Minimum seconds between two checks of a call that rests often: LOOK_S usually, LOOK_ASKED_S when a request has just
arrived. A request waits that long for Python's lock before the server notices it. Without LOOK_ASKED_S the latency of a
prediction is 2.4 times as high."""
SHORT_S = 0.02
"""A call is short if it and its model's usual call take at most this many CPU seconds. Short calls have their own
places, and long calls pause for them. Without short calls the latency of learning is 13 times as high.

If a computing call has used this much more than a waiting call, the two are exchanged. If they are exchanged at every
rest, the latency is 2.6 times as high for learning and 1.5 times for a prediction."""
QUICK_S = 0.002
"""Seconds that a small request takes. If a model's usual call takes longer, its calls rest before they compute. Shorter
calls need no place until they have computed for longer. If no call rested first, the latency would be 1.7 times as high
for learning and 2.3 times for a prediction.

For QUICK_S after a request it may be in progress although no call runs: a small prediction needs no call. If long calls
did not pause for it, the latency would be 3.8 times as high for learning and 2.6 times for a prediction."""
USUAL_MAX, USUAL_GAIN = 5.0, 0.2
"""Moving average of a call's CPU time: each new call has the weight USUAL_GAIN. A long call is capped at USUAL_MAX x
SHORT_S, so after about eight short calls the model counts as short again."""
ASKED_S = 0.25
"""For this many seconds after a request, the next request is expected, so one place of long calls stays free."""
ASIDE, ASIDE_MAX_S = 8.0, 0.05
"""A long call pauses for ASIDE seconds for each second that it computes, divided by the number of processors.
ASIDE_MAX_S is the longest pause in seconds. Without ASIDE the latency is 5.4 times as high for learning and 3.7 times
for a prediction. With a larger value, long calls starve."""
BESIDE = 4.0
"""Weight of CPU seconds that are used for loading, applying logs and exporting. With 1 they count like the seconds of
ordinary calls."""


class GivenUp(Unavailable):
    """Raised when a computation was given up for good: its model is deleted, or the server stops."""


def processors() -> int:
    """Return the number of processors that this process may use."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Account:
    """Records how much CPU time a model uses, and whether its computation is given up.

    weight: factor by which its use counts. If it is above 1, none of its calls is short.
    """

    __slots__ = ("given_up", "seconds", "stored_s", "used", "usual_s", "waited_s", "weight")

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight
        self.used = -math.inf  # ln used(t) + t / MEMORY_S (see the module)
        self.seconds = 0.0  # CPU seconds since the start
        self.usual_s = 0.0  # moving average of the CPU seconds per call
        self.waited_s = 0.0  # seconds spent waiting for a place since the start
        self.stored_s = 0.0  # seconds spent waiting for the store since the start
        self.given_up: str | None = None  # the reason, once the account is given up


class _Call:
    """One computation on one thread."""

    __slots__ = (
        "account", "begun_at", "charged_at", "counted", "left_at", "look_asked_at", "look_at", "place", "queued",
        "resumed_at", "still_s", "turns", "woken",
    )  # fmt: skip

    def __init__(self, turns: Turns, account: Account) -> None:
        self.turns = turns
        self.account = account
        self.place: list[_Call] | None = None  # the list that contains this call, while the call has a place
        self.begun_at = self.charged_at = time.thread_time()  # this thread's CPU clock
        self.resumed_at = time.perf_counter()  # start of the computation that still_s does not yet include
        self.goes_on(self.resumed_at)
        self.still_s = 0.0  # seconds that the call may pause
        self.left_at: float | None = None  # start of a wait for something other than a processor
        self.counted = self.is_short  # whether the call is counted among the short calls in progress
        self.queued = False
        self.woken = threading.Lock()
        self.woken.acquire()

    @property
    def is_short(self) -> bool:
        """Return whether the call has not computed for long yet, and probably will not."""
        account = self.account
        return self.charged_at - self.begun_at < SHORT_S > account.usual_s and account.weight <= 1.0

    def rest(self) -> None:
        """Continue, unless another call must go first. Raise Abandoned if the account is given up."""
        if self.account.given_up is not None:
            raise Abandoned
        now = time.perf_counter()
        if now >= self.look_at or self.look_asked_at <= now < self.turns.asked_at + QUICK_S:
            self.turns.look(self)

    def goes_on(self, now: float) -> None:
        """Set the times of the next checks."""
        self.look_at, self.look_asked_at = now + LOOK_S, now + LOOK_ASKED_S


Entry = tuple[float, int, _Call]
"""An entry of a heap: the logarithmic CPU time of the call's account, a running number, and the call."""

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
        if call.account.usual_s > QUICK_S and call.turns.contested:
            call.look_at = 0.0
        call.rest()


class Turns:
    """The places (slots) in which calls compute. Methods may be called from any thread.

    Most calls are short. Short calls have their own places, as many as there are processors. So a short call need not
    wait until a long call rests: the operating system's scheduler runs both. A short call takes a long call's place
    only if no long call waits. Otherwise a crowd of short calls would keep a long call waiting for ever, its queue
    would grow, and its calls would become longer.

    Long calls do not run at a lower system priority. They sometimes hold Python's lock. If another process took their
    processor then, every thread would be blocked. Instead, while requests arrive, one processor is left to the event
    loop and to short calls, if the machine has at least two processors.

    That is not enough when Python's lock changes hands a dozen times in a request, because a long computation may take
    the lock each time. So long calls also pause while short calls compute. They still get a fifth of the time on two
    processors, and more on more processors. A short call that waits for the store does not make long calls pause. While
    requests arrive, long calls compute for a tenth of a millisecond at a time, because a new request may wait that long
    before the server notices it.
    """

    def __init__(self, places: int | None = None) -> None:
        self.places = places or processors()
        self._lock = threading.Lock()
        self._holding: list[_Call] = []  # places of long calls
        self._passing: list[_Call] = []  # places reserved for short calls
        self._waiting: dict[bool, list[Entry]] = {True: [], False: []}  # two heaps: short calls, long calls
        self._numbers = count()
        self.asked_at = -math.inf
        self._short = 0  # number of short calls that compute
        self._quiet = threading.Condition(self._lock)

    def run(self, account: Account, function: Callable[[], T]) -> T:
        """Run the function. The function rests when other calls need the processor. Raise Abandoned if the account is
        given up.
        """
        call = _here.call = _Call(self, account)
        if call.counted:
            with self._lock:
                self._short += 1
        try:
            with resting(call.rest):
                if account.weight > 1.0:
                    self.look(call)
                return function()
        finally:
            _here.call = None
            with self._lock:
                self._charge(call)
                took_s = min(call.charged_at - call.begun_at, USUAL_MAX * SHORT_S)
                account.usual_s += USUAL_GAIN * (took_s - account.usual_s)
                self._leave(call)
                self._let_in()
                self._discount(call)

    def asked(self) -> None:
        """Record that a request has arrived."""
        self.asked_at = time.perf_counter()

    @property
    def contested(self) -> bool:
        """Return whether all places for long calls are taken."""
        return len(self._holding) >= self._long_places

    @property
    def _long_places(self) -> int:
        """Return the number of places for long calls."""
        return max(1, self.places - (time.perf_counter() - self.asked_at < ASKED_S))

    def leave(self, call: _Call) -> None:
        """Give up the place of a call. While the call waits, no long call pauses for it."""
        call.left_at = time.perf_counter()
        if call.place is not None or call.counted:
            with self._lock:
                self._charge(call)
                self._discount(call)
                self._leave(call)
                self._let_in()

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
            if not call.is_short:
                self._discount(call)
            goes_on = self._goes_on(call)
            if not goes_on:
                self._leave(call)
                call.queued = True
                heapq.heappush(self._waiting[call.is_short], self._entry(call))
                self._let_in()
        if goes_on:
            if call.place is self._holding and not call.is_short:
                self._stand_still(call)
            call.goes_on(time.perf_counter())
            return
        began = time.perf_counter()
        call.woken.acquire()
        ended = time.perf_counter()
        call.goes_on(ended)
        call.account.waited_s += ended - began
        call.resumed_at = ended
        if call.account.given_up is not None:
            raise Abandoned

    def give_up(self, account: Account, why: str) -> None:
        """Stop every computation of an account at its next rest."""
        with self._lock:
            account.given_up = why
            self._quiet.notify_all()
            for *_, call in chain.from_iterable(self._waiting.values()):
                if call.account is account and call.queued:
                    call.queued = False
                    call.woken.release()

    def hurry(self, account: Account) -> None:
        """Give an account the usual weight from now on, because a client waits for its result."""
        with self._lock:
            account.weight = 1.0
            waiting = [call for *_, call in chain.from_iterable(self._waiting.values()) if call.queued]
            for short in (True, False):
                self._waiting[short] = [self._entry(call) for call in waiting if call.is_short == short]
                heapq.heapify(self._waiting[short])
            self._let_in()

    def _stand_still(self, call: _Call) -> None:
        """Pause while short calls compute, for at most the time that this call has left for pauses."""
        now = time.perf_counter()
        call.still_s = min(call.still_s + ASIDE / self.places * (now - call.resumed_at), ASIDE_MAX_S)
        with self._lock:
            while call.account.given_up is None:
                left_s = QUICK_S if self._short else self.asked_at + QUICK_S - time.perf_counter()
                if min(left_s, call.still_s) <= 0.0:
                    break
                began = time.perf_counter()
                self._quiet.wait(min(left_s, call.still_s))
                call.still_s -= time.perf_counter() - began
        call.resumed_at = time.perf_counter()
        if call.account.given_up is not None:
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
        cpu, now = time.thread_time(), time.perf_counter()
        seconds, call.charged_at = cpu - call.charged_at, cpu
        if seconds > 0.0:
            call.account.used = math.log(_seconds(call.account, now) + seconds) + now / MEMORY_S
            call.account.seconds += seconds

    def _entry(self, call: _Call) -> Entry:
        return call.account.used + math.log(call.account.weight), next(self._numbers), call

    def _goes_on(self, call: _Call) -> bool:
        """Return whether the call may continue, in the place that it has or in a place that it takes now."""
        if call.place is self._passing and not call.is_short:
            self._leave(call)
        self._let_in()
        if call.place is self._holding and len(self._holding) > self._long_places:
            return False
        if call.place is not None:
            return not self._gives_way(call)
        place = self._place_for(short=call.is_short)
        if place is not None and self._first(short=call.is_short) is None:
            self._enter(call, place)
        return call.place is not None

    def _let_in(self) -> None:
        """Give free places to waiting calls."""
        for short in (True, False):
            while (first := self._first(short=short)) is not None:
                place = self._place_for(short=short)
                if place is None:
                    break
                heapq.heappop(self._waiting[short])
                first.queued = False
                self._enter(first, place)
                first.woken.release()

    def _place_for(self, *, short: bool) -> list[_Call] | None:
        """Return a list that has a free place, or None. Short calls take long calls' places only if no long
        call waits.
        """
        if short and len(self._passing) < self.places:
            return self._passing
        if len(self._holding) < self._long_places and not (short and self._first(short=False)):
            return self._holding
        return None

    def _first(self, *, short: bool) -> _Call | None:
        """Return the waiting call that goes next."""
        waiting = self._waiting[short]
        while waiting and not waiting[0][-1].queued:  # the call was given up
            heapq.heappop(waiting)
        return waiting[0][-1] if waiting else None

    def _enter(self, call: _Call, place: list[_Call]) -> None:
        call.place = place
        place.append(call)

    def _leave(self, call: _Call) -> None:
        if call.place is not None:
            call.place.remove(call)
            call.place = None

    def _gives_way(self, call: _Call) -> bool:
        """Return whether a computing call must give its place to the first waiting call."""
        if call.is_short and call.place is self._holding and self._first(short=False) is not None:
            return True
        first = self._first(short=call.is_short)
        if first is None:
            return False
        now = time.perf_counter()
        mine, others = (c.account.weight * _seconds(c.account, now) for c in (call, first))
        return mine - others >= SHORT_S * call.account.weight


def _seconds(account: Account, now: float) -> float:
    """Return the CPU seconds that the account has used. Older use counts less."""
    return math.exp(max(account.used - now / MEMORY_S, -700.0))
