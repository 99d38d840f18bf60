"""Compiles what a model needs before the first request needs it.

What numba's cache lacks is compiled into it by processes beside this one (crew.py), which then loads it: a process that
compiled holds the compiler's 250 MiB to its end.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numba.core import event

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_csr, rows_from_dense
from hinged.solvers.core.solver import Solver
from hinged.solvers.core.turns import Abandoned, resting
from hinged.solvers.crew import compile_beside, serve
from hinged.solvers.scores.sigmoid import Sigmoid
from hinged.solvers.scores.tally import Tally, losses_of

log = logging.getLogger(__name__)

LOADED_S = 3.0  # in which another thread has loaded a solver, if it need not compile it

KERNEL = make_kernel("rbf", 0.5)
X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
Y = np.array([0, 1, 1, 0, 0, 0, 1, 1])

_warm: set[tuple[str, type]] = set()
_locks: defaultdict[tuple[type, type], threading.Lock] = defaultdict(threading.Lock)
"""Of each class of solvers: two names of one class run the same code. Others are loaded and compiled meanwhile."""
_compiling = threading.Lock()
"""One solver after the other: what two share is compiled once, by as many processes as are worth it."""
_here = threading.local()
_ended = 0
"""How often `end_compiling` was called."""
before_waiting: list[Callable[[], None]] = []
"""Called on a thread that is to wait for another that loads or compiles, or for processes that do."""


class Ended(Abandoned):
    """`end_compiling` was called while processes compiled."""


class _Lacking(Exception):
    """numba's cache lacks a function."""


def warm_up(name: str, dtype: type = np.float32) -> None:
    """Load all that the solver of this name runs, and compile it first if need be; at once from the second call on.

    Ended if `end_compiling` was called meanwhile.
    """
    began = _ended
    with _alone(name, dtype) as alone:
        if alone and not _loaded(name, dtype):
            with _compiling:
                _compile_beside(name, dtype, began)
            exercise(name, dtype)
            _warm.add((name, dtype))


def load(name: str, dtype: type = np.float32) -> bool:
    """Load all that the solver of this name runs, if it is compiled: whether it is. It takes a second at most.

    False as well where others load or compile it and are not soon done.
    """
    with _alone(name, dtype, LOADED_S) as alone:
        return (name, dtype) in _warm or (alone and _loaded(name, dtype))


@contextmanager
def _alone(name: str, dtype: type, seconds: float = -1) -> Iterator[bool]:
    """Whether this thread alone loads or compiles the solver meanwhile, where somebody still has to."""
    if (name, dtype) in _warm:
        yield False
        return
    for tell in before_waiting:
        tell()
    lock = _locks[SOLVERS[name].make, dtype]
    # Whoever rests with a lock may wait for those who wait for the lock.
    with resting(lambda: None):
        found = lock.acquire(timeout=seconds)
        try:
            yield found and (name, dtype) not in _warm
        finally:
            if found:
                lock.release()


def _loaded(name: str, dtype: type) -> bool:
    """Load what the solver runs: False if something is not compiled."""
    try:
        with _no_compiler():
            exercise(name, dtype)
    except _Lacking:
        return False
    _warm.add((name, dtype))
    return True


def end_compiling() -> None:
    """End the processes that compile now: who waits for them in `warm_up` gets Ended."""
    global _ended  # noqa: PLW0603  it counts
    _ended += 1


def exercise(name: str, dtype: type) -> None:
    """Run once all that a model runs, here."""
    solver = _new_solver(name, dtype)
    _teach(solver)
    warm_up_metrics()
    solver.load(solver.state())
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


# -- without a compiler -----------------------------------------------------------------------------------------------


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

    def check() -> None:
        if _ended != began:
            raise Ended

    check()
    problem = compile_beside(__spec__.name, name, dtype, check, beside=bool(_warm))
    if problem:
        log.warning("the process that compiles %s failed and this one compiles instead: %s", name, problem)


def _main(role: str, name: str, precision: str, nice: str) -> None:
    serve(role, lambda: exercise(name, np.dtype(precision).type), int(nice))


if __name__ == "__main__":
    _main(*sys.argv[1:])
