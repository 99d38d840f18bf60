"""A stream of ten million examples: accuracy, time per example and memory, from beginning to end.

    PYTHONPATH=.:benchmarks python benchmarks/forever.py --data FOLDER [--examples 10000000] [--solvers lasvm lasvm-g]

The stream is electricity prices (elec2), standardised by their first 500 rows and repeated, with a slow drift: the
features rotate in four planes, once per three million examples. A tenth of the labels is wrong during learning.
Accuracy is measured with the right labels. Each batch of 500 is predicted before it is learned. C = 3 and gamma = 1 /
d; points_max and when_full are as in a model of the server. The first table rows show the first hundred thousand
examples, during which no point is removed.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import resource
import time

import numpy as np
from datasets import arguments, load
from refitted import standardised
from results import Table, keep

from hinged.service.data.parts import POINTS
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.estimators.base import Learner
from hinged.solvers.warm import exercise

BATCH, C, WRONG, TURN = 500, 3.0, 0.1, 3_000_000


class Stream:
    """The batches of the stream, in order."""

    def __init__(self, folder, examples):
        X, y, *_ = load(folder, "elec2")
        self.X, self.y = standardised(np.asarray(X, float)), y == np.unique(y)[-1]
        self.examples, self.random = examples, np.random.default_rng(0)

    def __iter__(self):
        for begin in range(0, self.examples, BATCH):
            at = np.arange(begin, min(begin + BATCH, self.examples))
            x, right = self.X[at % len(self.y)], self.y[at % len(self.y)]
            angle = 2 * np.pi * at / TURN
            cos, sin = np.cos(angle)[:, None].astype(np.float32), np.sin(angle)[:, None].astype(np.float32)
            a, b = x[:, 0::2], x[:, 1::2]
            turned = np.concatenate((cos * a - sin * b, sin * a + cos * b), axis=1)
            yield at, turned, right, right ^ (self.random.random(at.size) < WRONG)


def run(table, name, stream, every, **parameters):
    """Add a table row for each part of the stream."""
    exercise(name, np.float32)  # to compile
    d = stream.X.shape[1]
    learner = Learner(name, make_kernel("rbf", 1 / d), d, C=C, **parameters)
    for _ in range(2):
        learner.solver.add_class()
    right, spent = [], 0.0
    for at, x, labels, given in stream:
        rows, began = learner.dense_rows(x), time.process_time()
        scores = learner.solver.learn(rows, given.astype(np.int64), at)
        spent += time.process_time() - began
        right.append((scores[:, 0] > 0) == labels)
        if (at[-1] + 1) % every == 0 or at[-1] + 1 == stream.examples:
            solver, seen = learner.solver, np.concatenate(right)
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            us, mib = f"{1e6 * spent / seen.size:.0f}", f"{solver.memory_bytes() / 2**20:.0f}"
            table.add(name, f"{at[-1] + 1:,}", f"{100 * seen.mean():.2f}", us, f"{solver.live:,}", mib, most >> 10)
            right, spent = [], 0.0


def main():
    parser = arguments(__doc__)
    parser.add_argument("--examples", type=int, default=10_000_000)
    parser.add_argument("--solvers", nargs="+", default=["lasvm"])
    given = parser.parse_args()
    figures = "accuracy, %", "time an example, us", "points", "solver, MiB", "process, MiB"
    table = Table("solver", "examples", *figures)
    run(table, "lasvm", Stream(given.data, 100_000), 20_000)
    for name in given.solvers:
        every = max(given.examples // 10, BATCH)
        run(table, name, Stream(given.data, given.examples), every, points_max=POINTS, when_full="remove")
    keep("forever", table)


if __name__ == "__main__":
    main()
