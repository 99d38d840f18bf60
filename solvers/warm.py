"""Compiles what a model needs before the first request needs it.

What numba's cache lacks is compiled into it by processes beside this one, which then loads it: a process that compiled
holds the compiler's 250 MiB to its end. One of them, LEARNER, does everything, the learning first; the other, HELPER,
does what comes after the learning meanwhile, on the state of a machine that has learned without a compiler.
"""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from numba.core import event

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_csr, rows_from_dense
from hinged.solvers.core.solver import Solver, State
from hinged.solvers.core.turns import resting
from hinged.solvers.scores.sigmoid import Sigmoid
from hinged.solvers.scores.tally import Tally, losses_of

log = logging.getLogger(__name__)

LEARNER, HELPER, PLAIN = "learner", "helper", "plain"  # what a process of this module does
POLL_S = 0.05

KERNEL = make_kernel("rbf", 0.5)
X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
Y = np.array([0, 1, 1, 0, 0, 0, 1, 1])

_warm: set[tuple[str, type]] = set()
_locks: defaultdict[tuple[type, type], threading.Lock] = defaultdict(threading.Lock)
"""Of each class of solvers: two names of one class run the same code. Others are loaded and compiled meanwhile."""
_compiling = threading.Semaphore(os.cpu_count() or 1)
_here = threading.local()
_ended = 0
"""How often `end_compiling` was called."""
before_waiting: list[Callable[[], None]] = []
"""Called on a thread that is to wait for another that loads or compiles, or for processes that do."""


class Ended(Exception):
    """`end_compiling` was called while processes compiled."""


class _Lacking(Exception):
    """numba's cache lacks a function."""


def warm_up(name: str, dtype: type = np.float32) -> None:
    """Load all that the solver of this name runs, and compile it first if need be; at once from the second call on.

    Ended if `end_compiling` was called meanwhile.
    """
    if (name, dtype) in _warm:
        return
    began = _ended
    for tell in before_waiting:
        tell()
    # Whoever rests with a lock may wait for those who wait for the lock.
    with resting(lambda: None), _locks[SOLVERS[name].make, dtype]:
        if (name, dtype) in _warm:
            return
        try:
            with _no_compiler():
                exercise(name, dtype)
        except _Lacking:
            with _compiling:
                _compile_beside(name, dtype, began)
            exercise(name, dtype)
        _warm.add((name, dtype))


def end_compiling() -> None:
    """End the processes that compile now: who waits for them in `warm_up` gets Ended."""
    global _ended  # noqa: PLW0603  it counts
    _ended += 1


def exercise(name: str, dtype: type, state: State | None = None) -> None:
    """Run once all that a model runs, here; with the state of a solver that has learned, all but learning."""
    solver = _new_solver(name, dtype)
    if state is None:
        _teach(solver)
        state = solver.state()
    warm_up_metrics()
    solver.load(state)
    solver.decision(rows_from_dense(X, KERNEL, 2, solver.dtype))
    solver.finish()
    solver.drop(solver.keys()[:2])
    solver.certificate()


def warm_up_metrics() -> None:
    """Run once what every model runs beside its solver."""
    columns, classes = np.array([[1.0], [-1.0]]), np.array([1, 0], np.int32)
    sigmoid, tally = Sigmoid(), Tally(2)
    sigmoid.widen(1)
    losses = losses_of(sigmoid.learn(columns, classes), classes)
    calibration = sigmoid.calibration()
    calibration(columns, classes)
    calibration.classes(columns)
    tally.add(np.arange(2), columns, classes, classes, losses)


def _new_solver(name: str, dtype: type) -> Solver:
    entry = SOLVERS[name]
    small = {"budget": 4} if "budget" in entry.trial else {}
    parameters = {"dtype": dtype, **entry.trial, **entry.fixed, **small, "points_max": 8, "when_full": "remove"}
    return entry.make(KERNEL, 2, **parameters)


def _teach(solver: Solver) -> None:
    for _ in range(2):
        solver.add_class()
    rows = rows_from_dense(X, KERNEL, 2, solver.dtype)
    solver.learn(rows, Y, np.arange(8))
    solver.add_class()
    more = rows_from_csr(np.array([0, 1, 2]), np.array([1, 0]), np.array([3.0, 3.0]), KERNEL, 2, solver.dtype)
    solver.learn(more, np.array([2, 2]), np.array([8, 9]))
    solver.learn(rows, Y, np.arange(8), again=True)


# -- processes --------------------------------------------------------------------------------------------------------


class _NoCompiler(event.Listener):
    """Where a thread is in `_no_compiler`, nothing is compiled in it: _Lacking instead."""

    def on_start(self, event: object) -> None:  # noqa: ARG002
        """Before a function is compiled that was not in the cache."""
        if getattr(_here, "no_compiler", False):
            raise _Lacking

    def on_end(self, event: object) -> None:
        """Afterwards."""


# For good: numba's list of listeners is no place to come and go from several threads.
event.register("numba:compile", _NoCompiler())


@contextmanager
def _no_compiler() -> Iterator[None]:
    _here.no_compiler = True
    try:
        yield
    finally:
        _here.no_compiler = False


def _compile_beside(name: str, dtype: type, began: int) -> None:
    """Have other processes compile; that they could not is logged, no more.

    Ended if `end_compiling` was called since `_ended` was `began`.
    """
    if _ended != began:
        raise Ended
    # Later on there are requests, from which a helper would take a core.
    helping: AbstractContextManager[object] = nullcontext() if _warm else _process(HELPER, name, dtype)
    try:
        with _process(LEARNER, name, dtype) as learner, helping:
            while learner.poll() is None:
                if _ended != began:
                    raise Ended
                time.sleep(POLL_S)
        problem = f"it ended with {learner.returncode}" if learner.returncode else ""
    except OSError as error:
        problem = str(error)
    if problem:
        log.warning("the process that compiles %s failed and this one compiles instead: %s", name, problem)


@contextmanager
def _process(role: str, name: str, dtype: type) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this module. It is killed in the end, and ends by itself when this one is killed."""
    with subprocess.Popen(**_command(role, name, dtype), stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def _learned_plainly(name: str, dtype: type) -> State:
    """The state of a solver that has learned, from a process without a compiler; it takes half a second."""
    null = subprocess.DEVNULL
    done = subprocess.run(**_command(PLAIN, name, dtype), stdin=null, stdout=subprocess.PIPE, stderr=null, check=True)
    return dict(np.load(io.BytesIO(done.stdout)))


def _command(role: str, name: str, dtype: type) -> dict[str, Any]:
    """How subprocess runs this module with exactly the packages of this process, out of reach of Ctrl-C."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return {
        "args": [sys.executable, "-P", "-m", "hinged.solvers.warm", role, name, np.dtype(dtype).name],
        "env": env | {"NUMBA_DISABLE_JIT": "1"} if role == PLAIN else env,
        "process_group": 0 if os.name == "posix" else None,
    }


def _end_with_parent() -> None:
    """End this process when the other end of its standard input is closed, by whatever end of its parent."""

    def wait() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _main(role: str, name: str, precision: str) -> None:
    dtype = np.dtype(precision).type
    if role == PLAIN:
        with np.errstate(over="ignore"):  # random numbers
            solver = _new_solver(name, dtype)
            _teach(solver)
        written: Any = solver.state()
        np.savez(sys.stdout.buffer, **written)
        return
    _end_with_parent()
    exercise(name, dtype, _learned_plainly(name, dtype) if role == HELPER else None)


if __name__ == "__main__":
    _main(*sys.argv[1:])
