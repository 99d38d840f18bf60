"""Processes that compile beside this one what a solver runs: two of them, each what the other does not.

A third process, PLAIN, runs the solver without a compiler, which takes a second, and tells which functions are called
with which types. Each is compiled once those are that it calls; it finds them in numba's cache, whoever compiled them.
What only branches call that were not taken is compiled with the functions that have these branches.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numba import config
from numba.core.errors import NumbaError

from hinged.solvers.core.cache import STATE, locked, may_run_brought
from hinged.solvers.core.calls import Call, Calls, watching
from hinged.solvers.recall import recall

COMPILER, PLAIN = "compiler", "plain"  # what a process does
COMPILERS = min(2, os.cpu_count() or 1)
POLL_S = 0.05
BESIDE_NICE = 5  # of processes beside a server that answers requests
USUAL = ["auto", "float32", "learn,serve,finish,forget"]  # what a server has compiled first
MODULE = "hinged.solvers.warm"  # what such a process runs; crew.py comes before it, here and in the imports
PLAINLY = {"NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"}  # without the colours of messages that nobody sees


class Plan:
    """Which call is compiled next: of those that may be, the one that most of the rest waits for.

    first: they come before all others, which `add` tells. reached: called when these are done.
    """

    def __init__(self, first: list[Call], reached: Callable[[], None] = lambda: None) -> None:
        self.calls = first
        self._needs = [set(call.needs) for call in first]
        self._behind = [(True, behind) for behind in _behind(first)]
        self._left = set(range(len(first)))
        self._first, self._reached = set(self._left), reached
        self._under_way: set[int] = set()
        self._complete = False
        self._changed = threading.Condition()

    def add(self, calls: list[Call]) -> None:
        """All calls, the first ones among them, in their order: no more follow. Nothing where it was given up."""
        with self._changed:
            if self._complete:
                return
            new = range(len(self.calls), len(calls))
            done = set(range(len(self.calls))) - self._left - self._under_way
            self.calls = calls
            self._needs += [calls[number].needs - done for number in new]
            self._behind += [(False, behind) for behind in _behind(calls)[len(self._behind) :]]
            self._left.update(new)
            self._complete = True
            self._changed.notify_all()

    def take(self) -> int | None:
        """The number of a call, once one may be compiled; None when all are taken."""
        with self._changed:
            while self._left or not self._complete:
                ready = [number for number in self._left if not self._needs[number]]
                if not ready and not self._under_way:  # they call each other
                    ready = list(self._left)
                if ready:
                    found = max(ready, key=self._behind.__getitem__)
                    self._left.discard(found)
                    self._under_way.add(found)
                    return found
                self._changed.wait()
            return None

    def done(self, number: int) -> None:
        """A call is compiled."""
        with self._changed:
            self._under_way.discard(number)
            for needs in self._needs:
                needs.discard(number)
            self._changed.notify_all()
            last = self._first == {number}
            self._first.discard(number)
        if last:
            self._reached()

    def give_up(self) -> None:
        """Nothing more is taken."""
        with self._changed:
            self._left.clear()
            self._complete = True
            self._changed.notify_all()


def _behind(calls: list[Call]) -> list[int]:
    """The code from the beginning of each call's compilation to the end of all that waits for it, the longest way.

    Code is optimised where Python calls it, with all that it calls.
    """
    within: list[set[int]] = []
    for number, call in enumerate(calls):  # callers come behind what they call
        within.append({number}.union(*(within[needed] for needed in call.needs if needed < number)))
    size = [call.size if call.inner else sum(calls[each].size for each in within[n]) for n, call in enumerate(calls)]
    behind = size.copy()
    for number in range(len(calls) - 1, -1, -1):
        for needed in calls[number].needs:
            behind[needed] = max(behind[needed], behind[number] + size[needed])
    return behind


def compile_beside(
    job: Sequence[str],
    *,
    beside: bool = False,
    check: Callable[[], None] = lambda: None,
    reached: Callable[[], None] = lambda: None,
) -> str:
    """Have other processes compile what a solver runs: what went wrong, "" if nothing did.

    job: what `warm.main` is told: the solver, its precision and the parts. beside: requests are answered meanwhile, and
    come first. check: called all the while, what it raises ends the processes. reached: called once what is run first
    is compiled.
    """
    nice = BESIDE_NICE if beside else 0
    with ExitStack() as stack:
        try:
            compilers = [stack.enter_context(_process(COMPILER, nice, job)) for _ in range(COMPILERS)]
            plain = stack.enter_context(_process(PLAIN, nice, job))
        except OSError as error:
            return str(error)
        crew = threading.Thread(target=_let_compile, args=(plain, compilers, reached), daemon=True)
        crew.start()
        try:
            while crew.is_alive():
                check()
                crew.join(POLL_S)
        except BaseException:
            for process in (plain, *compilers):
                process.kill()
            crew.join()  # it reads from them
            raise
        bad = [process.returncode for process in compilers if process.wait()]
    return f"it ended with {bad[0]}" if bad else ""


def start_early() -> None:
    """Where nothing is compiled yet, start the processes that a server begins with now: they import meanwhile.

    `dismiss` ends those that were not needed.
    """
    if may_run_brought() or next(Path(cast("Any", config).CACHE_DIR, STATE).rglob("*.nbi"), None):
        return
    with suppress(OSError):  # it is told when they are needed
        for role in (PLAIN, *[COMPILER] * COMPILERS):
            process = _started(role)
            _tell(process, (0, USUAL))
            _early.append((role, process))


def dismiss() -> None:
    """End what `start_early` started, and nobody needed."""
    with _taking:
        unneeded = [process for _, process in _early]
        _early.clear()
    for process in unneeded:
        with process:
            process.kill()


_early: list[tuple[str, subprocess.Popen[bytes]]] = []
_taking = threading.Lock()


def _taken(role: str) -> subprocess.Popen[bytes] | None:
    """One that was started early in this role, which is nobody else's from now on."""
    with _taking:
        found = next((each for each in _early if each[0] == role), None)
        if found is None:
            return None
        _early.remove(found)
        return found[1]


@contextmanager
def compiling_alone() -> Iterator[None]:
    """Wait until no other process that asks so compiles these sources."""
    with locked(Path(cast("Any", config).CACHE_DIR, STATE)):
        yield


def _let_compile(
    plain: subprocess.Popen[bytes], compilers: list[subprocess.Popen[bytes]], reached: Callable[[], None]
) -> None:
    """Keep the compilers busy until all is compiled; where the plain run failed, one of them just runs all."""
    first = _said(plain)
    plan = Plan(first or [], reached)
    threads = [threading.Thread(target=_feed, args=(each, plan), daemon=True) for each in compilers]
    for thread in threads:
        thread.start()
    everything = _said(plain) if first else None
    plan.add(everything or plan.calls)
    for thread in threads:
        thread.join()
    if not everything:
        _do(compilers[0], None)
    for each in compilers:
        with suppress(OSError):
            cast("IO[bytes]", each.stdin).close()


def _said(plain: subprocess.Popen[bytes]) -> list[Call] | None:
    """The next list of calls; None where there is none."""
    try:
        return cast("list[Call]", pickle.load(cast("IO[bytes]", plain.stdout)))  # noqa: S301  from our own process
    except (EOFError, pickle.UnpicklingError):
        return None


def _feed(process: subprocess.Popen[bytes], plan: Plan) -> None:
    """Give a compiler one call after the other."""
    while (number := plan.take()) is not None:
        if not _do(process, plan.calls[number]):
            plan.give_up()
            break
        plan.done(number)


def _do(process: subprocess.Popen[bytes], call: Call | None) -> bool:
    """Have a compiler do one call, or run through all: whether it did."""
    return _tell(process, call) and bool(cast("IO[bytes]", process.stdout).read(1))


def _tell(process: subprocess.Popen[bytes], what: object) -> bool:
    """Send a message: False where the process has ended, which its return code tells too."""
    message = pickle.dumps(what)
    to = cast("IO[bytes]", process.stdin)
    try:
        to.write(len(message).to_bytes(8, "big") + message)
        to.flush()
    except (OSError, ValueError):  # ValueError: the message before found it ended
        with suppress(OSError):
            to.close()
        return False
    return True


# -- in such a process ------------------------------------------------------------------------------------------------


def told_job(told: queue.SimpleQueue[bytes], role: str) -> list[str]:
    """What such a process is to do, once it is told: nothing of it is started before."""
    if role == COMPILER:
        recall()
    nice, job = pickle.loads(told.get())  # noqa: S301  from the process that started this one
    if nice and hasattr(os, "nice"):
        os.nice(nice)
    return cast("list[str]", job)


def serve(told: queue.SimpleQueue[bytes], role: str, first: Callable[[], None], everything: Callable[[], None]) -> None:
    """What such a process does; told: what it hears. first, everything: runs through what a solver does."""
    if role == PLAIN:
        watching.append(Calls())
        with np.errstate(over="ignore"):  # random numbers
            first()
            _say(watching[0].told())
            watching[0].look_again()
            everything()
        _say(watching[0].told())
        os._exit(0)  # the thread that reads would be in the way of any other end
    while True:
        call = pickle.loads(told.get())  # noqa: S301  from the process that started this one
        if call is None:
            everything()
        else:
            _compile(call)
        os.write(1, b".")


def _say(calls: list[Call]) -> None:
    pickle.dump(calls, sys.stdout.buffer)
    sys.stdout.flush()


def _compile(call: Call) -> None:
    function = getattr(importlib.import_module(call.module), call.name)
    with suppress(NumbaError):  # the callers compile it, for the types that they give it
        (function.inner if call.inner else function).compile(call.types)


@contextmanager
def _process(role: str, nice: int, job: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is told its job; it is killed in the end."""
    process = _taken(role) if (nice, list(job)) == (0, USUAL) else None
    if process is None:
        process = _started(role)
        _tell(process, (nice, list(job)))
    with process:
        try:
            yield process
        finally:
            process.kill()


def _started(role: str) -> subprocess.Popen[bytes]:
    """A process with exactly the packages of this one, out of reach of Ctrl-C."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)} | PLAINLY
    return subprocess.Popen(  # noqa: S603  ourselves
        [sys.executable, "-P", "-m", "hinged.solvers.compiler", role, MODULE],
        env=env | {"NUMBA_DISABLE_JIT": "1"} if role == PLAIN else env,
        process_group=0 if os.name == "posix" else None,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
