"""Accuracy on raw numbers, with and without the scale that a server finds, for a model that learns from its log.

    PYTHONPATH=.:benchmarks python benchmarks/scaling.py --data FOLDER

LASVM with the rbf kernel predicts, then learns, the first 4,000 rows of each stream. The rows are shuffled, except
those from elec2, once per seed. "unscaled" uses no scale, and gamma = 1 / (dim * variance of all entries) from the
first 100 rows. "auto" uses the scale and the gamma from the warm-up. "mixed up" multiplies each column by a random
factor, exp(2 N(0, 1)). "set" streams have been prepared: standardised, binary, or with rows of norm 1. Another table
shows the time per row outside the solver. A third table shows the accuracy of a model with a pool of 500 candidates
after its first labels, with and without using the candidates for the warm-up.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import json
import time

import numpy as np
from datasets import arguments, load
from models import learned, new_learner
from named import census
from results import Table, keep
from scipy.sparse import csr_matrix, diags

from hinged.service.commands.ask import Ask, Offer
from hinged.service.commands.learn import make_plan
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.configuration import new_configuration
from hinged.service.data.examples import digests, to_inputs
from hinged.service.data.features.rows import dense_rows, sparse_rows
from hinged.service.data.inputs import x_digests
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from hinged.solvers.warm import warm_up

ROWS = 4000
BATCH = 100
STREAMS = ("elec2", "waveform", "pima", "banana", "ijcnn1", "usps", "adult", "reuters_moneyfx")
SPARSE = ("adult", "reuters_moneyfx")
ASKED = (8, 12, 16, 24, 32, 64, 100)


def streams(folder, seed):
    """Return the name, rows (dense or CSR) and classes of each stream."""
    random = np.random.default_rng(seed)
    for name in STREAMS:
        X, y, _, _ = load(folder, name)
        X = csr_matrix(X) if name in SPARSE else np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)
        order = np.arange(X.shape[0]) if name == "elec2" else random.permutation(X.shape[0])
        yield name, X[order[:ROWS]], np.unique(y[order[:ROWS]], return_inverse=True)[1]
    # Amounts of money: a class depends on the number of digits of the amounts.
    Z, w = random.normal(size=(ROWS, 6)), random.normal(size=6)
    amounts = np.exp(2.0 * Z) * np.array([1.0, 10.0, 1e3, 1.0, 0.1, 100.0])
    yield "amounts", amounts, (Z @ w + 0.8 * Z[:, 0] * Z[:, 1] + 0.3 * random.normal(size=ROWS) > 0).astype(np.int64)
    some = np.exp(1.5 * Z) * (random.random(Z.shape) < 0.3)
    score = np.log1p(some) @ w + 0.3 * random.normal(size=ROWS)
    yield "amounts, mostly 0", some, (score > np.median(score)).astype(np.int64)


def forms(name, X, random):
    """Return the stream unchanged, prepared, and with a factor on each column."""
    factors = np.exp(2.0 * random.normal(size=X.shape[1]))
    if name in SPARSE:
        return [(f"{name}, set", X), (f"{name}, mixed up", (X @ diags(factors)).tocsr())]
    deviation = X.std(axis=0)
    prepared = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return [(name, X), (f"{name}, set", prepared), (f"{name}, mixed up", X * factors)]


def learner_of(X, C, scale):
    form = "sparse" if hasattr(X, "indptr") else "dense"
    kernel = {"type": "rbf"}
    if scale is None:
        first = X[:100]
        spread = first.multiply(first).sum() / 100 if form == "sparse" else X.shape[1] * first.var()
        kernel["gamma"] = 1.0 / float(spread)
    features = {"type": form, "dim": X.shape[1], "scale": scale}
    return new_learner(X.shape[1], kernel=kernel, C=C, features=features)


def batch_of(X, configuration):
    if hasattr(X, "indptr"):
        return sparse_rows(X.indptr, X.indices, X.data, configuration)
    return dense_rows(X, configuration)


def accuracy(X, y, C, scale):
    """Return the percentage of right predictions, and CPU seconds."""
    learner = learner_of(X, C, scale)
    for label in range(int(y.max()) + 1):
        learner.add_class(label)
    hits, start, n = 0, time.process_time(), X.shape[0]
    for begin in range(0, n, BATCH):
        end = min(begin + BATCH, n)
        rows, classes = batch_of(X[begin:end], learner.configuration), y[begin:end].astype(np.int32)
        found = np.concatenate([numbers for _, numbers in learner.learn(learned(begin, rows, classes))])
        hits += int((found == classes).sum())
    return 100 * hits / n, time.process_time() - start


def compare(folder, runs):
    shares = "unscaled, C = 1", "auto, C = 1", "unscaled, C = 10", "auto, C = 10"
    table = Table("stream", *shares, "unscaled: CPU, s", "auto: CPU, s", title="Accuracy")
    found = {}
    for seed in range(runs):
        random = np.random.default_rng(100 + seed)
        for name, X, y in streams(folder, seed):
            for form, rows in forms(name, X, random):
                figures = [accuracy(rows, y, C, scale) for C in (1.0, 10.0) for scale in (None, "auto")]
                found.setdefault(form, []).append(figures)
    for form, figures in found.items():
        middle = np.median(np.array(figures), axis=0)
        shown = (f"{share:.1f} %" for share in middle[:, 0])
        table.add(form, *shown, f"{middle[0, 1]:.2f}", f"{middle[1, 1]:.2f}")
    return table


def costs(folder):
    """Return microseconds per row from raw numbers to the solver's rows, in batches of 256."""
    heads = "read, scale null, us", "read, auto, us", "scaled, us"
    table = Table("rows", *heads, title="Cost of a row")
    for name in ("elec2", "usps", "reuters_moneyfx"):
        X, y, _, _ = load(folder, name)
        X = csr_matrix(X)[:ROWS] if name in SPARSE else np.asarray(X[:ROWS], np.float64)
        parts = [X[begin : begin + 256] for begin in range(0, X.shape[0], 256)]
        each = []
        for scale in (None, "auto"):
            learner = learner_of(X, 1.0, scale)
            rows = [batch_of(part, learner.configuration) for part in parts]
            start = time.process_time()
            rows = [batch_of(part, learner.configuration) for part in parts]
            each.append(time.process_time() - start)
        for label in range(int(np.unique(y).size)):
            learner.add_class(label)
        numbers = np.unique(y[:1000], return_inverse=True)[1].astype(np.int32)
        first = batch_of(X[:1000], learner.configuration)
        list(learner.learn(learned(0, first, numbers)))
        start = time.process_time()
        for part in rows:
            learner._encoded(part)  # noqa: SLF001  the step alone
        each.append(time.process_time() - start)
        table.add(f"{name}, {X.shape[1]:,} columns", *(f"{1e6 * seconds / X.shape[0]:.1f}" for seconds in each))
    return table


def questions(folder, runs):
    """Return the accuracy on held-out rows by number of labels, for a pool of 500 candidates with names."""
    records, classes, test, wanted = census(folder)
    wanted = np.array(wanted[:3000], np.int32)
    table = Table("warm-up", *(f"{n} labels" for n in ASKED), title="First labels")
    for candidates in (False, True):
        found = []
        for seed in range(runs):
            pool = np.random.default_rng(seed).permutation(len(records))[:500]
            features = {"type": "named", "warmup_candidates": candidates}
            body = json.dumps({"kernel": {"type": "rbf"}, "features": features, "classes": [0, 1], "seed": seed})
            configuration = new_configuration(body, Settings())
            model = Model("m", configuration, cache_bytes=2**27, answers_kept=1000)
            take(model, [ModelCreated(configuration.model_dump(mode="json"), 0)])
            xs = to_inputs([records[k] for k in pool], configuration)
            ids = [str(k) for k in pool]
            take(model, Offer(ids, xs, x_digests(xs), [None] * len(ids)).plan(model, 0).events)
            shares = []
            for asked in range(1, ASKED[-1] + 1):
                events = Ask(1, "ann", "active", 60_000, None, 1000).plan(model, 0).events
                take(model, events)
                k = int(events[0].leases[0]["id"])
                x, label = to_inputs([records[k]], configuration), [int(classes[k])]
                request = LearnRequest([str(k)], label, x, digests(x, label))
                take(model, make_plan(model, [request], lambda _: {}, 8, 0).events)
                if asked in ASKED:
                    numbers = model.published().decide(to_inputs(test[:3000], configuration)).numbers
                    shares.append(100 * float((numbers == wanted).mean()))
            found.append(shares)
        shown = (f"{share:.1f} %" for share in np.mean(found, axis=0))
        table.add(f"{'with' if candidates else 'without'} candidates", *shown)
    return table


def take(model, events):
    for event in events:
        model.apply(model.position + 1, event)


def main():
    options = arguments(__doc__).parse_args()
    warm_up("lasvm")
    tables = compare(options.data, options.runs), costs(options.data), questions(options.data, 5 * options.runs)
    keep("scaling", *tables)


if __name__ == "__main__":
    main()
