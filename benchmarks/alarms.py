"""False alarms and delays of the alarm of bounded error (service/model/promises/alarm.py), beside ADWIN.

    PYTHONPATH=.:benchmarks python benchmarks/alarms.py --data FOLDER [--level 0.01] [--shuffles 250] [--learning 25]
        [--seeds 10]

The first table: the errors of one machine that has learned each set, shuffled again and again, so the streams are
exchangeable. The second table: a machine that learns each shuffled set from the beginning, so its errors become rarer.
Both tables count streams with at least one alarm. The third table: a stream changes at example 5,000, while a LASVM
machine (C = 1) learns it. A delay is the number of examples from the change to the next alarm, or to the end of the
stream, 3,000 examples later. An alarm before the change counts as early.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import numpy as np
from datasets import arguments
from models import learned, new_learner
from promises import still, stream
from results import Table, keep

from hinged.service.data.features.rows import dense_rows
from hinged.service.model.drift import Drift
from hinged.service.model.promises.alarm import Alarm

BATCH, CHANGE, AFTER = 50, 5_000, 3_000
ROWS = 5_000  # examples of a shuffled stream
SETS = ("still", "ijcnn1", "adult", "usps")
LEARNERS = (("lasvm", {"C": 1.0}), ("auto", {}))


def errors_of(X, y, solver="lasvm", **parts):
    """Return whether each prediction was wrong, before its example was learned. Leave out examples without one."""
    classes = [str(number) for number in range(int(y.max()) + 1)]
    learner = new_learner(X.shape[1], 2**26, solver=solver, classes=classes, **parts)
    found = []
    for begin in range(0, len(y), BATCH):
        x = dense_rows(X[begin : begin + BATCH], learner.configuration)
        at = begin
        for columns, numbers in learner.learn(learned(begin, x, y[begin : begin + BATCH])):
            wrong = numbers != y[at : at + numbers.size]
            found.append(wrong if columns.shape[1] else np.zeros(0, bool))
            at += numbers.size
    return np.concatenate(found)


def alarms_of(errors, level, begin):
    """Return the numbers of the examples at which the alarm and ADWIN first saw more errors, 0 for none.

    begin: the number of the first example. It determines how ties are broken.
    """
    alarm, drift, found = Alarm({"level": level}), Drift(), [0, 0]
    for n, error in enumerate(errors.tolist(), 1):
        for k, detector in enumerate((alarm, drift)):
            if not found[k]:
                detector.add([error], [begin + n])
                found[k] = n if detector.count else 0
    return found


def delays_of(errors, level, begin):
    """Return, for the alarm and ADWIN, the delay after the change and whether there was an alarm before it."""
    found = []
    change = len(errors) - AFTER
    for detector in (Alarm({"level": level}), Drift()):
        detector.add(errors[:change].tolist(), list(range(begin, begin + change)))
        early = detector.count
        delay = AFTER
        for n, error in enumerate(errors[change:].tolist(), 1):
            detector.add([error], [begin + change + n])
            if detector.count > early:
                delay = n
                break
        found.append((delay, early > 0))
    return found


def swapped_labels(_folder, random):
    """Return three classes, two of which change places."""
    X, y = still(CHANGE + AFTER, random)
    y[CHANGE:] = np.array([1, 0, 2])[y[CHANGE:]]
    return X, y


def swapped_features(folder, random):
    """Return IJCNN1, whose columns change places."""
    X, y = drawn(folder, "ijcnn1", random)
    X[CHANGE:] = X[CHANGE:, ::-1]
    return X, y


def swapped_digits(folder, random):
    """Return USPS, where digits 3 and 8 change places."""
    X, y = drawn(folder, "usps", random)
    places = np.arange(10)
    places[[3, 8]] = 8, 3
    y[CHANGE:] = places[y[CHANGE:]]
    return X, y


def noisy_labels(folder, random):
    """Return Adult, where a tenth of the labels becomes wrong."""
    X, y = drawn(folder, "adult", random)
    y[CHANGE:] ^= (random.random(AFTER) < 0.1).astype(y.dtype)
    return X, y


def moved(_folder, random):
    """Return three classes whose centres move towards each other within 1,000 examples."""
    y = random.integers(0, 3, CHANGE + AFTER)
    apart = 2.0 - np.clip((np.arange(len(y)) - CHANGE) / 1_000, 0.0, 1.0)
    return apart[:, None] * np.eye(3)[y] + random.normal(size=(len(y), 3)), y


DRIFTS = {
    "labels of two classes of three swapped": swapped_labels,
    "ijcnn1, columns reversed": swapped_features,
    "usps, digits 3 and 8 swapped": swapped_digits,
    "adult, a tenth of the labels wrong": noisy_labels,
    "centres move closer": moved,
}


def drawn(folder, name, random):
    """Return a random part of a set."""
    X, y = stream(folder, name, 20_000)
    order = random.permutation(len(y))[: CHANGE + AFTER]
    return X[order], y[order]


def main():
    parser = arguments(__doc__)
    parser.add_argument("--level", type=float, default=0.01)
    parser.add_argument("--shuffles", type=int, default=250)
    parser.add_argument("--learning", type=int, default=25)
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    number, random = 0, np.random.default_rng(1)

    heads = "errors, %", "streams", f"with an alarm of level {given.level:g}", "with a drift by ADWIN"
    still_table = Table("set", *heads, title="Shuffled errors of one machine")
    for name in SETS:
        X, y = stream(given.data, name, 2 * ROWS)
        errors = errors_of(X, y, C=1.0)[-ROWS:]
        found = np.zeros(2, int)
        for _ in range(given.shuffles):
            found += np.array(alarms_of(random.permutation(errors), given.level, number)) > 0
            number += ROWS
        still_table.add(name, f"{100 * errors.mean():.1f}", given.shuffles, *found.tolist())

    learning = Table("set", "solver", *heads, title="Machines that learn shuffled sets")
    for name in SETS:
        X, y = stream(given.data, name, 4 * ROWS)
        for solver, parts in LEARNERS:
            found, rates = np.zeros(2, int), []
            for _ in range(given.learning):
                order = random.permutation(len(y))[:ROWS]
                errors = errors_of(X[order], y[order], solver, **parts)
                found += np.array(alarms_of(errors, given.level, number)) > 0
                rates.append(errors.mean())
                number += ROWS
            learning.add(name, solver, f"{100 * np.mean(rates):.1f}", given.learning, *found.tolist())

    heads = "alarm: delay", "most", "early", "ADWIN: delay", "most ", "early "
    delays = Table("change", "errors before, %", "after, %", *heads, title="Delays, median of streams")
    for name, change in DRIFTS.items():
        found, rates = [], []
        for seed in range(given.seeds):
            X, y = change(given.data, np.random.default_rng(seed))
            errors = errors_of(X, y.astype(np.int32), C=1.0)
            found.append(delays_of(errors, given.level, number))
            middle = len(errors) - AFTER
            rates.append([errors[middle - 1_000 : middle].mean(), errors[middle : middle + 500].mean()])
            number += CHANGE + AFTER
        cells = []
        for k in range(2):
            own = np.array([each[k] for each in found])
            cells += [f"{np.median(own[:, 0]):.0f}", int(own[:, 0].max()), int(own[:, 1].sum())]
        delays.add(name, *(f"{100 * rate:.1f}" for rate in np.mean(rates, axis=0)), *cells)
    keep("alarms", still_table, learning, delays)


if __name__ == "__main__":
    main()
