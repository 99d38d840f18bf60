"""The experiments of Usunier, Bordes and Bottou (AISTATS 2010, section 6) as tables.

    PYTHONPATH=.:benchmarks python benchmarks/papers/tracking.py --data FOLDER [--figure 2 3 4 5 6] [--runs N]
        [--algorithms]

Adult: C = 1, gamma = 0.005. MNIST, 8 against all: C = 1000, gamma = 0.005. Row cache of 512 MB (table 1 of the paper).
Each run shuffles the training examples with its own seed, and means over the runs are printed. The gap is (P - D) / (C
t) over the t examples seen. The paper prints curves; the only numbers that it prints are the fit in figure 4.
--algorithms compares all four algorithms on Adult.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import time

import numpy as np
from datasets import arguments, load
from problems import PRINTED
from results import Table, keep

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.random import random_below
from hinged.solvers.core.rowcache import VALUES
from hinged.solvers.core.rows import rows_from_csr, rows_from_dense
from hinged.solvers.dual.machine import working_set_gap
from hinged.solvers.dual.tracking import TrackingSVM

KERNEL = make_kernel("rbf", 0.005)
CACHE_BYTES = 512 * 2**20
POOL = 50
EVERY = 50  # number of examples from one measurement of the gap to the next
ADULT_AT = (5_000, 10_000, 15_000, 20_000, 25_000, 30_000)
MNIST_AT = (250, 500, 1_000, 2_000, 4_000, 8_000)
BATCH_STEP = 500
BATCH_AT = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000)


class Data:
    """A data set in the form that the solvers use: rows, classes 0 and 1."""

    def __init__(self, folder, name):
        X, y, X_test, y_test = load(folder, name)
        self.rows, self.test = self._rows(X), self._rows(X_test)
        self.classes, self.test_classes = self._classes(y), self._classes(y_test)
        self.C = 1.0 if name == "adult" else 1000.0

    def _rows(self, X):
        if isinstance(X, np.ndarray):
            return rows_from_dense(X / np.float32(255), KERNEL, X.shape[1])
        return rows_from_csr(X.indptr, X.indices, X.data, KERNEL, X.shape[1])

    def _classes(self, y):
        return ((y == 8) if y.dtype == np.uint8 else (y > 0)).astype(np.int64)

    def solver(self, kind=TrackingSVM, **parameters):
        """Return a solver for this data set that knows both classes."""
        parameters = {**PRINTED["tracking-1"], **parameters}
        solver = kind(KERNEL, self.rows.dim, C=self.C, cache_bytes=CACHE_BYTES, **parameters)
        solver.add_class()
        solver.add_class()
        return solver

    def error(self, solver):
        """Return the test error in %."""
        return 100.0 * float(((solver.decision(self.test)[:, 0] > 0) != self.test_classes).mean())


class BatchCounterpart(TrackingSVM):
    """The batch counterpart with all examples as points, in which only `ascend` makes updates."""

    def _update_all(self):
        pass

    def ascend(self, updates):
        """Make `updates` updates of examples drawn at random."""
        self.update_randomly(updates)
        self.smooth[:] = self.machine.alpha


def stream(data, solver, seed, *, pools=None, end=None):
    """Learn example by example, in random order or, with `pools`, by active selection; yield the number seen.

    Active selection: of 50 unseen examples drawn at random, the example with the smallest |f(x)| is next (section 6).
    Each pool of 50 is appended to `pools`.
    """
    random = np.random.default_rng(seed)
    unseen = random.permutation(len(data.rows))
    for t in range(1, (end or len(unseen)) + 1):
        left = unseen.size - t + 1
        if pools is not None and t > 1:
            pool = np.sort(random.choice(left, min(POOL, left), replace=False))
            pools.append(unseen[pool])
            f = np.abs(solver.decision(data.rows.take(unseen[pool]))[:, 0])
            chosen = pool[np.argmin(f)]
            unseen[chosen], unseen[left - 1] = unseen[left - 1], unseen[chosen]
        k = unseen[left - 1 : left]
        solver.learn(data.rows.take(k), data.classes[k], k)
        yield t


def gap(data, solver):
    return solver.certificate()["gap"] / (data.C * solver.live)


def last_gap(data, solver):
    return float(working_set_gap(solver.machine, solver.slots)) / (data.C * solver.live)


def printed(name, title, header, lines):
    """Print and save a table."""
    table = Table(*header, title=title)
    for line in lines:
        table.add(*line)
    keep(f"tracking-{name}", table)


def mean(values):
    return f"{np.mean(values):.4f}"


def smoothed_gaps(data, seeds, active, **parameters):
    """Return the mean gap in each section of the stream; the sections end at the numbers in ADULT_AT.

    The gap is measured at regular intervals, and the mean is over all measurements of all runs.
    """
    gaps = {at: [] for at in ADULT_AT}
    for seed in seeds:
        solver = data.solver(seed=seed, **parameters)
        for t in stream(data, solver, seed, pools=[] if active else None, end=ADULT_AT[-1]):
            if t % EVERY == 0:
                gaps[next(at for at in ADULT_AT if t <= at)].append(gap(data, solver))
    return [mean(values) for values in gaps.values()]


def figure_2(data, seeds):
    lines = [
        (f"Algorithm {algorithm}", str(K), *smoothed_gaps(data, seeds, active=False, algorithm=algorithm, K=K))
        for algorithm in (1, 2)
        for K in (10, 20, 100)
    ]
    printed(
        "figure-2",
        "Figure 2, Adult: gap of the averaged output, mean over the examples up to ... from the mark before.\n"
        "Paper: level over the whole pass; Algorithm 2 with K = 10 nearly as good as Algorithm 1 with K = 20.",
        ("", "K", *(f"{at:,}" for at in ADULT_AT)), lines,
    )  # fmt: skip


def algorithms(data, seeds):
    """Return error, gap, points and time of each algorithm, by its solver's name, after one pass with K = 10."""
    lines = []
    for name, block in (("tracking-1", 256), ("tracking-2", 256), ("tracking-cached", 256), ("tracking-batch", 4096)):
        found = []
        for seed in seeds:
            solver = data.solver(seed=seed, algorithm=SOLVERS[name].fixed["algorithm"], K=10)
            order, start = np.random.default_rng(seed).permutation(len(data.rows)), time.process_time()
            for begin in range(0, len(order), block):
                k = order[begin : begin + block]
                solver.learn(data.rows.take(k), data.classes[k], k)
            seconds, stands = time.process_time() - start, solver.certificate()
            counts = (stands[key] for key in ("points", "support_vectors", "kernel_evaluations"))
            found.append((data.error(solver), gap(data, solver), *counts, seconds))
        error, last, points, support, values, seconds = np.mean(found, axis=0)
        lines.append(
            (name, f"{error:.2f}", f"{last:.4f}", f"{points:,.0f}", f"{support:,.0f}", f"{values / 1e6:.0f}",
             f"{seconds:.1f}")
        )  # fmt: skip
    header = ("", "test error, %", "gap over the points held", "points", "SV", "kernel values, M", "CPU seconds")
    title = "Adult, one pass, K = 10; the batch counterpart in micro-batches of 4,096."
    printed("algorithms", title, header, lines)


def figure_3(data, seeds):
    lines = [
        (("random", "active")[active], str(K), *smoothed_gaps(data, seeds, active=active, algorithm=1, K=K))
        for K in (10, 100)
        for active in (False, True)
    ]
    printed(
        "figure-3",
        f"Figure 3, Adult: the same for Algorithm 1 by selection from a pool of {POOL}.\n"
        "Paper: level with random selection, regularly decreasing with active selection.",
        ("selection", "K", *(f"{at:,}" for at in ADULT_AT)), lines,
    )  # fmt: skip


def figure_4(data, seeds):
    lines = []
    for K in (2, 5, 10, 20, 40, 60, 80, 100):
        averaged, last, seconds = [], [], []
        for seed in seeds:
            solver = data.solver(seed=seed, algorithm=1, K=K)
            start = time.process_time()
            for t in stream(data, solver, seed):
                if t % EVERY == 0:
                    averaged.append(gap(data, solver))
                    last.append(last_gap(data, solver))
            seconds.append(time.process_time() - start)
        lines.append(
            (
                str(K),
                f"{(0.709 / K) ** (1 / 1.043):.4f}",
                mean(averaged),
                mean(last),
                f"{data.error(solver):.2f} %",
                f"{np.mean(seconds):.1f}",
            )
        )
    printed(
        "figure-4",
        "Figure 4, Adult: mean gap of Algorithm 1 over all time steps, by K.",
        ("K", "paper's fit", "averaged output", "last iterate", "test error of the last run", "CPU seconds"),
        lines,
    )


class Counted:
    """Kernel values as the paper counts them: one value for each support vector in a decision value of an example.

    `cached` counts a value only the first time, like an unlimited cache of rows; `plain` counts it each time.
    """

    def __init__(self, n):
        self.known = np.zeros(n, np.int64)  # points that were support vectors when the example was last evaluated
        self.ever = np.zeros(n, bool)
        self.cached = self.plain = 0

    def need(self, examples, solver):
        """Count the decision values of `examples`, which are numbers of rows of the data set."""
        slots = solver.slots
        support = solver.machine.held[:slots] > 0
        self.ever[:slots] |= support
        ever = int(self.ever.sum())
        self.plain += len(examples) * int(support.sum())
        different = np.unique(examples)
        self.cached += int((ever - self.known[different]).sum())
        self.known[different] = ever

    def figures(self, solver):
        """Return millions of kernel values (cached, uncached, computed by this solver), and support vectors."""
        computed = solver.cache.counters[VALUES]
        return self.cached / 1e6, self.plain / 1e6, computed / 1e6, int((solver.machine.held[: solver.slots] > 0).sum())


def draws(state, updates, n):
    """Return the slots that a solver without holes draws next."""
    state = state.copy()
    return np.array([random_below(state, n) for _ in range(updates)])


def tracked(data, seed, active, K):
    """Return kernel value counts and test errors of Algorithm 1 after each number of examples in MNIST_AT."""
    solver = data.solver(seed=seed, algorithm=1, K=K)
    counted = Counted(len(data.rows))
    pools = [] if active else None
    before = solver.random.copy()
    for t in stream(data, solver, seed, pools=pools, end=MNIST_AT[-1]):
        if pools:
            counted.need(pools.pop(), solver)
        counted.need(solver.machine.key[draws(before, K, t)], solver)
        before = solver.random.copy()
        if t in MNIST_AT:
            yield *counted.figures(solver), data.error(solver)


def batch(data, seed):
    """Return the same for the batch counterpart, after each number of updates in BATCH_AT."""
    solver = data.solver(BatchCounterpart, seed=seed, algorithm="batch")
    n = len(data.rows)
    solver.learn(data.rows, data.classes, np.arange(n))
    counted = Counted(n)
    for done in range(BATCH_STEP, BATCH_AT[-1] + 1, BATCH_STEP):
        examples = draws(solver.random, BATCH_STEP, n)
        solver.ascend(BATCH_STEP)
        counted.need(examples, solver)
        if done in BATCH_AT:
            yield *counted.figures(solver), data.error(solver)


def figure_5_and_6(data, seeds):
    """Measure the test error on MNIST by number of examples seen, and by kernel values."""
    by_examples, by_values = [], []
    for active in (False, True):
        for K in (10, 100):
            name = f"Algorithm 1, {('random', 'active')[active]}"
            figures = np.mean([list(tracked(data, seed, active, K)) for seed in seeds], axis=0)
            by_examples.append((name, str(K), *(f"{error:.2f}" for *_, error in figures)))
            by_values += lines_of(name, str(K), MNIST_AT, figures)
    by_values += lines_of("batch counterpart", "", BATCH_AT, np.mean([list(batch(data, s)) for s in seeds], axis=0))
    printed(
        "figure-5",
        "Figure 5, MNIST 8 against all: test error, %, by the number of examples seen.\n"
        "Paper: active selection needs far fewer examples, the more so with K = 100.",
        ("selection", "K", *(f"{at:,}" for at in MNIST_AT)), by_examples,
    )  # fmt: skip
    printed(
        "figure-6",
        "Figure 6, MNIST 8 against all: test error, %, by kernel values in millions. Counted as in the paper, one for\n"
        "each support vector at each draw and each candidate of a pool, with an unlimited cache and without; and what\n"
        "this solver, which keeps all gradients, computes for its updates.\n"
        "Paper: Algorithm 1 learns much faster than its batch counterpart; active selection magnifies this.",
        ("", "K", "examples or updates", "cached", "uncached", "this solver", "support vectors", "test error"),
        by_values,
    )


def lines_of(name, K, marks, figures):
    return [
        (name, K, f"{at:,}", *(f"{v:,.1f}" for v in values), f"{vectors:,.0f}", f"{error:.2f}")
        for at, (*values, vectors, error) in zip(marks, figures, strict=True)
    ]


def main():
    parser = arguments(__doc__)
    parser.add_argument("--figure", type=int, nargs="+", default=[2, 3, 4, 5], choices=range(2, 7), help="which ones")
    parser.add_argument("--algorithms", action="store_true", help="all four side by side, and no figure")
    options = parser.parse_args()
    figures, seeds = set(options.figure), range(options.runs)
    if options.algorithms:
        algorithms(Data(options.data, "adult"), seeds)
        return
    if figures & {2, 3, 4}:
        adult = Data(options.data, "adult")
        for number, figure in ((4, figure_4), (2, figure_2), (3, figure_3)):
            if number in figures:
                figure(adult, seeds)
    if figures & {5, 6}:
        figure_5_and_6(Data(options.data, "mnist"), seeds)


if __name__ == "__main__":
    main()
