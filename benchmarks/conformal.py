"""Full conformal prediction by increments, beside fitting again and online-cp: times per x, and equal p-values.

    PYTHONPATH=.:benchmarks python benchmarks/conformal.py --data FOLDER [--held 500 1000] [--sets pima banana]

`exact` holds examples (C = 1, gamma = 1 / d, standardised). For each further x it computes the p-value of every class:
one increment and one decrement per class. "refit" is the time of `SVC` of scikit-learn (tol 1e-9) with x under each
label. "unequal" counts the p-values that differ by more than 1e-9 from the p-values of `SVC`. online-cp (`pip install
--no-deps online-cp`) solves each problem from nothing with its default tolerance; "off" is the largest difference of
its p-values, computed with the same measure of strangeness. The programs take turns in one run.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import importlib.util
import time

import numpy as np
from datasets import arguments, load
from refitted import standardised
from results import Table
from sklearn.svm import SVC

from hinged.sklearn import ExactSVMClassifier

SETS = ("pima", "banana", "waveform", "adult")
ASKED, REFITTED = 100, 5
NEAR = 1e-6  # differences of SVC's decision values that count as equal


def examples_of(folder, name):
    """Return X (n, d) and y (n,), in a random order."""
    X, y, *_ = load(folder, name)
    order = np.random.default_rng(0).permutation(len(y))[:20_000]
    X = np.asarray((X.toarray() if hasattr(X, "toarray") else X)[order], float)
    return standardised(X), np.unique(y, return_inverse=True)[1][order]


def share(strange, own):
    """Return the p-value of the last example: the share of its class that is at least as strange."""
    return (strange[own] >= strange[-1] - NEAR).mean()


def by_refitting(X, labels, number, gamma):
    y = np.where(labels == number, 1, -1)
    return share(1.0 - y * SVC(C=1.0, gamma=gamma, tol=1e-9).fit(X, y).decision_function(X), labels == number)


def by_online_cp(X, labels, number, gamma):
    from online_cp.classifiers import ConformalSupportVectorMachine, _smo_solve  # noqa: PLC0415

    K = ConformalSupportVectorMachine(kernel="rbf", sigma=np.sqrt(0.5 / gamma))._compute_gram(X)  # noqa: SLF001
    y = np.where(labels == number, 1.0, -1.0)
    begun = time.perf_counter()
    alpha, b = _smo_solve(K, y, 1.0)  # the kernel matrix is kept between two x, so it does not count
    spent = time.perf_counter() - begun
    return share(1.0 - y * (K @ (alpha * y) + b), labels == number), spent


def measured(X, y, held):
    """Return the cells of a row."""
    gamma, asked = 1.0 / X.shape[1], X[held : held + ASKED]
    machine = ExactSVMClassifier(C=1.0, gamma=gamma).fit(X[:held], y[:held])
    machine.p_values(asked[:1])  # loads the code
    begun = time.perf_counter()
    found = machine.p_values(asked)
    own, refit, theirs, off, unequal = (time.perf_counter() - begun) / len(asked), 0.0, None, 0.0, 0
    with_peer = importlib.util.find_spec("online_cp") is not None
    for x, p in zip(asked[:REFITTED], found, strict=False):
        for number in range(found.shape[1]):
            problem = np.vstack((X[:held], x)), np.append(y[:held], number), number, gamma
            begun = time.perf_counter()
            unequal += abs(by_refitting(*problem) - p[number]) > 1e-9
            refit += (time.perf_counter() - begun) / REFITTED
            if with_peer:
                value, spent = by_online_cp(*problem)
                theirs, off = (theirs or 0.0) + spent / REFITTED, max(off, abs(value - p[number]))
    peer = [f"{1e3 * theirs:.1f}", f"{theirs / own:.0f}", f"{off:.3f}"] if theirs is not None else [None] * 3
    return [
        *(held, X.shape[1], found.shape[1], f"{1e3 * own:.2f}", f"{1e3 * refit:.1f}", f"{refit / own:.0f}"),
        *(f"{unequal} of {REFITTED * found.shape[1]}", *peer),
    ]


def main():
    parser = arguments(__doc__)
    parser.add_argument("--held", type=int, nargs="+", default=[500, 1000])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    given = parser.parse_args()
    table = Table(
        "set", "held", "features", "classes", "ms", "refit, ms", "refit / ms", "unequal", "online-cp, ms",
        "online-cp / ms", "online-cp: off",
    )  # fmt: skip
    for name in given.sets:
        X, y = examples_of(given.data, name)
        for held in given.held:
            if len(y) >= held + ASKED:
                table.add(name, *measured(X, y, held))


if __name__ == "__main__":
    main()
