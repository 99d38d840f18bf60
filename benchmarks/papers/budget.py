"""Table 2 and figure 8 of Qaadan, Schueler and Glasmachers, Dual SVM Training on a Budget (ICPRAM 2019): BSCA, BSGD.

    PYTHONPATH=.:benchmarks python benchmarks/papers/budget.py --data FOLDER [--sets adult ijcnn1] [--runs N]
        [--passes N] [--only BEGINNING] [--lemma] [--average] [--small NAME ...]

C = 32; Adult: gamma = 2^-7, IJCNN: gamma = 2 (table 1); one thread, CPU time, rows in batches of 256. Each run shuffles
with its own seed, again in each pass. The program prints medians over the runs, and the range of accuracies. "Plain" is
the paper's form: no bound on a step, no average. The paper's seconds and accuracies are from its table 2; it gives no
numbers for B = 200.

--lemma trains an SVM (LIBSVM, with a bias) and prints the merge rates that lemma 2 predicts: sum(alpha) / (n C) for
BSGD, the fraction of free support vectors for BSCA.

--average only measures small budgets, and how far the predicting coefficients are from the average that they represent.
The exact average is computed separately: after each example, the learning coefficients predict 500 rows of the test
set. These decision values enter the average with the weight of the example. Distances are in units of the standard
deviation of the exact average. "Merge, 3" has `nearest` 3. One problem is two moons (noise 0.2, 5,000 and 2,000
examples, a tenth of the labels wrong). Another problem is the same with two columns of noise (10,000). Further problems
are banana (4,000 and 1,300), waveform and USPS / 16 (the first class against the rest), and IJCNN (10,000 examples).
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import time
from dataclasses import replace
from functools import partial

import numpy as np
from datasets import arguments, load, rows_of
from results import Table, keep
from sklearn.svm import SVC

from hinged.solvers.budget.budget import BSCA, BSGD
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.dual.lasvm import LASVM

BATCH = 256
C = 32.0
SETS = {"adult": 2.0**-7, "ijcnn1": 2.0}  # gamma
PLAIN = {"averaging": None}
PLAIN_BSCA = {"averaging": None, "step_max": None}
# name, the constructor of the solver, the paper's (seconds, accuracy) on Adult and IJCNN
LINES = [
    ("BSCA", partial(BSCA, C=C), ((9.84, 83.18), (11.53, 97.27))),
    ("BSCA, plain", partial(BSCA, C=C, **PLAIN_BSCA), ((9.84, 83.18), (11.53, 97.27))),
    ("BSCA, golden section", partial(BSCA, C=C, merging="golden"), None),
    ("BSCA, an extra step", partial(BSCA, C=C, extra_steps=1), None),
    ("BSCA, projection", partial(BSCA, C=C, maintenance="project"), None),
    ("BSCA, removal", partial(BSCA, C=C, maintenance="remove"), None),
    ("BSCA, B = 200", partial(BSCA, C=C, budget=200), None),
    ("BSCA, B = 200, plain", partial(BSCA, C=C, budget=200, **PLAIN_BSCA), None),
    ("BSGD", partial(BSGD, C=C), ((8.48, 80.74), (11.28, 96.68))),
    ("BSGD, plain", partial(BSGD, C=C, **PLAIN), ((8.48, 80.74), (11.28, 96.68))),
    ("BSGD, projection", partial(BSGD, C=C, maintenance="project"), None),
    ("BSGD, removal", partial(BSGD, C=C, maintenance="remove"), None),
    ("BSGD, B = 200", partial(BSGD, C=C, budget=200), None),
    ("BSGD, B = 200, plain", partial(BSGD, C=C, budget=200, **PLAIN), None),
]
SMALL = {  # gamma, C
    "moons": (1.0, 1.0),
    "noisy moons": (0.5, 1.0),
    "noisy moons, C = 10": (0.5, 10.0),
    "banana": (0.5, 3.0),
    "waveform": (0.05, 1.0),
    "usps": (2.0, 10.0),
    "ijcnn1": (2.0, 32.0),
}
WAYS = {
    "merge": {"maintenance": "merge"},
    "merge, 3": {"maintenance": "merge", "nearest": 3},
    "project": {"maintenance": "project"},
    "remove": {"maintenance": "remove"},
}
BUDGETS = (30, 50, 100, 200)
WINDOW = 1000
MANY_PASSES = ("BSCA", "BSCA, plain", "BSGD", "BSGD, plain")


class Data:
    """A data set in the form that the solvers use."""

    def __init__(self, folder, name):
        self.name, self.kernel = name, make_kernel("rbf", SETS[name])
        self.X, self.y, X_test, self.y_test = load(folder, name)
        self.test = rows_of(X_test, self.kernel)

    def shuffled(self, seed, n):
        """Return n training rows, their classes and their numbers."""
        order = np.random.default_rng(seed).permutation(self.X.shape[0])[:n]
        return rows_of(self.X[order], self.kernel), (self.y[order] > 0).astype(np.int64), order

    def accuracy(self, solver):
        """Return the accuracy on the test set in %."""
        return 100.0 * float(((solver.decision(self.test)[:, 0] > 0) == (self.y_test > 0)).mean())


def run(make, data, seed, passes=1, n=None):
    """Return (CPU seconds, accuracy in %, merges per example) of each pass, and the weight degradation at the end."""
    n = n or data.X.shape[0]
    solver = make(data.kernel, data.X.shape[1], **({"examples": n} if make.func is BSGD else {}))
    solver.add_class()
    solver.add_class()
    found = []
    for number in range(passes):
        rows, classes, keys = data.shuffled((seed, number), n)
        merges, start = solver.merges, time.process_time()
        for begin in range(0, n, BATCH):
            end = min(begin + BATCH, n)
            solver.learn(rows.part(begin, end), classes[begin:end], keys[begin:end], again=number > 0)
        seconds = time.process_time() - start
        found.append((seconds, data.accuracy(solver), (solver.merges - merges) / n))
    return found, solver.certificate()["weight_degradation"]


def one_pass(data, column, runs, only):
    n = data.X.shape[0]
    times = "time, s", "paper: time, s", "time an example, us"
    heads = "accuracy (span), %", "paper: accuracy, %", "merges an example", "weight degradation"
    table = Table("algorithm", *times, *heads, title=f"{data.name}, {n:,} examples, one pass")
    for name, make, paper in LINES:
        if not name.startswith(only):
            continue
        run(make, data, 0, n=1500)  # to compile
        found, degradations = zip(*(run(make, data, seed) for seed in range(runs)), strict=True)
        (seconds, accuracy, rate), degradation = np.median(found, axis=0)[0], np.median(degradations)
        accuracies = [passes[0][1] for passes in found]
        theirs = paper[column] if paper else ("-", "-")
        spanned = f"{accuracy:.2f} ({min(accuracies):.2f} to {max(accuracies):.2f})"
        times = f"{seconds:.3f}", theirs[0], f"{1e6 * seconds / n:.2f}"
        table.add(name, *times, spanned, theirs[1], f"{rate:.3f}", f"{degradation:,.1f}")
    return table


def many_passes(data, runs, passes):
    heads = "accuracy after one, %", "after all (span), %", "worst of any, %", "merges an example, last pass"
    table = Table("algorithm", "time an example, us", *heads, title=f"{data.name}, {passes} passes")
    for name, make, _ in LINES:
        if name not in MANY_PASSES:
            continue
        found = np.array([run(make, data, seed, passes)[0] for seed in range(runs)])
        accuracy = found[:, :, 1]
        after = f"{np.median(accuracy[:, -1]):.2f} ({accuracy[:, -1].min():.2f} to {accuracy[:, -1].max():.2f})"
        us = f"{1e6 * np.median(found[:, :, 0]) / data.X.shape[0]:.2f}"
        merges = f"{np.median(found[:, -1, 2]):.3f}"
        table.add(name, us, f"{np.median(accuracy[:, 0]):.2f}", after, f"{accuracy.min():.2f}", merges)
    return table


def lemma(data):
    svc = SVC(C=C, gamma=SETS[data.name], cache_size=512).fit(data.X, data.y)
    alpha, n = np.abs(svc.dual_coef_.toarray() if hasattr(svc.dual_coef_, "toarray") else svc.dual_coef_), data.y.size
    print(
        f"\nLemma 2 from an SVM of {alpha.size:,} support vectors: merges an example BSGD {alpha.sum() / (n * C):.3f}, "
        f"BSCA {(alpha < C).sum() / n:.3f}"
    )


def moons(n, random, noise=0):
    """Return two half circles with a tenth of the labels wrong, and `noise` columns of noise."""
    angle, y = random.uniform(0, np.pi, n), random.choice([-1, 1], n)
    X = np.c_[np.cos(angle), np.sin(angle)] * y[:, None] + np.c_[np.where(y > 0, 0.0, 1.0), np.where(y > 0, 0.0, 0.5)]
    X = np.c_[X + 0.2 * random.standard_normal((n, 2)), random.standard_normal((n, noise))]
    return X, np.where(random.uniform(size=n) < 0.1, -y, y)


def small_problem(folder, name, seed):
    """Return (X, y, X_test, y_test) in a random order, with y of +-1."""
    random = np.random.default_rng(seed)
    if name == "moons":
        return (*moons(5000, random), *moons(2000, random))
    if name.startswith("noisy"):
        return (*moons(10_000, random, 2), *moons(2000, random, 2))
    X, y, X_test, y_test = load(folder, name)
    order = random.permutation(X.shape[0])
    if name == "banana":
        return X[order[:4000]], y[order[:4000]], X[order[4000:]], y[order[4000:]]
    if name == "ijcnn1":
        return X[order[:10_000]], y[order[:10_000]], X_test, y_test
    scale = 1 / 16 if name == "usps" else 1
    return X[order] * scale, np.where(y[order] == 0, 1, -1), X_test * scale, np.where(y_test == 0, 1, -1)


def small_run(make, problem, gamma, *, averaged=False):
    """Return accuracy in %, us per example, the exact average's accuracy, and the distance from it, for one pass."""
    X, y, X_test, y_test = problem
    kernel = make_kernel("rbf", gamma)
    solver = make(kernel, X.shape[1])
    solver.add_class()
    solver.add_class()
    rows, classes, test = (
        rows_of(X, kernel),
        (y > 0).astype(np.int64),
        rows_of(X_test[:500] if averaged else X_test, kernel),
    )
    step, right, start = 1 if averaged else BATCH, np.zeros(len(test)), time.process_time()
    for k in range(0, len(rows), step):
        solver.learn(
            rows.part(k, min(k + step, len(rows))), classes[k : k + step], np.arange(k, min(k + step, len(rows)))
        )
        if averaged:
            view = replace(solver.view(), alpha=solver.machine.alpha[:, : solver.slots])
            right += max(4.0 / (k + 4.0), 1.0 / WINDOW) * (view.decision(test)[:, 0] - right)
    seconds = time.process_time() - start
    found, truth = solver.decision(test)[:, 0], y_test[: len(test)] > 0
    apart = np.sqrt(np.mean((found - right) ** 2)) / right.std() if averaged else 0.0
    accuracy, of_right = (100.0 * ((f > 0) == truth).mean() for f in (found, right))
    return accuracy, 1e6 * seconds / len(rows), of_right, apart


def small_budgets(folder, runs, names):
    kept = [way for way in WAYS if way != "remove"]
    ways = " / ".join(kept)
    table = Table(
        "problem, B", "LASVM", *WAYS, "the right average", f"distance, {ways}", f"time an example, us, {ways}"
    )
    for name in names:
        gamma, cost = SMALL[name]
        problems = [small_problem(folder, name, seed) for seed in range(runs)]
        lasvm = np.mean([small_run(partial(LASVM, C=cost), problem, gamma)[0] for problem in problems])
        for budget in BUDGETS:
            plain, beside = {}, {}
            for way, parameters in WAYS.items():
                make = partial(BSCA, C=cost, budget=budget, averaging=WINDOW, **parameters)
                plain[way] = np.mean([small_run(make, problem, gamma) for problem in problems], axis=0)
                if way in kept:
                    found = [small_run(make, problem, gamma, averaged=True) for problem in problems[:3]]
                    beside[way] = np.mean(found, axis=0)
            accuracies = (f"{plain[way][0]:.1f}" for way in WAYS)
            right = f"{beside['merge'][2]:.1f}"
            distances, times = (
                " / ".join(f"{found[way][at]:.{2 if at == 3 else 1}f}" for way in kept)
                for found, at in ((beside, 3), (plain, 1))
            )
            table.add(f"{name}, {budget}", f"{lasvm:.1f}", *accuracies, right, distances, times)
    keep("budget-average", table)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="data sets")
    parser.add_argument("--passes", type=int, default=10, help="passes of the second table; 1 for none")
    parser.add_argument("--only", default="", help="lines of the first table that begin so")
    parser.add_argument("--lemma", action="store_true", help="train an SVM for lemma 2")
    parser.add_argument("--average", action="store_true", help="small budgets, and the distance from the right average")
    parser.add_argument("--small", nargs="+", choices=SMALL, default=list(SMALL), help="problems of small budgets")
    parser.set_defaults(runs=10)
    options = parser.parse_args()
    if options.average:
        small_budgets(options.data, options.runs, options.small)
        return
    tables = []
    for column, name in enumerate(SETS):
        if name not in options.sets:
            continue
        data = Data(options.data, name)
        tables.append(one_pass(data, column, options.runs, options.only))
        if options.passes > 1:
            tables.append(many_passes(data, options.runs, options.passes))
        if options.lemma:
            lemma(data)
    keep("budget", *tables)


if __name__ == "__main__":
    main()
