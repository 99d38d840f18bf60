"""The one-class machine beside scikit-learn and River: classes left out, p-values, and the rate of increments.

    PYTHONPATH=.:benchmarks python benchmarks/novelty.py --data FOLDER [--known 1000] [--held 1000 4000]

The first table: each class in turn is left out. A detector learns examples of the other classes; then it ranks further
examples of these classes, and examples of the class left out. AUC is the mean over the classes. The second table: the
p-values of examples of the known classes. The third table: the rate of exact increments, decrements and decisions,
beside the time in which OneClassSVM fits all examples again. The programs take turns in one run.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import time

import numpy as np
from datasets import arguments, load
from results import Table
from river.anomaly import HalfSpaceTrees
from scipy import sparse
from scipy.stats import ks_2samp
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

from hinged.sklearn import OneClassClassifier

NU = 0.1
NAMES = ("digits", "breast cancer", "usps", "mnist", "waveform")
LEVELS = (0.01, 0.05, 0.1)
PEERS = ("one-class", "OneClassSVM", "IsolationForest", "HalfSpaceTrees")


def examples_of(name, folder):
    """Return X (n, features) and y (n,) of a set, in a random order."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    elif name == "breast cancer":
        X, y = load_breast_cancer(return_X_y=True)
    else:
        X, y = load(folder, name)[:2]
        X = X.toarray() if sparse.issparse(X) else X
    order = np.random.default_rng(0).permutation(len(y))[:20_000]
    return np.asarray(X[order], float), np.asarray(y)[order]


def parts_of(X, y, left_out, known_max):
    """Return what is learned, known examples that are not learned, and novel examples; standardised by the first."""
    known, novel = X[y != left_out], X[y == left_out][:known_max]
    count = min(known_max, len(known) // 2)
    middle, size = known[:count].mean(axis=0), known[:count].std(axis=0)
    size[size == 0] = 1.0
    return [np.clip((part - middle) / size, -5, 5) for part in (known[:count], known[count : 2 * count], novel)]


def half_space_trees(train, test):
    """Return the scores of River's trees: larger for examples that look normal."""
    least, most = train.min(axis=0), train.max(axis=0)
    width = np.where(most > least, most - least, 1.0)
    trees = HalfSpaceTrees(n_trees=25, seed=0)
    records = [dict(enumerate(row)) for row in np.clip((train - least) / width, 0, 1).tolist()]
    for record in records:
        trees.learn_one(record)
    asked = np.clip((test - least) / width, 0, 1).tolist()
    return np.array([-trees.score_one(dict(enumerate(row))) for row in asked])


def ranked(train, test):
    """Return the scores of each program at `test`, and the fitted one-class machine."""
    machine = OneClassClassifier(nu=NU).fit(train)
    scores = [
        machine.decision_function(test),
        OneClassSVM(nu=NU).fit(train).decision_function(test),
        IsolationForest(random_state=0).fit(train).score_samples(test),
        half_space_trees(train, test),
    ]
    return scores, machine


def seconds_of(work):
    begun = time.perf_counter()
    found = work()
    return time.perf_counter() - begun, found


def judge(name, folder, known_max):
    """Return the row of the first table and the row of the second table."""
    X, y = examples_of(name, folder)
    areas, below, asked, distances, chances, rates, firsts = [], np.zeros(len(LEVELS)), 0, [], [], [], []
    for left_out in np.unique(y):
        train, held_out, novel = parts_of(X, y, left_out, known_max)
        test = np.vstack((held_out, novel))
        scores, machine = ranked(train, test)
        is_known = np.arange(len(test)) < len(held_out)
        areas.append([roc_auc_score(is_known, each) for each in scores])
        firsts.append(seconds_of(lambda: machine.p_values(test[:1]))[0])  # noqa: B023  called at once
        spent, p = seconds_of(lambda: machine.p_values(test))  # noqa: B023  called at once
        rates.append(len(test) / spent)
        below += [(p[is_known] <= level).sum() for level in LEVELS]
        asked += len(held_out)
        own = machine.solver_.leave_one_out()[1][:, 0]
        found = ks_2samp(own, scores[0][is_known])
        distances.append(found.statistic)
        chances.append(found.pvalue)
    mean = np.mean(areas, axis=0)
    first = [name, len(train), X.shape[1], len(areas), *(f"{area:.3f}" for area in mean)]
    second = [name, *(f"{count / asked:.3f}" for count in below), f"{np.median(distances):.3f}"]
    second += [
        f"{np.median(chances):.2f}",
        f"{min(chances):.3f}",
        f"{np.median(firsts):.2f}",
        f"{np.median(rates):,.0f}",
    ]
    return first, second


def rates_of(name, folder, held):
    """Return milliseconds of an increment, a decrement and a fit from nothing, and decisions per second."""
    X, y = examples_of(name, folder)
    train, held_out, _ = parts_of(X, y, y[0], held)
    count = min(100, len(held_out))
    machine, found = OneClassClassifier(nu=NU).fit(train), {"up": [], "down": [], "refit": [], "rate": []}
    machine.partial_fit(held_out[:1]).unlearn([len(train)])  # loads the code
    for k in range(count):
        number = len(train) + 1 + k
        found["up"].append(seconds_of(lambda: machine.partial_fit(held_out[k : k + 1]))[0])  # noqa: B023
        if k % 20 == 0:
            found["refit"].append(seconds_of(lambda: OneClassSVM(nu=NU).fit(np.vstack((train, held_out[:1]))))[0])
            found["rate"].append(len(held_out) / seconds_of(lambda: machine.decision_function(held_out))[0])
        found["down"].append(seconds_of(lambda: machine.unlearn([number]))[0])  # noqa: B023
    means = {key: np.mean(each) for key, each in found.items()}
    return [
        name, len(train), X.shape[1], int(machine.solver_.margins[0].counts[0]), int(machine.n_support_[0]),
        *(f"{1e3 * means[key]:.2f}" for key in ("up", "down", "refit")),
        f"{means['refit'] / means['up']:.0f}", f"{means['rate']:,.0f}",
    ]  # fmt: skip


def main():
    parser = arguments(__doc__)
    parser.add_argument("--known", type=int, default=1000, help="maximum number of examples that a detector learns")
    parser.add_argument("--held", type=int, nargs="+", default=[1000, 4000], help="examples held in the third table")
    parser.add_argument("--sets", nargs="+", choices=NAMES, default=NAMES)
    given = parser.parse_args()
    judged = [judge(name, given.data, given.known) for name in given.sets]
    areas = Table("set", "learned", "features", "classes left out", *PEERS, title="AUC with a class left out")
    for row, _ in judged:
        areas.add(*row)
    uniform = Table(
        "set", *(f"p <= {level:g}" for level in LEVELS), "KS distance, median", "its chance, median", "least chance",
        "first call, s", "x a second", title="p-values of known examples",
    )  # fmt: skip
    for _, row in judged:
        uniform.add(*row)
    rates = Table(
        "set", "held", "features", "free", "support vectors", "increment, ms", "decrement, ms", "refit, ms",
        "refit / increment", "decisions a second", title="Exact increments beside fitting OneClassSVM again",
    )  # fmt: skip
    for name in given.sets:
        for row in {row[1]: row for row in (rates_of(name, given.data, held) for held in given.held)}.values():
            rates.add(*row)


if __name__ == "__main__":
    main()
