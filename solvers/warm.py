"""Compiles the code that a model needs before the first request needs it.

Separate processes (jit/crew.py) compile the code that is missing from the cache; then this process loads it.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial

import numpy as np

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.ahead import block_of, features_of, rows_together
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.memory import aligned_empty
from hinged.solvers.core.points import compacted, points_from_rows
from hinged.solvers.core.rows import Rows, rows_from_csr, rows_from_dense
from hinged.solvers.core.solver import Solver
from hinged.solvers.core.turns import Abandoned, resting
from hinged.solvers.dual.lasvm import LASVM
from hinged.solvers.jit.cache import NotCompiled, only_loading
from hinged.solvers.jit.crew import begin, compile_beside
from hinged.solvers.scores.novelty import Sample
from hinged.solvers.scores.sigmoid import Calibration, Sigmoid
from hinged.solvers.scores.tally import Tally, losses_of

log = logging.getLogger(__name__)

POINTS_MAX = 64  # larger than the number of examples here
LOADED_S = 3.0  # seconds to wait for another thread that loads the solver; compiling takes longer


def kin_of(name: str) -> str:
    """Return another solver that shares much code with this solver. A second process compiles that code meanwhile.

    On two idle cores a first model of `auto` waits 11 s instead of 16, and a first model of `bsca` 11 instead of 16.
    """
    return "smo" if name != "smo" else "lasvm"


KERNEL = make_kernel("rbf", 0.5)
X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
Y = np.array([0, 1, 1, 0, 0, 0, 1, 1])

LEARN, SERVE, FINISH, FORGET = "learn", "serve", "finish", "forget"
"""Parts of a solver that are run.

LEARN: learning and predictions. SERVE: code that every model also runs. FINISH: the finishing step. FORGET: dropping
points (also at points_max), learning again, fading, and novelty.
"""
FIRST, EVERYTHING = (LEARN, SERVE), (LEARN, SERVE, FINISH, FORGET)
"""The parts that a model runs from its first example on, and all parts."""

_ready: defaultdict[tuple[str, type], frozenset[str]] = defaultdict(frozenset)
"""The loaded parts of each solver."""
_rest: set[tuple[str, type]] = set()
"""The solvers whose remaining parts are being compiled in the background."""
_locks: defaultdict[tuple[type, type], threading.Lock] = defaultdict(threading.Lock)
"""A lock per solver class, because two names of one class run the same code. Other classes are not blocked."""
_ended = 0
"""Number of calls of `end_compiling` so far."""
before_waiting: list[Callable[[], None]] = []
"""Functions called on a thread before it waits for another thread that loads or compiles, or for compiler processes."""


class Ended(Abandoned):
    """Raised if `end_compiling` was called while processes compiled."""


def warm_up(
    name: str, dtype: type = np.float32, parts: Sequence[str] = EVERYTHING, watch: Callable[[], None] = lambda: None
) -> None:
    """Load the code of these parts of a solver; compile it first if needed. Later calls return at once.

    watch: called repeatedly while processes compile. Raises Ended if `end_compiling` is called meanwhile.
    """
    began = _ended

    def meanwhile() -> None:
        if _ended != began:
            raise Ended
        watch()

    with _alone(name, dtype, parts) as alone:
        if not alone or _loads(name, dtype, parts):
            return
        programs = [["-m", __name__, each, np.dtype(dtype).name, *parts] for each in (name, kin_of(name))]
        is_there = partial(_loads, name, dtype, parts)
        problem = compile_beside(programs, is_there, meanwhile, beside=any([*_ready.values()]))
        if problem:
            log.warning("the process that compiles %s failed; this process compiles instead: %s", name, problem)
        exercise(name, dtype, parts)
        _ready[name, dtype] |= {*parts}


@cache
def tell(name: str) -> None:
    """Report on stderr, once, that functions of this solver are being compiled."""
    print(f"hinged: compiling {name}, which takes 5 to 30 s, on this machine only once", file=sys.stderr)  # noqa: T201


def warm_up_first(name: str, dtype: type = np.float32, watch: Callable[[], None] = lambda: None) -> None:
    """Load the code that a new model runs; compile it first if needed. `wait_for_rest` waits for the remaining code."""
    if load(name, dtype):
        return

    def rest() -> None:
        with suppress(Ended):
            warm_up(name, dtype)
        _rest.discard((name, dtype))

    _rest.add((name, dtype))
    warm_up(name, dtype, FIRST, watch)
    threading.Thread(target=rest, name=f"compiling {name}", daemon=True).start()


def wait_for_rest(name: str, dtype: type) -> None:
    """Wait until all code of the solver is loaded, if it is being compiled in the background."""
    if (name, dtype) in _rest:
        warm_up(name, dtype)


def load(name: str, dtype: type = np.float32) -> bool:
    """Load the code that a new model of this solver runs, if all of it is compiled; return whether it is loaded.

    This takes at most 3 s. It also returns False if another thread loads or compiles the code and does not finish soon.
    """
    if _ready[name, dtype] >= {*FIRST}:
        return True
    with _alone(name, dtype, EVERYTHING, LOADED_S) as alone:
        return _ready[name, dtype] >= {*FIRST} or (alone and _loads(name, dtype, EVERYTHING))


def end_compiling() -> None:
    """End the processes that compile now. `warm_up` then raises Ended in the threads that wait for them."""
    global _ended  # noqa: PLW0603  it counts
    _ended += 1


@contextmanager
def _alone(name: str, dtype: type, parts: Sequence[str], seconds: float = -1) -> Iterator[bool]:
    """Yield whether this thread is the only one to load or compile the solver, and whether that is still needed."""
    if _ready[name, dtype] >= {*parts}:
        yield False
        return
    for tell in before_waiting:
        tell()
    lock = _locks[SOLVERS[name].make, dtype]
    # A caller that rests while it holds a lock may wait for threads that wait for this lock. So do not rest.
    with resting(lambda: None):
        found = lock.acquire(timeout=seconds)
        try:
            yield found and not _ready[name, dtype] >= {*parts}
        finally:
            if found:
                lock.release()


def _loads(name: str, dtype: type, parts: Sequence[str]) -> bool:
    """Load the code of these parts of a solver; return False if some of it is not compiled."""
    try:
        with only_loading():
            exercise(name, dtype, parts)
    except NotCompiled:
        return False
    _ready[name, dtype] |= {*parts}
    return True


# -- the runs ---------------------------------------------------------------------------------------------------------


def exercise(name: str, dtype: type, parts: Sequence[str] = EVERYTHING) -> None:
    """Run once, in this process, the code of these parts of a model. Learning is always included."""
    solver = _new_solver(name, dtype, POINTS_MAX)
    rows = _teach(solver)
    solver.decision(rows)
    if SERVE in parts:
        warm_up_metrics()
        solver.certificate()  # needed by learning curves
    if FINISH in parts:
        solver.finish_over(rows, 1 - Y, np.arange(100, 108))  # of these examples some violate
        warm_up_ones(solver.dtype)
        if any(isinstance(one, LASVM) for one in getattr(solver, "machines", [solver])):
            warm_up_together(solver.dtype)
    if FORGET in parts:
        # The arms of a race, too, must remove points without a coefficient, although they see few examples here.
        full = _new_solver(name, dtype, len(X), **({"idle_max": 0} if name == "auto" else {}))
        _teach(full)
        full.learn(rows, Y, np.arange(len(X)), again=True)
        full.load(full.state())
        full.decision(rows)
        full.finish()
        full.drop(full.keys()[:2])
        if full.fades:
            full.fade(0.5)
        full.certificate()
        Sample(rows).compare(rows)


def warm_up_ones(dtype: type) -> None:
    """Run once the code that loads and moves points whose values are all 1."""
    points = points_from_rows(rows_from_dense(np.ones((1, 2)), KERNEL, 2, dtype), 2)
    compacted(points, np.arange(1), 2, 2, 2)


def warm_up_together(dtype: type) -> None:
    """Run once the code that computes rows together, which solvers use only with many points."""
    rows = rows_from_dense(X, KERNEL, 2, dtype)
    points = points_from_rows(rows, 2)
    features = features_of(rows.indptr, rows.indices, rows.values, 2)
    scratch = aligned_empty((rows.norms.size * block_of(points.columns),), dtype)
    rows_together(KERNEL, points, features, rows.norms, 0, 0, scratch, np.empty((1, 1), dtype))


def warm_up_metrics() -> None:
    """Run once the code that every model runs besides its solver."""
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


if __name__ == "__main__":  # the program of a compiler process
    begin()
    solver, precision, *parts_of_it = sys.argv[1:]
    exercise(solver, np.dtype(precision).type, parts_of_it)
