"""The error that float32 kernel values cause: the gradients of a finished machine, compared with exact gradients.

    PYTHONPATH=.:benchmarks python benchmarks/precision.py --data FOLDER

One machine has float32 and one has float64 kernel values. Both learn Adult in the same order, in one pass with the
finishing step. C = 100, gamma = 0.005, tol = 0.001.
"""

import numpy as np
from datasets import arguments, load, rows_of
from results import Table, keep

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.points import rows_of as stored_rows
from hinged.solvers.dual.lasvm import LASVM

C, GAMMA, TOL = 100.0, 0.005, 1e-3


def exact_gram(A, B):
    """Return RBF kernel values of dense rows in float64."""
    squares = (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1) - 2 * A @ B.T
    return np.exp(-GAMMA * np.maximum(squares, 0))


def trained(kernel, X, y, dtype):
    solver = LASVM(kernel, X.shape[1], C=C, tol=TOL, dtype=dtype)
    for _ in range(2):
        solver.add_class()
    order = np.random.default_rng(0).permutation(len(y))
    rows = rows_of(X, kernel, dtype)
    for part in np.array_split(order, len(order) // 1000):
        solver.learn(rows.take(part), (y[part] > 0).astype(int), part)
    solver.finish()
    return solver


def main():
    options = arguments(__doc__).parse_args()
    X, y, X_test, y_test = load(options.data, "adult")
    kernel = make_kernel("rbf", GAMMA)
    scores = {}
    table = Table("precision", "largest error of a gradient", "median error", "dual objective", "test accuracy, %")
    for dtype in (np.float32, np.float64):
        solver = trained(kernel, X, y, dtype)
        machine, n = solver.machine, solver.slots
        live = np.flatnonzero(machine.class_of[:n] != NONE)
        indptr, indices, values = stored_rows(solver.points, live)
        dense = np.zeros((live.size, X.shape[1]))
        dense[np.repeat(np.arange(live.size), np.diff(indptr)), indices] = values
        alpha = machine.alpha[0, live]
        g = np.concatenate(
            [
                machine.sign[0, live[part]] - exact_gram(dense[part], dense) @ alpha
                for part in np.array_split(np.arange(live.size), 20)
            ]
        )
        errors = np.abs(g - machine.g[0, live])
        scores[dtype] = solver.decision(rows_of(X_test, kernel, dtype))[:, 0]
        accuracy = ((scores[dtype] > 0) == (y_test > 0)).mean()
        dual = solver.certificate()["dual"]
        figures = f"{errors.max():.1e}", f"{np.median(errors):.1e}", f"{dual:,.1f}", f"{100 * accuracy:.2f}"
        table.add(np.dtype(dtype).name, *figures)
    difference = np.abs(scores[np.float32] - scores[np.float64])
    print(
        f"\nTheir decision values differ by at most {difference.max():.3f}, {np.median(difference):.4f} in the median."
    )
    keep("precision", table)


if __name__ == "__main__":
    main()
