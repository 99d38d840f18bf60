"""A solver as estimators hold one: it numbers what it learns, and pickles and copies as its state."""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.solvers.catalogue import make_solver
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.rows import Rows, rows_from_csr, rows_from_dense
from hinged.solvers.estimators.compiling import told

Array = np.ndarray[Any, Any]

HEARD = 1000
"""Decision values that are kept, each from right before its example was learned: what probabilities are fitted to."""

PRECISIONS = {"float32": np.float32, "float64": np.float64}


class Learner:
    """A solver by name and its examples' numbers. Other parameters: make_solver.

    precision: "float32" or "float64", of points and kernel values; None for what the solver has by itself.

    What is pickled is `Solver.state`, without cached kernel rows; a copy goes on learning to the bit.
    """

    def __init__(self, name: str, kernel: Kernel, dim: int, *, precision: str | None = None, **parameters: Any) -> None:
        if precision is not None and precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
        self.name, self.parameters = name, parameters
        if precision is not None:
            self.parameters["dtype"] = PRECISIONS[precision]
        with told(name):
            self.solver = make_solver(name, kernel, dim, **self.parameters)
        self.numbered = 0
        self.heard: tuple[Array, Array] = (np.zeros((0, 0)), np.zeros(0, np.int64))  # scores (m, K), classes (m,)

    def dense_rows(self, X: Array) -> Rows:
        """A dense batch (m, dim) as this solver takes it."""
        return rows_from_dense(X, self.solver.kernel, self.solver.dim, self.solver.dtype)

    def sparse_rows(self, indptr: Array, indices: Array, values: Array) -> Rows:
        """A CSR batch as this solver takes it."""
        return rows_from_csr(indptr, indices, values, self.solver.kernel, self.solver.dim, self.solver.dtype)

    def learn(self, rows: Rows, classes: Array) -> None:
        """Learn new examples, in order."""
        with told(self.name):
            scores = self.solver.learn(rows, classes, np.arange(self.numbered, self.numbered + len(rows)))
        self._hear(scores, classes)
        self.numbered += len(rows)

    def learn_epoch(self, rows: Rows, classes: Array, order: Array, batch: int, *, again: bool) -> None:
        """Learn a whole data set in this order, `batch` rows at a time; in its first epoch the rows get numbers."""
        for begin in range(0, order.size, batch):
            part = order[begin : begin + batch]
            scores = self.solver.learn(rows.take(part), classes[part], part, again=again)
            if not again:
                self._hear(scores, classes[part])
        self.numbered = max(self.numbered, order.size)

    def _hear(self, scores: Array, classes: Array) -> None:
        former = self.heard if self.heard[0].shape[1] == scores.shape[1] else (scores[:0], classes[:0])
        self.heard = (
            np.concatenate((former[0], scores))[-HEARD:],
            np.concatenate((former[1], np.asarray(classes, np.int64)))[-HEARD:],
        )

    def decision(self, rows: Rows) -> Array:
        """Decision values (m, columns)."""
        with told(self.name):
            return self.solver.decision(rows)

    def __getstate__(self) -> dict[str, Any]:
        solver = self.solver
        return {
            "name": self.name,
            "kernel": solver.kernel,
            "dim": solver.dim,
            "parameters": {**self.parameters, "C": solver.C},  # a solver may have changed its kernel and its C
            "numbered": self.numbered,
            "heard": self.heard,
            "state": solver.state(),
        }

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.name, self.parameters, self.numbered = kept["name"], kept["parameters"], kept["numbered"]
        self.solver = make_solver(self.name, kept["kernel"], kept["dim"], **self.parameters)
        self.solver.load(kept["state"])
        self.heard = kept["heard"]
