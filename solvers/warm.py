"""Compiles what a model needs before the first request needs it.

Processes beside this process (jit/crew.py) compile what the cache lacks; this process then loads it.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

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
from hinged.solvers.scores.sigmoid import Calibration, Sigmoid
from hinged.solvers.scores.tally import Tally, losses_of

log = logging.getLogger(__name__)

POINTS_MAX = 64  # more than there are examples here
LOADED_S = 3.0  # seconds to wait for another thread that loads the solver; compiling takes longer


def kin_of(name: str) -> str:
    """Another solver that shares much code with this solver: a second process compiles that code meanwhile.

    On two idle cores a first model of `auto` waits 11 s instead of 16, and a first model of `bsca` 11 instead of 16.
    """
    return "smo" if name != "smo" else "lasvm"


KERNEL = make_kernel("rbf", 0.5)
X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
Y = np.array([0, 1, 1, 0, 0, 0, 1, 1])

LEARN, SERVE, FINISH, FORGET = "learn", "serve", "finish", "forget"
"""Parts of a solver that are run: learning and predictions; what every model runs beside that; the finishing step; and
dropping points (also points that make way), learning again, and fading."""
FIRST, EVERYTHING = (LEARN, SERVE), (LEARN, SERVE, FINISH, FORGET)
"""The parts that a model runs from its first example on, and all parts."""

_ready: defaultdict[tuple[str, type], frozenset[str]] = defaultdict(frozenset)
"""The parts of a solver that are loaded."""
_rest: set[tuple[str, type]] = set()
"""Solvers whose other parts are being compiled in the background."""
_locks: defaultdict[tuple[type, type], threading.Lock] = defaultdict(threading.Lock)
"""A lock per class of solvers, because two names of one class run the same code. Other classes go on meanwhile."""
_ended = 0
"""Number of calls of `end_compiling`."""
before_waiting: list[Callable[[], None]] = []
"""Called on a thread before it waits for another thread that loads or compiles, or for compiling processes."""


class Ended(Abandoned):
    """`end_compiling` was called while processes compiled."""


def warm_up(
    name: str, dtype: type = np.float32, parts: Sequence[str] = EVERYTHING, watch: Callable[[], None] = lambda: None
) -> None:
    """Load all that these parts of a solver run, and compile it first if need be. Later calls return at once.

    watch: called again and again while processes compile. Raises Ended if `end_compiling` was called meanwhile.
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


def warm_up_first(name: str, dtype: type = np.float32, watch: Callable[[], None] = lambda: None) -> None:
    """Load what a new model runs, and compile it first if need be; the rest may come later (`wait_for_rest`)."""
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
    """Wait until all that the solver runs is loaded, if that is under way."""
    if (name, dtype) in _rest:
        warm_up(name, dtype)


def load(name: str, dtype: type = np.float32) -> bool:
    """Load what a new model of this solver runs if all of it is compiled; return whether it is. Takes at most 3 s.

    Also false if another thread loads or compiles it and does not finish soon.
    """
    if _ready[name, dtype] >= {*FIRST}:
        return True
    with _alone(name, dtype, EVERYTHING, LOADED_S) as alone:
        return _ready[name, dtype] >= {*FIRST} or (alone and _loads(name, dtype, EVERYTHING))


def end_compiling() -> None:
    """End the processes that compile now: `warm_up` raises Ended in the threads that wait for them."""
    global _ended  # noqa: PLW0603  it counts
    _ended += 1


@contextmanager
def _alone(name: str, dtype: type, parts: Sequence[str], seconds: float = -1) -> Iterator[bool]:
    """Whether this thread alone loads or compiles the solver, and whether that is still needed."""
    if _ready[name, dtype] >= {*parts}:
        yield False
        return
    for tell in before_waiting:
        tell()
    lock = _locks[SOLVERS[name].make, dtype]
    # A caller that rests while it holds a lock may wait for threads that wait for this lock.
    with resting(lambda: None):
        found = lock.acquire(timeout=seconds)
        try:
            yield found and not _ready[name, dtype] >= {*parts}
        finally:
            if found:
                lock.release()


def _loads(name: str, dtype: type, parts: Sequence[str]) -> bool:
    """Load what these parts of a solver run; false if something is not compiled."""
    try:
        with only_loading():
            exercise(name, dtype, parts)
    except NotCompiled:
        return False
    _ready[name, dtype] |= {*parts}
    return True


# -- the runs ---------------------------------------------------------------------------------------------------------


def exercise(name: str, dtype: type, parts: Sequence[str] = EVERYTHING) -> None:
    """Run once, in this process, what these parts of a model run; the learning always."""
    solver = _new_solver(name, dtype, POINTS_MAX)
    rows = _teach(solver)
    solver.decision(rows)
    if SERVE in parts:
        warm_up_metrics()
        solver.certificate()  # learning curves need it
    if FINISH in parts:
        solver.finish()
        warm_up_ones(solver.dtype)
        if any(isinstance(one, LASVM) for one in getattr(solver, "machines", [solver])):
            warm_up_together(solver.dtype)
    if FORGET in parts:
        # Arms of a race, too, must have points without a coefficient that go, though they see few examples.
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


def warm_up_ones(dtype: type) -> None:
    """Run once the code for points whose values are all 1: loading them, and moving them."""
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


if __name__ == "__main__":  # a compiling process
    begin()
    solver, precision, *parts_of_it = sys.argv[1:]
    exercise(solver, np.dtype(precision).type, parts_of_it)
