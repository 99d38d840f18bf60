"""Who computes next: the processors shared out among the models of a server, turn by turn.

Long computations rest every few milliseconds (solvers/core/turns.py), and what becomes of them there is decided here. A
call that computes needs a place, of which there are as many as processors; where none is free, the one whose model has
used the least goes next. What a model has used is forgotten with MEMORY_S, so that one that was idle is soon as good as
new.

Most calls are short. They have as many places of their own, so that they need not wait until a long one rests: the
system's scheduler lets both get on. Those of long calls they have only where no long one waits: a crowd of short ones
would keep it waiting for ever, its queue would grow meanwhile, and its calls become longer. The scheduler could be
told that long ones matter less, but they hold Python's lock now and then, and one that is kept from its processor by
some other process then keeps everybody waiting. So while requests come, one processor is left to the event loop and to
short calls, where there are two at least.

That is not enough where Python's lock changes hands a dozen times in a request: each time a long computation, which
takes it just as often, may come between. So long ones also stand still while short calls compute (one that waits for
the store keeps nobody), as long as they compute for a part of the time: with two processors a fifth, with more a larger
one. And while requests come they compute for a tenth of a millisecond at once, for a request that comes meanwhile may
wait so long before it is noticed.

    used(t) = sum over its CPU seconds before t of exp(-(t - when) / MEMORY_S)

An account keeps ln used(t) + t / MEMORY_S, which only changes when it computes: the order of those who wait does not.
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

# What a constant buys is told as the p99 of a small model beside 16 slow ones without it, in times of the p99 with it
# (docs/lab/scheduling.md, "What each constant of the scheduler buys"). A constant without a figure has none yet.

MEMORY_S = 2.0
"""Seconds after which what a model has used counts 1/e. Longer, and a model that was busy waits after it was idle."""
SLICE_S = 0.02
"""CPU seconds by which a call that computes is ahead of one that waits before they change places. Without it places
change at every rest: 2.6 times for learning, 1.5 for a prediction."""
LOOK_S, LOOK_ASKED_S = 0.001, 0.0001
"""Seconds between two looks of a call that rests, and between two where a request just came: so long a request waits
for Python's lock before it can be noticed. Without the second 2.4 times for a prediction."""
SHORT_S = 0.02
"""CPU seconds within which a call is short, where those of its model usually are. Short calls have places of their own
and long ones stand still for them. Without short calls 13 times for learning."""
QUICK_S = 0.002
"""CPU seconds of a model's usual calls from which they rest before they compute. Shorter ones need no place until they
have taken longer. If none rested: 1.7 times for learning, 2.3 for a prediction."""
USUAL_MAX, USUAL_GAIN = 5.0, 0.2
"""Moving average of a call's CPU time: each call counts USUAL_GAIN, a long one as USUAL_MAX x SHORT_S at most. So after
about eight short calls a model counts as short again."""
ASKED_S = 0.25
"""Seconds after a request for which another one is expected, and one place of long calls is left free."""
ASIDE, ASIDE_MAX_S = 8.0, 0.05
"""Seconds that a long call stands still for each second that it computes, over the processors, and seconds that it
stands still at once, at most. Without the first 5.4 times for learning, 3.7 for a prediction; with more of it long
calls starve."""
QUIET_S = 0.002
"""Seconds after a request for which it may be under way without a call, as a small prediction is. Without it long calls
do not stand still: 3.8 times for learning, 2.6 for a prediction."""
BESIDE = 4.0
"""Times that CPU seconds beside the models that serve count: loading, folding, exporting. With 1 they are equals."""


class GivenUp(Unavailable):
    """The computation was given up for good: its model is deleted, or the server stops."""


def processors() -> int:
    """How many this process may use."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Account:
    """What a model has used of the processors, and whether it is given up.

    weight: how many times that counts; above 1 none of its calls is short.
    """

    __slots__ = ("given_up", "seconds", "stored_s", "used", "usual_s", "waited_s", "weight")

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight
        self.used = -math.inf  # as the module says
        self.seconds = 0.0  # of CPU, since the start
        self.usual_s = 0.0  # CPU seconds of a call
        self.waited_s = 0.0  # for a place, since the start
        self.stored_s = 0.0  # for the store, since the start
        self.given_up: str | None = None  # why


class _Call:
    """One computation on one thread."""

    __slots__ = (
        "account", "begun_at", "charged_at", "counted", "left_at", "look_asked_at", "look_at", "place", "queued",
        "resumed_at", "still_s", "turns", "woken",
    )  # fmt: skip

    def __init__(self, turns: Turns, account: Account) -> None:
        self.turns = turns
        self.account = account
        self.place: list[_Call] | None = None  # the kind of place that it holds: those who hold one
        self.begun_at = self.charged_at = time.thread_time()  # what this thread had used by then
        self.resumed_at = time.perf_counter()  # since when it computes, as far as still_s knows
        self.goes_on(self.resumed_at)
        self.still_s = 0.0  # for how long it may stand still
        self.left_at: float | None = None  # since when it waits for something else than processors
        self.counted = self.is_short  # among the short calls that are under way
        self.queued = False
        self.woken = threading.Lock()
        self.woken.acquire()

    @property
    def is_short(self) -> bool:
        """Whether it has not computed for long yet, and is not likely to."""
        account = self.account
        return self.charged_at - self.begun_at < SHORT_S > account.usual_s and account.weight <= 1.0

    def rest(self) -> None:
        """Go on if nobody comes first. Abandoned if the account is given up."""
        if self.account.given_up is not None:
            raise Abandoned
        now = time.perf_counter()
        if now >= self.look_at or self.look_asked_at <= now < self.turns.asked_at + QUIET_S:
            self.turns.look(self)

    def goes_on(self, now: float) -> None:
        """Note when it looks about next."""
        self.look_at, self.look_asked_at = now + LOOK_S, now + LOOK_ASKED_S


Entry = tuple[float, int, _Call]
"""What a call's account has used, a number, and the call."""

_here = threading.local()


def stand_back() -> None:
    """Give away the place that this thread's call holds: it is about to wait for something else than processors."""
    call: _Call | None = getattr(_here, "call", None)
    if call is not None:
        call.turns.leave(call)


def rest_before_work() -> None:
    """Rest on this thread however short ago it did so last: what comes next may take long."""
    call: _Call | None = getattr(_here, "call", None)
    if call is not None:
        call.turns.come_back(call)
        if call.account.usual_s > QUICK_S and call.turns.contested:
            call.look_at = 0.0
        call.rest()


class Turns:
    """Places to compute on. Methods may be called from any thread."""

    def __init__(self, places: int | None = None) -> None:
        self.places = places or processors()
        self._lock = threading.Lock()
        self._holding: list[_Call] = []  # the places of those who compute for long
        self._passing: list[_Call] = []  # those that are for short calls alone
        self._waiting: dict[bool, list[Entry]] = {True: [], False: []}  # short calls, long ones: heaps, who used least
        self._numbers = count()
        self.asked_at = -math.inf
        self._short = 0  # calls that compute, as far as is known
        self._quiet = threading.Condition(self._lock)

    def run(self, account: Account, function: Callable[[], T]) -> T:
        """What the function finds, which rests as others need. Abandoned if the account is given up meanwhile."""
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
        """Note that a request came."""
        self.asked_at = time.perf_counter()

    @property
    def contested(self) -> bool:
        """Whether all places are taken."""
        return len(self._holding) >= self._long_places

    @property
    def _long_places(self) -> int:
        """Places for long calls."""
        return max(1, self.places - (time.perf_counter() - self.asked_at < ASKED_S))

    def leave(self, call: _Call) -> None:
        """Let others have the place of a call, if it holds one; while it waits no long call stands still for it."""
        call.left_at = time.perf_counter()
        if call.place is not None or call.counted:
            with self._lock:
                self._charge(call)
                self._discount(call)
                self._leave(call)
                self._let_in()

    def come_back(self, call: _Call) -> None:
        """A call that has waited for something else is about to compute again."""
        if call.left_at is not None:
            call.account.stored_s += time.perf_counter() - call.left_at
            call.left_at = None
        if not call.counted and call.is_short:
            with self._lock:
                call.counted = True
                self._short += 1

    def look(self, call: _Call) -> None:
        """Take a place, give it up or keep it; returns when it is the call's turn. Abandoned if it is given up."""
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
        """Let all that computes on an account end at its next rest."""
        with self._lock:
            account.given_up = why
            self._quiet.notify_all()
            for *_, call in chain.from_iterable(self._waiting.values()):
                if call.account is account and call.queued:
                    call.queued = False
                    call.woken.release()

    def hurry(self, account: Account) -> None:
        """Let an account count like any other from now on: somebody waits for what it computes."""
        with self._lock:
            account.weight = 1.0
            waiting = [call for *_, call in chain.from_iterable(self._waiting.values()) if call.queued]
            for short in (True, False):
                self._waiting[short] = [self._entry(call) for call in waiting if call.is_short == short]
                heapq.heapify(self._waiting[short])
            self._let_in()

    def _stand_still(self, call: _Call) -> None:
        """Let short calls through, for as long as this one may."""
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
        """Count a call no more among the short ones."""
        if call.counted:
            call.counted = False
            self._short -= 1
            if not self._short:
                self._quiet.notify_all()

    def _charge(self, call: _Call) -> None:
        """Add the CPU time since it was charged last."""
        cpu, now = time.thread_time(), time.perf_counter()
        seconds, call.charged_at = cpu - call.charged_at, cpu
        if seconds > 0.0:
            call.account.used = math.log(_seconds(call.account, now) + seconds) + now / MEMORY_S
            call.account.seconds += seconds

    def _entry(self, call: _Call) -> Entry:
        return call.account.used + math.log(call.account.weight), next(self._numbers), call

    def _goes_on(self, call: _Call) -> bool:
        """Whether the call computes on, on a place that it has or now takes."""
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
        """Give the places that are free to those who wait."""
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
        """A kind of place that is free: one of a long call is a short one's only where no long one waits."""
        if short and len(self._passing) < self.places:
            return self._passing
        if len(self._holding) < self._long_places and not (short and self._first(short=False)):
            return self._holding
        return None

    def _first(self, *, short: bool) -> _Call | None:
        """Of those who wait the one that goes next."""
        waiting = self._waiting[short]
        while waiting and not waiting[0][-1].queued:  # was given up
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
        """Whether one that computes lets the first of those who wait go on in its place."""
        if call.is_short and call.place is self._holding and self._first(short=False) is not None:
            return True
        first = self._first(short=call.is_short)
        if first is None:
            return False
        now = time.perf_counter()
        mine, others = (c.account.weight * _seconds(c.account, now) for c in (call, first))
        return mine - others >= SLICE_S * call.account.weight


def _seconds(account: Account, now: float) -> float:
    """CPU seconds that it has used, as far as they are remembered."""
    return math.exp(max(account.used - now / MEMORY_S, -700.0))
