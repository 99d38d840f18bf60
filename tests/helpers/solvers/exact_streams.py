"""Streams of the exact solver, and checks that it stands at the optimum after any change."""

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from tests.helpers.solvers import naive
from tests.helpers.solvers.streams import Stream

PARAMETERS = {"gamma": 0.5, "degree": 2, "coef0": 1.0}


def exact_stream(X, classes, kernel="rbf", **parameters):
    made = make_kernel(kernel, **PARAMETERS)
    return Stream(X, classes, made, name="exact", batch=1, **{"dtype": np.float64, **parameters})


def check_kkt(solver, K):
    """Box, sum(alpha) = 0, g = y - K alpha, KKT to 1e-8 in every column; K (examples, examples) by key."""
    machine, n = solver.machine, solver.slots
    live = np.flatnonzero(machine.class_of[:n] != NONE)
    keys = machine.key[live]
    for c in range(solver.columns):
        alpha, lower, upper = (getattr(machine, name)[c, live] for name in ("alpha", "lower", "upper"))
        bound = machine.sign[c, live] * solver.bounds[machine.class_of[live]]
        assert np.array_equal(lower, np.minimum(bound, 0.0))
        assert np.array_equal(upper, np.maximum(bound, 0.0))
        assert (lower <= alpha).all()
        assert (alpha <= upper).all()
        assert abs(alpha.sum()) < 1e-8
        r = machine.sign[c, live] - K[np.ix_(keys, keys)] @ alpha - machine.b[c]
        assert np.allclose(r + machine.b[c], machine.g[c, live], atol=1e-9)
        if np.unique(machine.sign[c, live]).size == 2:
            assert r[alpha < upper].max(initial=-np.inf) < 1e-8
            assert r[alpha > lower].min(initial=np.inf) > -1e-8
        else:  # one class only: the score has the sign of that class
            assert (machine.b[c] * machine.sign[c, live] > 0).all()
    assert solver.certificate()["gap"] >= 0


def check_decisions(solver, scores, K, classes, held, asked):
    """Decision values (asked, columns) are right to 1e-6, compared with an optimum found from scratch."""
    for c in range(solver.columns):
        positive = 1 if solver.columns == 1 else c
        y = np.where(classes == positive, 1.0, -1.0)
        least, most = naive.right_decisions(K, y, solver.bounds[classes], held, asked)
        assert (scores[:, c] > least - 1e-6).all()
        assert (scores[:, c] < most + 1e-6).all()


class Doing:
    """A solver and the examples that it holds, changed at random and checked after every change."""

    def __init__(self, seed, n, classes, kernel, C, copies):
        self.random = np.random.default_rng(seed)
        shape = (n, 2)
        self.X = self.random.integers(-1, 2, shape) if copies else self.random.standard_normal(shape)
        self.X = self.X.astype(float)
        self.kernel, self.gamma = kernel, PARAMETERS["gamma"]
        self.stream = exact_stream(self.X, self.random.integers(0, classes, n), kernel, C=C, announced=classes)
        self.solver = self.stream.solver
        self.held, self.fresh = [], list(range(n))

    def gram(self):
        return naive.gram(self.kernel, self.X, **PARAMETERS | {"gamma": self.gamma})

    def do(self, what):
        if what == "learn" and self.fresh:
            k = self.fresh.pop()
            self.stream.learn(k, k + 1)
            self.held.append(k)
        elif what == "together":
            keys = [self.fresh.pop() for _ in range(min(4, len(self.fresh)))]
            self.solver.learn_together(self.stream.rows(self.X[keys]), self.stream.classes[keys], np.array(keys, int))
            self.held += keys
        elif what == "unlearn" and self.held:
            self.solver.unlearn([self.held.pop(int(self.random.integers(len(self.held))))])
        elif what == "unlearn many":
            gone = [self.held.pop(int(self.random.integers(len(self.held)))) for _ in range(min(3, len(self.held)))]
            self.solver.unlearn(gone)
        elif what == "drop":
            gone = [self.held.pop(int(self.random.integers(len(self.held)))) for _ in range(min(3, len(self.held)))]
            self.solver.drop(np.array([*gone, 777]))
        elif what == "relabel" and self.held:
            key, own = int(self.random.choice(self.held)), int(self.random.integers(self.solver.classes))
            self.solver.relabel(key, own)
            self.stream.classes[key] = own
        elif what == "C":
            self.solver.change_C(float(np.clip(self.solver.C * self.random.choice([0.3, 4.0]), 0.02, 200.0)))
        elif what == "weights":
            self.solver.change_C(self.solver.C, self.random.choice([0.5, 1.0, 2.0], self.solver.classes))
        elif what == "gamma" and self.kernel != "linear":
            self.gamma *= float(self.random.choice([0.7, 1.4]))
            self.solver.change_kernel(self.solver.kernel._replace(gamma=self.gamma))
        elif what == "reload":
            state = self.solver.state()
            self.solver = self.stream.solver = exact_stream(self.X, self.stream.classes, self.kernel).solver
            self.solver.load(state)
        keys = self.solver.machine.key[: self.solver.slots]
        assert sorted(keys[keys != NONE].tolist()) == sorted(self.held)
        assert np.array_equal(
            self.solver.machine.class_of[: keys.size][keys != NONE], self.stream.classes[keys[keys != NONE]]
        )
        assert (
            self.solver.seen.tolist()
            == np.bincount(self.stream.classes[self.held], minlength=self.solver.classes).tolist()
        )
