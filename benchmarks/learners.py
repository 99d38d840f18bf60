"""The program that worth.py runs for each learner: the learner predicts, then learns, each example of some streams.

    python benchmarks/learners.py NAME FOLDER STREAM.npz ...

A stream file contains X (n, d), y (n,) int64, the number of classes K, and a digest. The program writes a file to
FOLDER for each stream. The file contains predictions (n,), -1 if the learner made no prediction; probabilities (n, K),
NaN if the learner gave no probabilities; CPU seconds of all threads of this process; and, in MiB, the memory before the
first stream and the peak memory so far. Before the measurement, a copy of the learner learns the first 5,000 examples.
So the seconds do not include imports, the start of the Java virtual machine, or most of its compilation. With the name
of a generator, the program writes a stream instead: `learners.py SEA FILE.npz ROWS`.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import importlib
import json
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np

BATCH, EVERY, HELD, FEATURES, WARM = 50, 500, 5000, 500, 5000


class Found:
    """The classes that a learner predicted, and its probabilities; NaN if the learner gave no probabilities."""

    def __init__(self, n, classes):
        self.predicted, self.probabilities = np.full(n, -1), np.full((n, classes), np.nan)

    def votes(self, at, votes):
        """Record the votes of example `at` for some or all classes; None if the learner made no prediction."""
        if votes is not None and len(votes) and np.sum(votes) > 0:
            k = self.probabilities.shape[1]
            votes = np.resize(votes, k) if len(votes) > k else np.append(votes, np.zeros(k - len(votes)))
            self.predicted[at], self.probabilities[at] = votes.argmax(), votes / votes.sum()


# -- hinged -------------------------------------------------------------------------------------------------------


def told_nothing(X, y, classes):
    """Run the model that a server creates if a client sets only the kernel's name and the form of x."""
    configuration, rows, events, learner, scores, settings = map(
        importlib.import_module,
        (
            "hinged.service.data.configuration", "hinged.service.data.features.rows",
            "hinged.service.model.events.learning", "hinged.service.model.learner",
            "hinged.solvers.scores.calibrations", "hinged.service.settings",
        ),
    )  # fmt: skip
    body = {"kernel": {"type": "rbf"}, "features": {"type": "dense", "dim": X.shape[1]}}
    given = configuration.new_configuration(json.dumps(body), settings.Settings())
    model, calibrations = learner.ModelLearner(given, 2**27), scores.Calibrations()
    found, at, widened = Found(len(y), classes), 0, False
    for label in range(classes):
        model.add_class(label)
    for begin in range(0, len(y), BATCH):
        these = y[begin : begin + BATCH].astype(np.int32)
        x, m = rows.dense_rows(np.asarray(X[begin : begin + BATCH], np.float64), model.configuration), len(these)
        event = events.ExamplesLearned(begin + 1, [None] * m, these, x, [b""] * m, 0, np.zeros(m, np.uint8))
        for columns, numbers in model.learn(event):
            part = slice(at, at + len(numbers))
            found.predicted[part] = numbers
            if columns.shape[1]:
                if not widened:
                    calibrations.widen(columns.shape[1])
                    widened = True
                found.probabilities[part] = calibrations.learn(np.array(columns, np.float64), y[part].astype(np.int32))
            at = part.stop
    return found


def best_arm(X, y, classes):
    """Run each of the race's first arms alone; return the results of the arm with the most correct predictions."""
    mock = importlib.import_module("unittest.mock")
    race, arms = (importlib.import_module(f"hinged.solvers.race.{name}") for name in ("race", "arms"))
    found = []
    for setting in arms.BOTH:
        with mock.patch.multiple(race, first_settings=lambda *_, s=setting, **__: (s,), PATIENCE=len(y) + 1):
            found.append(told_nothing(X, y, classes))
    return max(found, key=lambda of: (of.predicted == y).sum())


# -- in batches ---------------------------------------------------------------------------------------------------


def no_change(_, y, classes):
    found = Found(len(y), classes)
    found.predicted[1:] = y[:-1]
    return found


def refitted(X, y, classes):
    svm = importlib.import_module("sklearn.svm")
    X, found = standardised(X), Found(len(y), classes)
    for begin in (50, 100, 200, 350, *range(EVERY, len(y), EVERY)):
        held = slice(max(0, begin - HELD), begin)
        if begin < len(y) and len(set(y[held])) > 1:
            model = svm.SVC(C=1.0, gamma=1 / X.shape[1]).fit(X[held], y[held])
            found.predicted[begin : begin + EVERY] = model.predict(X[begin : begin + EVERY])
    return found


def random_features(X, y, classes):
    kernels, linear = (importlib.import_module(f"sklearn.{name}") for name in ("kernel_approximation", "linear_model"))
    X, found = standardised(X), Found(len(y), classes)
    features = kernels.RBFSampler(gamma=1 / X.shape[1], n_components=FEATURES, random_state=0).fit(X[:2])
    model = linear.SGDClassifier(loss="log_loss", random_state=0)
    for begin in range(0, len(y), BATCH):
        part = slice(begin, begin + BATCH)
        Z = features.transform(X[part])
        if begin:
            found.probabilities[part] = model.predict_proba(Z)
            found.predicted[part] = found.probabilities[part].argmax(axis=1)
        model.partial_fit(Z, y[part], classes=np.arange(classes))
    return found


def standardised(X):
    return importlib.import_module("refitted").standardised(X)


# -- River and samlb ----------------------------------------------------------------------------------------------


def river(make):
    """Return a program that runs a River classifier, which learns one dictionary per example."""

    def run(X, y, classes):
        model, names, found = make(), [f"f{k}" for k in range(X.shape[1])], Found(len(y), classes)
        for at, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
            x = dict(zip(names, row, strict=True))
            said = model.predict_proba_one(x)
            found.votes(at, np.array([said.get(c, 0.0) for c in range(classes)]))
            model.learn_one(x, label)
        return found

    return run


def in_river(name, **parameters):
    def make():
        from river import ensemble, forest, tree  # noqa: PLC0415  where it is installed

        if name == "SRP":
            return ensemble.SRPClassifier(tree.HoeffdingTreeClassifier(), seed=0, **parameters)
        return getattr(forest, name)(seed=0, **parameters)

    return river(make)


def asml(X, y, classes):
    from samlb.framework.classification.asml.model import AutoStreamClassifier  # noqa: PLC0415  where it is installed

    model, names, found = AutoStreamClassifier(), [f"f{k}" for k in range(X.shape[1])], Found(len(y), classes)
    for at, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        x = dict(zip(names, row, strict=True))
        said = model.predict_one(x)
        found.predicted[at] = -1 if said is None else int(said)
        model.learn_one(x, label)
    return found


# -- CapyMOA ------------------------------------------------------------------------------------------------------


def in_capymoa(name, **parameters):
    """Return a program that runs a CapyMOA classifier: MOA in a Java virtual machine within this process."""

    def run(X, y, classes):
        core = importlib.import_module("capymoa.core")
        names = [f"f{k}" for k in range(X.shape[1])]
        schema = importlib.import_module("capymoa.stream").Schema.from_custom(
            features=[*names, "y"], target="y", categories={"y": [str(c) for c in range(classes)]}, name="stream"
        )
        model = getattr(importlib.import_module("capymoa.classifier"), name)(schema, **parameters)
        found = Found(len(y), classes)
        for at in range(len(y)):
            instance = core.LabeledInstance.from_array(schema, X[at], int(y[at]))
            found.votes(at, model.predict_proba(instance))
            model.train(instance)
        return found

    return run


def generated(name, rows):
    """Return X and y of a MOA generator, with drift."""
    generators = importlib.import_module("capymoa.stream.generator")
    parts = {
        "SEA": [generators.SEA(function=f, instance_random_seed=f) for f in (1, 3)],
        "Agrawal": [generators.AgrawalGenerator(classification_function=f, instance_random_seed=f) for f in (1, 4, 7)],
        "RBF that drifts": [
            generators.RandomRBFGeneratorDrift(
                number_of_classes=4, number_of_drifting_centroids=50, magnitude_of_change=0.001
            )
        ],
    }[name]
    each = [part.next_instance() for part in parts for _ in range(-(-rows // len(parts)))][:rows]
    return np.array([instance.x for instance in each]), np.array([instance.y_index for instance in each])


GENERATED = "SEA", "Agrawal", "RBF that drifts"
LEARNERS = {  # name: package that it needs, program
    "hinged": ("hinged", told_nothing),
    "best arm": ("hinged", best_arm),
    "no-change": ("numpy", no_change),
    "SVC refitted": ("sklearn", refitted),
    "SGD, random features": ("sklearn", random_features),
    "River ARF": ("river", in_river("ARFClassifier")),
    "River AMF": ("river", in_river("AMFClassifier")),
    "River SRP": ("river", in_river("SRP", n_models=10)),
    "ASML": ("samlb", asml),
    "CapyMOA HAT": ("capymoa", in_capymoa("HoeffdingAdaptiveTree")),
    "CapyMOA kNN": ("capymoa", in_capymoa("KNN")),
    "CapyMOA LB 10": ("capymoa", in_capymoa("LeveragingBagging", ensemble_size=10)),
    "CapyMOA SRP 10": ("capymoa", in_capymoa("StreamingRandomPatches", ensemble_size=10)),
    "CapyMOA ARF 30": ("capymoa", in_capymoa("AdaptiveRandomForestClassifier", ensemble_size=30)),
    "CapyMOA ARF 100": ("capymoa", in_capymoa("AdaptiveRandomForestClassifier", ensemble_size=100)),
    "CapyMOA SGBT 100": ("capymoa", in_capymoa("StreamingGradientBoostedTrees")),
}


def memory():
    """Return the current and the peak memory of this process, in MiB."""
    status = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    return [int(status[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")]


def seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main():
    name, folder, *files = sys.argv[1:]
    warnings.filterwarnings("ignore")
    if name in GENERATED:
        X, y = generated(name, int(files[0]))
        np.savez(folder, X=X, y=y)
        return
    run, started = LEARNERS[name][1], None
    for file in files:
        stream = np.load(file)
        X, y, classes = stream["X"], stream["y"], int(stream["classes"])
        if started is None:
            run(X[:WARM], y[:WARM], classes)
            started = memory()[0]
        began, wall = seconds(), time.perf_counter()
        found = run(X, y, classes)
        used, passed = seconds() - began, time.perf_counter() - wall
        print(f"{name}, {Path(file).stem}: {used:.1f} s of CPU, {passed:.0f} s", file=sys.stderr, flush=True)
        np.savez(
            Path(folder) / f"{name}, {Path(file).stem}.npz",
            predicted=found.predicted, probabilities=found.probabilities,
            seconds=used, started=started, peak=memory()[1], digest=stream["digest"],
        )  # fmt: skip


if __name__ == "__main__":
    main()
