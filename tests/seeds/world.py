"""Simulated time, threads and processes on one event loop: one seed is one schedule.

A place is a process of the simulation: a node from one start to its end, or a client. Each callback, task and fiber
belongs to the place in its context. The callbacks of a killed place never run again. The callbacks of a suspended place
wait until the place goes on. A fiber stands for a thread: it is a greenlet, and another fiber or callback can run only
while it waits. Nothing here waits for real time: when no callback is ready, the clock jumps to the next timer.
"""

import asyncio
import concurrent.futures
import contextvars
import gc
import itertools
import logging
import os
import random
import secrets
import sys
import time
import warnings
from asyncio import base_events
from contextlib import ExitStack, contextmanager
from heapq import heappop, heappush
from types import SimpleNamespace
from unittest import mock

import greenlet

from hinged.client import routes
from hinged.service import app
from hinged.service.cluster import members
from hinged.service.engine import history, registry
from hinged.service.engine.scheduling.turns import Turns
from hinged.service.store.redis import store
from hinged.solvers.core.turns import Abandoned

EPOCH_S = 1_700_000_000  # the wall clock at the beginning
START_S = 1000.0  # the time of the loop at the beginning
LATE = 0.03  # share of the threads that start late, as on a busy machine
PLACE = contextvars.ContextVar("place", default=None)


class Stuck(Exception):
    """Nothing is left that could happen."""


class Place:
    """A process of the simulation. ahead_s: by how much its wall clock is ahead."""

    def __init__(self, name):
        self.name = name
        self.dead = self.paused = False
        self.ahead_s = 0.0
        self.frozen = []
        self.context = contextvars.copy_context()
        self.context.run(PLACE.set, self)

    def __repr__(self):
        return self.name


class Handle(asyncio.TimerHandle):
    """A callback that is to run. asyncio's own handles ask in each step whether the loop is in debug mode."""

    __slots__ = ()

    def __init__(self, when, callback, args, loop, context):
        self._when, self._callback, self._args, self._loop = when, callback, args, loop
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled, self._source_traceback, self._repr = False, None, None

    def cancel(self):
        self._cancelled, self._callback, self._args = True, None, ()


class Loop(base_events.BaseEventLoop):
    """An event loop on simulated time. Callbacks of one time run in the order in which they were added."""

    def __init__(self, world):
        super().__init__()
        self.world = world
        self.now = START_S
        self._numbers = itertools.count()
        self.connect = None
        """Opens a connection; set by the network."""

    def time(self):
        return self.now

    def call_soon(self, callback, *args, context=None):
        handle = Handle(self.now, callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay, callback, *args, context=None):
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when, callback, *args, context=None):
        handle = Handle(when, callback, args, self, context)
        heappush(self._scheduled, (when, next(self._numbers), handle))
        return handle

    def _run_once(self):
        while not self._ready:
            if not self._scheduled:
                raise Stuck
            when, _, handle = heappop(self._scheduled)
            if not handle._cancelled:
                self.now = max(self.now, when)
                self._ready.append(handle)
        handle = self._ready.popleft()
        if handle._cancelled:
            return
        place = handle._context.get(PLACE)
        if place is not None and place.dead:
            self.world.graveyard.append(handle)  # freeing its objects would run their code
        elif place is not None and place.paused:
            place.frozen.append(handle)
        else:
            handle._run()

    def _check_closed(self):
        """Accept callbacks, which never run, of objects that are freed after the run."""

    def _write_to_self(self):
        """Do nothing: the loop never waits in the system."""

    def _process_events(self, _):
        """Do nothing: there are no files."""

    def set_default_executor(self, _):
        """Keep the fibers."""

    def run_in_executor(self, executor, function, *args):
        if executor is not None:
            return asyncio.wrap_future(executor.submit(function, *args), loop=self)
        future = self.create_future()

        def work():
            if future.cancelled():
                return
            try:
                result, error = function(*args), None
            except Exception as raised:  # noqa: BLE001  the waiting caller gets every error
                result, error = None, raised
            if future.cancelled():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.world.spawn(work)
        return future

    async def create_connection(self, factory, host=None, port=None, **_):
        return await self.connect(factory, f"http://{host}:{port}")


class World:
    """The loop, the random numbers and the fibers of one run."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.drawn = random.Random(seed + 1)  # for the product's own random numbers
        self.hub = greenlet.getcurrent()
        self.loop = Loop(self)
        self.loop.set_exception_handler(self._unforeseen)
        self.nowhere = Place("network")
        self.graveyard = []
        self.fibers = {}
        self.over = False
        self.ended = lambda place: None  # called if a place ends itself
        self.unforeseen = []

    def _unforeseen(self, _, facts):
        if not self.over:
            self.unforeseen.append(f"{facts['message']}: {facts.get('exception')!r}")

    # -- clocks ---------------------------------------------------------------------------------------------------

    def wall_s(self):
        place = PLACE.get()
        return EPOCH_S + self.loop.now + (0.0 if place is None else place.ahead_s)

    # -- fibers ---------------------------------------------------------------------------------------------------

    def spawn(self, work):
        """Run a function on a fiber of this place."""
        late = self.rng.random() < LATE
        self.loop.call_later(self.rng.expovariate(20.0 if late else 5000.0), self._start, work)

    def _start(self, work):
        fiber = greenlet.greenlet(self._run, self.hub)
        fiber.gr_context = contextvars.copy_context()
        self.fibers[fiber] = None
        fiber.switch(work)

    def _run(self, work):
        try:
            work()
        except greenlet.GreenletExit:
            pass
        finally:
            self.fibers.pop(greenlet.getcurrent(), None)

    def on_loop(self):
        """Return whether the event loop itself calls, and no fiber."""
        return greenlet.getcurrent() is self.hub

    def sleep(self, seconds):
        """Let the calling fiber wait. The event loop itself never waits, so there the call returns at once."""
        Event(self).wait(seconds)

    def kill(self, place):
        """End a place, as kill -9 does: nothing of it runs again."""
        place.dead = True
        self.graveyard += place.frozen

    def pause(self, place):
        """Suspend a place, as SIGSTOP does."""
        place.paused = True

    def go_on(self, place):
        """Let a suspended place go on."""
        place.paused = False
        frozen, place.frozen = place.frozen, []
        self.loop._ready.extend(frozen)

    # -- a run ----------------------------------------------------------------------------------------------------

    def run(self, main):
        """Run a coroutine to its end."""
        with self._handed_out():
            try:
                return self.loop.run_until_complete(main)
            finally:
                self._end()

    def _end(self):
        self.over = True
        logging.disable()  # what is torn down may complain
        unstarted = warnings.catch_warnings(action="ignore", category=RuntimeWarning)  # coroutines without a first step
        with mock.patch.object(sys, "unraisablehook"), unstarted:
            for task in asyncio.all_tasks(self.loop):
                task._log_destroy_pending = False
            for fiber in [*self.fibers]:
                fiber.throw(greenlet.GreenletExit)
            self.loop._scheduled.clear()
            self.graveyard.clear()
            gc.collect()
            self.loop._ready.clear()
            self.loop.close()
        logging.disable(logging.NOTSET)

    @contextmanager
    def _handed_out(self):
        """Hand the simulated clock, threads and random numbers to the product. No other code does this."""
        random.seed(self.drawn.random())
        with ExitStack() as stack:
            for target, name, value in (
                (time, "time", self.wall_s),
                (time, "time_ns", lambda: int(1e9 * self.wall_s())),
                (time, "monotonic", self.loop.time),
                (time, "perf_counter", self.loop.time),
                (time, "thread_time", lambda: 0.0),
                (time, "sleep", self.sleep),
                (os, "urandom", self.drawn.randbytes),
                (secrets, "token_bytes", lambda size=32: self.drawn.randbytes(size)),
                (concurrent.futures.Future, "result", self._result(concurrent.futures.Future.result)),
                (registry, "Threads", lambda _: Fibers(self)),
                (registry, "Turns", NoTurns),
                (registry, "default_executor", lambda: None),
                (registry, "gc", SimpleNamespace(freeze=lambda: None)),
                (history, "threading", SimpleNamespace(Event=lambda: Event(self))),
                (store, "Lock", lambda: Lock(self)),
                (members, "end", lambda: self.ended(PLACE.get())),
                (app, "end", lambda: self.ended(PLACE.get())),
                (app, "give_up", lambda: self.ended(PLACE.get())),
                (app, "settle", lambda: None),
                (app, "default_configuration", lambda *_: None),  # only checks the settings, which stay the same
                (routes, "SSLContext", lambda _: None),
                (app, "Holds", NoHolds),
            ):
                stack.enter_context(mock.patch.object(target, name, value))
            gc.disable()
            try:
                yield
            finally:
                gc.enable()

    def _result(self, usual):
        """Return Future.result for fibers: a fiber waits without keeping the loop."""

        def result(future, timeout=None):
            if not future.done() and not self.on_loop():
                event = Event(self)
                future.add_done_callback(lambda _: event.set())
                event.wait(timeout)
            return usual(future, 0)

        return result


class Event:
    """threading.Event for fibers."""

    def __init__(self, world):
        self._world = world
        self._set = False
        self._waiting = []

    def is_set(self):
        return self._set

    def set(self):
        self._set = True
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            self._world.loop.call_soon(self._wake, waiter, context=waiter[1])

    def wait(self, timeout=None):
        world, fiber = self._world, greenlet.getcurrent()
        if world.over:
            raise greenlet.GreenletExit
        if self._set or fiber is world.hub:
            return self._set
        waiter = [fiber, contextvars.copy_context()]
        self._waiting.append(waiter)
        if timeout is not None:
            world.loop.call_later(timeout, self._wake, waiter)
        world.hub.switch()
        return self._set

    def _wake(self, waiter):
        fiber, waiter[0] = waiter[0], None
        if fiber is not None:
            fiber.switch()


class Lock:
    """threading.Lock for fibers."""

    def __init__(self, world):
        self._world = world
        self._free = None  # event of the next release, while the lock is held

    def __enter__(self):
        while self._free is not None:
            self._free.wait()
        self._free = Event(self._world)

    def __exit__(self, *_):
        free, self._free = self._free, None
        free.set()


class Fibers:
    """Stands for the threads of a registry."""

    def __init__(self, world):
        self._world = world
        self._running = 0
        self._closed = False

    def run(self, work):
        if self._closed:
            raise RuntimeError("the threads have ended")
        self._running += 1

        def counted():
            try:
                work()
            finally:
                self._running -= 1

        self._world.spawn(counted)

    def close(self, seconds=None):
        self._closed = True
        end = self._world.loop.now + (60.0 if seconds is None else seconds)
        while self._running and self._world.loop.now < end:
            self._world.sleep(0.01)
        return not self._running


class NoTurns(Turns):
    """Turns that let every call compute at once: computing takes no simulated time."""

    def run(self, account, function):
        if account.given_up is not None:
            raise Abandoned
        return function()


class NoHolds(app.Holds):
    """Measures no holds, which simulated time does not have."""

    def start(self):
        """Do nothing."""

    def stop(self):
        """Do nothing."""
