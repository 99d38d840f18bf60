"""Solvers on a budget, for their tests."""

import numpy as np

from hinged.solvers.budget.budget import BSCA
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.points import rows_of
from hinged.solvers.core.rows import rows_from_dense
from tests.helpers.solvers import naive

PLAIN = {"averaging": None, "step_max": None}


class Budgeted:
    """A solver on a budget and its examples; classes are numbers."""

    def __init__(self, X, classes, solver=BSCA, kernel=None, columns=None, **parameters):
        self.kernel = kernel or make_kernel("rbf", 1.0)
        self.X, self.classes = np.asarray(X, float), np.asarray(classes)
        parameters = {"dtype": np.float64} | parameters
        self.solver = solver(self.kernel, self.X.shape[1], **parameters)
        for _ in range(columns or max(2, int(self.classes.max()) + 1)):
            self.solver.add_class()

    def rows(self, X):
        return rows_from_dense(X, self.kernel, self.X.shape[1], self.solver.dtype)

    def learn(self, begin=0, end=None, again=False):
        end = len(self.X) if end is None else end
        return self.solver.learn(
            self.rows(self.X[begin:end]), self.classes[begin:end], np.arange(begin, end), again=again
        )

    def decision(self, X):
        return self.solver.decision(self.rows(X))

    def keys(self):
        """The numbers of the examples that the points held represent."""
        held = self.solver.machine.key[: self.solver.slots]
        return held[held != NONE].tolist()

    def points(self):
        """The points held, dense, and their coefficients (K, n) and classes."""
        machine, n = self.solver.machine, self.solver.slots
        live = np.flatnonzero(machine.class_of[:n] != NONE)
        indptr, indices, values = rows_of(self.solver.points, live)
        dense = np.zeros((live.size, self.X.shape[1]))
        for r in range(live.size):
            dense[r, indices[indptr[r] : indptr[r + 1]]] = values[indptr[r] : indptr[r + 1]]
        return dense, machine.alpha[:, live].copy(), machine.class_of[live].copy()


def degradation(Z, old, X, new, kernel="rbf", **parameters):
    """|sum_s old_s phi(z_s) - sum_s new_s phi(x_s)|^2 summed over the columns, from kernel values alone."""
    K = naive.gram(kernel, np.r_[Z, X], **parameters)
    beta = np.c_[old, -new]
    return float(np.einsum("ci,ij,cj->", beta, K, beta))


def brute_force(aa, bb, ab, kappa):
    """The largest |a p + b q|^2 over a fine grid of h."""
    h = np.linspace(0.0, 1.0, 20_001)
    p, q = kappa ** ((1.0 - h) ** 2), kappa ** (h**2)
    f = aa * p * p + 2.0 * ab * p * q + bb * q * q
    return h[f.argmax()], f.max()


def clipped(value, low, high):
    return max(low, min(value, high))
