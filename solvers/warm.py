"""Compiles what a model needs before the first request needs it."""

from __future__ import annotations

import threading

import numpy as np

from solvers.catalogue import SOLVERS
from solvers.kernels import make_kernel
from solvers.rows import rows_from_csr, rows_from_dense
from solvers.sigmoid import Sigmoid
from solvers.tally import Tally, losses_of

_lock = threading.Lock()
_warm: set[tuple[str, type]] = set()


def warm_up_metrics() -> None:
    """Compile what every model runs beside its solver."""
    columns, classes = np.array([[1.0], [-1.0]]), np.array([1, 0], np.int32)
    sigmoid, tally = Sigmoid(), Tally(2)
    sigmoid.widen(1)
    losses = losses_of(sigmoid.learn(columns, classes), classes)
    sigmoid.calibration()(columns, classes)
    tally.add(np.arange(2), columns, classes, classes, losses)


def warm_up(name: str, dtype: type = np.float32) -> None:
    """Compile, or load from numba's cache, all that the solver of this name runs; at once from the second call on."""
    entry = SOLVERS[name]
    with _lock:
        if (name, dtype) in _warm:
            return
        if not _warm:
            warm_up_metrics()
        kernel = make_kernel("rbf", 0.5)
        small = {"budget": 4} if "budget" in entry.trial else {}
        parameters = {"dtype": dtype, **entry.trial, **entry.fixed, **small, "points_max": 8, "when_full": "remove"}
        solver = entry.make(kernel, 2, **parameters)
        for _ in range(2):
            solver.add_class()
        X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
        y = np.array([0, 1, 1, 0, 0, 0, 1, 1])
        rows = rows_from_dense(X, kernel, 2, solver.dtype)
        solver.learn(rows, y, np.arange(8))
        solver.add_class()
        more = rows_from_csr(np.array([0, 1, 2]), np.array([1, 0]), np.array([3.0, 3.0]), kernel, 2, solver.dtype)
        solver.learn(more, np.array([2, 2]), np.array([8, 9]))
        solver.learn(rows, y, np.arange(8), again=True)
        solver.finish()
        solver.certificate()
        solver.decision(rows)
        solver.load(solver.state())
        solver.drop(np.array([0, 9]))
        _warm.add((name, dtype))
