"""Coverage and size of the sets of a promise, on streams with and without drift, with labels at once and late.

    PYTHONPATH=.:benchmarks python benchmarks/promises.py --data FOLDER [STREAM ...] [--delays 0 1000 10000]
        [--errors 0.01 0.05 0.1] [--rows 12000]

A LASVM machine (C = 1) learns each stream in batches of 50. Each set is made before the label is known, by the server's
own code (service/model/). A label comes `delay` examples after its set was made, and a stream needs four times as many
examples as the delay. `off` is the largest distance of a window of 2,000 examples from the promise, in points. `chance`
is the standard deviation of such a window if each set missed independently at the promised rate. `without feedback`
uses the same quantile with a step of 0. crepes and MAPIE (`pip install --no-deps crepes mapie`, labels at once only)
are calibrated before each batch on the scores of the newest 1,000 labels; MAPIE (LAC) gets them as probabilities.
Examples before the first scores, and before enough labels, do not count.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import importlib.util
import warnings

import numpy as np
from datasets import arguments, load
from models import learned, new_learner
from refitted import standardised
from results import Table, keep
from sklearn.base import BaseEstimator, ClassifierMixin

from hinged.service.data.features.rows import dense_rows
from hinged.service.model.promises.promise import Promise
from hinged.service.model.promises.sets import scores_of
from hinged.service.model.view import Published

BATCH, WINDOW = 50, 2_000
CALIBRATED = 1_000  # newest labels with which crepes is calibrated


def turning(n, random):
    """Return four clusters that turn once in 10,000 examples."""
    y = random.integers(0, 4, n)
    angle = 2 * np.pi * (y / 4 + np.arange(n) / 10_000)
    return np.column_stack((2 * np.cos(angle), 2 * np.sin(angle))) + random.normal(size=(n, 2)), y


def flips(n, random):
    """Return two classes that change places every 5,000 examples."""
    X = random.normal(size=(n, 5))
    y = X[:, 0] + X[:, 1] ** 2 - 1 + 0.5 * random.normal(size=n) > 0
    return X, (y != (np.arange(n) // 5_000 % 2 == 1)).astype(int)


def noise(n, random):
    """Return labels whose noise changes every 4,000 examples."""
    X = random.normal(size=(n, 5))
    scale = np.where(np.arange(n) // 4_000 % 2 == 0, 0.2, 1.5)
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + scale * random.normal(size=n) > 0).astype(int)


def still(n, random):
    """Return three classes that do not change."""
    y = random.integers(0, 3, n)
    return 1.5 * np.eye(3)[y] + random.normal(size=(n, 3)), y


GENERATED = {"turning": turning, "flips": flips, "noise": noise, "still": still}
DEFAULT = ("elec2", "airlines", *GENERATED, "ijcnn1", "usps")
SHUFFLED = ("ijcnn1", "usps")


def stream(folder, name, rows):
    """Return X (n, d) and y (n,)."""
    random = np.random.default_rng(0)
    if name in GENERATED:
        X, y = GENERATED[name](rows, random)
    else:
        X, y, *_ = load(folder, name)
        X, y = np.asarray(X.toarray() if hasattr(X, "toarray") else X, float), np.unique(y, return_inverse=True)[1]
        if name in SHUFFLED:
            order = random.permutation(len(y))
            X, y = X[order], y[order]
        X, y = X[:rows], y[:rows]
    return standardised(X), y.astype(np.int32)


class Recorded(Promise):
    """A promise that records class, miss and size of each example that it counts."""

    def __init__(self, error, classes, *, feedback):
        super().__init__({"error": error})
        self.rows = [np.zeros((0, 3), np.int32)]
        for name in range(classes):
            self.add_class(str(name))
        for level in self.levels.values():
            level.step *= feedback

    def _count(self, counted):
        self.rows.append(counted)
        super()._count(counted)


def by_crepes(known, truths, scores, error):
    from crepes import ConformalClassifier  # noqa: PLC0415

    classifier = ConformalClassifier()
    classifier.fit(known[np.arange(truths.size), truths])
    return classifier.predict_set(scores, confidence=1 - error, smoothing=False)


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose x are probabilities."""

    def fit(self, X, _):
        """Note the classes."""
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X):
        """Return x."""
        return X

    def predict(self, X):
        """Return the most probable class."""
        return X.argmax(axis=1)


def by_mapie(known, truths, scores, error):
    from mapie.classification import SplitConformalClassifier  # noqa: PLC0415

    chances = np.exp(-2.0 * np.maximum(np.vstack((known, scores)), -300.0))
    chances /= chances.sum(axis=1, keepdims=True)
    classifier = SplitConformalClassifier(Given().fit(chances, None), confidence_level=1 - error, prefit=True)
    with warnings.catch_warnings():  # a class may be missing among the newest labels
        warnings.simplefilter("ignore")
        classifier.conformalize(chances[: len(known)], truths)
    return classifier.predict_set(chances[len(known) :])[1][:, :, 0]


PEERS = {name: sets for name, sets in (("crepes", by_crepes), ("mapie", by_mapie)) if importlib.util.find_spec(name)}


class Peer:
    """Sets of a library for batches, from the same scores, which counts as `Recorded` does."""

    def __init__(self, name, error, classes):
        self.sets, self.error, self.classes = PEERS[name], error, classes
        self.known, self.truths, self.rows = np.zeros((0, classes)), np.zeros(0, int), [np.zeros((0, 3), np.int32)]

    def add(self, columns, _, truths):
        """Make the sets of a batch, count them, and learn the labels."""
        scores = scores_of(columns, self.classes)
        if len(self.known) >= max(20, 1 / self.error):
            sets = self.sets(self.known, self.truths, scores, self.error)
            missed = sets[np.arange(truths.size), truths] == 0
            self.rows.append(np.column_stack((truths, missed, sets.sum(axis=1))).astype(np.int32))
        self.known = np.concatenate((self.known, scores))[-CALIBRATED:]
        self.truths = np.concatenate((self.truths, truths))[-CALIBRATED:]


def followed(X, y, delay, kept):
    """Let promises follow a stream whose labels come `delay` examples after their sets."""
    classes = [str(number) for number in range(int(y.max()) + 1)]
    learner = new_learner(X.shape[1], 2**26, solver="lasvm", C=1.0, classes=classes)
    sent = {}
    for begin in range(0, len(y), BATCH):
        end = min(len(y), begin + BATCH)
        if delay:
            x = dense_rows(X[begin:end], learner.configuration)
            decided = Published.of(learner, 1, learner.learned).decide(x)
            limits = [promise.limits(classes) for promise in kept]
            flags = [each.sets(decided.columns, decided.numbers) for each in limits]
            for r in range(end - begin) if decided.columns.shape[1] else ():
                told = [each.sent(own[r]) for each, own in zip(limits, flags, strict=True)]
                sent[begin + r] = decided.columns[r : r + 1], decided.numbers[r : r + 1], told
        first, last = begin - delay, end - delay
        if first < 0:
            continue
        event, at = learned(first, dense_rows(X[first:last], learner.configuration), y[first:last]), first
        for columns, numbers in learner.learn(event):
            truths = y[at : at + numbers.size]
            if not delay and columns.shape[1]:
                for promise in kept:
                    promise.add(columns, numbers, truths)
            for r in range(numbers.size):
                if at + r in sent:
                    then, number, told = sent.pop(at + r)
                    for promise, own in zip(kept, told, strict=True):
                        promise.add(then, number, truths[r : r + 1], own)
            at += numbers.size


def measured(rows, error):
    """Return misses in %, the largest distance of a window, the root mean square distance, and the mean size."""
    ends = range(WINDOW, len(rows) + 1, WINDOW)
    off = np.array([100 * abs(rows[end - WINDOW : end, 1].mean() - error) for end in ends])
    if not off.size:
        return [float("nan")] * 4
    return [100 * rows[:, 1].mean(), off.max(), float(np.sqrt((off**2).mean())), rows[:, 2].mean()]


def main():
    parser = arguments(__doc__)
    parser.add_argument("streams", nargs="*", default=list(DEFAULT))
    parser.add_argument("--delays", nargs="+", type=int, default=[0, 1_000, 10_000])
    parser.add_argument("--errors", nargs="+", type=float, default=[0.01, 0.05, 0.1])
    parser.add_argument("--rows", type=int, default=12_000)
    given = parser.parse_args()
    heads = "misses, %", "off, points", "off, root mean square", "chance, points", "size"
    table = Table("stream", "delay", "promise, %", *heads, "without feedback: misses, %", "off, points ", "size ")
    sized = []
    for name in given.streams:
        X, y = stream(given.data, name, given.rows)
        for delay in given.delays:
            if len(y) < 4 * delay:
                continue
            kept = [
                Recorded(error, int(y.max()) + 1, feedback=feedback)
                for error in given.errors
                for feedback in (True, False)
            ]
            peers = () if delay else PEERS
            beside = {error: [Peer(name, error, int(y.max()) + 1) for name in peers] for error in given.errors}
            followed(X, y, delay, [*kept, *(each for own in beside.values() for each in own)])
            for error, own, fixed in zip(given.errors, kept[::2], kept[1::2], strict=True):
                found = [measured(np.concatenate(each.rows), error) for each in beside[error]]
                misses, off, usual, size = measured(np.concatenate(own.rows), error)
                plain = measured(np.concatenate(fixed.rows), error)
                chance = 100 * np.sqrt(error * (1 - error) / WINDOW)
                shown = f"{misses:.2f}", f"{off:.2f}", f"{usual:.2f}", f"{chance:.2f}", f"{size:.2f}"
                table.add(
                    name, delay, f"{100 * error:g}", *shown, f"{plain[0]:.2f}", f"{plain[1]:.2f}", f"{plain[3]:.2f}"
                )
                if found:
                    cells = [f"{value:.2f}" for misses, off, _, size in found for value in (misses, off, size)]
                    sized.append((name, f"{100 * error:g}", shown[0], shown[1], shown[4], *cells))
    if sized:
        heads = [f"{name}: {head}" for name in PEERS for head in ("misses, %", "off, points", "size")]
        beside = Table("stream", "promise, %", "misses, %", "off, points", "size", *heads, title="Beside libraries")
        for row in sized:
            beside.add(*row)
    keep("promises", table)


if __name__ == "__main__":
    main()
