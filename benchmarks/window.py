"""A window on a stream whose labels flip half way: the gain and the cost of dropping old examples.

    PYTHONPATH=.:benchmarks python benchmarks/window.py --data FOLDER

The labels of the second half are inverted. Each solver learns the stream once without and once with a window. With a
window, the examples older than the window are dropped after each batch. Accuracy is prequential: each batch is
predicted just before it is learned. Solvers use the RBF kernel, C = 1 and otherwise their defaults, on one thread;
times are CPU times. For each seed, the run with a window directly follows the run without a window. Results are medians
over the seeds; each seed gives another order of the examples.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import time
from typing import NamedTuple

import numpy as np
from datasets import arguments, load, rows_of
from results import Table, keep

from hinged.solvers.catalogue import make_solver
from hinged.solvers.core.kernels import make_kernel

EVERY = 100
SETS = {"moons": 1.0, "adult": 2.0**-7, "ijcnn1": 2.0}  # gamma
SIZES = {"exact": (4_000, 500), "smo": (4_000, 500)}  # examples, window; in a plain run the whole stream becomes points
SIZE = (20_000, 2_000)
NAMES = ("lasvm", "lasvm-g", "tracking-1", "bsca", "bsgd", "perceptron", "ogd", "smo", "exact")


class Followed(NamedTuple):
    """Accuracy in percent, in four sections: the window before the flip, the two windows after it, and the rest.

    microseconds: CPU time per example, including the time to drop examples. points: number of points at the end.
    """

    before: float
    after: float
    second: float
    rest: float
    microseconds: float
    points: float


def moons(n):
    """Return two interleaved half circles with noise, and their classes."""
    random = np.random.default_rng(0)
    angle, classes = random.uniform(0, np.pi, n), random.integers(0, 2, n)
    side = 2 * classes - 1
    X = np.c_[np.cos(angle) * side + (classes == 0), np.sin(angle) * side + (classes == 0) / 2]
    return X + 0.4 * random.standard_normal((n, 2)), classes


def follow(name, gamma, X, classes, window, *, windowed):
    """Learn a stream whose labels are inverted from the middle on."""
    kernel, n, half = make_kernel("rbf", gamma), classes.size, classes.size // 2
    solver = make_solver(name, kernel, X.shape[1])
    solver.add_class()
    solver.add_class()
    rows, classes = rows_of(X, kernel, solver.dtype), np.where(np.arange(n) < half, classes, 1 - classes)
    right = np.empty(n, bool)
    start = time.process_time()
    for begin in range(0, n, EVERY):
        keys = np.arange(begin, begin + EVERY)
        scores = solver.learn(rows.part(begin, begin + EVERY), classes[keys], keys)
        right[keys] = (scores[:, 0] > 0) == (classes[keys] == 1)
        if windowed and begin >= window:
            solver.drop(keys - window)
    seconds = time.process_time() - start
    parts = [right[half + p * window : half + (p + 1) * window] for p in (-1, 0, 1)] + [right[half + 2 * window :]]
    return Followed(*(100 * part.mean() for part in parts), 1e6 * seconds / n, solver.live)


def both(name, gamma, X, classes, seed):
    """Do the plain and the windowed run on the first examples in the order of this seed."""
    n, window = SIZES.get(name, SIZE)
    order = np.random.default_rng(seed).permutation(classes.size)[:n]
    return [follow(name, gamma, X[order], classes[order], window, windowed=windowed) for windowed in (False, True)]


def main():
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--solvers", nargs="*", default=NAMES, choices=NAMES)
    options = parser.parse_args()
    tables = []
    for name_of_set in options.sets:
        if name_of_set == "moons":
            X, classes = moons(SIZE[0])
        else:
            X, y = load(options.data, name_of_set)[:2]
            classes = (y > 0).astype(np.int64)
        shares = "window before, %", "window after, %", "second after, %", "then, %"
        title = f"{name_of_set}: plain / in a window"
        tables.append(Table("solver", "window", *shares, "time an example, us", "points", title=title))
        for name in options.solvers:
            for windowed in (False, True):  # to compile
                follow(name, SETS[name_of_set], X[:1000], classes[:1000], 200, windowed=windowed)
            runs = [both(name, SETS[name_of_set], X, classes, seed) for seed in range(options.runs)]
            plain, kept = (Followed(*np.median([run[k] for run in runs], axis=0)) for k in range(2))
            cells = [f"{a:.1f} / {b:.1f}" for a, b in zip(plain[:4], kept[:4], strict=True)]
            cells += [f"{a:,.0f} / {b:,.0f}" for a, b in zip(plain[4:], kept[4:], strict=True)]
            n, window = SIZES.get(name, SIZE)
            tables[-1].add(name, f"{window:,} of {n:,}", *cells)
    keep("window", *tables)


if __name__ == "__main__":
    main()
