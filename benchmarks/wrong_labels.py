"""The cost of wrong labels for the race, for its best first arm, and for an SVC whose C and gamma are known beforehand.

    PYTHONPATH=.:benchmarks python benchmarks/wrong_labels.py --data FOLDER [--rows 6000] [--wrong 0.2] [--draws 2]
        [--refitted] [STREAM ...]

The program prints prequential accuracy in %, measured with the right labels. Each solver learns the right labels in one
run. In --draws further runs it learns labels of which a random part is wrong. Features are as in race.py. "Best arm":
each of the race's first arms runs alone to the end, and the table shows the arm with the most right predictions. The
best arm is chosen separately for right and for wrong labels. --refitted adds an SVC that is refitted on the newest
5,000 examples after 250 and 500 examples and then after every 1,000. The SVC has the best C out of 0.1, 0.3, 1, 3, 10,
and the best gamma d out of 1/4, 1, 4, 16, chosen separately for right and for wrong labels.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import numpy as np
from datasets import arguments
from race import BATCH, SHARED, arm_of, streams
from results import Table, keep
from sklearn.svm import SVC

from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.core.solver import class_numbers
from hinged.solvers.race.arms import first_settings
from hinged.solvers.race.race import Race
from hinged.solvers.warm import warm_up

STREAMS = ("phoneme", "magic", "satimage", "spambase", "twonorm", "ijcnn1", "banana", "waveform")
GRID = [(C, gamma) for C in (0.1, 0.3, 1, 3, 10) for gamma in (0.25, 1, 4, 16)]
EVERY, HELD = 1000, 5000


def served(solver, X, told, y, learn):
    """Return the accuracy in %, measured with y, of a solver that learns `told`."""
    kernel, d, right, classes = solver.kernel, X.shape[1], 0, int(y.max()) + 1
    for _ in range(classes):
        solver.add_class()
    for begin in range(0, len(y), BATCH):
        part = slice(begin, begin + BATCH)
        numbers = np.arange(begin, begin + len(y[part])) + 1
        scores = learn(rows_from_dense(X[part], kernel, d), told[part], numbers)
        right += int((class_numbers(scores, classes) == y[part]).sum())
    return 100 * right / len(y)


def raced(X, told, y):
    race = Race(make_kernel("rbf", 1 / X.shape[1]), X.shape[1], cache_bytes=2**28, **SHARED)
    return served(race, X, told, y, race.learn)


def best_arm(X, told, y):
    kernel = make_kernel("rbf", 1 / X.shape[1])
    return max(
        served(machine, X, told, y, learn)
        for machine, learn in (arm_of(setting, kernel, X.shape[1]) for setting in first_settings(kernel))
    )


def refitted(X, told, y):
    marks, right = [250, 500, *range(EVERY, len(y), EVERY)], dict.fromkeys(GRID, 0)
    for begin, end in zip(marks, [*marks[1:], len(y)], strict=True):
        held = slice(max(0, begin - HELD), begin)
        for C, gamma in GRID:
            machine = SVC(C=C, gamma=gamma / X.shape[1]).fit(X[held], told[held])
            right[C, gamma] += int((machine.predict(X[begin:end]) == y[begin:end]).sum())
    return 100 * max(right.values()) / (len(y) - marks[0])


def main():
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--wrong", type=float, default=0.2)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--refitted", action="store_true")
    parser.add_argument("streams", nargs="*", default=STREAMS)
    given = parser.parse_args()
    warm_up("auto")
    runs = {"race": raced, "best arm": best_arm} | ({"SVC": refitted} if given.refitted else {})
    heads = [f"{name}: {what}" for name in runs for what in ("right labels, %", "wrong, %", "cost")]
    shown, table = Table("stream", "examples", *heads), []
    for stream in given.streams:
        _, X, labels = next(found for found in streams(given.data, given.rows, [stream]) if found[0] == stream)
        y = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        row = []
        for run in runs.values():
            wrong = []
            for draw in range(given.draws):
                random = np.random.default_rng(draw)
                others = (y + random.integers(1, y.max() + 1, len(y))) % (y.max() + 1)
                wrong.append(run(X, np.where(random.random(len(y)) < given.wrong, others, y), y))
            right = run(X, y, y)
            row += [right, np.mean(wrong), right - np.mean(wrong)]
        shown.add(stream, f"{len(y):,}", *(f"{figure:.2f}" for figure in row))
        table.append(row)
    shown.add("mean", None, *(f"{figure:.2f}" for figure in np.mean(table, axis=0)))
    keep("wrong_labels", shown)


if __name__ == "__main__":
    main()
