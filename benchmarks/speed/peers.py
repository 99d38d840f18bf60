"""Training compared with other kernel SVMs that people use: LIBSVM and oneDAL.

    pip install --editable '.[bench]'
    PYTHONPATH=.:benchmarks python benchmarks/speed/peers.py --data FOLDER [--sets adult ijcnn1] [--full] [--runs 3]

LASVM does one pass and the finishing step. "LASVM, optimum" finishes over all examples, as the estimator's `fit` does.
LIBSVM is scikit-learn's SVC. oneDAL is the SVC of scikit-learn-intelex,
once on one thread and once on two threads. oneDAL gets dense float32 rows; LIBSVM and hinged get sparse rows. If oneDAL
is not installed, it is left out. All programs run one after another in one process, on the same examples in the same
order, with the same kernel, C and tolerance. Row caches have 512 MB, except that LASVM and SMO have 256 MB on the small
sets. LIBSVM runs once on each set. The fast programs run before and after LIBSVM, --runs times but at least twice, and
the program prints medians. --full adds MNIST, 8 against the rest. Without LIBSVM (--without-libsvm) the program takes
only a small fraction of the time. ThunderSVM's version for CPUs (0.3.3 of 2019) took ten times as long as oneDAL on
8,000 rows.

CPU seconds include all threads. The dual objective W is computed with float64 kernel values from each program's support
vectors and coefficients. The table shows the difference between W and the largest W of the set, relative to the largest
W. The benchmark stops with an error if the coefficients of a program violate the constraints by more than a thousandth.
"""

import importlib
import sys
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import measuring  # one thread, before NumPy computes anything
import numpy as np
from datasets import arguments
from papers.problems import compile_all, finish, learn, problem
from results import Table, keep
from scipy.sparse import csr_matrix
from targets import middle
from training import accuracy, exact_dual

SETS = {"adult": (0.005, 100.0), "ijcnn1": (2.0, 32.0), "mnist": (0.005, 1000.0)}  # gamma, C
FULL = ("mnist",)
CACHE_MB, TOLERANCE = 512, 1e-3
PACKAGES = ("scikit-learn-intelex", "daal")
BOX_SLACK = 1e-3  # relative; oneDAL's float32 coefficients may exceed the box because of rounding


class Raced(NamedTuple):
    """The results of one run: CPU and wall seconds of training, accuracy in %, support vectors, dual objective."""

    seconds: float
    wall: float
    accuracy: float
    support_vectors: int
    dual: float


def timed(act):
    """Return (CPU seconds, wall seconds, result) of a call."""
    wall, (seconds, result) = measuring.wall(lambda: measuring.cpu(act))
    return seconds, wall, result


def ours(whole, name, batch, run, *, over=False):
    """Run a solver of this project: one pass in batches of this size, then the finishing step.

    over: whether that step goes over all examples, instead of only the points.
    """
    one = whole.shuffled(run)
    solver = one.solver(name)

    def train():
        learn(solver, one, batch=batch or len(one.rows))
        if over:
            solver.finish_over(one.rows, one.classes, np.arange(len(one.rows)))
        else:
            finish(solver)

    seconds, wall, _ = timed(train)
    alpha = solver.machine.alpha[0, : solver.slots]
    dual = objective(one, solver.keys(), alpha)
    return Raced(seconds, wall, accuracy(solver, one), solver.certificate()["support_vectors"], dual)


def peer(whole, make, form, run):
    """Run a classifier with scikit-learn's interface. form: converts the rows, to CSR or to a dense array."""
    one = whole.shuffled(run)
    X, X_test = (form(csr_matrix((r.values, r.indices, r.indptr), (len(r), r.dim))) for r in (one.rows, one.test))
    machine = make(one)
    seconds, wall, _ = timed(lambda: machine.fit(X, one.classes))
    right = 100.0 * float((np.asarray(machine.predict(X_test)) == one.test_classes).mean())
    alpha = machine.dual_coef_
    alpha = np.asarray(alpha.toarray() if hasattr(alpha, "toarray") else alpha, np.float64)[0]
    return Raced(seconds, wall, right, alpha.size, objective(one, np.asarray(machine.support_, np.int64), alpha))


def objective(one, keys, alpha):
    """Return the exact dual objective. Raise ValueError if the coefficients violate the constraints."""
    y = 2.0 * one.classes[keys] - 1.0
    if (alpha * y).min() < -BOX_SLACK * one.C or (alpha * y).max() > (1 + BOX_SLACK) * one.C:
        raise ValueError(f"alpha must be in [0, {one.C:g}], got {(alpha * y).min():g} to {(alpha * y).max():g}")
    if abs(alpha.sum()) > BOX_SLACK * np.abs(alpha).sum():
        raise ValueError(f"sum(alpha) must be 0, got {alpha.sum():g} of {np.abs(alpha).sum():g}")
    return exact_dual(one, keys, alpha)


def peers(whole):
    """Yield the name and the program of each form of oneDAL, if oneDAL is installed."""
    try:
        kind = importlib.import_module("sklearnex.svm").SVC
    except (ImportError, OSError) as reason:
        print(f"without oneDAL: {reason}", file=sys.stderr)
        return
    for title, threads in (("oneDAL", 1), ("oneDAL, two threads", 2)):
        yield title, partial(peer, whole, partial(made, kind, n_jobs=threads), dense)


def dense(X):
    return X.toarray().astype(np.float32)


def made(kind, one, **more):
    return kind(kernel="rbf", C=one.C, gamma=one.gamma, tol=TOLERANCE, cache_size=CACHE_MB, **more)


def libsvm(whole):
    svm = importlib.import_module("sklearn.svm")
    return partial(peer, whole, partial(made, svm.SVC), csr_matrix)


def raced(name, options):
    """Return the results of all runs of each program on a set."""
    gamma, C = SETS[name]
    whole = problem(options.data, name, gamma, C)
    if name == "mnist":
        whole = replace(whole, forms={solver: {"cache_bytes": CACHE_MB * 2**20} for solver in ("lasvm", "smo")})
    compile_all(whole, ("lasvm", "smo"))
    ours(whole.first(300), "lasvm", 10, 0, over=True)
    quick = {
        "LASVM": partial(ours, whole, "lasvm", 256),
        "LASVM, optimum": partial(ours, whole, "lasvm", 256, over=True),
        "SMO": partial(ours, whole, "smo", None),
        **dict(peers(whole)),
    }
    for title, program in quick.items():
        if title.startswith("oneDAL"):
            peer_warm_up(program)
    slow = {} if options.without_libsvm else {"LIBSVM": libsvm(whole)}
    quick = {title: partial(told, name, title, program) for title, program in quick.items()}
    slow = {title: partial(told, name, title, program) for title, program in slow.items()}
    found = measuring.rounds(quick, slow, 1)
    for run in range(2, options.runs):
        for title, program in quick.items():
            found[title].append(program(run))
    return found


def told(name, title, program, run):
    """Run a program and print how long it took, because a set takes minutes."""
    found = program(run)
    print(f"{name}: {title}, run {run}: {found.seconds:.2f} s", file=sys.stderr, flush=True)
    return found


def peer_warm_up(program):
    """Train a peer on a few examples, so that its libraries are loaded and its threads started."""
    whole, *rest = program.args
    peer(whole.first(300), *rest, 0)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS)
    parser.add_argument("--full", action="store_true", help="MNIST too")
    parser.add_argument("--without-libsvm", action="store_true", help="leave out LIBSVM")
    options = parser.parse_args()
    chosen = options.sets or [name for name in SETS if options.full or name not in FULL]
    heads = "CPU, s", "wall, s", "accuracy, %", "support vectors", "dual objective below the largest"
    for number, name in enumerate(chosen):
        table = Table("set", "program", "runs", *heads, head=number == 0)
        found = raced(name, options)
        # Each run has a different order of the examples, but the optimum is the same for all orders.
        largest = max(run.dual for runs in found.values() for run in runs)
        for title, runs in found.items():
            figures = [middle(runs, figure) for figure in Raced._fields]
            seconds, wall, right, vectors, dual = figures
            below = f"{(largest - dual) / largest:.1e}"
            table.add(name, title, len(runs), f"{seconds:.2f}", f"{wall:.2f}", f"{right:.2f}", f"{vectors:,.0f}", below)
        keep(f"speed-peers-{name}", table, packages=PACKAGES)


if __name__ == "__main__":
    main()
