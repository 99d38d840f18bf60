"""Number of labels that a model needs if it chooses the questions, compared with random questions, over HTTP.

    PYTHONPATH=.:benchmarks python benchmarks/labelling.py --data FOLDER --runs 3

All training examples are offered to the pool without their labels. A simulated annotator that knows the labels requests
n questions at a time, and answers them with their leases. After 500, 1,000 and 2,000 labels the model does the
finishing step and predicts the held-out part. Adult: the raw table through named features with gamma "auto"; the
examples of the warm-up count as labels. Reuters: topic money-fx (one example in fourteen) against the rest. For
comparison, scikit-learn's SVC (LIBSVM) uses all labels.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import httpx
import numpy as np
from datasets import arguments, load
from named import census
from results import Table, keep
from scipy.sparse import csr_matrix
from sklearn.svm import SVC

from hinged.commands.child import ServerProcess, free_port
from hinged.service.data.features.vocabulary import Vocabulary

CHECKPOINTS = (500, 1000, 2000)
CHUNK = 2000  # number of examples per request
PERCENT = ("streamed", "balanced", "break-even")
COUNTS = ("positive", "support vectors", "ms a label")


@dataclass(frozen=True)
class Task:
    """A data set, with the model configuration that a user would choose and the number of questions per request."""

    name: str
    configuration: dict
    n: int
    pool: list
    labels: np.ndarray
    held_out: list
    answers: np.ndarray


def adult(folder, kernel):
    """Return raw Adult: records."""
    records, classes, test, test_classes = census(folder)
    configuration = {
        "features": {"type": "named", "warmup": 1000},
        "kernel": {"type": kernel, "gamma": "auto"},
        "C": 1.0,
        "labels": {"pool_max": len(records)},
    }
    return Task(f"Adult, {kernel}", configuration, 10, records, np.array(classes), test, np.array(test_classes))


def reuters(folder):
    """Return Reuters: sparse rows with Euclidean norm 1."""
    X, y, X_test, y_test = load(folder, "reuters_moneyfx")
    configuration = {
        "features": {"type": "sparse", "dim": X.shape[1]},
        "kernel": {"type": "rbf", "gamma": 1.0},
        "C": 1.0,
        "labels": {"pool_max": X.shape[0]},
    }
    return Task("Reuters, rbf", configuration, 10, sparse(X), y > 0, sparse(X_test), y_test > 0)


def sparse(X):
    """Return CSR rows as x in the sparse form."""
    ends = X.indptr.tolist()
    return [{"indices": X.indices[b:e].tolist(), "values": X.data[b:e].tolist()} for b, e in pairwise(ends)]


class Asked:
    """A model on a server."""

    def __init__(self, url, name, configuration):
        self.path = f"/models/{name}"
        self.http = httpx.Client(base_url=url, timeout=600)
        self.call("PUT", "", configuration)

    def call(self, method, route, body=None):
        """Return the server's answer."""
        answer = self.http.request(method, self.path + route, json=body)
        if answer.is_error:
            raise SystemExit(f"{method} {self.path}{route}: {answer.text}")
        return answer.json()

    def offer(self, xs, order):
        """Offer all of xs as candidates, in this order."""
        for begin in range(0, len(xs), CHUNK):
            examples = [{"id": str(i), "x": xs[i]} for i in order[begin : begin + CHUNK].tolist()]
            self.call("POST", "/pool", {"examples": examples})

    def scores(self, xs):
        """Return f(x) (m,), positive for the answer "true"."""
        found = []
        for begin in range(0, len(xs), CHUNK):
            body = {"examples": [{"x": x} for x in xs[begin : begin + CHUNK]]}
            found += [result["scores"].get("true", -1.0) for result in self.call("POST", "/predict", body)["results"]]
        return np.array(found)


def figures(scores, answers):
    """Return accuracy, balanced accuracy, and precision at as many examples as there are positives."""
    right = (scores > 0) == answers
    best = np.argsort(-scores, kind="stable")[: answers.sum()]
    return {
        "accuracy": 100 * right.mean(),
        "balanced": 50 * (right[answers].mean() + right[~answers].mean()),
        "break-even": 100 * answers[best].mean(),
    }


def label(url, name, task, strategy, seed):
    """Return the results at each checkpoint."""
    model = Asked(url, name, {**task.configuration, "seed": seed})
    model.offer(task.pool, np.random.default_rng(seed).permutation(len(task.pool)))
    found, labelled, positive, start, waited = {}, 0, 0, time.perf_counter(), 0.0
    for checkpoint in CHECKPOINTS:
        while labelled < checkpoint:
            n = min(task.n, checkpoint - labelled)
            body = {"n": n, "annotator": "oracle", "strategy": strategy}
            questions = model.call("POST", "/queries", body)["queries"]
            learned = [{"id": q["id"], "y": bool(task.labels[int(q["id"])]), "lease": q["lease"]} for q in questions]
            model.call("POST", "/learn", {"examples": learned})
            labelled += len(questions)
            positive += sum(example["y"] for example in learned)
        begin = time.perf_counter()
        streamed = figures(model.scores(task.held_out), task.answers)
        vectors = model.call("POST", "/finish")["support_vectors"]
        found[checkpoint] = figures(model.scores(task.held_out), task.answers) | {
            "streamed": streamed["accuracy"],
            "positive": positive,
            "support vectors": vectors,
        }
        waited += time.perf_counter() - begin
        found[checkpoint]["ms a label"] = 1000 * (time.perf_counter() - start - waited) / labelled
    model.call("DELETE", "")
    return found


def whole(url, task):
    """Return the results of a model that has learned all labels."""
    model = Asked(url, "whole", task.configuration)
    for begin in range(0, len(task.pool), CHUNK):
        xs, ys = task.pool[begin : begin + CHUNK], task.labels[begin : begin + CHUNK].tolist()
        model.call("POST", "/learn", {"examples": [{"x": x, "y": y} for x, y in zip(xs, ys, strict=True)]})
    vectors = model.call("POST", "/finish")["support_vectors"]
    found = figures(model.scores(task.held_out), task.answers) | {"support vectors": vectors}
    model.call("DELETE", "")
    return found


def batch(task):
    """Train LIBSVM on all labels, with the columns that the whole training part creates."""
    kernel = task.configuration["kernel"]
    if task.configuration["features"]["type"] == "named":
        vocabulary = Vocabulary(len(task.pool), 1024)
        vocabulary.observe(task.pool)
        rows, test = vocabulary.freeze(), vocabulary.encode(task.held_out)
        gamma, width = vocabulary.spread.gamma(kernel["type"]), len(vocabulary)
    else:
        rows, test = (list(csr_parts(xs)) for xs in (task.pool, task.held_out))
        gamma, width = kernel["gamma"], task.configuration["features"]["dim"]
    X, X_test = (csr_matrix((v, i, p), shape=(len(p) - 1, width)) for p, i, v in (rows, test))
    svc = SVC(C=task.configuration["C"], gamma=gamma, cache_size=512).fit(X, task.labels)
    return figures(svc.decision_function(X_test), task.answers) | {"support vectors": int(svc.n_support_.sum())}


def csr_parts(xs):
    """Return indptr, indices and values of sparse x."""
    yield np.cumsum([0, *(len(x["indices"]) for x in xs)])
    yield np.concatenate([x["indices"] for x in xs])
    yield np.concatenate([x["values"] for x in xs])


@contextmanager
def server():
    """Start a server and yield its address."""
    port = free_port("127.0.0.1", 8700)
    with tempfile.TemporaryDirectory() as folder, ServerProcess(["--port", str(port), "--data-dir", folder]) as process:
        url = f"http://127.0.0.1:{port}"
        while not ready(url):
            if not process.running:
                raise SystemExit(process.last_output())
            time.sleep(0.2)
        yield url


def ready(url):
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def spread(runs, part):
    """Return the median and the range."""
    values = [run[part] for run in runs]
    return f"{np.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    options = arguments(__doc__).parse_args()
    tables = []
    with server() as url:
        for task in (adult(options.data, "rbf"), adult(options.data, "laplacian"), reuters(options.data)):
            shares = "accuracy, %", "before finishing", "balanced accuracy", "break-even"
            tables.append(Table("labels", "chosen", *shares, "positive labels", *COUNTS[1:], title=task.name))
            runs = {
                strategy: [label(url, f"{strategy}-{seed}", task, strategy, seed) for seed in range(options.runs)]
                for strategy in ("random", "active")
            }
            for checkpoint in CHECKPOINTS:
                for strategy, found in runs.items():
                    tables[-1].add(f"{checkpoint:,}", strategy, *row([found_at[checkpoint] for found_at in found]))
            tables[-1].add(f"{len(task.pool):,}", "all", *row([whole(url, task)]))
            if task.configuration["kernel"]["type"] == "rbf":
                tables[-1].add(f"{len(task.pool):,}", "all, LIBSVM", *row([batch(task)]))
    keep("labelling", *tables)


def row(runs):
    """Return the cells for some runs."""
    cells = [spread(runs, "accuracy")]
    cells += [f"{np.median([run[part] for run in runs]):.2f}" if part in runs[0] else "" for part in PERCENT]
    cells += [f"{np.median([run[part] for run in runs]):,.0f}" if part in runs[0] else "" for part in COUNTS]
    return cells


if __name__ == "__main__":
    main()
