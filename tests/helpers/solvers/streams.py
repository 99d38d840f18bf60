import numpy as np

from hinged.solvers.catalogue import SOLVERS, make_solver
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense


def settled(X):
    """Round to whole 2^-30: NumPy's cosines and normal numbers differ in the last bit between processors."""
    return np.rint(X * 2.0**30) / 2.0**30


def two_moons(n, noise=0.25, seed=0):
    """Two interleaved half circles and their labels -1, +1."""
    random = np.random.default_rng(seed)
    angle = random.uniform(0, np.pi, n)
    y = random.choice([-1, 1], n)
    X = np.c_[np.cos(angle), np.sin(angle)] * y[:, None] + np.c_[np.where(y > 0, 0.0, 1.0), np.where(y > 0, 0.0, 0.5)]
    return settled(X + noise * random.standard_normal((n, 2))), y


class Stream:
    """A solver and its examples, of +-1 labels or class numbers, learned in batches."""

    def __init__(self, X, classes, kernel=None, batch=64, name="lasvm", announced=None, weights=None, **parameters):
        self.name, self.dtype = name, parameters.get("dtype", np.float32)
        self.kernel = kernel or make_kernel("rbf", 1.0)
        self.X, self.classes, self.batch = np.asarray(X, float), np.asarray(classes), batch
        self.solver = make_solver(name, self.kernel, self.X.shape[1], **parameters)
        for _ in range(max(2, int(self.classes.max()) + 1) if announced is None else announced):
            self.solver.add_class()
        self.weights = weights
        self.scores = []

    def rows(self, X):
        return rows_from_dense(X, self.solver.kernel, self.X.shape[1], self.dtype)  # which may have changed

    def learn(self, begin=0, end=None, again=False):
        end = len(self.X) if end is None else end
        for b in range(begin, end, self.batch):
            e = min(b + self.batch, end)
            part = self.rows(self.X[b:e]), self.classes[b:e], np.arange(b, e)
            if self.weights is None:
                self.scores.append(self.solver.learn(*part, again=again))
            else:
                self.scores.append(self.solver.learn_weighted(*part, self.weights[b:e], again=again))
        return self

    def decision(self, X):
        return self.solver.decision(self.rows(X))


def stream_of(name, X, classes, **changes):
    """A stream into a solver of this name, with its small parameters, in its first allowed precision."""
    parameters = {"C": 10.0, **SOLVERS[name].trial, **changes}
    parameters["dtype"] = SOLVERS[name].fixed.get("dtype", np.float32)
    return Stream(X, classes, name=name, **parameters)


def machines(solver):
    """The solver itself, or the machines it is made of."""
    return getattr(solver, "machines", [solver])


def three_classes(n=240, seed=0):
    """Three round clouds and their class numbers."""
    random = np.random.default_rng(seed)
    classes = random.integers(0, 3, n)
    centres = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    return settled(centres[classes] + 0.5 * random.standard_normal((n, 2))), classes


def same(a, b):
    """Assert that two states are the same to the bit."""
    assert a.keys() == b.keys()
    for key in a:
        assert a[key].dtype == b[key].dtype, key
        assert np.array_equal(a[key], b[key]), key
