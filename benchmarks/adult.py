"""LASVM on Adult beside scikit-learn's SVC (LIBSVM), in one run, one thread, CPU seconds.

    python benchmarks/adult.py --data FOLDER

C = 100, gamma = 0.005, tol = 0.001 (Bordes et al. 2005, figure 7). Each run shuffles the training examples with its
own seed; the runs of LASVM stand before, and after, the one of SVC, so that a drift of the machine shows.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import platform
import resource
import sys
import time
from importlib.metadata import version

import numpy as np
from datasets import arguments, load
from sklearn.svm import SVC

from solvers.kernels import make_kernel
from solvers.lasvm import LASVM
from solvers.rows import rows_from_csr
from solvers.warm import warm_up

KERNEL = make_kernel("rbf", 0.005)
PAPER_SUPPORT_VECTORS = 11_268
BATCH = 256


def rows_of(X):
    return rows_from_csr(X.indptr, X.indices, X.data, KERNEL, X.shape[1])


def run_lasvm(X, y, test, y_test, seed):
    order = np.random.default_rng(seed).permutation(X.shape[0])
    rows, classes = rows_of(X[order]), (y[order] > 0).astype(np.int64)
    solver = LASVM(KERNEL, X.shape[1], C=100.0, tol=1e-3)
    solver.add_class()
    solver.add_class()
    figures = {}
    start = time.process_time()
    for begin in range(0, len(rows), BATCH):
        end = min(begin + BATCH, len(rows))
        solver.learn(rows.part(begin, end), classes[begin:end], np.arange(begin, end))
    figures["pass"] = time.process_time() - start
    figures["accuracy before"] = accuracy(solver.decision(test)[:, 0], y_test)
    figures["support vectors before"] = solver.certificate()["support_vectors"]
    start = time.process_time()
    figures["steps"] = solver.finish().steps
    figures["finishing"] = time.process_time() - start
    certificate = solver.certificate()
    figures |= {
        "accuracy": accuracy(solver.decision(test)[:, 0], y_test),
        "support vectors": certificate["support_vectors"],
        "kernel values, millions": certificate["kernel_evaluations"] / 1e6,
        "gap": certificate["gap"],
    }
    return figures


def accuracy(scores, y):
    return 100.0 * float(((scores > 0) == (y > 0)).mean())


def main():
    options = arguments(__doc__).parse_args()
    X, y, X_test, y_test = load(options.data, "adult")
    test = rows_of(X_test)
    warm_up("lasvm")
    runs = [run_lasvm(X, y, test, y_test, seed) for seed in range(options.runs)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.process_time()
    svc = SVC(C=100.0, gamma=0.005, tol=1e-3, cache_size=512).fit(X, y)
    svc_seconds = time.process_time() - start
    svc_accuracy = 100.0 * svc.score(X_test, y_test)
    runs += [run_lasvm(X, y, test, y_test, seed) for seed in range(options.runs, 2 * options.runs)]

    def median(name):
        return float(np.median([run[name] for run in runs]))

    def span(name):
        return f"{min(run[name] for run in runs):.2f} to {max(run[name] for run in runs):.2f} %"

    whole = median("pass") + median("finishing")
    print(
        f"Python {platform.python_version()}, "
        + ", ".join(f"{p} {version(p)}" for p in ("numba", "numpy", "scikit-learn"))
    )
    print(f"{len(runs)} runs of LASVM with their own shuffles, medians; one of SVC\n")
    print("| program | CPU seconds | test accuracy | support vectors |")
    print("|---|---|---|---|")
    print(f"| SVC | {svc_seconds:.1f} | {svc_accuracy:.2f} % | {svc.n_support_.sum():,} |")
    print(
        f"| LASVM, one pass | {median('pass'):.2f} | {median('accuracy before'):.2f} % "
        f"| {median('support vectors before'):,.0f} |"
    )
    print(
        f"| LASVM, one pass and finishing | {whole:.2f} | {median('accuracy'):.2f} % "
        f"| {median('support vectors'):,.0f} (paper: {PAPER_SUPPORT_VECTORS:,}) |"
    )
    print(
        f"\nSVC / LASVM: {svc_seconds / whole:.1f}. Accuracy over the runs {span('accuracy before')} before, "
        f"{span('accuracy')} after finishing. Kernel values {median('kernel values, millions'):.0f} million, "
        f"finishing {median('steps'):,.0f} steps in {median('finishing'):.2f} s, gap {median('gap'):.1f}. "
        f"Peak memory before SVC {memory:.0f} MiB."
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
