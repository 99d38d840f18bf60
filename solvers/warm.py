"""Compiles what a model needs before the first request needs it.

What numba's cache lacks is compiled into it by processes beside this one (crew.py), which then loads it: a process that
compiled holds the compiler's 250 MiB to its end.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numba.core import event

from hinged.solvers.budget import merging
from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.ahead import block_of, features_of, rows_together
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.memory import aligned_empty
from hinged.solvers.core.points import compacted, points_from_rows
from hinged.solvers.core.rows import Rows, rows_from_csr, rows_from_dense
from hinged.solvers.core.solver import Solver
from hinged.solvers.core.turns import Abandoned, resting
from hinged.solvers.crew import PLAIN, compile_beside, serve, told_job
from hinged.solvers.dual.lasvm import LASVM
from hinged.solvers.scores.sigmoid import Calibration, Sigmoid
from hinged.solvers.scores.tally import Tally, losses_of

log = logging.getLogger(__name__)

POINTS_MAX = 64  # more than there are examples
LOADED_S = 3.0  # in which another thread has loaded a solver, if it need not compile it

CLEANED = {"auto": {"idle_max": 0}}
"""With which an arm of few examples, too, has points without a coefficient that go."""

KERNEL = make_kernel("rbf", 0.5)
X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
Y = np.array([0, 1, 1, 0, 0, 0, 1, 1])

LEARN, SERVE, FINISH, FORGET = "learn", "serve", "finish", "forget"
"""What a solver is run through: learning and predictions; what every model runs beside that; the finishing step;
dropping points, those that make way included, learning again, and letting all fade."""
FIRST, EVERYTHING = (LEARN, SERVE), (LEARN, SERVE, FINISH, FORGET)

_first: set[tuple[str, type]] = set()
"""Of which what a model runs from its first example on is loaded."""
_warm: set[tuple[str, type]] = set()
"""Of which everything is."""
_rest: dict[tuple[str, type], threading.Thread] = {}
"""Who compiles the rest."""
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
    _warm_up(name, dtype, _ended)


def warm_up_first(name: str, dtype: type = np.float32) -> None:
    """The same of what a new model runs; what it needs later may still be compiled then, see `wait_for_rest`."""
    began = _ended
    if load(name, dtype):
        return
    reached = threading.Event()
    if _runs(name, dtype, FIRST):  # who compiled it ended before the rest was
        _first.add((name, dtype))

    def compile_everything() -> None:
        try:
            _warm_up(name, dtype, began, reached.set)
        except Ended:
            pass
        finally:
            _rest.pop((name, dtype), None)
            reached.set()

    rest = threading.Thread(target=compile_everything, name=f"compiling {name}", daemon=True)
    _rest[name, dtype] = rest
    rest.start()
    if (name, dtype) in _first:
        return
    reached.wait()
    if _ended != began:
        raise Ended
    exercise(name, dtype, FIRST)
    _first.add((name, dtype))


def wait_for_rest(name: str, dtype: type) -> None:
    """Wait until all that the solver runs is there, where that is under way."""
    rest = _rest.get((name, dtype))
    if rest is not None:
        _tell_waiting()
        rest.join()


def load(name: str, dtype: type = np.float32) -> bool:
    """Load what a new model of this solver runs, if all of it is compiled: whether it is. It takes a second at most.

    False as well where others load or compile it and are not soon done.
    """
    if (name, dtype) in _first:
        return True
    with _alone(name, dtype, LOADED_S) as alone:
        return (name, dtype) in _warm or (alone and _loaded(name, dtype))


def _warm_up(name: str, dtype: type, began: int, reached: Callable[[], None] = lambda: None) -> None:
    with _alone(name, dtype) as alone:
        if alone and not _loaded(name, dtype):
            with _compiling:
                _compile_beside(name, dtype, began, reached)
            exercise(name, dtype)
            _note(name, dtype)


def _tell_waiting() -> None:
    for tell in before_waiting:
        tell()


@contextmanager
def _alone(name: str, dtype: type, seconds: float = -1) -> Iterator[bool]:
    """Whether this thread alone loads or compiles the solver meanwhile, where somebody still has to."""
    if (name, dtype) in _warm:
        yield False
        return
    _tell_waiting()
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
    if not _runs(name, dtype, EVERYTHING):
        return False
    _note(name, dtype)
    return True


def _runs(name: str, dtype: type, parts: Sequence[str]) -> bool:
    """Whether these parts of it run without anything being compiled."""
    try:
        with _no_compiler():
            exercise(name, dtype, parts)
    except _Lacking:
        return False
    return True


def _note(name: str, dtype: type) -> None:
    _warm.add((name, dtype))
    _first.add((name, dtype))


def end_compiling() -> None:
    """End the processes that compile now: who waits for them in `warm_up` gets Ended."""
    global _ended  # noqa: PLW0603  it counts
    _ended += 1


def exercise(name: str, dtype: type, parts: Sequence[str] = EVERYTHING) -> None:
    """Run once what a model runs, here; the learning always."""
    solver = _new_solver(name, dtype, POINTS_MAX)
    rows = _teach(solver)
    solver.decision(rows)
    if SERVE in parts:
        warm_up_metrics()
        solver.certificate()  # learning curves have it
    if FINISH in parts:
        solver.finish()
        warm_up_ones(solver.dtype)
        if any(isinstance(one, LASVM) for one in getattr(solver, "machines", [solver])):
            warm_up_together(solver.dtype)
    if FORGET in parts:
        full = _new_solver(name, dtype, len(X), **CLEANED.get(name, {}))
        _teach(full)
        full.learn(rows, Y, np.arange(len(X)), again=True)
        full.load(full.state())
        full.decision(rows)
        full.finish()
        full.drop(full.keys()[:2])
        if full.fades:
            full.fade(0.5)
        full.certificate()


def warm_up_ones(dtype: type) -> None:
    """Run once what only points of ones need, when they are loaded and when they move."""
    points = points_from_rows(rows_from_dense(np.ones((1, 2)), KERNEL, 2, dtype), 2)
    compacted(points, np.arange(1), 2, 2, 2)


def warm_up_together(dtype: type) -> None:
    """Run once what only rows need that are computed together, which many points are worth."""
    rows = rows_from_dense(X, KERNEL, 2, dtype)
    points = points_from_rows(rows, 2)
    features = features_of(rows.indptr, rows.indices, rows.values, 2)
    scratch = aligned_empty((rows.norms.size * block_of(points.columns),), dtype)
    rows_together(KERNEL, points, features, rows.norms, 0, 0, scratch, np.empty((1, 1), dtype))


def warm_up_metrics() -> None:
    """Run once what every model runs beside its solver."""
    columns, classes = np.array([[1.0], [-1.0]]), np.array([1, 0], np.int32)
    sigmoid, tally = Sigmoid(), Tally(2)
    sigmoid.widen(1)
    losses = losses_of(sigmoid.learn(columns, classes), classes)
    calibration = sigmoid.calibration()
    calibration(columns, classes)
    calibration.classes(columns)
    Calibration(np.zeros((3, 2)), softmax=True).classes(np.zeros((1, 3)))
    tally.add(np.arange(2), columns, classes, classes, losses)


def _new_solver(name: str, dtype: type, points_max: int, **few: int) -> Solver:
    entry = SOLVERS[name]
    small = {"budget": 4} if "budget" in entry.trial else {}
    parameters = {
        "dtype": dtype,
        **entry.trial,
        **entry.fixed,
        **small,
        **few,
        "points_max": points_max,
        "when_full": "remove",
    }
    return entry.make(KERNEL, 2, **parameters)


def _teach(solver: Solver) -> Rows:
    for _ in range(2):
        solver.add_class()
    rows = rows_from_dense(X, KERNEL, 2, solver.dtype)
    solver.learn(rows, Y, np.arange(8))
    solver.add_class()
    more = rows_from_csr(np.array([0, 1, 2]), np.array([1, 0]), np.array([3.0, 3.0]), KERNEL, 2, solver.dtype)
    solver.learn(more, np.array([2, 2]), np.array([8, 9]))
    return rows


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


def _compile_beside(name: str, dtype: type, began: int, reached: Callable[[], None] = lambda: None) -> None:
    """Have other processes compile; that they could not is logged, no more. reached: called when FIRST is compiled.

    Ended if `end_compiling` was called since `_ended` was `began`.
    """

    def check() -> None:
        if _ended != began:
            raise Ended

    check()
    problem = compile_beside(
        [name, np.dtype(dtype).name, ",".join(EVERYTHING)], beside=bool(_first), check=check, reached=reached
    )
    if problem:
        log.warning("the process that compiles %s failed and this one compiles instead: %s", name, problem)


def main(told: queue.SimpleQueue[bytes], role: str) -> None:
    """What a process of a crew does for a solver; of the parts that it is told those in FIRST come first."""
    name, precision, parts = told_job(told, role)
    if role == PLAIN:
        merging.GRID = 2  # uncompiled, the usual table takes half a minute
    dtype, everything = np.dtype(precision).type, parts.split(",")
    first = [part for part in everything if part in FIRST]
    serve(told, role, lambda: exercise(name, dtype, first), lambda: exercise(name, dtype, everything))
