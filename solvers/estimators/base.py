"""The solver of an estimator. It numbers the examples that it learns, and a pickle or copy contains its state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np

from hinged.solvers.catalogue import WITHOUT_LABELS, make_solver
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.reports import FinishRound, WholeFinish
from hinged.solvers.core.rows import Rows, rows_from_csr, rows_from_dense
from hinged.solvers.warm import FINISH, LEARN, tell, warm_up

Array = np.ndarray[Any, Any]

HEARD = 1000
"""Number of stored decision values.

Each was computed just before its example was learned; probabilities are fitted to them.
"""

PRECISIONS = {"float32": np.float32, "float64": np.float64}


class Learner:
    """A solver by name, with the numbers of its examples.

    precision: "float32" or "float64", of points and kernel values; None for the solver's default. Other parameters: see
    `make_solver`. A pickle contains `Solver.state`, without cached kernel rows. A copy learns exactly as the original,
    to the bit.
    """

    def __init__(self, name: str, kernel: Kernel, dim: int, *, precision: str | None = None, **parameters: Any) -> None:
        if precision is not None and precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
        self.name, self.parameters = name, parameters
        if precision is not None:
            self.parameters["dtype"] = PRECISIONS[precision]
        self.solver = make_solver(name, kernel, dim, **self.parameters)
        code = "exact" if name in WITHOUT_LABELS else name  # a solver without labels runs the code of this solver
        warm_up(code, self.solver.dtype, (LEARN, FINISH), partial(tell, name))
        self.numbered = 0
        self._heard: list[tuple[Array, Array]] = []  # batches, joined on demand or when there are many
        self._hearing = 0  # rows in `_heard`

    def dense_rows(self, X: Array) -> Rows:
        """Prepare a dense batch (m, dim) for this solver."""
        return rows_from_dense(X, self.solver.kernel, self.solver.dim, self.solver.dtype)

    def sparse_rows(self, indptr: Array, indices: Array, values: Array) -> Rows:
        """Prepare a CSR batch for this solver."""
        return rows_from_csr(indptr, indices, values, self.solver.kernel, self.solver.dim, self.solver.dtype)

    def learn(self, rows: Rows, classes: Array, weights: Array | None = None) -> None:
        """Learn new examples, in order. weights (m,): as in `learn_epoch`."""
        self._learn(rows, classes, np.arange(self.numbered, self.numbered + len(rows)), weights)
        self.numbered += len(rows)

    def learn_together(self, rows: Rows) -> None:
        """Learn new examples without labels, all at once."""
        keys = np.arange(self.numbered, self.numbered + len(rows))
        solver: Any = self.solver
        solver.learn_together(rows, np.zeros(len(rows), np.int64), keys)
        self.numbered += len(rows)

    def learn_epoch(
        self,
        rows: Rows,
        classes: Array,
        order: Array,
        batch: int,
        *,
        weights: Array | None = None,
        first: int = 0,
        again: bool = False,
    ) -> None:
        """Learn a whole data set in this order, `batch` rows at a time. Its rows are numbered from `first` on.

        weights (m,): factors of C, None for 1; a row of weight 0 gets a number but is not learned. again: whether the
        data was learned before, in another epoch.
        """
        if weights is not None:
            self.solver.check_weights(weights[weights > 0], int(np.count_nonzero(weights)))
        for begin in range(0, order.size, batch):
            part = order[begin : begin + batch]
            own = None if weights is None else weights[part]
            self._learn(rows.take(part), classes[part], first + part, own, again=again)
        self.numbered = max(self.numbered, first + order.size)

    def finish_over(
        self, rows: Rows, classes: Array, weights: Array | None, first: int, told: Callable[[FinishRound], None]
    ) -> WholeFinish:
        """Finish over a whole data set that was learned (`Solver.finish_over`). weights, first: as in `learn_epoch`."""
        keys = np.arange(first, first + len(rows))
        if weights is not None:
            counts = np.flatnonzero(weights > 0)
            rows, classes, keys, weights = rows.take(counts), classes[counts], keys[counts], weights[counts]
        return self.solver.finish_over(rows, classes, keys, weights, told)

    def _learn(self, rows: Rows, classes: Array, keys: Array, weights: Array | None, *, again: bool = False) -> None:
        if weights is None:
            scores = self.solver.learn(rows, classes, keys, again=again)
        else:
            counts = np.flatnonzero(weights > 0)
            classes = classes[counts]
            scores = self.solver.learn_weighted(rows.take(counts), classes, keys[counts], weights[counts], again=again)
        if not again:
            self._hear(scores, classes)

    @property
    def heard(self) -> tuple[Array, Array]:
        """The decision values (m, K) of the newest HEARD examples, and their classes (m,)."""
        if not self._heard:
            return np.zeros((0, 0)), np.zeros(0, np.int64)
        columns = self._heard[-1][0].shape[1]
        alike = list(takewhile(lambda part: part[0].shape[1] == columns, reversed(self._heard)))[::-1]
        scores, classes = (np.concatenate(parts)[-HEARD:] for parts in zip(*alike, strict=True))
        return scores, classes.astype(np.int64)

    def hear(self, scores: Array, classes: Array) -> None:
        """Store decision values of a machine from a file, as if they had been computed here."""
        columns = self.solver.columns
        if scores.ndim != 2 or scores.shape[0] != classes.size or (classes.size and scores.shape[1] != columns):
            raise ValueError(
                f"decision values of {classes.size} examples must have {columns} columns, got {scores.shape}"
            )
        if classes.size and not 0 <= classes.min() <= classes.max() < self.solver.classes:
            raise ValueError(f"classes must be from 0 to {self.solver.classes - 1}")
        self._heard, self._hearing = [(scores, classes)], classes.size

    def _hear(self, scores: Array, classes: Array) -> None:
        self._heard.append((scores[-HEARD:].copy(), classes[-HEARD:].copy()))
        self._hearing += len(self._heard[-1][1])
        if self._hearing > 2 * HEARD:
            self._heard = [self.heard]
            self._hearing = len(self._heard[0][1])

    def decision(self, rows: Rows) -> Array:
        """Return the decision values (m, columns)."""
        return self.solver.decision(rows)

    def __getstate__(self) -> dict[str, Any]:
        solver = self.solver
        return {
            "name": self.name,
            "kernel": solver.kernel,
            "dim": solver.dim,
            "parameters": {**self.parameters, "C": solver.C},  # a solver may have changed its kernel and its C
            "numbered": self.numbered,
            "fading": solver.fading,
            "heard": self.heard,
            "state": solver.state(),
        }

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.name, self.parameters, self.numbered = kept["name"], kept["parameters"], kept["numbered"]
        self.solver = make_solver(self.name, kept["kernel"], kept["dim"], **self.parameters)
        self.solver.fading = kept.get("fading", False)
        self.solver.load(kept["state"])
        self._heard = [kept["heard"]]
        self._hearing = len(kept["heard"][1])
