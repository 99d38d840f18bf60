"""Turns share the processors out among the models of a server.

Long computations rest every few milliseconds (solvers/core/turns.py); this module decides what happens at a rest. A
call that computes needs a place, and there are as many places as processors. When none is free, the waiting call whose
model has used the least goes next. Use fades with MEMORY_S, so a model that was idle soon counts as unused:

    used(t) = sum over its CPU seconds before t of exp(-(t - when) / MEMORY_S)

An account keeps ln used(t) + t / MEMORY_S, which changes only when it computes, so the order of waiting calls is
stable. Short calls, long calls, and why long calls stand still for short calls: see the class Turns.
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

# Each figure below is the p99 latency of a small model beside 16 slow models without that constant, as a multiple of
# the p99 with it (docs/lab/scheduling.md). A constant without a figure was
# not measured.

MEMORY_S = 2.0
"""Seconds after which use of the processors counts 1/e. If longer, a model that was busy waits even after a pause."""
SLICE_S = 0.02
"""Lead in CPU seconds that a computing call must have over a waiting call before they change places. Without it they
change places at every rest: 2.6 times for learning, 1.5 for a prediction."""
LOOK_S, LOOK_ASKED_S = 0.001, 0.0001
"""Seconds between two checks of a resting call, and between two checks when a request has just come. A request waits
that long for Python's lock before the server notices it. Without the second: 2.4 times for a prediction."""
SHORT_S = 0.02
"""CPU seconds up to which a call is short, if its model's calls usually are. Short calls have places of their own, and
long calls stand still for them. Without short calls: 13 times for learning."""
QUICK_S = 0.002
"""CPU seconds of a model's usual call above which its calls rest before they compute. Shorter calls need no place until
they have computed for longer. If no call rested first: 1.7 times for learning, 2.3 for a prediction."""
USUAL_MAX, USUAL_GAIN = 5.0, 0.2
"""Moving average of a call's CPU time: each call counts USUAL_GAIN. A long call is capped at USUAL_MAX x SHORT_S, so
after about eight short calls the model counts as short again."""
ASKED_S = 0.25
"""Seconds after a request during which the next is expected: one place of long calls stays free."""
ASIDE, ASIDE_MAX_S = 8.0, 0.05
"""Seconds that a long call stands still for each second that it computes, divided by the number of processors; and the
longest pause in seconds. Without the first: 5.4 times for learning, 3.7 for a prediction. With a larger value, long
calls starve."""
QUIET_S = 0.002
"""Seconds after a request during which it may be in progress without a call, as a small prediction is. Without it, long
calls do not stand still: 3.8 times for learning, 2.6 for a prediction."""
BESIDE = 4.0
"""Weight of CPU seconds spent beside the serving models: loading, folding, exporting. With 1 they count like
serving."""


class GivenUp(Unavailable):
    """The computation was given up for good: its model is deleted, or the server stops."""


def processors() -> int:
    """Number of processors that this process may use."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Account:
    """A model's use of the processors, and whether its computation is given up.

    weight: factor by which its use counts; above 1, none of its calls is short.
    """

    __slots__ = ("given_up", "seconds", "stored_s", "used", "usual_s", "waited_s", "weight")

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight
        self.used = -math.inf  # ln used(t) + t / MEMORY_S (see the module)
        self.seconds = 0.0  # CPU seconds since the start
        self.usual_s = 0.0  # moving average of a call's CPU seconds
        self.waited_s = 0.0  # seconds spent waiting for a place since the start
        self.stored_s = 0.0  # seconds spent waiting for the store since the start
        self.given_up: str | None = None  # the reason, once it is given up


class _Call:
    """One computation on one thread."""

    __slots__ = (
        "account", "begun_at", "charged_at", "counted", "left_at", "look_asked_at", "look_at", "place", "queued",
        "resumed_at", "still_s", "turns", "woken",
    )  # fmt: skip

    def __init__(self, turns: Turns, account: Account) -> None:
        self.turns = turns
        self.account = account
        self.place: list[_Call] | None = None  # the list of places that it stands in, while it holds a place
        self.begun_at = self.charged_at = time.thread_time()  # this thread's CPU clock
        self.resumed_at = time.perf_counter()  # start of the computation that still_s has not yet counted
        self.goes_on(self.resumed_at)
        self.still_s = 0.0  # seconds that it may stand still
        self.left_at: float | None = None  # start of a wait for something else than processors
        self.counted = self.is_short  # whether it is among the short calls in progress
        self.queued = False
        self.woken = threading.Lock()
        self.woken.acquire()

    @property
    def is_short(self) -> bool:
        """Whether it has not computed for long yet, and probably will not."""
        account = self.account
        return self.charged_at - self.begun_at < SHORT_S > account.usual_s and account.weight <= 1.0

    def rest(self) -> None:
        """Go on, unless another call must go first. Abandoned if the account is given up."""
        if self.account.given_up is not None:
            raise Abandoned
        now = time.perf_counter()
        if now >= self.look_at or self.look_asked_at <= now < self.turns.asked_at + QUIET_S:
            self.turns.look(self)

    def goes_on(self, now: float) -> None:
        """Set the times of the next checks."""
        self.look_at, self.look_asked_at = now + LOOK_S, now + LOOK_ASKED_S


Entry = tuple[float, int, _Call]
"""Use of the call's account, a running number, and the call."""

_here = threading.local()


def stand_back() -> None:
    """Give away this thread's place, before it waits for something else than processors."""
    call: _Call | None = getattr(_here, "call", None)
    if call is not None:
        call.turns.leave(call)


def rest_before_work() -> None:
    """Rest on this thread, however recent its last rest: the next computation may take long."""
    call: _Call | None = getattr(_here, "call", None)
    if call is not None:
        call.turns.come_back(call)
        if call.account.usual_s > QUICK_S and call.turns.contested:
            call.look_at = 0.0
        call.rest()


class Turns:
    """Places to compute on. Methods may be called from any thread.

    Most calls are short. Short calls have as many places of their own, so they need not wait until a long call rests:
    the operating system's scheduler runs both. A short call takes a long call's place only where no long call waits;
    otherwise a crowd of short calls would keep a long call waiting for ever, its queue would grow, and its calls would
    become longer.

    Long calls do not run at a lower system priority: they hold Python's lock now and then, and a call that another
    process keeps from its processor would then block every thread. Instead, while requests come, one processor is left
    to the event loop and to short calls, where there are at least two.

    That is not enough where Python's lock changes hands a dozen times in a request, because a long computation may take
    the lock each time. So long calls also stand still while short calls compute, except for a fifth of the time on two
    processors and a larger part on more. A short call that waits for the store stops no long call. While requests come,
    long calls compute for a tenth of a millisecond at a time, because a new request may wait that long until it is
    noticed.
    """

    def __init__(self, places: int | None = None) -> None:
        self.places = places or processors()
        self._lock = threading.Lock()
        self._holding: list[_Call] = []  # places of long calls
        self._passing: list[_Call] = []  # places for short calls alone
        self._waiting: dict[bool, list[Entry]] = {True: [], False: []}  # heaps of short and of long calls by use
        self._numbers = count()
        self.asked_at = -math.inf
        self._short = 0  # short calls that compute
        self._quiet = threading.Condition(self._lock)

    def run(self, account: Account, function: Callable[[], T]) -> T:
        """Run the function, which rests when other calls need the processor. Abandoned if the account is given up."""
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
        """Note that a request has come."""
        self.asked_at = time.perf_counter()

    @property
    def contested(self) -> bool:
        """Whether all places of long calls are taken."""
        return len(self._holding) >= self._long_places

    @property
    def _long_places(self) -> int:
        """Number of places for long calls."""
        return max(1, self.places - (time.perf_counter() - self.asked_at < ASKED_S))

    def leave(self, call: _Call) -> None:
        """Give away the place that a call holds; while the call waits, no long call stands still for it."""
        call.left_at = time.perf_counter()
        if call.place is not None or call.counted:
            with self._lock:
                self._charge(call)
                self._discount(call)
                self._leave(call)
                self._let_in()

    def come_back(self, call: _Call) -> None:
        """Note that a call will compute again after a wait for something else."""
        if call.left_at is not None:
            call.account.stored_s += time.perf_counter() - call.left_at
            call.left_at = None
        if not call.counted and call.is_short:
            with self._lock:
                call.counted = True
                self._short += 1

    def look(self, call: _Call) -> None:
        """Take, keep or give up a place; return when it is the call's turn. Abandoned if the account is given up."""
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
        """End everything that computes on an account at its next rest."""
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
        """Stand still while short calls compute, as long as this call has time for it."""
        now = time.perf_counter()
        call.still_s = min(call.still_s + ASIDE / self.places * (now - call.resumed_at), ASIDE_MAX_S)
        with self._lock:
            while call.account.given_up is None:
                left_s = QUIET_S if self._short else self.asked_at + QUIET_S - time.perf_counter()
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
        """Take a call out of the count of short calls."""
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
        """Whether the call computes on, in its place or in a place that it takes now."""
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
        """A list that has a free place, or None. Short calls take long calls' places only where no long call waits."""
        if short and len(self._passing) < self.places:
            return self._passing
        if len(self._holding) < self._long_places and not (short and self._first(short=False)):
            return self._holding
        return None

    def _first(self, *, short: bool) -> _Call | None:
        """The waiting call that goes next."""
        waiting = self._waiting[short]
        while waiting and not waiting[0][-1].queued:  # given up
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
        """Whether a computing call must give its place to the first waiting call."""
        if call.is_short and call.place is self._holding and self._first(short=False) is not None:
            return True
        first = self._first(short=call.is_short)
        if first is None:
            return False
        now = time.perf_counter()
        mine, others = (c.account.weight * _seconds(c.account, now) for c in (call, first))
        return mine - others >= SLICE_S * call.account.weight


def _seconds(account: Account, now: float) -> float:
    """CPU seconds that the account has used, as far as they are remembered."""
    return math.exp(max(account.used - now / MEMORY_S, -700.0))
