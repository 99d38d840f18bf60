"""The papers' binary problems, and functions that train and measure solvers on them. Not a program."""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from datasets import load
from results import Table, keep
from scipy.sparse import csr_matrix
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

from hinged.solvers.catalogue import make_solver
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import (
    Rows,
    joined,
    rows_from_csr,
    rows_from_dense,
)

BATCH = 256
TRAIN = {"banana": 4000, "usps": 7329}  # number of training examples of the sets that are split at random
# Factor of rows in [-1, 1] for the papers' gamma = 2: it equals pixels in [0, 1] divided by 16. Without the factor, the
# kernel would be the identity. No scale gives the printed support vectors on the usual split of USPS. This scale nearly
# does, on random splits into 7,329 and 1,969.
USPS_SCALE = 1 / 32
PRINTED = {  # names of the solvers as their papers print them
    "lasvm": {"delta_max": None, "delta_min": 0.0, "idle_max": 0},
    **{f"tracking-{algorithm}": {"draws": 1, "delta_max": None} for algorithm in (1, 2, "cached", "batch")},
}
POSITIVE = {"waveform": 0, "usps": 0, "mnist": 8}  # one class against the rest


@dataclass(frozen=True)
class Problem:
    """Rows and classes 0, 1 of a training and a test set, with gamma and C for an RBF kernel.

    A set that is split at random has `train` training examples. Before `shuffled`, its test set is part of the training
    set.
    """

    rows: Rows
    classes: Any
    test: Rows
    test_classes: Any
    gamma: float
    C: float
    train: int | None = None
    noise: float = 0.0  # fraction of the training labels that are changed
    forms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # parameters by solver, instead of defaults

    @cached_property
    def kernel(self):
        """The RBF kernel."""
        return make_kernel("rbf", self.gamma)

    def shuffled(self, seed):
        """Return the problem with its training examples in another order, or split again, and with its label noise."""
        random = np.random.default_rng(seed)
        order = random.permutation(len(self.rows))
        found = replace(self, rows=self.rows.take(order[: self.train]), classes=self.classes[order[: self.train]])
        if self.train is not None:
            rest = order[self.train :]
            found = replace(found, test=self.rows.take(rest), test_classes=self.classes[rest])
        found.classes[random.permutation(found.classes.size)[: round(self.noise * found.classes.size)]] ^= 1
        return found

    def first(self, n):
        """Return the problem with only the first n training examples."""
        return replace(self, rows=self.rows.part(0, min(n, len(self.rows))), classes=self.classes[:n])

    def solver(self, name, **parameters):
        """Return an untrained solver that knows the classes."""
        parameters = {**self.forms.get(name, {}), **parameters}
        solver = make_solver(name, self.kernel, self.rows.dim, C=self.C, **parameters)
        for _ in range(self.classes.max() + 1):
            solver.add_class()
        return solver


def problem(folder, name, gamma, C, noise=0.0, train=None):
    """Return the set of this name, scaled. train: number of training examples that are split off at random."""
    train = TRAIN.get(name, train)
    kernel = make_kernel("rbf", gamma)
    X, y, X_test, y_test = load(folder, name)
    if name == "waveform":  # the papers' source has standardised features
        X, X_test = (X - X.mean(axis=0)) / X.std(axis=0), (X_test - X.mean(axis=0)) / X.std(axis=0)

    def rows_of(X):
        if isinstance(X, np.ndarray):
            scale = {"mnist": 1 / 255, "usps": USPS_SCALE}.get(name, 1.0)
            return rows_from_dense(X * np.float32(scale), kernel, X.shape[1])
        return rows_from_csr(X.indptr, X.indices, X.data, kernel, X.shape[1])

    def classes_of(y):
        return (y == POSITIVE[name] if name in POSITIVE else y > 0).astype(np.int64)

    rows, classes = rows_of(X), classes_of(y)
    if train is None:
        return Problem(rows, classes, rows_of(X_test), classes_of(y_test), gamma, C, noise=noise)
    if X_test is not None:
        rows, classes = joined([rows, rows_of(X_test)]), np.concatenate((classes, classes_of(y_test)))
    return Problem(rows, classes, rows, classes, gamma, C, train, noise)


class Measured(NamedTuple):
    """The measurements of a trained solver: percent, counts, millions of kernel values, CPU seconds."""

    error: float
    prbep: float
    auc: float
    g_means: float
    support_vectors: float
    kernel_values: float
    seconds: float


def measure(scores, classes, support_vectors, kernel_values, seconds):
    """Return the measurements for decision values (m,) of a test set with classes (m,).

    PRBEP: precision at the threshold at which as many examples are called positive as there are positives. There,
    precision equals recall.
    """
    positives = classes == 1
    called = scores > 0
    top = np.argsort(-scores, kind="stable")[: positives.sum()]
    sensitivity, specificity = called[positives].mean(), 1 - called[~positives].mean()
    return Measured(
        100 * (called != positives).mean(),
        100 * positives[top].mean(),
        roc_auc_score(positives, scores),
        100 * np.sqrt(sensitivity * specificity),
        support_vectors,
        kernel_values / 1e6,
        seconds,
    )


def measured(solver, problem, seconds):
    certificate = solver.certificate()
    return measure(
        solver.decision(problem.test)[:, 0],
        problem.test_classes,
        certificate["support_vectors"],
        certificate["kernel_evaluations"],
        seconds,
    )


def learn(solver, problem, *, again=False, batch=BATCH):
    """Learn one epoch in the problem's order; return CPU seconds and the decision values from before each example."""
    scores, start = [], time.process_time()
    for begin in range(0, len(problem.rows), batch):
        end = min(begin + batch, len(problem.rows))
        rows, classes = problem.rows.part(begin, end), problem.classes[begin:end]
        scores.append(solver.learn(rows, classes, np.arange(begin, end), again=again)[:, 0])
    return time.process_time() - start, np.concatenate(scores)


def finish(solver):
    """Return the CPU seconds of the finishing step."""
    start = time.process_time()
    solver.finish()
    return time.process_time() - start


def own_values(name, problem):
    """Return (own, all): millions of kernel values that a pass and the finishing step compute.

    own: only the values of each example's row with the points at that time. all: every value. The difference is the
    number of values that are missing from a row when the row is needed again. A cache that looks up K(i, j) as K(j, i)
    does not compute these values.
    """
    solver, own = problem.solver(name), 0
    for i in range(len(problem.rows)):
        own += solver.live
        solver.learn(problem.rows.part(i, i + 1), problem.classes[i : i + 1], np.array([i]))
    solver.finish()
    return own / 1e6, solver.certificate()["kernel_evaluations"] / 1e6


def fitted(problem, cache_mb=512):
    """Fit scikit-learn's SVC, which is LIBSVM. Return its CPU seconds, the machine, and the test rows in its form."""
    X, X_test = (csr_matrix((r.values, r.indices, r.indptr), (len(r), r.dim)) for r in (problem.rows, problem.test))
    start = time.process_time()
    svc = SVC(C=problem.C, gamma=problem.gamma, tol=1e-3, cache_size=cache_mb).fit(X, problem.classes)
    return time.process_time() - start, svc, X_test


def libsvm(problem):
    """Return the measurements of SVC, whose kernel values cannot be counted."""
    seconds, svc, X_test = fitted(problem)
    return measure(svc.decision_function(X_test), problem.test_classes, svc.n_support_.sum(), np.nan, seconds)


def compile_all(problem, names):
    """Run each solver on a few examples, so that no measured time includes compiling."""
    for name in names:
        solver = problem.solver(name)
        part = problem.first(300)
        learn(solver, part)
        learn(solver, part, again=True)
        solver.finish()
        measured(solver, part, 0.0)


def median(measurements):
    return Measured(*np.median(np.array(measurements), axis=0))


def mean(measurements):
    return Measured(*np.mean(np.array(measurements), axis=0))


def beside(mine, printed):
    """Return a table cell: "our value / the paper's value", or only our value."""
    theirs = "" if printed is None else f"{printed:,}" if isinstance(printed, int) else f"{printed:g}"
    return f"{mine or '-'} / {theirs}" if theirs else mine


def print_table(name, title, head, lines):
    """Print a table and save it under a name. A line that is too short is padded with empty cells."""
    table = Table(*head, title=title)
    for line in lines:
        table.add(*line, *[None] * (len(head) - len(line)))
    keep(name, table)
