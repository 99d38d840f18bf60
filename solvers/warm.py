"""Compiles what a model needs before the first request needs it."""

from __future__ import annotations

import threading

import numpy as np

from solvers.kernels import make_kernel
from solvers.lasvm import LASVM
from solvers.rows import rows_from_csr, rows_from_dense

_lock = threading.Lock()
_warm: set[type] = set()


def warm_up(dtype: type = np.float32) -> None:
    """Compile, or load from numba's cache, every function for points of this dtype; at once from the second call on."""
    with _lock:
        if dtype in _warm:
            return
        kernel = make_kernel("rbf", 0.5)
        solver = LASVM(kernel, 2, dtype=dtype, cache_bytes=2**16)
        for _ in range(2):
            solver.add_class()
        X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        solver.learn(rows_from_dense(X, kernel, 2, dtype), np.array([0, 1, 1, 0]), np.arange(4))
        solver.add_class()
        solver.learn(
            rows_from_csr(np.array([0, 1]), np.array([1]), np.array([3.0]), kernel, 2, dtype),
            np.array([2]),
            np.array([4]),
        )
        solver.finish()
        solver.certificate()
        solver.decision(rows_from_dense(X, kernel, 2, dtype))
        _warm.add(dtype)
